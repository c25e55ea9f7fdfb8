"""Quantized weights as vLLM registers them, where a rank's part is no whole number of groups."""

from typing import Any

import msgspec
import pytest

from bundled_models import spec_of
from fitgauge.engine.model.families import read_config
from fitgauge.engine.model.spec import Kind, Part
from fitgauge.engine.quantization import formats as q
from fitgauge.engine.quantization.published import published
from fitgauge.engine.quantization.scheme import Scheme
from fitgauge.engine.serving.vllm import quantized
from fitgauge.engine.serving.vllm.compute_capability import expert_tiles
from fitgauge.engine.serving.vllm.quantized import expert_form
from fitgauge.engine.serving.vllm.weights import check_parallel, refusal, shard_weights
from fitgauge.engine.unsupported import UnsupportedError
from fitgauge.engine.weights.rank_bytes import rank_weights, ranks, share_bytes

LLAMA = {
    "architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": 1024,
    "intermediate_size": 2816, "num_hidden_layers": 2, "num_attention_heads": 8,
    "num_key_value_heads": 8, "vocab_size": 1024, "max_position_embeddings": 1024,
}  # fmt: skip
GPTQ = {"quant_method": "gptq", "bits": 4, "group_size": 128, "desc_act": False, "sym": True}


def test_scales_that_a_rank_cuts_are_refined_to_the_block_that_fits():
    form = q.block_fp8(128, 128)
    assert expert_form(form, 256, 2048, 4) is form
    refined = expert_form(form, 96, 2048, 4)
    assert (refined.rows, refined.group) == (32, 32)


@pytest.mark.parametrize(("width", "block"), [(1856, 64), (1536, 128), (1808, 128)])
def test_scales_of_experts_on_one_rank_are_refined_where_their_width_ends_in_a_block(width, block):
    """1,808 is no multiple of 32, to which vLLM goes down at most."""
    form = expert_form(q.block_fp8(128, 128), width, 2688, 1)
    assert (form.rows, form.group) == (block, block)


@pytest.mark.parametrize(
    ("form", "width", "group", "zero_bits", "output_bits"),
    [
        (q.awq(4, 128), 256, 128, 4, 0),
        (q.awq(4, 128), 192, 64, 4, 0),
        (q.awq(4, 128), 96, 32, 4, 0),
        (q.gptq(4, 128), 256, 128, 4, 16),
        (q.gptq(4, 128), 192, 64, 0, 0),
    ],
)
def test_groups_of_experts_are_halved_until_a_rank_holds_whole_ones(
    form, width, group, zero_bits, output_bits
):
    """Marlin's GPTQ experts have zero points and a bias; those of moe_wna16 have neither."""
    here = expert_form(form, width, 2048, 4)
    assert (here.group, here.zero_bits, here.output_bits) == (group, zero_bits, output_bits)


@pytest.mark.parametrize(
    ("form", "width", "refused"),
    [
        (q.awq(4, 128), 96, False),
        (q.awq(4, 128), 48, True),
        (q.affine(4, 128, name="packed_int4"), 256, False),
        (q.affine(4, 128, name="packed_int4"), 192, True),
        (q.affine(4, 32, name="packed_int4"), 192, False),
        (q.block_fp8(128, 128), 96, False),
        (q.block_fp8(128, 128), 80, True),
    ],
)
def test_groups_that_no_rank_can_hold_are_refused(form, width, refused):
    assert (quantized.refusal(form, width, 2048) is not None) is refused


@pytest.mark.parametrize(
    ("changes", "version", "refused"),
    [
        ({}, (0, 33), False),
        ({"desc_act": True}, (0, 33), True),
        ({"desc_act": True}, (0, 32), False),
        ({"desc_act": True, "group_size": -1}, (0, 33), False),
        ({"bits": 3}, (0, 33), True),
        ({"sym": False}, (0, 33), True),
    ],
)
def test_gptq_in_activation_order_is_refused(changes: dict[str, Any], version, refused):
    spec = read_config({**LLAMA, "quantization_config": {**GPTQ, **changes}})
    assert is_refused(spec, version) is refused


MIXTURE = {
    "architectures": ["Qwen3MoeForCausalLM"], "model_type": "qwen3_moe", "hidden_size": 1024,
    "num_hidden_layers": 2, "num_attention_heads": 8, "num_key_value_heads": 8, "num_experts": 8,
    "moe_intermediate_size": 256, "vocab_size": 1024, "max_position_embeddings": 1024,
}  # fmt: skip


@pytest.mark.parametrize(
    ("weights", "capability", "refused"),
    [
        ({"num_bits": 8, "strategy": "channel"}, (9, 0), True),
        ({"num_bits": 8, "strategy": "channel"}, (8, 0), False),
        ({"num_bits": 4, "strategy": "channel", "symmetric": False}, (9, 0), False),
        ({"num_bits": 8, "group_size": 128}, (9, 0), False),
        ({"num_bits": 8, "group_size": 128, "symmetric": False}, (8, 0), True),
    ],
)
def test_packed_experts_that_no_kernel_reads_are_refused(weights, capability, refused):
    group = {"targets": ["Linear"], "weights": {"type": "int", **weights}}
    settings = {
        "quant_method": "compressed-tensors", "format": "pack-quantized",
        "config_groups": {"group_0": group},
    }  # fmt: skip
    spec = read_config({**MIXTURE, "quantization_config": settings})
    assert is_refused(spec, capability=capability) is refused


def test_packed_experts_with_integers_as_inputs_are_refused():
    group = {
        "targets": ["Linear"], "weights": {"type": "int", "num_bits": 4, "group_size": 128},
        "input_activations": {"type": "int", "num_bits": 8, "strategy": "token"},
    }  # fmt: skip
    settings = {
        "quant_method": "compressed-tensors", "format": "pack-quantized",
        "config_groups": {"group_0": group},
    }  # fmt: skip
    assert is_refused(read_config({**MIXTURE, "quantization_config": settings}))


@pytest.mark.parametrize(("method", "refused"), [("fp8", False), ("compressed-tensors", True)])
def test_only_the_method_fp8_refines_experts_blocks(method, refused):
    weights = {"type": "float", "num_bits": 8, "strategy": "block", "block_structure": [128, 128]}
    settings = {
        "quant_method": method, "weight_block_size": [128, 128],
        "config_groups": {"group_0": {"targets": ["Linear"], "weights": weights}},
        "ignore": ["re:.*self_attn.*"], "ignored_layers": ["re:.*self_attn.*"],
    }  # fmt: skip
    spec = read_config({**MIXTURE, "quantization_config": settings})
    sharded = shard_weights(spec, published(spec))
    check_parallel(spec, sharded, tensor_parallel=2)
    reason = refusal(spec, sharded, 4, 1, 1)
    assert (reason is not None) is refused


@pytest.mark.parametrize(
    ("method", "refused"), [("hqq", True), ("moe_wna16", True), ("humming", False)]
)
def test_a_method_that_vllm_does_not_know_is_refused(method, refused):
    spec = read_config({**LLAMA, "quantization_config": {"quant_method": method, "bits": 4}})
    assert is_refused(spec) is refused


@pytest.mark.parametrize("algorithm", ["FP8", "FP8_PER_CHANNEL_PER_TOKEN", "FP8_PB_WO"])
def test_modelopts_experts_in_fp8_have_a_scale_a_tensor(algorithm):
    settings = {"quant_method": "modelopt", "quant_algo": algorithm, "ignore": ["*layers.0*"]}
    spec = read_config({**MIXTURE, "quantization_config": settings})
    experts = [s for s in shard_weights(spec, published(spec)).shares if s.experts]
    forms = {(share.layers, share.form) for share in experts}
    assert forms == {((0,), None), ((1,), q.FP8_TENSOR)}


def test_experts_int8_holds_routed_experts_in_8_bit_and_all_else_in_16():
    spec = read_config({**MIXTURE, "quantization_config": {"quant_method": "experts_int8"}})
    plain = read_config(MIXTURE)
    here, whole = (
        rank_weights(shard_weights(one, published(one) or Scheme(name="bf16"))).bytes
        for one in (spec, plain)
    )
    layer = 8 * (3 * 256 * 1024 - 4 * (2 * 256 + 1024))  # a byte less a weight, a scale a row
    assert whole - here == 2 * layer
    assert not is_refused(spec)


def is_refused(spec, version=(0, 33), capability=(9, 0)) -> bool:
    sharded = shard_weights(spec, published(spec))
    try:
        quantized.check_checkpoint(spec, sharded, version, capability)
    except UnsupportedError:
        return True
    return False


def test_no_group_index_is_registered_and_channel_scales_are_float32():
    spec = read_config({**LLAMA, "quantization_config": GPTQ})
    form = quantized.registered_scheme(spec, published(spec)).form
    assert (form.group, form.input_bits) == (128, 0)
    weights = {"num_bits": 8, "type": "float", "strategy": "channel"}
    settings = {
        "quant_method": "compressed-tensors",
        "format": "float-quantized",
        "config_groups": {"group_0": {"targets": ["Linear"], "weights": weights}},
    }
    spec = read_config({**LLAMA, "quantization_config": settings})
    assert quantized.registered_scheme(spec, published(spec)).form.scale_bits == 32


@pytest.mark.parametrize(
    ("model_type", "quantized_router"), [("qwen3_moe", True), ("mixtral", False)]
)
def test_routers_are_quantized_where_the_class_hands_them_the_settings(
    model_type, quantized_router
):
    config = {**LLAMA, "model_type": model_type, "quantization_config": GPTQ}
    spec = read_config({**config, "num_experts": 8, "moe_intermediate_size": 256,
                        "num_experts_per_tok": 2, "num_local_experts": 8})  # fmt: skip
    rules = quantized.registered_scheme(spec, published(spec)).rules
    assert any(Kind.ROUTER in rule.kinds for rule in rules if rule.form) is quantized_router


def test_gptq_groups_that_a_rank_cuts_have_no_scale_and_are_refused_before_0_33():
    spec = read_config({**LLAMA, "quantization_config": GPTQ})
    sharded = shard_weights(spec, published(spec))
    check_parallel(spec, sharded, tensor_parallel=8)
    with pytest.raises(UnsupportedError, match="352 features"):
        check_parallel(spec, sharded, tensor_parallel=8, version=(0, 32))
    down = next(share for share in sharded.shares if share.inputs == 2816)
    bytes_a_rank = share_bytes(down, sharded.layout, ranks(sharded, 8, 1, 1))
    assert bytes_a_rank == 352 * 1024 // 2 + 2 * 1024 * (16 + 4) // 8


def test_awq_inputs_that_are_no_whole_groups_are_refused_on_one_gpu_too():
    settings = {"quant_method": "awq", "bits": 4, "group_size": 128}
    spec = read_config({**LLAMA, "intermediate_size": 2880, "quantization_config": settings})
    with pytest.raises(UnsupportedError, match="2880 features"):
        check_parallel(spec, shard_weights(spec, published(spec)), tensor_parallel=1)


@pytest.mark.parametrize(
    ("names", "in_16_bit"),
    [(["model.layers.0.mlp"], 0), (["model.layers.0.mlp.down_proj"], 2816 * 1024)],
)
def test_fp8_leaves_modules_in_16_bit_that_are_listed_by_their_whole_name(names, in_16_bit):
    settings = {"quant_method": "fp8", "activation_scheme": "dynamic"}
    everything = read_config({**LLAMA, "quantization_config": settings})
    listed = read_config(
        {**LLAMA, "quantization_config": {**settings, "modules_to_not_convert": names}}
    )
    sizes = [
        rank_weights(shard_weights(spec, published(spec))).bytes for spec in (listed, everything)
    ]
    assert sizes[0] - sizes[1] == pytest.approx(in_16_bit, abs=16)


def test_a_tower_that_fp8_lists_as_a_whole_is_quantized_but_for_what_its_class_is_not():
    settings = {
        "quant_method": "fp8", "activation_scheme": "dynamic",
        "modules_to_not_convert": ["vision_tower", "multi_modal_projector", "lm_head"],
    }  # fmt: skip
    published_spec = spec_of("mistralai/Mistral-Small-3.1-24B-Instruct-2503")
    spec = msgspec.structs.replace(published_spec, quantization=settings)
    forms = {
        (share.part, share.form.name if share.form else None)
        for share in shard_weights(spec, published(spec)).shares
        if share.part in (Part.VISION, Part.PROJECTOR) and share.out
    }
    assert forms == {(Part.VISION, "fp8"), (Part.PROJECTOR, "fp8")}
    assert rank_weights(shard_weights(spec, published(spec))).by_part[Part.PROJECTOR] == (
        5120 * 1024 + 5120 * 5120 + 16 + 2 * (1024 + 1024 * 4096)
    )


def test_kimi_k3_quantizes_the_projections_of_its_latent_experts_but_beside_mxfp4():
    k3 = spec_of("moonshotai/Kimi-K3")
    fp8 = msgspec.structs.replace(
        k3, quantization={"quant_method": "fp8", "activation_scheme": "dynamic"}
    )
    forms = []
    for spec in (k3, fp8):
        shares = shard_weights(spec, published(spec)).shares
        around = {share.form for share in shares if (share.out, share.inputs) == (3584, 7168)}
        forms.append({form.name if form else None for form in around})
    assert forms[0] <= {None}
    assert forms[1] == {"fp8"}


def test_llama_4s_tower_is_in_16_bit_whatever_fp8_lists():
    settings = {"quant_method": "fp8", "activation_scheme": "dynamic"}
    llama_4 = spec_of("meta-llama/Llama-4-Scout-17B-16E-Instruct")
    spec = msgspec.structs.replace(llama_4, quantization=settings)
    shares = shard_weights(spec, published(spec)).shares
    forms = {share.form for share in shares if share.part in (Part.VISION, Part.PROJECTOR)}
    assert forms == {None}


@pytest.mark.parametrize(
    ("settings", "form"),
    [
        (GPTQ, "gptq"),
        (
            {
                "quant_method": "compressed-tensors",
                "format": "pack-quantized",
                "config_groups": {
                    "group_0": {
                        "targets": ["Linear"],
                        "weights": {
                            "num_bits": 4, "type": "int", "strategy": "group", "group_size": 128,
                        },
                    }
                },
            },
            None,
        ),
    ],
    ids=["gptq", "compressed-tensors"],
)  # fmt: skip
def test_experts_of_dbrx_are_no_linears_to_compressed_tensors(settings, form):
    spec = msgspec.structs.replace(spec_of("databricks/dbrx-instruct"), quantization=settings)
    scheme = quantized.registered_scheme(spec, published(spec))
    forms = {
        stored.name.partition("_")[0] if stored else None
        for block in spec.blocks
        for tensor in block.tensors
        if tensor.kind is Kind.EXPERT
        for stored in [scheme.format_of(tensor.name.removesuffix(".weight"), tensor, block.part)]
    }
    assert forms == {form}


@pytest.mark.parametrize(
    ("tensor", "experts", "width"),
    [(1, 1, 1024), (4, 1, 256), (8, 1, 256), (16, 1, 256), (16, 16, 1024)],
)
def test_kimi_linear_pads_the_experts_of_a_rank_to_256(tensor, experts, width):
    spec = spec_of("moonshotai/Kimi-Linear-48B-A3B-Instruct")
    sharded = shard_weights(spec, published(spec) or Scheme(name="unquantized"))
    ways = ranks(sharded, tensor, experts, 1)
    sizes = [
        share_bytes(share, sharded.layout, ways)
        for share in sharded.shares
        if share.experts and 1 in share.layers
    ]
    assert sum(sizes) == 3 * 2304 * width * 2 * 256 // experts


def test_a_linear_that_is_one_in_vllm_has_the_format_of_any_part_that_is_listed():
    listed = {
        f"model.layers.0.{name}": {"quant_algo": "MXFP8"}
        for name in ("self_attn.k_proj", "mlp.up_proj", "mlp.down_proj")
    }
    settings = {
        "quant_method": "modelopt", "quant_algo": "MIXED_PRECISION", "quantized_layers": listed,
    }  # fmt: skip
    spec = read_config({**LLAMA, "quantization_config": settings})
    scheme = published(spec)
    assert scheme is not None
    quantized_shares = [share for share in shard_weights(spec, scheme).shares if share.form]
    assert sorted(share.out for share in quantized_shares) == [1024, 1024, 1024, 1024, 2816, 2816]
    assert {share.layers for share in quantized_shares} == {(0,)}


@pytest.mark.parametrize(
    ("shortened", "basis", "codes"),
    [(True, "assumed", ["quantization-unknown"]), (False, "computed", [])],
)
def test_a_list_of_formats_that_is_shortened_is_said(shortened, basis, codes):
    listed = {"model.layers.0.mlp.down_proj": {"quant_algo": "MXFP8"}}
    settings = {
        "quant_method": "modelopt", "quant_algo": "MIXED_PRECISION", "quantized_layers": listed,
        "quantized_layers_cut": shortened,
    }  # fmt: skip
    scheme = published(read_config({**LLAMA, "quantization_config": settings}))
    assert scheme is not None
    assert (scheme.basis, [note.code for note in scheme.warnings]) == (basis, codes)


@pytest.mark.parametrize(("inputs", "width"), [({"dtype": "fp4"}, 128), (None, None)])
def test_quarks_experts_of_4_bit_inputs_are_padded_on_hopper_too(inputs, width):
    """Qwen3-Next in MXFP4 at tensor 8: experts of 64 take 128."""
    settings = {"quant_method": "quark", "global_quant_config": {"input_tensors": inputs}}
    spec = msgspec.structs.replace(spec_of("Qwen/Qwen3-30B-A3B"), quantization=settings)
    tiles = expert_tiles(spec, "mxfp4", (9, 0))
    assert (tiles.width if tiles else None) == width
