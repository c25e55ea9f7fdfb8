"""Bricks that the families share: projections, norms, MLPs, mixtures, and layers grouped into
blocks.

Shapes are (out, in). The bricks give tensors their checkpoint names, so that a quantizer's
exclusion patterns and an adapter's targets find them."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from sys import intern

from fitgauge.engine.model.mixers import Attention, Mixer
from fitgauge.engine.model.spec import Block, Kind, Mlp, Part, Split, Tensor

NORMS = ("input_layernorm", "post_attention_layernorm")
"""The norms of a layer by their usual names: before its attention and before its MLP."""

NORMS_AROUND = (*NORMS, "pre_feedforward_layernorm", "post_feedforward_layernorm")
"""Those before and after attention and MLP, as Gemma names them."""

QK_NORMS = ("self_attn.q_norm", "self_attn.k_norm")
"""Norms of queries and keys by their usual names."""

Feed = tuple[tuple[Tensor, ...], Mlp]
"""The feed-forward part of a layer: its tensors and its sizes."""


@dataclass(frozen=True)
class Layer:
    """How one layer is built; equal layers become one Block."""

    tensors: tuple[Tensor, ...]
    """Its parameters and buffers."""
    mixers: tuple[Mixer, ...] = ()
    """How it mixes tokens, and what it caches."""
    mlp: Mlp | None = None
    """Its feed-forward part; None: it has none."""


def blocks(part: Part, prefix: str, layers: Sequence[Layer], first: int = 0) -> tuple[Block, ...]:
    """Return layers numbered from `first`, grouped by how they are made, in order of first
    appearance. `prefix` holds `{}`."""
    numbers: dict[Layer, list[int]] = {}
    of_one: dict[int, list[int]] = {}  # by identity: to hash a layer is to walk through its tensors
    for index, layer in enumerate(layers, first):
        if id(layer) not in of_one:
            of_one[id(layer)] = numbers.setdefault(layer, [])
        of_one[id(layer)].append(index)
    return tuple(
        Block(
            part=part,
            prefix=prefix,
            tensors=layer.tensors,
            layers=tuple(where),
            mixers=layer.mixers,
            mlp=layer.mlp,
        )
        for layer, where in numbers.items()
    )


def decoder_layer(
    hidden: int,
    mixer: Mixer,
    mixing: Iterable[Tensor],
    feed: Feed,
    *,
    names: Iterable[str] = NORMS,
    norm_bias: bool = False,
) -> Layer:
    """Return a layer of norms under `names`, one `mixer` with its tensors, and a feed-forward
    part."""
    tensors, mlp = feed
    return Layer((*norms(names, hidden, bias=norm_bias), *mixing, *tensors), (mixer,), mlp)


def single(part: Part, tensors: Iterable[Tensor], prefix: str = "") -> Block:
    """Return a block that is there once: embeddings, final norm, head. prefix: what its tensors'
    names begin with."""
    return Block(part=part, prefix=prefix, tensors=tuple(tensors))


def linear(
    name: str,
    out: int,
    inputs: int,
    split: Split = Split.NONE,
    *,
    units: int = 0,
    bias: bool = False,
) -> tuple[Tensor, ...]:
    """`name`.weight of shape (out, inputs) and, with `bias`, `name`.bias of shape (out,), which
    ROW leaves whole on every rank."""
    weight = Tensor(intern(f"{name}.weight"), (out, inputs), Kind.LINEAR, split, units)
    if not bias:
        return (weight,)
    whole = Split.NONE if split is Split.ROW else split
    return (weight, Tensor(intern(f"{name}.bias"), (out,), Kind.BIAS, whole, units))


def linears(
    names: Iterable[str],
    out: int,
    inputs: int,
    split: Split = Split.NONE,
    *,
    units: int = 0,
    bias: bool = False,
) -> tuple[Tensor, ...]:
    """Return linears of one shape under `names`."""
    return tuple(
        tensor
        for name in names
        for tensor in linear(name, out, inputs, split, units=units, bias=bias)
    )


def norm(name: str, size: int, *, bias: bool = False) -> tuple[Tensor, ...]:
    """Return a norm's scale of shape (size,), and its shift with `bias` (LayerNorm)."""
    scale = Tensor(intern(f"{name}.weight"), (size,), Kind.NORM)
    return (scale, Tensor(intern(f"{name}.bias"), (size,), Kind.NORM)) if bias else (scale,)


def norms(names: Iterable[str], size: int, *, bias: bool = False) -> tuple[Tensor, ...]:
    """Return the norms of these names, all of one size."""
    return tuple(tensor for name in names for tensor in norm(name, size, bias=bias))


def attention(
    hidden: int,
    mixer: Attention,
    *,
    name: str = "self_attn",
    inputs: int | None = None,
    qkv_bias: bool = False,
    out_bias: bool = False,
    out: str = "o_proj",
    gated: bool = False,
) -> tuple[Tensor, ...]:
    """Separate q, k, v and output projections. inputs: the numbers that q, k and v read (None:
    `hidden`); gated: q_proj also makes a gate of the same width (Qwen3-Next, Qwen3.5)."""
    heads, kv_heads = mixer.query_heads, mixer.kv_heads
    query = heads * mixer.head_dim * (2 if gated else 1)
    key, value, read = kv_heads * mixer.head_dim, kv_heads * mixer.value_dim, inputs or hidden
    return (
        *linear(f"{name}.q_proj", query, read, Split.COLUMN, units=heads, bias=qkv_bias),
        *linear(f"{name}.k_proj", key, read, Split.KV, units=kv_heads, bias=qkv_bias),
        *linear(f"{name}.v_proj", value, read, Split.KV, units=kv_heads, bias=qkv_bias),
        *linear(
            f"{name}.{out}", hidden, heads * mixer.value_dim, Split.ROW, units=heads, bias=out_bias
        ),
    )


GATED = ("gate_proj", "up_proj", "down_proj")
"""Gate, up and down projections by their usual names."""

NUMBERED = ("w1", "w3", "w2")
"""The same as Mixtral calls them."""


def gated_mlp(
    hidden: int,
    intermediate: int,
    *,
    name: str = "mlp",
    bias: bool = False,
    names: tuple[str, str, str] = GATED,
) -> tuple[Tensor, ...]:
    """gate, up and down projections (SwiGLU, GeGLU)."""
    gate, up, down = (f"{name}.{projection}" for projection in names)
    return (
        *linears((gate, up), intermediate, hidden, Split.COLUMN, bias=bias),
        *linear(down, hidden, intermediate, Split.ROW, bias=bias),
    )


def gated_feed(hidden: int, intermediate: int, *, name: str = "mlp", bias: bool = False) -> Feed:
    """Return a gated MLP with its sizes."""
    tensors = gated_mlp(hidden, intermediate, name=name, bias=bias)
    return tensors, Mlp(intermediate_size=intermediate)


def plain_mlp(
    hidden: int, intermediate: int, up: str, down: str, *, bias: bool = True
) -> tuple[Tensor, ...]:
    """Return two projections with an activation between them, under the names `up` and `down`."""
    return (
        *linear(up, intermediate, hidden, Split.COLUMN, bias=bias),
        *linear(down, hidden, intermediate, Split.ROW, bias=bias),
    )


def experts(
    hidden: int,
    intermediate: int,
    count: int,
    *,
    name: str = "mlp.experts.*",
    names: tuple[str, str, str] = GATED,
) -> tuple[Tensor, ...]:
    """`count` routed experts of gate, up and down projections. `*` in the name stands for the
    expert's number."""
    gate, up, down = names
    return (
        Tensor(
            f"{name}.{gate}.weight", (intermediate, hidden), Kind.EXPERT, Split.COLUMN, 0, count
        ),
        Tensor(f"{name}.{up}.weight", (intermediate, hidden), Kind.EXPERT, Split.COLUMN, 0, count),
        Tensor(f"{name}.{down}.weight", (hidden, intermediate), Kind.EXPERT, Split.ROW, 0, count),
    )


def router(hidden: int, count: int, *, name: str = "mlp.gate", dtype: str | None = None) -> Tensor:
    """Return the router's weight (experts, hidden), whole on every rank."""
    return Tensor(intern(f"{name}.weight"), (count, hidden), Kind.ROUTER, Split.NONE, 0, 1, dtype)


def word_table(name: str, vocabulary: int, hidden: int) -> Tensor:
    """Return an embedding `name`.weight (vocabulary, hidden), divided by words."""
    rows = (vocabulary, hidden)
    return Tensor(intern(f"{name}.weight"), rows, Kind.EMBEDDING, Split.VOCABULARY)


def embedding(vocabulary: int, hidden: int, name: str = "model.embed_tokens") -> Block:
    """Return the token embedding (vocabulary, hidden)."""
    return single(Part.EMBEDDING, (word_table(name, vocabulary, hidden),))


def head(
    vocabulary: int, hidden: int, *, tied: bool, name: str = "lm_head", bias: bool = False
) -> tuple[Block, ...]:
    """Return the output head (vocabulary, hidden); nothing where it is tied to the embedding."""
    if tied:
        return ()
    weight = Tensor(intern(f"{name}.weight"), (vocabulary, hidden), Kind.HEAD, Split.VOCABULARY)
    if not bias:
        return (single(Part.HEAD, (weight,)),)
    shift = Tensor(intern(f"{name}.bias"), (vocabulary,), Kind.BIAS, Split.VOCABULARY)
    return (single(Part.HEAD, (weight, shift)),)


def final_norm(hidden: int, *, name: str = "model.norm", bias: bool = False) -> Block:
    """Return the norm after the last layer."""
    return single(Part.LANGUAGE, norm(name, hidden, bias=bias))
