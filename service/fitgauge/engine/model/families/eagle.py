"""EAGLE-3 heads: a layer or a few that draft tokens from the hidden states of another model.

Source: vLLM 0.33, model_executor/models/llama_eagle3.py (Eagle3LlamaForCausalLM) and
registry.py; the format of the speculators library: a config.json with `speculators_model_type`
around that of the layers."""

from fitgauge.engine.model.config import Config
from fitgauge.engine.model.families import layers as parts
from fitgauge.engine.model.families.dense.dense import (
    Dialect,
    Reader,
    architecture_name,
    dense_rotary_tables,
    grouped_attention,
)
from fitgauge.engine.model.spec import Attention, Kind, Mlp, ModelSpec, Part, Split, Tensor
from fitgauge.engine.note import Note

ARCHITECTURES = frozenset({
    "Eagle3LlamaForCausalLM", "LlamaForCausalLMEagle3", "PEagleDraftModel",
    "PeagleLlamaForCausalLM", "Eagle3MiniMaxM2ForCausalLM",
    "Eagle3Qwen2_5vlForCausalLM", "Eagle3Qwen3vlForCausalLM",
})  # fmt: skip
"""What vLLM reads as layers of the Llama shape."""

STATES = 3
"""Hidden states of the model that a head reads side by side, unless its config names them: one
early, one in the middle, one late."""


def reader(config: Config) -> Reader | None:
    """Return how to read a config that is an EAGLE-3 head's, None for any other."""
    if config.text("speculators_model_type") == "eagle3":
        return read_speculator
    return read_head if architecture_name(config) in ARCHITECTURES else None


def read_speculator(config: Config) -> ModelSpec:
    """Return a head in the format of the speculators library."""
    layers = config.section("transformer_layer_config").values
    extra = {
        key: config.values[key]
        for key in ("draft_vocab_size", "target_hidden_size", "torch_dtype")
        if key in config.values
    }
    return read_head(Config({**layers, **extra, "architectures": ["Eagle3LlamaForCausalLM"]}))


def read_head(config: Config) -> ModelSpec:
    """Return the ModelSpec of a head: its first layer reads embedding and hidden states side by
    side, so its projections are twice as wide in; `fc` joins the hidden states; its vocabulary
    is its own, and `d2t` maps it to the model's."""
    hidden, vocabulary = config.integer("hidden_size", low=1), config.integer("vocab_size", low=1)
    drafted = config.integer("draft_vocab_size", default=vocabulary, low=1)
    states = config.integer("target_hidden_size", default=hidden, low=1) * read_states(config)
    mixer = grouped_attention(config)
    stack = [
        head_layer(config, hidden, mixer, inputs=2 * hidden if index == 0 else hidden)
        for index in range(config.layers())
    ]
    mapped = () if drafted == vocabulary else (Tensor("d2t", (drafted,), Kind.OTHER, dtype="I64"),)
    return ModelSpec(
        model_type=config.text("model_type"),
        architecture=architecture_name(config),
        dtype=config.dtype(),
        hidden_size=hidden,
        vocabulary_size=vocabulary,
        max_context_length=config.integer("max_position_embeddings", default=2048),
        tied_embeddings=False,
        blocks=(
            parts.embedding(vocabulary, hidden),
            *parts.blocks(Part.LANGUAGE, "model.layers.{}.", stack),
            parts.single(Part.LANGUAGE, "model.", (*parts.linear("fc", hidden, states), *mapped)),
            parts.final_norm(hidden),
            *parts.head(drafted, hidden, tied=False),
        ),
        rotary_tables=dense_rotary_tables(config, Dialect()),
        notes=(
            Note(
                "draft-model-alone",
                "draft_model",
                "This is a head that drafts tokens for another model: send it as draft_model with"
                " that one.",
            ),
        ),
    )


def read_states(config: Config) -> int:
    """Return how many hidden states of the model the head reads."""
    named = config.section("eagle_config").items("eagle_aux_hidden_state_layer_ids")
    return config.integer("num_aux_hidden_states", default=len(named) or STATES, low=1, high=64)


def head_layer(config: Config, hidden: int, mixer: Attention, *, inputs: int) -> parts.Layer:
    """Return one layer, whose attention reads `inputs` numbers."""
    heads, kv_heads, bias = mixer.query_heads, mixer.kv_heads, config.flag("attention_bias")
    intermediate = config.integer("intermediate_size", low=1)
    return parts.Layer(
        tensors=(
            *parts.norm("input_layernorm", hidden),
            *parts.norm("hidden_norm", hidden),
            *parts.linear(
                "self_attn.q_proj",
                heads * mixer.head_dim,
                inputs,
                Split.COLUMN,
                units=heads,
                bias=bias,
            ),
            *parts.linear(
                "self_attn.k_proj",
                kv_heads * mixer.head_dim,
                inputs,
                Split.KV,
                units=kv_heads,
                bias=bias,
            ),
            *parts.linear(
                "self_attn.v_proj",
                kv_heads * mixer.value_dim,
                inputs,
                Split.KV,
                units=kv_heads,
                bias=bias,
            ),
            *parts.linear(
                "self_attn.o_proj", hidden, heads * mixer.value_dim, Split.ROW, units=heads
            ),
            *parts.norm("post_attention_layernorm", hidden),
            *parts.gated_mlp(hidden, intermediate),
        ),
        mixers=(mixer,),
        mlp=Mlp(intermediate_size=intermediate),
    )
