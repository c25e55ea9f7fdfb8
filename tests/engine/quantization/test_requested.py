"""Schemes of formats that people name, by what their quantizers write."""

import pytest

from fitgauge.engine.model.families import read_config
from fitgauge.engine.model.spec import Kind, Part, Tensor
from fitgauge.engine.quantization import formats as q
from fitgauge.engine.quantization.requested import requested_scheme, scheme_names
from fitgauge.engine.quantization.scheme import Scheme
from fitgauge.engine.unsupported import UnsupportedError

LLAMA = {
    "model_type": "llama", "hidden_size": 4096, "intermediate_size": 14336, "num_hidden_layers": 2,
    "num_attention_heads": 32, "num_key_value_heads": 8, "vocab_size": 1024,
    "max_position_embeddings": 1024,
}  # fmt: skip


def test_awq_leaves_out_a_matrix_whose_rows_are_no_whole_groups():
    scheme = requested_scheme("awq", read_config(LLAMA))
    halves = Tensor("m.weight", (256, 10944), Kind.LINEAR)
    assert scheme.format_of("m", halves, Part.LANGUAGE) is None
    assert requested_scheme("int4", read_config(LLAMA)).format_of("m", halves, Part.LANGUAGE)
    whole = Tensor("m.weight", (10944, 256), Kind.LINEAR)
    assert scheme.format_of("m", whole, Part.LANGUAGE) == q.awq(4, 128)


@pytest.mark.parametrize(("rows", "group"), [(768, 128), (704, 64), (1376, 32), (100, 128)])
def test_awq_takes_the_widest_group_that_divides_the_rows_of_experts(rows, group):
    config = {
        "architectures": ["MixtralForCausalLM"], "model_type": "mixtral", "hidden_size": 512,
        "intermediate_size": rows, "num_hidden_layers": 2, "num_attention_heads": 4,
        "num_key_value_heads": 4, "vocab_size": 1000, "num_local_experts": 4,
        "num_experts_per_tok": 2, "max_position_embeddings": 2048,
    }  # fmt: skip
    assert requested_scheme("awq", read_config(config)).form == q.awq(4, group)


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("W8A8", "w8a8"),
        ("Q4_K_M", "Q4_K_M"),
        ("q4-k-m", "Q4_K_M"),
        (" NVFP4 ", "nvfp4"),
        ("bnb-4bit", "nf4"),
        ("LLM.int8()", "llm_int8"),
        ("8-bit", "int8"),
        ("AWQ (4-bit)", "awq"),
        ("4-bit GPTQ", "gptq"),
        ("GPTQ 8 bit", "gptq_int8"),
        ("8-bit (bitsandbytes)", "llm_int8"),
        ("Q4_K_M (4-bit)", "Q4_K_M"),
        ("fp16 (no quantization)", "fp16"),
        ("FP16", "fp16"),
    ],
)
def test_names_are_read_as_people_type_them(text, name):
    assert requested_scheme(text, read_config(LLAMA)).name == name


def test_every_known_name_is_understood():
    for name in scheme_names():
        assert isinstance(requested_scheme(name, read_config(LLAMA)), Scheme)


def test_an_unknown_quantization_is_refused_with_near_matches():
    with pytest.raises(UnsupportedError, match="awq 3 bit"):
        requested_scheme("awq 3 bit", read_config(LLAMA))
    with pytest.raises(UnsupportedError) as refused:
        requested_scheme("nvpf4", read_config(LLAMA))
    assert "nvfp4" in refused.value.matches
    assert refused.value.parameter == "quantization"
