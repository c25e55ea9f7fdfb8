"""How the vision towers of the families differ, and what a tower is in numbers. Source:
transformers 5.23, models/<model_type>."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from math import ceil, isqrt, prod
from typing import Literal, NamedTuple

from fitgauge.engine.model.mixers import CrossAttention
from fitgauge.engine.model.spec import Kind, ModelSpec, Part, Tensor

USUAL_SIDE = 768
"""Pixels of a side of an image for towers of any size. Source: LLaMA-Factory,
hparams/model_args.py, image_max_pixels 768 x 768."""

Rotation = Literal["none", "float", "stream", "complex", "axes"]
"""How queries and keys are rotated: not at all, in fp32 by tables, in the stream's format by
tables, in fp32 as complex numbers, or half by rows and half by columns."""
Images = Literal["batch", "apart", "row"]
"""How images stand: as a batch; in one row, in which attention takes one after the other; in one
row that attention takes whole."""
Places = Literal["none", "table", "tiles", "corners", "grid", "bag", "axes"]
"""Learned positions: a row for every patch; a weighed sum of four rows (Qwen3-VL); sampled of a
plane in fp32 (GLM-4V); a bag of sixteen rows (Kimi); a row for each axis (Gemma 4); a table and,
times a gate, one for every tile of an image (Llama 3.2)."""
Gather = Literal["none", "layers", "shuffle", "unfold", "mean", "pool", "positions"]
"""What makes one token of several patches: a view; a shuffle in two copies; windows cut image by
image (Mistral); a mean over frames (Kimi); averages, by a kernel or by a product with their
positions (Gemma); none, but layers' outputs side by side (Llama 3.2)."""


@dataclass(frozen=True, kw_only=True)
class Style:
    """How a family's tower computes."""

    activation: str = "gelu"
    """Activation of the MLP."""
    norm: str = "layer"
    """Kind of norm, see Traits."""
    rotation: Rotation = "none"
    """How positions rotate queries and keys."""
    images: Images = "batch"
    """How images are batched."""
    places: Places = "table"
    """How positions are added to patches."""
    gathers: Gather = "none"
    """How patches are merged into tokens."""
    masked: bool = False
    """Whether a mask separates images, or tiles and padding."""
    checkpoints: bool = True
    """Whether its layers can be checkpointed."""
    cross_attends: bool = False
    """Whether its tokens stay outside the sequence, for cross-attention."""
    tiles: int = 1
    """Tiles into which the family's processor cuts an image of 768 x 768 pixels, a small whole one
    among them."""
    window: int | None = None
    """Patches that attend to each other in all but every `whole`th layer, and whose order is
    restored at the end; None: all."""
    whole: int = 1
    """Every so many layers attend to all patches."""
    unread: int = 0
    """Last layers whose output nothing reads."""
    ends_normed: bool = False
    """Whether the norm after the layers is read."""
    pool: int = 1
    """Patches averaged into one token."""
    norms_values: bool = False
    """Whether values are normed as queries and keys are, without a weight."""
    casts: bool = True
    """Whether pixels come in fp32, as processors return them, and the tower narrows them; else its
    caller must."""
    asks: Literal["patches", "embedded", "none"] = "patches"
    """Module whose output requires a gradient before frozen layers that are checkpointed: the
    patches', all before the layers, or none that transformers names (`_input_embed_layer`)."""
    hands_on: Literal["nothing", "features", "tower"] = "nothing"
    """What the model's output retains (image_hidden_states): the projected features, or the tower's
    output too."""
    float_softmax: bool = True
    """Whether the softmax runs in fp32, see Traits."""
    sides: Literal["nearest", "up", "other"] = "other"
    """How the family's processor makes the sides of an image whole tokens: to the nearest one
    (image_processing_qwen2_vl.py, smart_resize) or up (image_processing_pixtral.py)."""


_QWEN3 = Style(rotation="float", images="apart", places="corners", sides="nearest")
_PLAIN = Style(hands_on="features")

STYLES: Mapping[str, Style] = {
    "qwen2_vl": replace(_QWEN3, activation="quick_gelu", places="none"),
    "qwen2_5_vl": replace(_QWEN3, activation="silu", norm="rms", places="none", window=64, whole=8),
    **dict.fromkeys(
        ("qwen3_vl", "qwen3_vl_moe", "qwen3_5", "qwen3_5_moe"), replace(_QWEN3, asks="none")
    ),
    **dict.fromkeys(
        ("glm4v", "glm4v_moe"),
        replace(
            _QWEN3, activation="silu", norm="rms", places="grid", ends_normed=True, asks="none"
        ),
    ),
    "llava": replace(_PLAIN, unread=1),
    "llava_next": replace(_PLAIN, unread=1, tiles=5),
    "llava_onevision": replace(_PLAIN, tiles=5),
    **dict.fromkeys(
        ("internvl", "internvl_chat"),
        replace(_PLAIN, gathers="shuffle", float_softmax=False, tiles=5),
    ),
    "idefics3": replace(_PLAIN, gathers="shuffle", ends_normed=True, asks="embedded", tiles=17),
    "smolvlm": replace(
        _PLAIN, gathers="shuffle", ends_normed=True, asks="embedded", tiles=17, hands_on="tower"
    ),
    "paligemma": replace(_PLAIN, ends_normed=True),
    "gemma3": replace(_PLAIN, ends_normed=True, gathers="pool", pool=16),
    "mistral3": replace(
        _PLAIN,
        activation="silu",
        norm="rms",
        rotation="stream",
        images="row",
        masked=True,
        places="none",
        gathers="unfold",
        sides="up",
    ),
    "gemma4": replace(
        _PLAIN,
        norm="wide_rms",
        rotation="axes",
        places="axes",
        gathers="positions",
        pool=9,
        norms_values=True,
        asks="none",
    ),
    "mllama": Style(
        places="tiles",
        gathers="layers",
        masked=True,
        checkpoints=False,
        cross_attends=True,
        ends_normed=True,
    ),
    "kimi_k25": replace(
        _QWEN3,
        places="bag",
        ends_normed=True,
        gathers="mean",
        asks="none",
        casts=False,
        sides="other",
    ),
    "llama4": replace(
        _PLAIN,
        rotation="complex",
        float_softmax=False,
        ends_normed=True,
        gathers="shuffle",
        casts=False,
        tiles=10,
    ),
}
"""Families by model type. `window`, `whole`: window_size 112 over patches of 14,
fullatt_block_indexes 7, 15, ... `unread`: their usual vision_feature_layer, -2. `tiles`: of the
smallest canvas that an image of 768 x 768 pixels is not shrunk for, and the whole: transformers,
image_processing_{llava_next,llava_onevision,llama4}.py, InternVL's (got_ocr2, crop_to_patches,
where half a canvas must be filled) and Idefics 3's (four by four of any square)."""


class Tower(NamedTuple):
    """A tower in numbers."""

    style: Style
    """How the family's tower computes."""
    width: int
    """Hidden size [features]."""
    side: int
    """Side of a patch [pixels]."""
    numbers: int
    """Numbers of a patch, frames included."""
    merged: int
    """Patches of a token."""
    fixed: int | None
    """Patches of an image where the tower fixes them; else None."""
    classed: bool
    """Whether a class token precedes them."""
    cross_tokens: int | None
    """Tokens of an image that stay outside the sequence; None: they join it."""

    def sequence(self, tokens: int) -> int:
        """Return patches, class tokens and padding of an image of so many tokens: tiles are
        padded to multiples of 8 (MllamaVisionModel)."""
        if self.style.places == "tiles" and self.fixed is not None:
            return tokens // (self.fixed + 1) * -(-(self.fixed + 1) // 8) * 8
        return tokens * self.merged + self.classed

    def tiles(self, tokens: int) -> int:
        """Tiles of an image of so many tokens, each a sequence of its own, where the tower's
        size is fixed."""
        if self.fixed is None or self.style.images != "batch" or self.style.places == "tiles":
            return 1
        return max(1, round(tokens * self.merged / self.fixed))

    def tile_tokens(self, tokens: int) -> int:
        """Return the tokens of one tile of an image of so many tokens, without those that its
        family puts between tiles."""
        return (
            tokens if self.fixed is None or self.tiles(tokens) == 1 else self.fixed // self.merged
        )

    def unpadded(self, sequence: int) -> int:
        """Return the tokens of so many places of `sequence`."""
        if self.fixed is None:
            return sequence
        return sequence // (-(-(self.fixed + 1) // 8) * 8) * (self.fixed + 1)

    def patches(self, tokens: int) -> int:
        """Return the patches of an image of so many tokens."""
        if self.style.places == "tiles" and self.fixed is not None:
            return tokens // (self.fixed + 1) * self.fixed
        return tokens * self.merged

    @property
    def usual_tokens(self) -> int:
        """Tokens of an image of 768 x 768 pixels, as the family's processor makes them: of tiles
        of the tower's own size, if it has one."""
        if self.cross_tokens is not None:
            return self.cross_tokens
        if self.fixed is not None:
            return self.style.tiles * self.fixed // self.merged
        return int((USUAL_SIDE // (self.side * isqrt(self.merged))) ** 2)

    def tokens_of(self, width: int, height: int) -> int | None:
        """Return the tokens of an image of so many pixels, as long as the family's processor does
        not shrink it; None where its tiles or its budget of tokens are not known here."""
        if self.cross_tokens is not None or (self.fixed is not None and self.style.tiles == 1):
            return self.usual_tokens
        if self.fixed is not None or self.style.sides == "other":
            return None
        token = self.side * isqrt(self.merged)
        whole = ceil if self.style.sides == "up" else round
        return prod(max(1, whole(pixels / token)) for pixels in (width, height))


def tower_of(spec: ModelSpec) -> Tower | None:
    """Return the tower of a model whose images are understood, else None."""
    style = STYLES.get(spec.model_type)
    named = {t.name: t for b in spec.blocks if b.part is Part.VISION for t in b.tensors}
    patch = patch_tensor(named.values())
    if style is None or patch is None:
        return None
    width, numbers = patch.shape[0], prod(patch.shape[1:])
    side = patch.shape[-1] if len(patch.shape) > 2 else isqrt(numbers // 3)
    classed = any("class_embedding" in name or "cls_token" in name for name in named)
    rows = next(
        (
            t.shape[-2]
            for name, t in named.items()
            if "position" in name and len(t.shape) > 1 and t.kind is not Kind.CONV
        ),
        None,
    )
    fixed = rows - classed if rows is not None and style.places in ("table", "tiles") else None
    cross_tokens = next(
        (
            m.source_tokens
            for block in spec.blocks
            for m in block.mixers
            if isinstance(m, CrossAttention)
        ),
        None,
    )
    if "pre_layrnorm" in "".join(named):
        style = replace(style, activation="quick_gelu")
    return Tower(
        style, width, side, numbers, _merged(spec, width) * style.pool, fixed, classed, cross_tokens
    )


def patch_tensor(tensors: Iterable[Tensor]) -> Tensor | None:
    """Return the weight that makes patches into features: a convolution, or a linear over a
    patch's numbers."""
    weights = [tensor for tensor in tensors if tensor.name.endswith("weight")]
    convolved = next((tensor for tensor in weights if tensor.kind is Kind.CONV), None)
    return convolved or next(
        (
            tensor
            for tensor in weights
            if tensor.kind is Kind.LINEAR and "patch_embed" in tensor.name
        ),
        None,
    )


def _merged(spec: ModelSpec, width: int) -> int:
    """Return the patches of a token: of a convolution's kernel, or the square of them that the
    first linear reads side by side."""
    tensors = [
        tensor for block in spec.blocks if block.part is Part.PROJECTOR for tensor in block.tensors
    ]
    kernel = next(
        (
            tensor.shape[2:]
            for tensor in tensors
            if tensor.kind is Kind.CONV and len(tensor.shape) > 2
        ),
        None,
    )
    if kernel is not None:
        return prod(kernel)
    inputs = [
        tensor.shape[1]
        for tensor in tensors
        if tensor.kind is Kind.LINEAR and len(tensor.shape) == 2
    ]
    return max(1, isqrt(inputs[0] // width) ** 2) if inputs else 1
