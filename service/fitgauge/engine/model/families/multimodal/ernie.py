"""ERNIE 4.5 VL: experts of text and experts of images in each sparse layer, a tower, a resampler.

Sources: transformers 5.23, models/ernie4_5_vl_moe; division: vLLM 0.33, models/ernie45_vl.py and
ernie45_vl_moe.py."""

from dataclasses import replace

import msgspec

from fitgauge.engine.model.config import Config
from fitgauge.engine.model.families import experts, parts
from fitgauge.engine.model.families.dense.dense import Reader
from fitgauge.engine.model.families.experts import Naming
from fitgauge.engine.model.families.mixture import mixture
from fitgauge.engine.model.families.multimodal.vit import Vit, patches, vit
from fitgauge.engine.model.spec import Block, ModelSpec, Part, Split, Tensor
from fitgauge.errors import MalformedModelError

_TEXT = Naming(
    correction="gate.moe_statics.e_score_correction_bias",
    correction_learned=True,
    router_dtype="F32",
)
_IMAGES = replace(_TEXT, block="mlp.vision_moe")
_FAMILY = replace(
    mixture.FAMILIES["ernie4_5_moe"],
    naming=replace(_TEXT, block="mlp.text_moe"),
    shared=lambda config: 0,
)
"""Its shared experts lie outside both mixtures."""


def read_text(config: Config) -> ModelSpec:
    """Return the ModelSpec of the language model with both kinds of experts."""
    text, images = _widths(config)
    counts = config.values.get("moe_num_experts")
    one = {"moe_num_experts": counts[0]} if isinstance(counts, list) and counts else {}
    config = config.with_values(**one, moe_intermediate_size=text)
    spec = mixture.read_mixture(config, _FAMILY)
    shared = text * config.integer("moe_num_shared_experts", default=2)
    blocks = tuple(
        _with_images(block, spec.hidden_size, images, shared) if block.mlp else block
        for block in spec.blocks
    )
    return msgspec.structs.replace(spec, blocks=blocks)


def _widths(config: Config) -> tuple[int, int]:
    """Return the width of an expert of text and of one of images."""
    widths = config.values.get("moe_intermediate_size", [1536, 512])
    if not isinstance(widths, list) or len(widths) != 2:
        raise MalformedModelError(
            f"{config.where}: moe_intermediate_size must be two numbers.",
            field="moe_intermediate_size",
        )
    text, images = (
        Config({"moe_intermediate_size": width}, config.where).integer(
            "moe_intermediate_size", low=1
        )
        for width in widths
    )
    return text, images


def _with_images(block: Block, hidden: int, width: int, shared: int) -> Block:
    """Return a sparse block with its experts of images and shared experts."""
    mlp = block.mlp
    if mlp is None or not mlp.experts:
        return block
    of_images = msgspec.structs.replace(mlp, intermediate_size=width, shared_intermediate_size=0)
    tensors: tuple[Tensor, ...] = (
        *block.tensors,
        *experts.mixture(hidden, of_images, _IMAGES),
        *experts.shared_expert(hidden, shared, Naming()),
    )
    mlp = msgspec.structs.replace(mlp, shared_intermediate_size=shared)
    return msgspec.structs.replace(block, tensors=tensors, mlp=mlp)


def tower(vision: Config, config: Config, hidden: int) -> tuple[Block, ...]:
    """Return the tower, and the resampler that merges patches in space, then pairs of frames."""
    vision = vision.with_defaults(_VISION)
    width, inner = vision.integer("hidden_size", low=1), vision.integer("intermediate_size", low=1)
    style = Vit(
        "model.vision_tower.blocks.{}.",
        qkv=("attn.qkv",),
        out="attn.proj",
        norms=("norm1", "norm2"),
    )
    patch, channels = vision.integer("patch_size", low=1), vision.integer("in_channels", low=1)
    merged = width * vision.integer("spatial_merge_size", low=1) ** 2
    frames = merged * vision.integer("temporal_merge_size", low=1)
    around = (
        *patches("model.vision_tower.patch_embed.proj", width, channels * patch**2, bias=False),
        *parts.norm("model.vision_tower.ln", width, bias=True),
    )
    resampler = (
        *_merging("spatial_linear", merged, merged),
        *_merging("temporal_linear", frames, merged),
        *parts.linear("mlp", hidden, merged, Split.COLUMN, bias=True),
        *parts.norm("after_norm", hidden),
    )
    heads, depth = vision.integer("num_heads", low=1), vision.layers("depth")
    return (
        parts.single(Part.VISION, around),
        *vit(style, hidden=width, heads=heads, width=inner, layers=depth),
        parts.single(Part.PROJECTOR, resampler, "model.resampler_model."),
    )


def _merging(name: str, inputs: int, out: int) -> tuple[Tensor, ...]:
    return (
        *parts.linear(f"{name}.fc1", out, inputs, Split.COLUMN, bias=True),
        *parts.linear(f"{name}.fc2", out, out, Split.COLUMN, bias=True),
        *parts.norm(f"{name}.ln", out, bias=True),
    )


_VISION = {
    "depth": 32, "hidden_size": 1280, "num_heads": 16, "in_channels": 3, "patch_size": 14,
    "spatial_merge_size": 2, "temporal_merge_size": 2, "intermediate_size": 5120,
}  # fmt: skip

READERS: dict[str, Reader] = {"ernie4_5_vl_moe_text": read_text}
