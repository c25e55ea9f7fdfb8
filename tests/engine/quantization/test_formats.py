"""Formats and schemes against what quantizers write."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fitgauge.catalog.sizes import nominal_model
from fitgauge.engine.model.families import read_config
from fitgauge.engine.model.spec import Kind, Part, Split, Tensor
from fitgauge.engine.quantization import formats as q
from fitgauge.engine.quantization.published import READERS, published
from fitgauge.engine.quantization.requested import requested_scheme, served_scheme
from fitgauge.engine.quantization.scheme import Rule, RuleIndex, Scheme, bare, named
from fitgauge.engine.weights.rank_bytes import rank_weights
from fitgauge.engine.weights.sharding import formats, shard_weights

LLAMA_8B = {
    "model_type": "llama", "hidden_size": 4096, "intermediate_size": 14336, "num_hidden_layers": 32,
    "num_attention_heads": 32,
    "num_key_value_heads": 8, "vocab_size": 128256, "max_position_embeddings": 131072,
    "torch_dtype": "bfloat16",
}  # fmt: skip


KEYS = [
    "bits", "group_size", "weight_block_size", "ignored_layers", "modules_to_not_convert",
    "config_groups", "weights", "targets", "ignore",
    "format", "quant_algo", "quantized_layers", "exclude_modules", "dynamic", "num_bits", "type",
    "strategy", "block_structure", "lm_head",
    "quant_type", "default", "global_quant_config", "weight", "dtype", "load_in_8bit",
    "expert_dtype", "moe_quant_algo",
]  # fmt: skip


def llama(**changes):
    return read_config({**LLAMA_8B, **changes})


@pytest.mark.parametrize(
    ("form", "expected"),
    [
        # qweight, qzeros and scales of a 4096 x 4096 AWQ layer, group 128: 4096 x 512 x 4 + 32 x
        # 512 x 4 + 32 x 4096 x 2
        (q.awq(4, 128), 8388608 + 65536 + 262144),
        # GPTQ adds g_idx: 4096 x 4
        (q.gptq(4, 128), 8388608 + 65536 + 262144 + 16384),
        # one group of all inputs (group_size -1): 4096 scales, 4096 4-bit zero points
        (q.gptq(4, -1), 8388608 + 8192 + 2048 + 16384),
        # nf4: an fp32 absmax for 64 weights, 16 codes
        (q.bitsandbytes_4bit("nf4"), 8388608 + 262144 * 4 + 64),
        # doubly quantized: 8-bit absmax, fp32 for 256 of them, nested codes and an offset
        (q.bitsandbytes_4bit("nf4", double=True), 8388608 + 262144 + 1024 * 4 + 64 + 1024 + 4),
        (q.LLM_INT8, 16777216 + 4096 * 4),
        (q.FP8_TENSOR, 16777216 + 8),
        (q.FP8_CHANNEL, 16777216 + 4096 * 2),
        (q.block_fp8(128, 128), 16777216 + 32 * 32 * 4),
        (q.NVFP4, 8388608 + 4096 * 256 + 8),
        (q.MXFP4, 8388608 + 4096 * 128),
        (q.MXFP8, 16777216 + 4096 * 128),
        (q.gguf_block("Q4_0"), 4096 * 4096 // 32 * 18),
        (q.gguf_block("Q6_K"), 4096 * 4096 // 256 * 210),
    ],
    ids=lambda value: value.name if isinstance(value, q.Format) else "",
)
def test_a_square_layer_takes_the_bytes_its_quantizer_writes(form, expected):
    assert q.tensor_bytes(4096, 4096, form) == expected


def test_scale_blocks_at_an_edge_are_counted_whole():
    # DeepSeek-V3's kv_a_proj_with_mqa: 576 rows are 4.5 blocks of 128
    assert q.tensor_bytes(576, 7168, q.block_fp8(128, 128)) == 576 * 7168 + 5 * 56 * 4


def matches(names, module):
    """Return whether a rule with these names applies to the module."""
    scheme = Scheme(name="x", rules=(Rule(form=q.FP8_TENSOR, names=names),))
    return (
        scheme.format_of(module, Tensor("weight", (64, 64), Kind.LINEAR), Part.LANGUAGE) is not None
    )


def test_names_match_whole_parts_globs_and_expressions_with_or_without_wrappers():
    names = named(
        ["model.language_model.layers.0*", "*.attn.*", "gate", "re:.*mlp\\.(gate|up)_proj.*"]
    )
    for module in (
        "model.layers.0.mlp.down_proj",
        "layers.7.attn.wq",
        "model.layers.3.mlp.gate",
        "layers.3.mlp.up_proj",
    ):
        assert matches(names, module), module
    for module in (
        "model.layers.10.mlp.down_proj",
        "model.layers.3.mlp.down_proj",
        "layers.7.attn_norm",
        "layers.3.mlp.gate_up",
    ):
        assert not matches(names, module), module


def test_a_checkpoint_and_a_list_may_wrap_names_differently():
    assert bare("model.language_model.layers.0.mlp.gate_proj.weight") == bare(
        "language_model.model.layers.0.mlp.gate_proj"
    )


@pytest.mark.parametrize("pattern", ["re:(a+)+$", "re:(", "re:(a|b)+", "re:" + "a?" * 50])
def test_a_dangerous_expression_is_not_run(pattern):
    with pytest.raises(ValueError, match="pattern"):
        named([pattern])


def test_an_unreadable_scheme_is_assumed_with_a_warning():
    scheme = published(
        llama(quantization_config={"quant_method": "newfangled", "bits": 3, "group_size": 64})
    )
    assert scheme is not None
    assert scheme.warnings
    assert scheme.form is not None
    assert (scheme.form.bits, scheme.form.group) == (3, 64)


@pytest.mark.parametrize(
    "broken",
    [
        {"quant_method": "compressed-tensors", "ignore": ["re:(a+)+$"], "config_groups": {}},
        {"quant_method": "fp8", "weight_block_size": ["x", 1]},
        {"quant_method": "gptq", "dynamic": ["not", "a", "mapping"]},
        {"quant_method": ["list"]},
        {"quantization": {"quant_algo": "FP7"}},
        {"quant_method": "fp8", "weight_block_size": [-128, 128]},
        {"quant_method": "awq", "bits": -4},
        {"quant_method": "gptq", "bits": 10**6},
        {"quant_method": "newfangled", "bits": float("inf"), "group_size": float("nan")},
    ],
)
def test_a_broken_config_never_fails(broken):
    scheme = published(llama(quantization_config=broken))
    assert scheme is not None


PUBLISHED = [
    ({"quant_method": "fp8", "weight_block_size": [128, 128]}, "fp8_block128x128"),
    ({"quant_method": "fp8", "activation_scheme": "static"}, "fp8"),
    ({"quant_method": "awq", "bits": 4, "group_size": 128, "zero_point": True}, "awq_int4"),
    ({"quant_method": "gptq", "bits": 4, "group_size": -1, "desc_act": True, "sym": True},
        "gptq_int4"),
    ({"quant_method": "bitsandbytes", "load_in_4bit": True, "bnb_4bit_quant_type": "nf4",
        "bnb_4bit_use_double_quant": True}, "nf4_double"),
    ({"quant_method": "bitsandbytes", "load_in_8bit": True}, "llm_int8"),
    (
        {"quant_method": "compressed-tensors", "format": "pack-quantized", "ignore": ["lm_head"],
         "config_groups": {"g": {"targets": ["Linear"],
             "weights": {"num_bits": 4, "type": "int", "group_size": 32, "symmetric": True}}}},
        "packed_int4",
    ),
    (
        {"quant_method": "compressed-tensors", "format": "float-quantized",
         "config_groups": {"group_0": {"targets": ["Linear"],
             "weights": {"num_bits": 8, "type": "float", "strategy": "channel"}}}},
        "fp8_channel",
    ),
    ({"quant_method": "modelopt", "quant_algo": "NVFP4", "ignore": ["lm_head"]}, "nvfp4"),
    ({"producer": {"name": "modelopt"},
        "quantization": {"quant_algo": "FP8", "exclude_modules": ["lm_head"]}}, "fp8"),
    ({"quant_method": "mxfp4"}, "mxfp4"),
    (
        {"quant_method": "torchao",
            "quant_type": {"default": {"_type": "Int4WeightOnlyConfig",
                "_data": {"group_size": 64}}}},
        "torchao_int4",
    ),
    (
        {"quant_method": "quark", "exclude": ["lm_head"],
            "global_quant_config": {"weight": {"dtype": "fp8_e4m3"}}},
        "fp8",
    ),
    ({"quant_method": "auto-round", "bits": 4, "group_size": 128, "sym": True, "data_type": "int",
        "packing_format": "auto_round:auto_gptq"}, "gptq_int4"),
    ({"quant_method": "auto-round", "bits": 4, "group_size": 64, "sym": False,
        "packing_format": "auto_round:auto_awq"}, "awq_int4"),
    ({"quant_method": "auto-round", "bits": 8, "group_size": 32, "data_type": "mx_fp"}, "mxfp8"),
    ({"quant_method": "mxfp8", "ignored_layers": ["lm_head"]}, "mxfp8"),
    ({"bits": 4, "group_size": 64}, "mlx"),
]  # fmt: skip


@pytest.mark.parametrize(("values", "form"), PUBLISHED, ids=[form for _, form in PUBLISHED])
def test_a_published_config_names_its_format_without_guessing(values, form):
    scheme = published(llama(quantization_config=values))
    assert scheme is not None
    assert scheme.form is not None
    assert scheme.form.name == form
    assert scheme.basis == "computed"


JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(10**9), 10**9)
    | st.floats()
    | st.text(max_size=8)
    | st.sampled_from(["Linear", "re:.*mlp.*", "NVFP4"]),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(KEYS), inner, max_size=4)
    ),
    max_leaves=12,
)


@given(st.dictionaries(st.sampled_from(KEYS), JSON, max_size=6), st.sampled_from(sorted(READERS)))
@settings(max_examples=150, deadline=None, derandomize=True)
def test_whatever_a_config_holds_gives_bytes_above_zero(values, method):
    spec = llama(num_hidden_layers=2, quantization_config={**values, "quant_method": method})
    scheme = published(spec)
    assert scheme is not None
    assert rank_weights(shard_weights(spec, scheme), tensor_parallel=2).bytes > 0


def test_auto_round_names_modules_of_other_widths_by_name_and_by_pattern():
    scheme = published(
        llama(
            quantization_config={
                "quant_method": "auto-round", "bits": 4, "group_size": 128,
                "extra_config": {
                    "model.layers.0.mlp.down_proj": {"bits": 16},
                    "layers\\.1\\..*_proj": {"bits": 8},
                },
            }
        )
    )  # fmt: skip
    assert scheme is not None
    weight = Tensor("x.weight", (256, 256), Kind.LINEAR, Split.ROW)
    names = [f"model.layers.{layer}.mlp.down_proj" for layer in range(3)]
    forms = [scheme.format_of(name, weight, Part.LANGUAGE) for name in names]
    assert forms == [None, q.gptq(8, 128), q.gptq(4, 128)]


def test_settings_without_a_method_are_weights_in_sixteen_bit():
    scheme = published(llama(quantization_config={"quant_algo": "FP8", "config_groups": {}}))
    assert scheme is not None
    assert scheme.form is None
    assert scheme.warnings


def test_a_mixture_gives_every_listed_module_its_own_format():
    layers = {
        "model.layers.0.mlp.down_proj": {"quant_algo": "NVFP4", "group_size": 16},
        "lm_head": {"quant_algo": "FP8"},
    }
    scheme = published(
        llama(
            quantization_config={
                "quant_method": "modelopt",
                "quant_algo": "MIXED_PRECISION",
                "quantized_layers": layers,
            }
        )
    )
    assert scheme is not None
    weight = Tensor("x.weight", (256, 256), Kind.LINEAR, Split.ROW)
    assert scheme.format_of("model.layers.0.mlp.down_proj", weight, Part.LANGUAGE) == q.NVFP4
    assert (
        scheme.format_of("lm_head", Tensor("lm_head.weight", (256, 256), Kind.HEAD), Part.HEAD)
        == q.FP8_TENSOR
    )
    assert scheme.format_of("model.layers.1.mlp.down_proj", weight, Part.LANGUAGE) is None


@pytest.mark.parametrize(
    ("listed", "form"),
    [("language_model.model.layers.0.mlp.down_proj", None), ("model.layers.0.mlp", q.NVFP4)],
)
def test_a_language_model_s_modules_name_none_of_a_tower(listed, form):
    settings = {
        "quant_method": "modelopt", "quant_algo": "MIXED_PRECISION",
        "quantized_layers": {listed: {"quant_algo": "NVFP4", "group_size": 16}},
    }  # fmt: skip
    scheme = published(llama(quantization_config=settings))
    assert scheme is not None
    weight = Tensor("x.weight", (256, 256), Kind.LINEAR, Split.ROW)
    name = "layers.0.mlp.down_proj"
    assert scheme.format_of(f"vision_tower.{name}", weight, Part.VISION) == form
    assert scheme.format_of(f"language_model.model.{name}", weight, Part.LANGUAGE) == q.NVFP4


def test_quantizers_leave_embeddings_norms_routers_and_towers_alone():
    scheme = requested_scheme("fp8", llama())
    for kind in (Kind.EMBEDDING, Kind.HEAD, Kind.NORM, Kind.ROUTER, Kind.BIAS):
        assert scheme.format_of("m", Tensor("m.weight", (64, 64), kind), Part.LANGUAGE) is None
    assert scheme.format_of("m", Tensor("m.weight", (64, 64), Kind.LINEAR), Part.VISION) is None
    assert (
        scheme.format_of("m", Tensor("m.weight", (64, 64), Kind.LINEAR), Part.LANGUAGE)
        == q.FP8_TENSOR
    )


@pytest.mark.parametrize(
    ("name", "gib"),
    [
        ("fp32", 26.077),
        ("fp16", 13.0385),
        ("bf16", 13.0385),
        ("int8", 6.5193),
        ("int4", 3.2596),
        ("AWQ", 3.2596),
    ],
)
def test_a_nominal_size_counts_bits_and_nothing_else(name, gib):
    spec = nominal_model("7b", 7 * 10**9).spec
    assert rank_weights(
        shard_weights(spec, requested_scheme(name, spec))
    ).bytes / 2**30 == pytest.approx(gib, abs=1e-3)


@pytest.mark.parametrize("name", ["awq", "gptq", "nf4", "nvfp4", "fp8_block"])
def test_a_size_in_a_quantizers_format_weighs_what_the_model_of_its_shape_does(name):
    sizes = [
        rank_weights(shard_weights(spec, served_scheme(name, spec))).bytes / spec.parameters
        for spec in (nominal_model("8b", 8 * 10**9).spec, llama())
    ]
    assert sizes[0] == pytest.approx(sizes[1], rel=0.005)


@pytest.mark.parametrize("name", ["int4", "fp8", "q4_k_m", "bf16"])
def test_a_size_in_bits_alone_is_served_in_them(name):
    spec = nominal_model("8b", 8 * 10**9).spec
    assert served_scheme(name, spec) == requested_scheme(name, spec)


def test_a_gguf_file_of_a_model_weighs_what_llama_cpp_says():
    # llama.cpp tools/quantize/README.md: Llama-3.1-8B Q4_K_M 4.58 GiB, Q8_0 7.95 GiB, Q6_K 6.14 GiB
    for name, gib in (("q4_k_m", 4.58), ("q8_0", 7.95), ("q6_k", 6.14)):
        assert rank_weights(
            shard_weights(llama(), requested_scheme(name, llama()))
        ).bytes / 2**30 == pytest.approx(gib, abs=0.011)


def test_the_first_rule_that_fits_decides():
    scheme = Scheme(name="x", rules=(Rule(form=None, names=named(["a"])), Rule(form=q.NVFP4)))
    assert (
        scheme.format_of("layers.0.a", Tensor("a.weight", (64, 64), Kind.LINEAR), Part.LANGUAGE)
        is None
    )
    assert (
        scheme.format_of("layers.0.b", Tensor("b.weight", (64, 64), Kind.LINEAR), Part.LANGUAGE)
        == q.NVFP4
    )


@given(
    names=st.lists(
        st.sampled_from(["layers.0*", "model.layers.1.mlp", "layers.2.mlp.experts.0", "experts.0",
            "re:.*layers.1.*", "re:.*\\.\\d\\d\\..*",
                         "re:.*layers\\.[0-4]\\..*", "re:.*up_proj$", "re:^model.layers.3",
                         "*.mlp.experts.*.up_proj", "10", "mlp.gate"]),
        max_size=4,
    )
)  # fmt: skip
@settings(max_examples=150, deadline=None)
def test_layers_of_one_class_have_the_formats_they_have_by_themselves(names):
    spec = read_config(
        {
            **LLAMA_8B,
            "model_type": "qwen3_moe",
            "num_experts": 4,
            "num_experts_per_tok": 2,
            "moe_intermediate_size": 64,
            "head_dim": 128,
        }
    )
    rules = RuleIndex(
        [
            Rule(form=None, names=named(names[:2])),
            Rule(form=q.MXFP4, names=named(names[2:])),
            Rule(form=q.FP8_TENSOR),
        ]
    )
    for block in spec.blocks:
        for tensor, form, layers in formats(spec, block, rules):
            for layer in layers:
                module = (block.prefix.replace("{}", str(layer)) + tensor.name).replace("*", "0")
                assert rules.format_of(module, tensor, block.part) == form


@pytest.mark.parametrize("block", [[128, 0], [0, 128], [-1, 128], [128, None], []])
def test_a_block_without_weights_is_read_by_its_bits(block):
    config = {
        "architectures": ["DeepseekV3ForCausalLM"],
        "model_type": "llama",
        "hidden_size": 256,
        "intermediate_size": 512,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "vocab_size": 1000,
        "torch_dtype": "bfloat16",
        "quantization_config": {"quant_method": "fp8", "weight_block_size": block},
    }
    scheme = published(read_config(config))
    assert [(form.bits, form.rows) for form in scheme.formats] == [(8, 1)]


@pytest.mark.parametrize("group", [0, -1])
def test_nvfp4_has_blocks_whatever_a_config_says(group):
    """SGLang's tiles of scales divide by the block: a block of none ended as a defect."""
    said = {"quant_method": "modelopt", "quant_algo": "NVFP4", "group_size": group}
    scheme = published(llama(quantization_config=said))
    assert scheme is not None
    assert [rule.form.group for rule in scheme.rules if rule.form] == [16]
