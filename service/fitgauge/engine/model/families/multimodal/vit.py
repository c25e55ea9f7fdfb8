"""A vision transformer in numbers: its layers, its patches, and the parameters every rank holds."""

from dataclasses import dataclass

from fitgauge.engine.model.config import Config
from fitgauge.engine.model.families import parts
from fitgauge.engine.model.families.stack import vector
from fitgauge.engine.model.mixers import plain_attention
from fitgauge.engine.model.spec import Block, Kind, Mlp, Part, Split, Tensor
from fitgauge.errors import MalformedModelError


@dataclass(frozen=True)
class Vit:
    """How the layers of a vision transformer are named and built."""

    prefix: str
    """What the names of a layer begin with, `{}` for its number."""
    qkv: tuple[str, ...] = ("self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj")
    """Names of the projections of queries, keys and values; one name is a joint projection."""
    out: str = "self_attn.out_proj"
    """Name of the attention's output projection."""
    norms: tuple[str, ...] = ("layer_norm1", "layer_norm2")
    """Names of a layer's norms."""
    mlp: tuple[str, ...] = ("mlp.fc1", "mlp.fc2")
    """Names of the MLP's projections; of three, it is gated."""
    norm_bias: bool = True
    """Whether norms have a bias."""
    qkv_bias: bool = True
    """Whether queries, keys and values have a bias."""
    out_bias: bool = True
    """Whether the output projection has a bias."""
    mlp_bias: bool = True
    """Whether the MLP has biases."""
    whole_attention: bool = False
    """Whether every rank holds the attention whole."""
    whole_mlp: bool = False
    """Whether every rank holds the MLPs whole."""
    sharded: bool = True
    """Whether tensor parallelism divides the layers; else every rank holds them whole."""
    extras: tuple[Tensor, ...] = ()
    """Tensors that a layer has in addition."""


def usual(vision: Config, style: Vit) -> tuple[Block, ...]:
    """Return the layers of a tower whose sizes stand under the usual names."""
    return vit(
        style,
        hidden=vision.integer("hidden_size", low=1),
        heads=vision.integer("num_attention_heads", low=1),
        width=vision.integer("intermediate_size"),
        layers=vision.layers(),
    )


def vit(
    style: Vit,
    *,
    hidden: int,
    heads: int,
    width: int,
    layers: int,
    inner: int | None = None,
    kv_heads: int | None = None,
) -> tuple[Block, ...]:
    """`layers` layers of `hidden` features, `heads` heads over `inner` features (None: `hidden`)
    and an MLP of `width`. `kv_heads` of a joint projection (None: `heads`)."""
    inner = hidden if inner is None else inner
    kv_heads = heads if kv_heads is None else kv_heads
    rows = (inner + 2 * kv_heads * (inner // heads)) // len(style.qkv)
    *ups, down = style.mlp
    column, row = (Split.COLUMN, Split.ROW) if style.sharded else (Split.NONE, Split.NONE)
    heads_out, heads_in = (Split.NONE, Split.NONE) if style.whole_attention else (column, row)
    widening, narrowing = (Split.NONE, Split.NONE) if style.whole_mlp else (column, row)
    tensors = (
        *parts.norms(style.norms, hidden, bias=style.norm_bias),
        *parts.linears(style.qkv, rows, hidden, heads_out, units=heads, bias=style.qkv_bias),
        *parts.linear(style.out, hidden, inner, heads_in, units=heads, bias=style.out_bias),
        *parts.linears(ups, width, hidden, widening, bias=style.mlp_bias),
        *parts.linear(down, hidden, width, narrowing, bias=style.mlp_bias),
        *style.extras,
    )
    mixer = plain_attention(heads, inner // heads, kv_heads=kv_heads, causal=False)
    layer = parts.Layer(tensors, (mixer,), Mlp(intermediate_size=width, gated=len(ups) == 2))
    return parts.blocks(Part.VISION, style.prefix, [layer] * layers)


def patches(name: str, hidden: int, *shape: int, bias: bool = True) -> tuple[Tensor, ...]:
    """Return the convolution that makes patches into features: weight (hidden, *shape), whole on
    every rank."""
    weight = Tensor(f"{name}.weight", (hidden, *shape), Kind.CONV)
    return (weight, Tensor(f"{name}.bias", (hidden,), Kind.BIAS)) if bias else (weight,)


def whole(name: str, *shape: int) -> Tensor:
    """Return a parameter that every rank holds whole: position and class embeddings."""
    return vector(name, *shape, split=Split.NONE)


def sides(config: Config, name: str) -> tuple[int, int]:
    """Return a size [pixels] given as one number or as two. Raises MalformedModelError where it
    is neither."""
    value = config.values.get(name)
    if not isinstance(value, list | tuple):
        return config.integer(name, low=1), config.integer(name, low=1)
    pair = [Config({name: part}, config.where).integer(name, low=1) for part in value]
    if len(pair) != 2:
        raise MalformedModelError(f"{config.where}: {name} must be one number or two.", field=name)
    return pair[0], pair[1]


def patch_count(config: Config) -> int:
    """Return the patches of one image: (height / patch) x (width / patch)."""
    (height, width), (down, across) = sides(config, "image_size"), sides(config, "patch_size")
    return (height // down) * (width // across)
