"""The tower of MiniCPM-V 4.6 and 4.7. Source: vLLM 0.33, models/minicpmv4_6.py; names:
transformers 5.23, models/minicpmv4_6."""

from fitgauge.engine.model.config import Config
from fitgauge.engine.model.families import parts
from fitgauge.engine.model.families.multimodal import towers
from fitgauge.engine.model.families.multimodal.vit import whole
from fitgauge.engine.model.spec import Block, Part, Split, Tensor

_MERGED = 4
"""Patches that a merger makes one of: windows of 2 x 2."""


def minicpm(vision: Config, config: Config, hidden: int) -> tuple[Block, ...]:
    """SigLIP without its head; within it attention over windows, which an MLP merges; after it
    `merger_times` MLPs that merge as many patches again."""
    name = "model.vision_tower"
    vision = vision.with_defaults({**towers.SIGLIP_DEFAULTS, "vision_use_head": False})
    width, inner = vision.integer("hidden_size", low=1), vision.integer("intermediate_size")
    heads = vision.integer("num_attention_heads", low=1)
    attention = f"{name}.vit_merger.self_attn"
    window = (
        *parts.linears(
            [f"{attention}.{projection}_proj" for projection in "qkv"],
            width,
            width,
            Split.COLUMN,
            units=heads,
            bias=True,
        ),
        *parts.linear(f"{attention}.out_proj", width, width, Split.ROW, units=heads, bias=True),
        *parts.norm(f"{name}.vit_merger.layer_norm1", width, bias=True),
        *_merger(f"{name}.vit_merger", width, _MERGED * inner, width),
    )
    last = config.integer("merger_times", default=1, low=1) - 1
    mergers = tuple(
        tensor
        for time in range(last + 1)
        for tensor in _merger(
            f"model.merger.mlp.{time}", width, _MERGED * width, hidden if time == last else width
        )
    )
    return (
        *towers.siglip(vision, config, hidden, name=name),
        parts.single(Part.VISION, window),
        parts.single(Part.PROJECTOR, mergers),
    )


def _merger(name: str, width: int, inner: int, out: int) -> tuple[Tensor, ...]:
    """Return a norm of the merged patches and two linears: PyTorch's own, whole and in 16 bit."""
    merged = _MERGED * width
    return (
        *parts.norm(f"{name}.pre_norm", merged, bias=True),
        whole(f"{name}.linear_1.weight", inner, merged),
        whole(f"{name}.linear_1.bias", inner),
        whole(f"{name}.linear_2.weight", out, inner),
        whole(f"{name}.linear_2.bias", out),
    )
