"""The vision towers of Qwen VL and of GLM-4V, which is built after them.

Sources: transformers 5.23, models/{qwen2_vl,qwen2_5_vl,qwen3_vl,qwen3_5,glm4v}; division: vLLM
0.33, models/{qwen2_vl,qwen2_5_vl, qwen3_vl,glm4_1v}.py."""

from fitgauge.engine.model.config import Config
from fitgauge.engine.model.families import layers as parts
from fitgauge.engine.model.families.multimodal.vit import Vit, patches, vit, whole
from fitgauge.engine.model.families.stack import filled
from fitgauge.engine.model.spec import Block, Part, Split


def volume(vision: Config) -> tuple[int, int, int, int]:
    """Shape of what one patch is made from: channels, frames, rows and columns."""
    patch = vision.integer("patch_size", low=1)
    return (
        vision.integer("in_channels", "in_chans", low=1),
        vision.integer("temporal_patch_size", low=1),
        patch,
        patch,
    )


def qwen2(vision: Config, _config: Config, _hidden: int) -> tuple[Block, ...]:
    """Qwen2-VL: `embed_dim` features; `hidden_size` is the language model's width here."""
    vision = filled(vision, QWEN2_DEFAULTS)
    width, heads = vision.integer("embed_dim", low=1), vision.integer("num_heads", low=1)
    merged, out = (
        width * vision.integer("spatial_merge_size", low=1) ** 2,
        vision.integer("hidden_size", low=1),
    )
    style = Vit("visual.blocks.{}.", qkv=("attn.qkv",), out="attn.proj", norms=("norm1", "norm2"))
    merger = (
        *parts.norm("visual.merger.ln_q", width, bias=True),
        *parts.linear("visual.merger.mlp.0", merged, merged, Split.COLUMN, bias=True),
        *parts.linear("visual.merger.mlp.2", out, merged, Split.ROW, bias=True),
    )
    inner = int(width * vision.number("mlp_ratio", default=4))
    return (
        parts.single(
            Part.VISION, "", patches("visual.patch_embed.proj", width, *volume(vision), bias=False)
        ),
        *vit(style, hidden=width, heads=heads, width=inner, layers=vision.layers("depth")),
        parts.single(Part.PROJECTOR, "", merger),
    )


def qwen2_5(vision: Config, _config: Config, _hidden: int) -> tuple[Block, ...]:
    """Qwen2.5-VL: RMS norms and gated MLPs with biases."""
    vision = filled(vision, QWEN2_5_DEFAULTS)
    width, heads = vision.integer("hidden_size", low=1), vision.integer("num_heads", low=1)
    merged, out = (
        width * vision.integer("spatial_merge_size", low=1) ** 2,
        vision.integer("out_hidden_size", low=1),
    )
    style = Vit(
        "visual.blocks.{}.",
        qkv=("attn.qkv",),
        out="attn.proj",
        norms=("norm1", "norm2"),
        mlp=("mlp.gate_proj", "mlp.up_proj", "mlp.down_proj"),
        norm_bias=False,
    )
    merger = (
        *parts.norm("visual.merger.ln_q", width),
        *parts.linear("visual.merger.mlp.0", merged, merged, Split.COLUMN, bias=True),
        *parts.linear("visual.merger.mlp.2", out, merged, Split.ROW, bias=True),
    )
    inner, layers = vision.integer("intermediate_size"), vision.layers("depth")
    return (
        parts.single(
            Part.VISION, "", patches("visual.patch_embed.proj", width, *volume(vision), bias=False)
        ),
        *vit(style, hidden=width, heads=heads, width=inner, layers=layers),
        parts.single(Part.PROJECTOR, "", merger),
    )


def qwen3(
    vision: Config, _config: Config, _hidden: int, *, deepstack: bool = True
) -> tuple[Block, ...]:
    """Qwen3-VL and Qwen3.5: learned positions, and with `deepstack` one more merger for each
    layer of `deepstack_visual_indexes`."""
    vision = filled(vision, QWEN3_DEFAULTS)
    width, heads = vision.integer("hidden_size", low=1), vision.integer("num_heads", low=1)
    merged, out = (
        width * vision.integer("spatial_merge_size", low=1) ** 2,
        vision.integer("out_hidden_size", low=1),
    )
    style = Vit(
        "model.visual.blocks.{}.",
        qkv=("attn.qkv",),
        out="attn.proj",
        norms=("norm1", "norm2"),
        mlp=("mlp.linear_fc1", "mlp.linear_fc2"),
    )
    tower = (
        *patches("model.visual.patch_embed.proj", width, *volume(vision)),
        whole("model.visual.pos_embed.weight", vision.integer("num_position_embeddings"), width),
    )
    merger = parts.norm("norm", width, bias=True)
    projections = (
        *parts.linear("linear_fc1", merged, merged, Split.COLUMN, bias=True),
        *parts.linear("linear_fc2", out, merged, Split.ROW, bias=True),
    )
    stacked = parts.Layer((*parts.norm("norm", merged, bias=True), *projections))
    depth = len(vision.items("deepstack_visual_indexes")) if deepstack else 0
    inner, layers = vision.integer("intermediate_size"), vision.layers("depth")
    return (
        parts.single(Part.VISION, "", tower),
        *vit(style, hidden=width, heads=heads, width=inner, layers=layers),
        parts.single(Part.PROJECTOR, "model.visual.merger.", (*merger, *projections)),
        *parts.blocks(Part.PROJECTOR, "model.visual.deepstack_merger_list.{}.", [stacked] * depth),
    )


def qwen3_5(vision: Config, config: Config, hidden: int) -> tuple[Block, ...]:
    """Qwen3.5: the tower of Qwen3-VL without deepstack."""
    return qwen3(vision, config, hidden, deepstack=False)


def glm4(vision: Config, _config: Config, _hidden: int) -> tuple[Block, ...]:
    """GLM-4.1V and 4.5V: RMS norms, gated MLPs as wide as the output, a convolution that merges
    patches, a gated merger."""
    vision = filled(vision, GLM4_DEFAULTS)
    width, heads = vision.integer("hidden_size", low=1), vision.integer("num_heads", low=1)
    out, inner, merge = (
        vision.integer("out_hidden_size", low=1),
        vision.integer("intermediate_size"),
        vision.integer("spatial_merge_size", low=1),
    )
    bias = vision.flag("attention_bias")
    style = Vit(
        "model.visual.blocks.{}.",
        qkv=("attn.qkv",),
        out="attn.proj",
        norms=("norm1", "norm2"),
        mlp=("mlp.gate_proj", "mlp.up_proj", "mlp.down_proj"),
        norm_bias=False,
        qkv_bias=bias,
        out_bias=False,
        mlp_bias=False,
    )
    positions = (vision.integer("image_size", low=1) // vision.integer("patch_size", low=1)) ** 2
    tower = (
        whole("model.visual.embeddings.position_embedding.weight", positions, width),
        *patches("model.visual.patch_embed.proj", width, *volume(vision)),
        *parts.norm("model.visual.post_conv_layernorm", width),
        *parts.norm("model.visual.post_layernorm", width),
    )
    name = "model.visual.merger"
    merger = (
        *patches("model.visual.downsample", out, width, merge, merge),
        *parts.linear(f"{name}.proj", out, out, Split.COLUMN),
        *parts.norm(f"{name}.post_projection_norm", out, bias=True),
        *parts.linear(f"{name}.gate_proj", inner, out, Split.COLUMN),
        *parts.linear(f"{name}.up_proj", inner, out, Split.COLUMN),
        *parts.linear(f"{name}.down_proj", out, inner, Split.ROW),
    )
    return (
        parts.single(Part.VISION, "", tower),
        *vit(style, hidden=width, heads=heads, width=out, layers=vision.layers("depth")),
        parts.single(Part.PROJECTOR, "", merger),
    )


_SHARED_DEFAULTS = {
    "depth": 32,
    "num_heads": 16,
    "in_channels": 3,
    "patch_size": 14,
    "spatial_merge_size": 2,
    "temporal_patch_size": 2,
}

QWEN2_DEFAULTS = _SHARED_DEFAULTS | {"embed_dim": 1280, "hidden_size": 3584, "mlp_ratio": 4}
"""transformers 5.23, Qwen2VLVisionConfig."""

QWEN2_5_DEFAULTS = _SHARED_DEFAULTS | {
    "hidden_size": 3584,
    "intermediate_size": 3420,
    "out_hidden_size": 3584,
}
"""transformers 5.23, Qwen2_5_VLVisionConfig."""

QWEN3_DEFAULTS = _SHARED_DEFAULTS | {
    "depth": 27, "patch_size": 16, "hidden_size": 1152, "intermediate_size": 4304,
    "out_hidden_size": 3584,
    "num_position_embeddings": 2304, "deepstack_visual_indexes": [8, 16, 24],
}  # fmt: skip
"""transformers 5.23, Qwen3VLVisionConfig."""

GLM4_DEFAULTS = _SHARED_DEFAULTS | {
    "depth": 24, "num_heads": 12, "hidden_size": 1536, "intermediate_size": 13696,
    "out_hidden_size": 4096, "image_size": 336,
}  # fmt: skip
"""transformers 5.23, Glm4vVisionConfig."""
