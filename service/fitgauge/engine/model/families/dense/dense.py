"""Dense decoders of the Llama shape, and every family that departs from it by names, norms, biases
and windows alone.

One layer: norm, attention with grouped KV heads, norm, MLP. A `Dialect` says how a family
departs from Llama. Source: transformers 5.23, `models/<model_type>/modeling_<model_type>.py`;
its defaults stand in `defaults.py`."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Literal, TypeVar

from fitgauge.engine.model.config import Config
from fitgauge.engine.model.families import parts, schedules
from fitgauge.engine.model.families.rotary_tables import inverse_frequencies, rotary_tables
from fitgauge.engine.model.mixers import Attention, plain_attention
from fitgauge.engine.model.spec import Block, Kind, Mlp, ModelSpec, Part, RotaryTable, Split, Tensor

Reader = Callable[[Config], ModelSpec]
T = TypeVar("T")
Switch = bool | str
"""A bias that is always or never there, or the name of the config's flag for it."""

Extras = Callable[[Config, Attention, int], tuple[Tensor, ...]]
"""What a family adds to a layer: (config, its attention, its MLP's width) -> tensors."""


@dataclass(frozen=True)
class Dialect:
    """Where a family departs from Llama."""

    stem: str = "model"
    """What every tensor's name begins with."""
    layers: str = "layers"
    """Name of the list of layers, after `stem`."""
    embed: str = "embed_tokens"
    """Name of the token embedding."""
    positions: tuple[str, int] | None = None
    """The learned position table and its rows beyond max_position_embeddings; None: none."""
    attention: str = "self_attn"
    """Name of a layer's attention."""
    qkv: tuple[str, ...] = ("q_proj", "k_proj", "v_proj")
    """Names of the projections of queries, keys and values; one name is a fused projection."""
    out: str = "o_proj"
    """Name of the attention's output projection."""
    mlp: tuple[str, ...] = ("mlp.gate_proj", "mlp.up_proj", "mlp.down_proj")
    """Names of the MLP's projections; of two, the first is fused where the MLP is `gated`."""
    gated: bool = True
    """Whether the MLP multiplies by a gate."""
    expansion: int = 0
    """The MLP's width in hidden sizes where the config leaves it open; 0: it does not."""
    norms: tuple[str, ...] = parts.NORMS
    """Names of a layer's norms."""
    final: str = "norm"
    """Name of the norm after the layers."""
    head: str = "lm_head"
    """Name of the language model's head."""
    layer_norm: bool = False
    """Whether norms are LayerNorms, with a bias, instead of RMS norms."""
    qkv_bias: Switch = "attention_bias"
    """Whether queries, keys and values have a bias, or the config's key that decides it."""
    out_bias: Switch = "attention_bias"
    """The same of the output projection."""
    mlp_bias: Switch = False
    """The same of the MLP."""
    head_bias: bool = False
    """Whether the head has a bias."""
    qk_norm: Literal["none", "head", "width", "heads"] = "none"
    """Norm of queries and keys: one head wide (Qwen 3), as wide as the projection (OLMo 2), or a
    row for every head (Cohere)."""
    qk_names: tuple[str, str] = ("q_norm", "k_norm")
    """Names of those two norms."""
    qk_shift: bool = False
    """Whether they have a bias."""
    window: Literal["never", "always", "if_used", "pattern", "pattern_from_full", "nope"] = "never"
    """Which layers slide, and where the config says so."""
    extras: Extras | None = None
    """Tensors that a layer has in addition."""
    rotary: Literal["tables", "frequencies", "none"] = "tables"
    """What vLLM registers for rotary embeddings."""
    local_base: bool = False
    """Whether it registers a second table for the layers that slide."""
    rotary_rows: tuple[str, ...] = ("max_position_embeddings",)
    """Config keys that may hold the table's length, first match first."""


def read_dense(config: Config, dialect: Dialect = Dialect()) -> ModelSpec:
    """Return the ModelSpec of a dense decoder. Raises MalformedModelError where a size is
    missing or absurd."""
    layers = config.layers()
    intermediate, hidden = mlp_width(config, dialect), config.integer("hidden_size", low=1)
    windows = layer_windows(config, dialect.window, layers)
    by_window = {
        window: dense_layer(config, dialect, hidden, intermediate, window)
        for window in set(windows)
    }
    return read_stack(config, dialect, [by_window[window] for window in windows])


def read_stack(config: Config, dialect: Dialect, stack: list[parts.Layer]) -> ModelSpec:
    """Return the ModelSpec of a decoder whose layers are made already: embeddings, final norm and
    head around them.

    A checkpoint without a language model (`...Model`, a classifier) has no head; a classifier's
    few rows are left out."""
    hidden, vocabulary = config.integer("hidden_size", low=1), config.integer("vocab_size", low=1)
    tied = config.flag("tie_word_embeddings")
    bare = not config.nested and headless(architecture_name(config))
    final = (
        (parts.final_norm(hidden, name=f"{dialect.stem}.{dialect.final}", bias=dialect.layer_norm),)
        if dialect.final
        else ()
    )
    return ModelSpec(
        model_type=config.text("model_type"),
        architecture=architecture_name(config),
        task="encode" if bare else "generate",
        dtype=config.dtype(),
        hidden_size=hidden,
        vocabulary_size=vocabulary,
        # Of both, as Command R has them, vLLM (model_arch_config_convertor.py) and SGLang
        # (CONTEXT_LENGTH_KEYS) take the first.
        max_context_length=config.integer(
            "model_max_length", "max_position_embeddings", default=2048
        ),
        tied_embeddings=tied,
        blocks=(
            embeddings(config, dialect, vocabulary, hidden),
            *parts.blocks(Part.LANGUAGE, f"{dialect.stem}.{dialect.layers}.{{}}.", stack),
            *final,
            *(() if bare else heads(vocabulary, hidden, dialect, tied=tied)),
        ),
        rotary_tables=dense_rotary_tables(config, dialect),
    )


def embeddings(config: Config, dialect: Dialect, vocabulary: int, hidden: int) -> Block:
    """Return the token embedding and, where the family learns positions, their table."""
    tokens = parts.word_table(f"{dialect.stem}.{dialect.embed}", vocabulary, hidden)
    if dialect.positions is None:
        return parts.single(Part.EMBEDDING, (tokens,))
    name, beyond = dialect.positions
    rows = config.integer("max_position_embeddings") + beyond
    return parts.single(
        Part.EMBEDDING,
        (tokens, Tensor(f"{dialect.stem}.{name}.weight", (rows, hidden), Kind.EMBEDDING)),
    )


def heads(vocabulary: int, hidden: int, dialect: Dialect, *, tied: bool) -> tuple[Block, ...]:
    """Return the output head; of one that is tied to the embedding, its bias alone."""
    if tied and dialect.head_bias:
        return (
            parts.single(
                Part.HEAD,
                (Tensor(f"{dialect.head}.bias", (vocabulary,), Kind.BIAS, Split.VOCABULARY),),
            ),
        )
    return parts.head(vocabulary, hidden, tied=tied, name=dialect.head, bias=dialect.head_bias)


def dense_layer(
    config: Config, dialect: Dialect, hidden: int, intermediate: int, window: int | None
) -> parts.Layer:
    """Return one layer: norms, attention, MLP."""
    mixer = grouped_attention(config, window=window)
    return parts.Layer(
        tensors=(
            *parts.norms(dialect.norms, hidden, bias=dialect.layer_norm),
            *projections(
                hidden,
                mixer,
                dialect,
                qkv_bias=switched(config, dialect.qkv_bias),
                out_bias=switched(config, dialect.out_bias),
            ),
            *qk_norms(mixer, dialect.qk_norm, dialect),
            *feed_forward(hidden, intermediate, dialect, bias=switched(config, dialect.mlp_bias)),
            *(dialect.extras(config, mixer, intermediate) if dialect.extras else ()),
        ),
        mixers=(mixer,),
        mlp=Mlp(intermediate_size=intermediate, gated=dialect.gated),
    )


def projections(
    hidden: int, mixer: Attention, dialect: Dialect, *, qkv_bias: bool, out_bias: bool
) -> tuple[Tensor, ...]:
    """Query, key, value and output projections, apart or fused.

    A fused projection whose KV heads are as many as its query heads divides like one. With fewer
    it is given as two slices of one checkpoint name, its query rows (COLUMN) and its key and
    value rows (KV), because ranks replicate the latter."""
    query = mixer.query_heads * mixer.head_dim
    key = mixer.kv_heads * mixer.head_dim
    value = mixer.kv_heads * mixer.value_dim
    names = [f"{dialect.attention}.{name}" for name in dialect.qkv]
    if len(names) == 1 and mixer.kv_heads == mixer.query_heads:
        pieces = [(names[0], query + key + value, Split.COLUMN)]
    elif len(names) == 1:
        pieces = [(names[0], query, Split.COLUMN), (names[0], key + value, Split.KV)]
    else:
        pieces = [
            (names[0], query, Split.COLUMN),
            (names[1], key, Split.KV),
            (names[2], value, Split.KV),
        ]
    units = {Split.COLUMN: mixer.query_heads, Split.KV: mixer.kv_heads}
    return (
        *[
            tensor
            for name, rows, how in pieces
            for tensor in parts.linear(name, rows, hidden, how, units=units[how], bias=qkv_bias)
        ],
        *parts.linear(
            f"{dialect.attention}.{dialect.out}",
            hidden,
            mixer.query_heads * mixer.value_dim,
            Split.ROW,
            units=mixer.query_heads,
            bias=out_bias,
        ),
    )


def feed_forward(
    hidden: int, intermediate: int, dialect: Dialect, *, bias: bool
) -> tuple[Tensor, ...]:
    """Return the MLP's projections: gate, up and down; gate and up fused, and down; or up and
    down alone."""
    *ups, down = dialect.mlp
    rows = intermediate * (2 if dialect.gated and len(ups) == 1 else 1)
    return (
        *parts.linears(ups, rows, hidden, Split.COLUMN, bias=bias),
        *parts.linear(down, hidden, intermediate, Split.ROW, bias=bias),
    )


def grouped_attention(config: Config, *, window: int | None = None) -> Attention:
    """Return heads as the usual keys say: `head_dim` defaults to hidden / heads,
    `num_key_value_heads` to all heads."""
    heads = config.integer("num_attention_heads", "n_head", low=1)
    head_dim = config.integer(
        "head_dim", default=config.integer("hidden_size", "n_embd", low=1) // heads, low=1
    )
    kv_heads = config.integer("num_key_value_heads", default=heads, low=1)
    causal = config.values.get("use_bidirectional_attention") is not True
    return plain_attention(heads, head_dim, kv_heads=kv_heads, window=window, causal=causal)


def qk_norms(mixer: Attention, kind: str, dialect: Dialect = Dialect()) -> tuple[Tensor, ...]:
    """Norms of queries and keys, as `Dialect.qk_norm` says."""
    if kind == "none":
        return ()
    heads = ((mixer.query_heads, Split.COLUMN), (mixer.kv_heads, Split.KV))
    kinds = ("weight", "bias") if dialect.qk_shift else ("weight",)
    tensors = []
    for name, (count, split) in zip(dialect.qk_names, heads, strict=True):
        width = count * mixer.head_dim if kind == "width" else mixer.head_dim
        for what in kinds:
            whole = f"{dialect.attention}.{name}.{what}"
            if kind == "heads":
                tensors.append(Tensor(whole, (count, width), Kind.NORM, split, count))
            else:
                tensors.append(Tensor(whole, (width,), Kind.NORM))
    return tuple(tensors)


def layer_windows(config: Config, rule: str, layers: int) -> list[int | None]:
    """Return the sliding window [tokens] of every layer, None for full attention.

    `layer_types` counts first, but for a rule that never slides; then every layer slides, or
    those from `max_window_layers` on where `use_sliding_window` is set, or all but every
    `sliding_window_pattern`-th (which ends a period, or begins it; EXAONE writes LLLG), or those
    without rotary embeddings (SmolLM3)."""
    window = config.maybe_integer("sliding_window")
    if (
        rule == "never"
        or not window
        or (rule in {"if_used", "nope"} and not config.flag("use_sliding_window"))
    ):
        return [None] * layers
    if config.has("layer_types"):
        return [
            window if "sliding" in str(kind) else None
            for kind in config.items("layer_types", length=layers)
        ]
    if rule == "if_used":
        first = config.integer("max_window_layers", default=layers)
        return [window if index >= first else None for index in range(layers)]
    if rule == "always":
        return [window] * layers
    if rule == "nope":
        return [None if rotates else window for rotates in rotating_layers(config, layers)]
    slides = schedules.by_pattern(config, "sliding_window_pattern", layers)
    if rule == "pattern_from_full":
        slides = [False, *slides[:-1]]
    return [window if sliding else None for sliding in slides]


def rotating_layers(config: Config, layers: int) -> list[bool]:
    """Return which layers have rotary embeddings: `no_rope_layers` says 1 for those that do,
    else every n-th does not."""
    if config.has("no_rope_layers"):
        return [bool(rotates) for rotates in config.items("no_rope_layers", length=layers)]
    return [
        index % config.integer("no_rope_layer_interval", low=1) != 0
        for index in range(1, layers + 1)
    ]


def mlp_width(config: Config, dialect: Dialect) -> int:
    """Return the MLP's width [features], from the hidden size where the config leaves it open
    and the family allows that."""
    if dialect.expansion and not config.has("intermediate_size"):
        return dialect.expansion * config.integer("hidden_size", low=1)
    return config.integer("intermediate_size")


def switched(config: Config, switch: Switch) -> bool:
    """Return whether a bias is there."""
    return config.flag(switch) if isinstance(switch, str) else switch


def dense_rotary_tables(config: Config, dialect: Dialect) -> tuple[RotaryTable, ...]:
    """Return what a dense decoder registers for its rotary embeddings."""
    head_dim = grouped_attention(config).head_dim
    if dialect.rotary == "none":
        return ()
    if dialect.rotary == "frequencies":
        return (inverse_frequencies(config, head_dim),)
    positions = config.integer(*dialect.rotary_rows, default=2048)
    return rotary_tables(config, head_dim, positions=positions, local=dialect.local_base)


def readers(read: Callable[[Config, T], ModelSpec], table: Mapping[str, T]) -> dict[str, Reader]:
    """Return a reader for each model type of a `table` of what its family has of its own."""
    return {model_type: partial(_read_as, read, own) for model_type, own in table.items()}


def _read_as(read: Callable[[Config, T], ModelSpec], own: T, config: Config) -> ModelSpec:
    return read(config, own)


def headless(architecture: str) -> bool:
    """Return whether a class name means a decoder without its language-model head."""
    return architecture.endswith(
        (
            "ForSequenceClassification",
            "ForTokenClassification",
            "ForRewardModel",
            "ForProcessRewardModel",
        )
    ) or (
        architecture.endswith("Model")
        and "LMHead" not in architecture
        and architecture not in {"AquilaModel", "ChatGLMModel"}
    )


def architecture_name(config: Config) -> str:
    """Return the first name in `architectures`, or the model type."""
    names = config.items("architectures")
    return str(names[0])[:80] if names else config.text("model_type")
