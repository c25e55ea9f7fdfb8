"""How the vision towers of the families differ, and what a tower is in numbers. Source: transformers 5.23, models/<model_type>."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from math import isqrt, prod
from typing import NamedTuple

from fitgauge.engine.architecture import Kind, ModelSpec, Part

USUAL_SIDE = 768
"""Pixels of a side of an image for towers of any size. Source: LLaMA-Factory, hparams/model_args.py, image_max_pixels 768 x 768."""


@dataclass(frozen=True, kw_only=True)
class Style:
    """How a family's tower computes. `rotates`: queries and keys, in fp32; `apart`: images one after the other, put together by a copy;
    `window`: patches that meet in all but every `whole`th layer, and whose order is restored at the end; `unread`: last layers whose
    output nothing reads; `ends_normed`: the norm after the layers is read; `shuffles`: patches are put together in two copies; `pool`:
    patches averaged into one token; `asks`: transformers knows the module whose output is asked for a gradient (`_input_embed_layer`);
    `hands_on`: the model's answer holds the projected features (image_hidden_states); `activation`, `norm`, `float_softmax`: see Traits.
    """

    activation: str
    norm: str = "layer"
    rotates: bool = False
    apart: bool = False
    window: int | None = None
    whole: int = 1
    unread: int = 0
    ends_normed: bool = False
    shuffles: bool = False
    pool: int = 1
    asks: bool = True
    hands_on: bool = False
    float_softmax: bool = True


_QWEN3 = Style(activation="gelu", rotates=True, apart=True)
_PLAIN = Style(activation="gelu", hands_on=True)

STYLES: Mapping[str, Style] = {
    "qwen2_vl": replace(_QWEN3, activation="quick_gelu"),
    "qwen2_5_vl": replace(_QWEN3, activation="silu", norm="rms", window=64, whole=8),
    **dict.fromkeys(("qwen3_vl", "qwen3_vl_moe", "qwen3_5", "qwen3_5_moe"), replace(_QWEN3, asks=False)),
    "llava": replace(_PLAIN, unread=1),
    "llava_next": replace(_PLAIN, unread=1),
    "llava_onevision": _PLAIN,
    **dict.fromkeys(("internvl", "internvl_chat"), replace(_PLAIN, shuffles=True, float_softmax=False)),
    "paligemma": replace(_PLAIN, ends_normed=True),
    "gemma3": replace(_PLAIN, ends_normed=True, pool=16),
}
"""Families by model type. `window`, `whole`: window_size 112 over patches of 14, fullatt_block_indexes 7, 15, ... `unread`: their usual
vision_feature_layer, -2."""


class Tower(NamedTuple):
    """A tower in numbers: features, numbers of a patch (frames included), patches of a token, patches of an image where the tower fixes
    them, and whether a class token stands before them."""

    style: Style
    width: int
    numbers: int
    merged: int
    fixed: int | None
    classed: bool

    @property
    def usual_tokens(self) -> int:
        """Tokens of an image where nothing is said: of the tower's own size, else of 768 x 768 pixels."""
        if self.fixed is not None:
            return self.fixed // self.merged
        side = isqrt(self.numbers // 6) * isqrt(self.merged)
        return int((USUAL_SIDE // side) ** 2)


def tower_of(spec: ModelSpec) -> Tower | None:
    """The tower of a model whose images are understood, else None."""
    style, named = STYLES.get(spec.model_type), {t.name: t for b in spec.blocks if b.part is Part.VISION for t in b.tensors}
    patch = next((t for name, t in named.items() if t.kind is Kind.CONV and name.endswith("weight")), None)
    if style is None or patch is None:
        return None
    width, classed = patch.shape[0], any("class_embedding" in name or "cls_token" in name for name in named)
    rows = next((t.shape[-2] for name, t in named.items() if "position_embedding" in name), None)
    inputs = [t.shape[1] for b in spec.blocks if b.part is Part.PROJECTOR for t in b.tensors if t.kind is Kind.LINEAR and len(t.shape) == 2]
    merged = max(1, inputs[0] // width) if inputs else 1
    if "pre_layrnorm" in "".join(named):
        style = replace(style, activation="quick_gelu")
    return Tower(style, width, prod(patch.shape[1:]), merged * style.pool, None if rows is None else rows - classed, classed)
