"""HRM-Text: two stacks of layers that run over and over, each run with a cache of its own.

Source: transformers 5.20, models/hrm_text; vLLM 0.33, models/hrm_text.py: in each of `H_cycles`
cycles the low stack runs `L_cycles` times, the high stack once."""

from fitgauge.engine.model.config import Config
from fitgauge.engine.model.families import parts, stack
from fitgauge.engine.model.families.dense.dense import Reader, architecture_name
from fitgauge.engine.model.mixers import Attention
from fitgauge.engine.model.spec import Kind, Mlp, ModelSpec, Part, Split, Tensor

_DEFAULTS = {
    "vocab_size": 151808, "hidden_size": 1536, "intermediate_size": 4096, "num_attention_heads": 12,
    "max_position_embeddings": 2048, "num_layers_per_stack": 16, "H_cycles": 2, "L_cycles": 3,
}  # fmt: skip
"""transformers 5.20, HrmTextConfig."""


def read_hrm_text(config: Config) -> ModelSpec:
    """Return the ModelSpec of HRM-Text. Raises MalformedModelError where a size is missing or
    absurd."""
    config = config.with_defaults(_DEFAULTS)
    mixer = stack.heads(config.with_values(num_key_value_heads=None))
    count = config.layers("num_layers_per_stack")
    high, low = config.integer("H_cycles", low=1), config.integer("L_cycles", low=1)
    low_layer, high_layer = _layer(config, mixer, high * low), _layer(config, mixer, high)
    hidden, width = config.integer("hidden_size", low=1), config.integer("vocab_size", low=1)
    tied = config.flag("tie_word_embeddings")
    return ModelSpec(
        model_type=config.text("model_type"),
        architecture=architecture_name(config),
        dtype=config.dtype(),
        hidden_size=hidden,
        vocabulary_size=width,
        max_context_length=config.integer("max_position_embeddings"),
        tied_embeddings=tied,
        blocks=(
            parts.embedding(width, hidden),
            *parts.blocks(Part.LANGUAGE, "model.L_module.layers.{}.", [low_layer] * count),
            *parts.blocks(Part.LANGUAGE, "model.H_module.layers.{}.", [high_layer] * count, count),
            parts.single(Part.LANGUAGE, (Tensor("model.z_L_init", (hidden,), Kind.OTHER),)),
            *parts.head(width, hidden, tied=tied),
        ),
        rotary_tables=stack.rotary(config, mixer.head_dim),
    )


def _layer(config: Config, mixer: Attention, uses: int) -> parts.Layer:
    """Return one layer that runs `uses` times: a gated attention and an MLP, norms without
    weights."""
    hidden, width = config.integer("hidden_size", low=1), config.integer("intermediate_size", low=1)
    rows = 4 * mixer.query_heads * mixer.head_dim
    bias = config.flag("attention_bias")
    tensors = (
        *parts.linear(
            "attn.gqkv_proj", rows, hidden, Split.COLUMN, units=mixer.query_heads, bias=bias
        ),
        *parts.linear(
            "attn.o_proj", hidden, rows // 4, Split.ROW, units=mixer.query_heads, bias=bias
        ),
        *parts.gated_mlp(hidden, width, bias=config.flag("mlp_bias")),
    )
    return parts.Layer(tensors, (mixer,) * uses, Mlp(intermediate_size=width))


READERS: dict[str, Reader] = {"hrm_text": read_hrm_text}
