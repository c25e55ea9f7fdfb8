"""Heads that draft tokens from the hidden states of another model: EAGLE-3's layer or a few, and
DFlash's few layers that draft a block of tokens at once.

Source: vLLM 0.33, model_executor/models/llama_eagle3.py, qwen3_eagle3.py, deepseek_eagle3.py and
qwen3_dflash.py, registry.py; the format of the speculators library
(transformers_utils/configs/speculators/): a config.json with `speculators_model_type` around that
of the layers."""

from fitgauge.engine.model.config import Config
from fitgauge.engine.model.families import parts
from fitgauge.engine.model.families.dense.dense import (
    Dialect,
    Reader,
    architecture_name,
    dense_rotary_tables,
    grouped_attention,
    qk_norms,
)
from fitgauge.engine.model.families.mixture.latent import attention_tensors, latent_attention
from fitgauge.engine.model.families.rotary_tables import table
from fitgauge.engine.model.mixers import Attention, LatentAttention
from fitgauge.engine.model.spec import Block, Kind, ModelSpec, Part, RotaryTable, Tensor
from fitgauge.engine.note import Note

LATENT = frozenset({"Eagle3DeepseekV2ForCausalLM", "Eagle3DeepseekV3ForCausalLM"})
"""Heads with multi-head latent attention (Kimi K2.5), whose cache is as the model's."""

ARCHITECTURES = LATENT | frozenset({
    "Eagle3LlamaForCausalLM", "LlamaForCausalLMEagle3", "PEagleDraftModel",
    "PeagleLlamaForCausalLM", "Eagle3MiniMaxM2ForCausalLM", "Eagle3Qwen2_5vlForCausalLM",
    "Eagle3Qwen3vlForCausalLM", "Eagle3Qwen3ForCausalLM", "PeagleQwen3ForCausalLM",
})  # fmt: skip
"""EAGLE-3 heads: besides those, what vLLM reads as layers of the Llama shape, or of Qwen 3's."""

_QWEN_3 = frozenset({"Eagle3Qwen3ForCausalLM", "PeagleQwen3ForCausalLM"})
"""Those of Qwen 3's shape, whose queries and keys are normed."""

DFLASH = "DFlashDraftModel"
"""The class of heads that draft a block of tokens at once."""

_SPECULATORS = {
    ("eagle3", "llama"): "Eagle3LlamaForCausalLM",
    ("eagle3", "qwen3"): "Eagle3Qwen3ForCausalLM",
    ("peagle", "llama"): "PeagleLlamaForCausalLM",
    ("peagle", "qwen3"): "PeagleQwen3ForCausalLM",
}
"""The class of a head in the format of the speculators library, by its kind and the kind of its
layers; DFlash has one class alone."""

STATES = 3
"""Hidden states of the model that a head reads side by side, unless its config names them: one
early, one in the middle, one late."""


def reader(config: Config) -> Reader | None:
    """Return how to read a config that is a head's, None for any other."""
    if config.text("speculators_model_type") in ("eagle3", "peagle", "dflash"):
        return read_speculator
    name = architecture_name(config)
    if name == DFLASH:
        return read_dflash
    return read_head if name in ARCHITECTURES else None


def read_speculator(config: Config) -> ModelSpec:
    """Return a head in the format of the speculators library."""
    layers = config.section("transformer_layer_config").values
    extra = {
        key: config.values[key]
        for key in (
            "draft_vocab_size", "target_hidden_size", "torch_dtype", "norm_before_fc", "fc_norm",
            "eagle_aux_hidden_state_layer_ids",
        )
        if config.values.get(key) is not None
    }  # fmt: skip
    kind = config.text("speculators_model_type")
    if kind == "dflash":
        states = {"target_layer_ids": config.items("aux_hidden_state_layer_ids")}
        head = {**layers, **extra, "architectures": [DFLASH], "dflash_config": states}
        return read_dflash(Config(head))
    shape = str(layers.get("model_type", "llama"))
    name = _SPECULATORS.get((kind, shape), "Eagle3LlamaForCausalLM")
    return read_head(Config({**layers, **extra, "architectures": [name]}))


def read_head(config: Config) -> ModelSpec:
    """Return the ModelSpec of a head: its first layer reads embedding and hidden states side by
    side, so its projections are twice as wide in; `fc` joins the hidden states; its vocabulary
    is its own, and `d2t` maps it to the model's."""
    hidden, vocabulary = config.integer("hidden_size", low=1), config.integer("vocab_size", low=1)
    drafted = config.integer("draft_vocab_size", default=vocabulary, low=1)
    width, states = config.integer("target_hidden_size", default=hidden, low=1), read_states(config)
    latent = architecture_name(config) in LATENT
    stack = [
        latent_layer(config, hidden, inputs=inputs)
        if latent
        else head_layer(config, hidden, grouped_attention(config), inputs=inputs)
        for inputs in (2 * hidden, *[hidden] * (config.layers() - 1))
    ]
    joined = [*parts.linear("fc", hidden, width * states)]
    if config.section("eagle_config").flag("norm_before_fc", default=config.flag("norm_before_fc")):
        joined += parts.norm("input_norm", width * states)
    if config.flag("fc_norm"):
        joined += [
            norm for index in range(states) for norm in parts.norm(f"fc_norm.{index}", width)
        ]
    if drafted != vocabulary:
        joined.append(Tensor("d2t", (drafted,), Kind.OTHER, dtype="I64"))
    return _spec(
        config,
        parts.embedding(vocabulary, hidden),
        *parts.blocks(Part.LANGUAGE, "model.layers.{}.", stack),
        parts.single(Part.LANGUAGE, joined, "model."),
        parts.final_norm(hidden),
        *parts.head(drafted, hidden, tied=False),
    )


def read_dflash(config: Config) -> ModelSpec:
    """Return the ModelSpec of a DFlash head: layers of Qwen 3's shape, whose keys and values come
    from the model's hidden states by `fc`, and one embedding of a masked token. It shares embedding
    and output head, unless it drafts a vocabulary of its own."""
    hidden, vocabulary = config.integer("hidden_size", low=1), config.integer("vocab_size", low=1)
    drafted = config.integer("draft_vocab_size", default=vocabulary, low=1)
    width, layers = config.integer("target_hidden_size", default=hidden, low=1), config.layers()
    states = len(config.section("dflash_config").items("target_layer_ids")) or layers
    stack = [
        _dflash_layer(config, hidden, grouped_attention(config, window=window))
        for window in _windows(config, layers)
    ]
    own = drafted != vocabulary
    mapped = (Tensor("d2t", (drafted,), Kind.OTHER, dtype="I64"),) if own else ()
    return _spec(
        config,
        parts.embedding(vocabulary, hidden),
        *parts.blocks(Part.LANGUAGE, "layers.{}.", stack),
        parts.single(
            Part.LANGUAGE,
            (
                *parts.linear("fc", hidden, width * states),
                *parts.norm("hidden_norm", hidden),
                Tensor("mask_embedding", (hidden,), Kind.OTHER),
                *mapped,
            ),
        ),
        parts.final_norm(hidden),
        *parts.head(drafted, hidden, tied=not own),
    )


def _spec(config: Config, *blocks: Block) -> ModelSpec:
    return ModelSpec(
        model_type=config.text("model_type"),
        architecture=architecture_name(config),
        dtype=config.dtype(),
        hidden_size=config.integer("hidden_size", low=1),
        vocabulary_size=config.integer("vocab_size", low=1),
        max_context_length=config.integer("max_position_embeddings", default=2048),
        tied_embeddings=False,
        blocks=blocks,
        rotary_tables=_rotary_tables(config),
        notes=(
            Note(
                "draft-model-alone",
                "draft_model",
                "This is a head that drafts tokens for another model: send it as draft_model with"
                " that one.",
            ),
        ),
    )


def _rotary_tables(config: Config) -> tuple[RotaryTable, ...]:
    if architecture_name(config) in LATENT:
        return (table(config, config.integer("qk_rope_head_dim")),)
    return dense_rotary_tables(config, Dialect())


def read_states(config: Config) -> int:
    """Return how many hidden states of the model the head reads."""
    key = "eagle_aux_hidden_state_layer_ids"
    named = config.section("eagle_config").items(key) or config.items(key)
    return config.integer("num_aux_hidden_states", default=len(named) or STATES, low=1, high=64)


_JOINED = (*parts.NORMS, "hidden_norm")
"""The norms of a layer that reads the model's hidden states next to its own."""


def _layer(
    config: Config,
    hidden: int,
    mixer: Attention | LatentAttention,
    mixing: tuple[Tensor, ...],
    norms: tuple[str, ...],
) -> parts.Layer:
    feed = parts.gated_feed(hidden, config.integer("intermediate_size", low=1))
    return parts.decoder_layer(hidden, mixer, mixing, feed, names=norms)


def head_layer(config: Config, hidden: int, mixer: Attention, *, inputs: int) -> parts.Layer:
    """Return one layer, whose attention reads `inputs` numbers."""
    bias = config.flag("attention_bias")
    mixing = (
        *parts.attention(hidden, mixer, inputs=inputs, qkv_bias=bias),
        *qk_norms(mixer, "head" if architecture_name(config) in _QWEN_3 else "none"),
    )
    return _layer(config, hidden, mixer, mixing, _JOINED)


def latent_layer(config: Config, hidden: int, *, inputs: int) -> parts.Layer:
    """Return one layer with latent attention, which reads `inputs` numbers, and a plain MLP."""
    mixer = latent_attention(config)
    return _layer(config, hidden, mixer, attention_tensors(config, mixer, inputs=inputs), _JOINED)


def _windows(config: Config, layers: int) -> list[int | None]:
    """Return the window of every layer [tokens]: of those that `layer_types` says slide, of all
    with `use_swa` where it names none. Source: qwen3_dflash.py, _resolve_layer_attention."""
    window, kinds = config.maybe_integer("sliding_window"), config.items("layer_types")
    slides = ["sliding" in str(kind) for kind in kinds[:layers]]
    if not any(slides):
        slides = [config.section("dflash_config").flag("use_swa")] * layers
    return [window if each else None for each in slides]


def _dflash_layer(config: Config, hidden: int, mixer: Attention) -> parts.Layer:
    bias = config.flag("attention_bias")
    attention = parts.attention(hidden, mixer, qkv_bias=bias, out_bias=bias)
    mixing = (*attention, *qk_norms(mixer, "head"))
    return _layer(config, hidden, mixer, mixing, parts.NORMS)
