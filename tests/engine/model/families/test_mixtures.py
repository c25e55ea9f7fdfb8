"""Mixtures of experts and latent attention against transformers and vLLM."""

from collections import Counter

import pytest

from counted_models import counted_models
from fitgauge.engine.model.config import Config
from fitgauge.engine.model.dtypes import size_of
from fitgauge.engine.model.families import read_config
from fitgauge.engine.model.families.mixture import latent, minimax_m3
from fitgauge.engine.model.mixers import Attention, CompressedAttention, LatentAttention
from fitgauge.engine.model.spec import Kind, ModelSpec, Part, Split, Tensor
from fitgauge.engine.serving.vllm.weights import rotates
from fitgauge.errors import MalformedModelError

STORED = counted_models("mixtures_stored.json")
PUBLISHED = counted_models("mixtures_published.json")
MIXTURES = [
    "mixtral",
    "qwen2_moe",
    "qwen3_moe",
    "gpt_oss",
    "glm4_moe",
    "minimax_m2",
    "deepseek_v3",
    "deepseek_v4",
    "llama4_text",
]


def mixers(spec: ModelSpec) -> list[object]:
    """Return what every layer of the language model mixes with, in no order."""
    return [
        mixer
        for block in spec.blocks
        if block.part is Part.LANGUAGE
        for mixer in block.mixers
        for _ in block.layers
    ]


def tensors(spec: ModelSpec) -> dict[str, Tensor]:
    """Return every tensor of the language model by its name without the layer."""
    return {
        tensor.name: tensor
        for block in spec.blocks
        if block.part is not Part.MTP
        for tensor in block.tensors
    }


def published(name: str) -> dict:
    return next(model["config"] for model in PUBLISHED if model["model"] == name)


@pytest.mark.parametrize(
    "model",
    [model for model in PUBLISHED if "vllm_parameter_bytes" in model],
    ids=lambda model: model["model"],
)
def test_bytes_by_format_equal_vllm(model):
    """Unquantized, vLLM allocates our tensors in our formats: buffers of the checkpoint and F32
    parts included."""
    held: Counter[str] = Counter()
    for block in read_config(model["config"]).blocks:
        for tensor in block.tensors if block.part is not Part.MTP else ():
            held["float32" if tensor.dtype == "F32" else "bfloat16"] += len(block.layers) * size_of(
                tensor.elements, tensor.dtype or "BF16"
            )
    assert dict(held) == model["vllm_parameter_bytes"]


@pytest.mark.parametrize("model", STORED, ids=lambda model: model["model"])
def test_repositories_hold_what_is_read(model):
    """Parameters, prediction heads and buffers together are the numbers that a repository
    is known to hold."""
    blocks = read_config(model["config"]).blocks
    assert (
        sum(len(block.layers) * tensor.elements for block in blocks for tensor in block.tensors)
        == model["elements"]
    )


@pytest.mark.parametrize(
    "model",
    [model for model in PUBLISHED if "vllm_buffer_bytes" in model],
    ids=lambda model: model["model"],
)
def test_rotary_tables_equal_vllm(model):
    """vLLM registers the rotary tables of the model's layers and four F32 scales an attention
    layer (DeepSeek V4 has no such scales)."""
    spec = read_config(model["config"])
    tables = sum(
        size_of(table.positions * table.dim, table.dtype or "BF16")
        for table in spec.rotary_tables
        if rotates(spec, table, None)
    )
    scales = 0 if spec.model_type == "deepseek_v4" else 16 * spec.layers
    assert tables + scales == model["vllm_buffer_bytes"]


def test_latent_attention_keeps_its_latents_whole():
    """Every rank projects down to the latents and the indexer's key; heads are divided."""
    found = tensors(read_config(published("deepseek-ai/DeepSeek-V3.2")))
    whole = ("q_a_proj", "kv_a_proj_with_mqa", "indexer.wq_b", "indexer.wk", "indexer.weights_proj")
    assert {found[f"self_attn.{name}.weight"].split for name in whole} == {Split.NONE}
    assert {found[f"self_attn.{name}.weight"].split for name in ("q_b_proj", "kv_b_proj")} == {
        Split.COLUMN
    }
    assert found["self_attn.o_proj.weight"].split is Split.ROW
    assert {
        found[f"self_attn.{name}.weight"].units for name in ("q_b_proj", "kv_b_proj", "o_proj")
    } == {128}


def test_latent_attention_caches_576_numbers_a_token():
    """DeepSeek V3 keeps one latent of 512 and a rope part of 64 in each of 61 layers."""
    found = mixers(read_config(published("deepseek-ai/DeepSeek-V3")))
    assert len(found) == 61
    assert {
        (mixer.latent_dim, mixer.rope_dim) for mixer in found if isinstance(mixer, LatentAttention)
    } == {(512, 64)}


def test_shared_indexers_keep_no_key():
    """Of GLM-5.2's 78 layers 21 have an indexer of their own, as vLLM's cache specs say."""
    found = mixers(read_config(published("nvidia/GLM-5.2-NVFP4")))
    assert (
        sum(mixer.indexer is not None for mixer in found if isinstance(mixer, LatentAttention))
        == 21
    )


def test_compressed_attention_by_ratio():
    """DeepSeek V4 Flash has 2 layers with a window alone, 21 that compress by 4 and pick, 20
    that compress by 128."""
    found = [
        mixer
        for mixer in mixers(read_config(published("nvidia/DeepSeek-V4-Flash-NVFP4")))
        if isinstance(mixer, CompressedAttention)
    ]
    assert Counter((mixer.ratio, mixer.indexer is not None) for mixer in found) == {
        (0, False): 2,
        (4, True): 21,
        (128, False): 20,
    }


def test_gpt_oss_slides_in_every_second_layer():
    """12 of gpt-oss-20b's 24 layers read 128 tokens."""
    found = mixers(read_config(published("openai/gpt-oss-20b")))
    assert Counter(mixer.window for mixer in found if isinstance(mixer, Attention)) == {
        128: 12,
        None: 12,
    }


def test_llama4_chunks_where_it_rotates():
    """Every fourth of Llama 4's layers has no rotary embedding and attends to everything."""
    found = mixers(read_config({"model_type": "llama4_text"}))
    assert [mixer.chunk for mixer in found if isinstance(mixer, Attention)].count(8192) == 36
    assert len(found) == 48


def test_llama4_goes_where_the_checkpoint_keeps_it():
    """A multimodal checkpoint's language model is read under its own names."""
    spec = read_config({"model_type": "llama4", "text_config": {"num_hidden_layers": 2}})
    prefixes = {block.prefix or block.tensors[0].name for block in spec.blocks}
    assert prefixes >= {
        "language_model.model.embed_tokens.weight",
        "language_model.model.layers.{}.",
        "language_model.model.norm.weight",
        "language_model.lm_head.weight",
    }


def test_sparse_attention_picks_blocks_of_tokens():
    """MiniMax M3's indexers keep one key of 128 numbers and pick 16 blocks of 128 tokens, in all
    but the dense layers."""
    frequency = [0, 0, 0, *[1] * 57]
    spec = minimax_m3.read_sparse(
        Config(
            {
                "sparse_attention_config": {"sparse_attention_freq": frequency},
                "moe_layer_freq": frequency,
            }
        )
    )
    indexers = [
        mixer.indexer for mixer in mixers(spec) if isinstance(mixer, Attention) and mixer.indexer
    ]
    assert (len(indexers), {(indexer.dim, indexer.top_k) for indexer in indexers}) == (
        57,
        {(128, 2048)},
    )
    assert (
        spec.parameters == 426_174_565_632
    )  # what transformers counts for MiniMax M3 without its tower and projectors


def test_prediction_heads_are_stored_but_not_counted():
    """With its multi-token prediction head DeepSeek V3 has as many numbers as its repository's
    safetensors files declare."""
    config = published("deepseek-ai/DeepSeek-V3")
    spec = read_config(config)
    heads = [block for block in spec.blocks if block.part is Part.MTP]
    # The Hub's safetensors counts of DeepSeek V3 and R1 as public files quote its API; its F32
    # holds scales and router biases.
    stored = {"F8_E4M3": 680_571_043_840, "BF16": 3_918_786_560}
    assert [block.layers for block in heads] == [(61,)]
    assert spec.parameters + sum(block.elements for block in heads) == sum(stored.values())
    assert (
        read_config(config | {"num_nextn_predict_layers": 0}).parameters
        == read_config(config).parameters
    )


@pytest.mark.parametrize("model_type", MIXTURES)
def test_experts_are_counted_one_by_one(model_type):
    """However a checkpoint packs them, experts are tensors of one expert's shape, as many as the
    router has outputs."""
    spec = read_config({"model_type": model_type})
    experts = [
        tensor for block in spec.blocks for tensor in block.tensors if tensor.kind is Kind.EXPERT
    ]
    routers = {
        tensor.shape[0]
        for block in spec.blocks
        for tensor in block.tensors
        if tensor.kind is Kind.ROUTER and tensor.shape[0] > 1
    }
    assert {tensor.count for tensor in experts} == routers
    assert all(len(tensor.shape) == 2 for tensor in experts)


@pytest.mark.parametrize("model_type", MIXTURES)
def test_absurd_sizes_are_refused(model_type):
    """A negative width, a huge vocabulary or a list of layers that is too short is said
    by its field's name."""
    for field, value in (
        ("hidden_size", -4096),
        ("vocab_size", 2**40),
        ("num_attention_heads", 0),
        ("layer_types", ["full_attention"]),
    ):
        if field == "layer_types" and model_type not in ("gpt_oss", "deepseek_v4", "llama4_text"):
            continue
        with pytest.raises(MalformedModelError) as refusal:
            read_config({"model_type": model_type, field: value})
        assert refusal.value.field == field


def test_queries_without_a_latent():
    """A null q_lora_rank (DeepSeek V2 Lite) means that queries come straight from the
    hidden state."""
    found = tensors(
        latent.read_latent(Config({"q_lora_rank": None}), latent.FAMILIES["deepseek_v2"])
    )
    assert found["self_attn.q_proj.weight"].shape == (32 * 192, 4096)
    assert "self_attn.q_a_proj.weight" not in found


@pytest.mark.parametrize(
    "junk",
    [
        -1,
        2**40,
        1.5,
        float("nan"),
        "x",
        [[1]],
        [{}],
        {"a": 1},
        {"rope_type": "yarn", "factor": "x"},
    ],
    ids=str,
)
@pytest.mark.parametrize(
    "model_type", [*MIXTURES, "step3p5", "longcat_flash", "glm_moe_dsa", "minimax_m3"]
)
def test_junk_is_read_or_refused(model_type, junk):
    """Whatever stands in a stranger's config, the answer is a ModelSpec or MalformedModelError."""
    fields = (
        "rope_scaling",
        "layer_types",
        "moe_layer_freq",
        "mlp_only_layers",
        "moe_layers",
        "moe_layers_enum",
        "compress_ratios",
    )
    for field in (
        *fields,
        "rope_theta",
        "partial_rotary_factors",
        "sparse_attention_config",
        "num_nextn_predict_layers",
    ):
        try:
            assert (
                read_config(
                    {"model_type": model_type, "num_hidden_layers": 2, "num_layers": 2, field: junk}
                ).layers
                == 2
            )
        except MalformedModelError:
            continue
