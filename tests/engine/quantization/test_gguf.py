"""GGUF files: sizes of whole files as llama.cpp and publishers print them."""

import re

import pytest

from bundled_models import spec_of
from fitgauge.catalog.checkpoints import rows
from fitgauge.catalog.snapshot import Snapshot
from fitgauge.engine.model.families import read_config
from fitgauge.engine.model.spec import TOWERS, Kind
from fitgauge.engine.quantization.formats import GGUF_FILE_BITS, gguf_block
from fitgauge.engine.quantization.gguf import gguf_scheme, pieces, role_of
from fitgauge.engine.quantization.gguf_types import DEFAULT_BLOCKS, Role, fitting_block, more_bits
from fitgauge.engine.quantization.requested import requested_scheme
from fitgauge.engine.quantization.scheme import RuleIndex
from fitgauge.engine.weights.sharding import formats, stored_bytes

SNAPSHOT = Snapshot()

LLAMA_8B = {
    "model_type": "llama", "hidden_size": 4096, "intermediate_size": 14336, "num_hidden_layers": 32,
    "num_attention_heads": 32, "num_key_value_heads": 8, "vocab_size": 128256,
}  # fmt: skip

UNIFORM = {"Q4_0": 4.6358, "Q4_1": 5.1031, "Q5_0": 5.5704, "Q5_1": 6.0377}
"""Bits of a weight of the file, of which the table has those of a block: the output is Q6_K."""

MOST_HEADER_BYTES = 9_000_000
"""The longest vocabulary, with merges, that a text model's file begins with (Llama 3: 7.8 MB)."""

OTHERWISE_MADE = re.compile(r"qwen3:(0\.6b|1\.7b|4b|8b|14b|32b)$|gpt-oss|gemma3|deepseek|phi4")
"""Tags whose files are made otherwise: attn_v in F16 and the output twice (Qwen3), everything but
experts in BF16 (gpt-oss), kv_b as one tensor (DeepSeek, before b5000), attn_qkv (Phi)."""

PUBLISHED = [
    (row.model, row.form, row.name, int(size[1]))
    for row in rows()
    if (size := re.search(r"(\d+) bytes", row.source))
    and row.form in DEFAULT_BLOCKS
    and not OTHERWISE_MADE.search(row.name)
    and (model := SNAPSHOT.model(row.model))
    and not any(block.part in TOWERS for block in model.spec.blocks)
]


def forms_of(file_type, spec, name):
    """Return the format of a tensor in every layer."""
    scheme = requested_scheme(file_type, spec)
    rules = RuleIndex(scheme.rules, scheme.placed)
    return {
        layer: form
        for block in spec.blocks
        for tensor, form, layers in formats(spec, block, rules)
        if tensor.name == name
        for layer in layers
    }


@pytest.mark.parametrize("file_type", GGUF_FILE_BITS)
def test_a_file_of_llama_has_the_bits_that_llama_cpp_publishes(file_type):
    spec = read_config(LLAMA_8B)
    bits = stored_bytes(spec, requested_scheme(file_type, spec)) * 8 / spec.parameters
    expected = UNIFORM.get(file_type, GGUF_FILE_BITS[file_type])
    # the published Q3_K_M is one ffn_down larger than the rule gives
    tolerance = 2e-3 if file_type == "Q3_K_M" else 2e-4
    assert bits == pytest.approx(expected, rel=tolerance)


@pytest.mark.parametrize(("model_id", "file_type", "tag", "file_bytes"), PUBLISHED)
def test_a_published_file_is_its_tensors_and_a_header(model_id, file_type, tag, file_bytes):
    spec = SNAPSHOT.model(model_id).spec
    header = file_bytes - stored_bytes(spec, requested_scheme(file_type, spec))
    assert 0 < header < MOST_HEADER_BYTES


def test_most_published_files_are_compared():
    assert len(PUBLISHED) > 45


@pytest.mark.parametrize(
    ("index", "count", "more"),
    [(0, 32, True), (3, 32, True), (4, 32, False), (6, 32, True), (27, 32, True), (28, 32, True),
     (26, 32, False), (22, 28, False), (24, 28, True)],
)  # fmt: skip
def test_the_first_and_last_eighth_and_every_third_layer_have_more_bits(index, count, more):
    assert more_bits(index, count) is more


def test_values_and_down_projections_of_some_layers_have_more_bits():
    spec = read_config(LLAMA_8B)
    for name in ("self_attn.v_proj.weight", "mlp.down_proj.weight"):
        forms = forms_of("q4_k_m", spec, name)
        assert {layer for layer, form in forms.items() if form == gguf_block("Q6_K")} == {
            layer for layer in range(32) if more_bits(layer, 32)
        }
    assert set(forms_of("q4_k_m", spec, "mlp.up_proj.weight").values()) == {gguf_block("Q4_K")}


def test_eight_experts_have_wide_keys_and_values():
    spec = SNAPSHOT.model("mistralai/Mixtral-8x7B-Instruct-v0.1").spec
    assert set(forms_of("q4_0", spec, "self_attn.k_proj.weight").values()) == {gguf_block("Q8_0")}
    assert set(forms_of("q4_k_m", spec, "self_attn.o_proj.weight").values()) == {gguf_block("Q5_K")}


@pytest.mark.parametrize(
    ("block", "inputs", "fitting"),
    [("Q4_K", 4096, "Q4_K"), ("Q4_K", 896, "Q5_0"), ("Q6_K", 896, "Q8_0"), ("IQ3_S", 96, "IQ4_NL"),
     ("Q5_K", 4864 + 32, "Q5_1"), ("Q4_K", 100, "F16"), ("Q8_0", 33, "F16")],
)  # fmt: skip
def test_rows_that_are_no_whole_blocks_fall_back(block, inputs, fitting):
    assert fitting_block(block, inputs) == fitting


def test_experts_trained_in_mxfp4_stay_so():
    spec = SNAPSHOT.model("openai/gpt-oss-20b").spec
    forms = forms_of("q8_0", spec, "mlp.experts.down_proj")
    assert set(forms.values()) == {gguf_block("MXFP4")}


@pytest.mark.parametrize(
    ("name", "role"),
    [("self_attn.v_proj", Role.VALUE), ("attn.c_attn", Role.VALUE), ("attn.c_proj",
     Role.ATTENTION_OUTPUT), ("mlp.c_proj", Role.DOWN), ("linear_attn.out_proj", Role.OTHER),
     ("mixer.out_proj", Role.OTHER), ("attn.out_proj", Role.ATTENTION_OUTPUT), ("mlp.w2", Role.UP),
     ("feed_forward.w2", Role.DOWN), ("block_sparse_moe.experts.*.w2", Role.DOWN),
     ("attention.output.dense", Role.ATTENTION_OUTPUT), ("output.dense", Role.DOWN),
     ("intermediate.dense", Role.UP), ("layer.0.SelfAttention.o", Role.ATTENTION_OUTPUT),
     ("self_attn.q_a_proj", Role.OTHER), ("self_attn.kv_a_proj_with_mqa", Role.OTHER),
     ("mlp.experts.gate_up_proj", Role.UP), ("mlp.dense_4h_to_h", Role.DOWN)],
)  # fmt: skip
def test_a_tensor_has_a_role_by_its_name(name, role):
    assert role_of(name, Kind.LINEAR) is role


def test_latent_attention_is_written_as_two_tensors():
    spec = SNAPSHOT.model("deepseek-ai/DeepSeek-V3").spec
    block = next(
        block
        for block in spec.blocks
        if any(tensor.name == "self_attn.kv_b_proj.weight" for tensor in block.tensors)
    )
    tensor = next(t for t in block.tensors if t.name == "self_attn.kv_b_proj.weight")
    assert [piece.inputs for piece in pieces(tensor, block)] == [128, 512]


def test_a_model_s_file_is_derived_once():
    spec = spec_of("meta-llama/Llama-3.1-8B-Instruct")
    assert gguf_scheme("Q4_K_M", spec) is gguf_scheme("Q4_K_M", spec)
    assert gguf_scheme("Q5_K_M", spec) is not gguf_scheme("Q4_K_M", spec)
