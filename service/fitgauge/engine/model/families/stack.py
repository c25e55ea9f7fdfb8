"""A decoder put together from its layers, as the recurrent, hybrid and multimodal families need
it."""

from collections.abc import Sequence

from fitgauge.engine.model.config import Config
from fitgauge.engine.model.families import parts, rotary_tables
from fitgauge.engine.model.families.dense.dense import architecture_name
from fitgauge.engine.model.mixers import Attention, plain_attention
from fitgauge.engine.model.spec import Block, Kind, ModelSpec, Part, RotaryTable, Split, Tensor
from fitgauge.errors import MalformedModelError

LINEAR_ATTENTION = frozenset(
    {"linear_attention", "mamba", "mamba2", "recurrent", "linear", "conv", "short_conv"}
)
"""Names of `layer_types` that mean a recurrent layer. Source: transformers 5.23,
configuration_utils.remap_legacy_layer_types."""


def decoder(
    config: Config,
    layers: Sequence[parts.Layer],
    *,
    base: str = "model",
    stack: str = "layers",
    embedding: str = "embed_tokens",
    final_norm: str = "norm",
    head: str = "lm_head",
    norm_bias: bool = False,
    head_bias: bool = False,
    rotary_tables: tuple[RotaryTable, ...] = (),
    more: tuple[Block, ...] = (),
) -> ModelSpec:
    """Return the ModelSpec of a language model: embedding, `layers`, final norm and head, and
    `more` blocks, such as prediction heads.

    `base`: what the names of its tensors begin with; `stack`, `embedding`, `final_norm`: what
    follows that; `head`: the whole name of the output head. Sizes are read from `config`, which
    holds the family's defaults. Raises MalformedModelError where one is missing or absurd."""
    hidden, vocabulary = config.integer("hidden_size", low=1), config.integer("vocab_size", low=1)
    tied = config.flag("tie_word_embeddings")
    return ModelSpec(
        model_type=config.text("model_type"),
        architecture=architecture_name(config),
        dtype=config.dtype(),
        hidden_size=hidden,
        vocabulary_size=vocabulary,
        max_context_length=context_length(config),
        tied_embeddings=tied,
        blocks=(
            parts.embedding(vocabulary, hidden, name=f"{base}.{embedding}"),
            *parts.blocks(Part.LANGUAGE, f"{base}.{stack}.{{}}.", layers),
            parts.final_norm(hidden, name=f"{base}.{final_norm}", bias=norm_bias),
            *parts.head(vocabulary, hidden, tied=tied, name=head, bias=head_bias),
            *more,
        ),
        rotary_tables=rotary_tables,
    )


def context_length(config: Config) -> int:
    """Return the tokens a request may hold as the config says. 2^20 where it says nothing: a
    purely recurrent model has no limit of its own."""
    return config.integer(
        "max_position_embeddings",
        "max_sequence_length",
        "model_max_length",
        "context_length",
        default=2**20,
    )


def heads(config: Config, *, window: int | None = None, head_dim: int | None = None) -> Attention:
    """Read grouped-query attention from the usual keys. `head_dim` defaults to hidden / heads,
    `num_key_value_heads` to all heads."""
    count = config.integer("num_attention_heads", low=1)
    width = head_dim or config.integer(
        "head_dim", default=config.integer("hidden_size", low=1) // count, low=1
    )
    kv_heads = config.integer("num_key_value_heads", default=count, low=1)
    return plain_attention(count, width, kv_heads=kv_heads, window=window)


def rotary(config: Config, head_dim: int, *, fraction: float = 1.0) -> tuple[RotaryTable, ...]:
    """Return the tables of a decoder's rotary embedding, which turns `fraction` of a head where
    the config is silent."""
    filled_config = config.with_defaults({"partial_rotary_factor": fraction})
    return rotary_tables.rotary_tables(filled_config, head_dim, positions=context_length(config))


def kinds(config: Config, *names: str, layers: int) -> list[str] | None:
    """Return the `layer_types` of all `layers` under any of `names`, None where the config has
    none of them."""
    if not config.has(*names):
        return None
    return [str(kind) for kind in config.items(*names, length=layers)]


def interval_kinds(config: Config) -> list[str]:
    """`layer_types`, or full attention in every `full_attention_interval`-th layer and linear
    attention between."""
    layers, interval = config.layers(), config.integer("full_attention_interval", default=4)
    layer_types = kinds(config, "layer_types", layers=layers)
    if interval < 1:
        raise MalformedModelError(
            f"{config.where}: full_attention_interval is {interval}, not 1 or more.",
            field="full_attention_interval",
        )
    return layer_types or [
        "linear_attention" if (index + 1) % interval else "full_attention"
        for index in range(layers)
    ]


def is_recurrent(kind: str) -> bool:
    """Return whether a name of `layer_types` means a recurrent layer."""
    return kind in LINEAR_ATTENTION


def convolution(
    name: str,
    channels: int,
    kernel: int,
    split: Split = Split.COLUMN,
    *,
    units: int = 0,
    bias: bool = False,
    dtype: str | None = None,
) -> tuple[Tensor, ...]:
    """Return a depthwise convolution over time of shape (channels, 1, kernel), divided by
    channels."""
    weight = Tensor(f"{name}.weight", (channels, 1, kernel), Kind.CONV, split, units, 1, dtype)
    if bias:
        return (weight, Tensor(f"{name}.bias", (channels,), Kind.BIAS, split, units))
    return (weight,)


def vector(name: str, *shape: int, split: Split = Split.COLUMN, dtype: str | None = None) -> Tensor:
    """Return a parameter that is no matrix product: A_log, D, dt_bias and their like."""
    return Tensor(name, shape, Kind.OTHER, split, 0, 1, dtype)


def correction(name: str, experts: int) -> Tensor:
    """Return the bias by which a router balances its experts: in the checkpoint, in F32, no
    parameter."""
    return Tensor(name, (experts,), Kind.OTHER, dtype="F32", buffer=True)
