"""The vision towers of Qwen VL and of GLM-4V, which is built after them.

Sources: transformers 5.23, models/{qwen2_vl,qwen2_5_vl,qwen3_vl,qwen3_5,glm4v}; division: vLLM
0.33, models/{qwen2_vl,qwen2_5_vl, qwen3_vl,glm4_1v}.py."""

from dataclasses import replace

from fitgauge.engine.model.config import Config
from fitgauge.engine.model.families import parts
from fitgauge.engine.model.families.multimodal.vit import Vit, patches, usual, vit, whole
from fitgauge.engine.model.spec import Block, Part, Split

_PLAIN = Vit(
    "model.visual.blocks.{}.", qkv=("attn.qkv",), out="attn.proj", norms=("norm1", "norm2")
)
"""A block whose MLP has no gate."""
_GATED = replace(_PLAIN, mlp=("mlp.gate_proj", "mlp.up_proj", "mlp.down_proj"), norm_bias=False)
"""A block with RMS norms and a gated MLP."""


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
    vision = vision.with_defaults(QWEN2_DEFAULTS)
    width, heads = vision.integer("embed_dim", low=1), vision.integer("num_heads", low=1)
    merged = width * vision.integer("spatial_merge_size", low=1) ** 2
    out = vision.integer("hidden_size", low=1)
    inner = int(width * vision.number("mlp_ratio", default=4))
    style = replace(_PLAIN, prefix="visual.blocks.{}.")
    return (
        _patches(vision, width),
        *vit(style, hidden=width, heads=heads, width=inner, layers=vision.layers("depth")),
        _merger(width, merged, out, norm_bias=True),
    )


def _patches(vision: Config, width: int) -> Block:
    tensors = patches("visual.patch_embed.proj", width, *volume(vision), bias=False)
    return parts.single(Part.VISION, tensors)


def _merger(width: int, merged: int, out: int, *, norm_bias: bool) -> Block:
    """Return a norm of every patch, and two linears over `merged` features."""
    tensors = (
        *parts.norm("visual.merger.ln_q", width, bias=norm_bias),
        *parts.linear("visual.merger.mlp.0", merged, merged, Split.COLUMN, bias=True),
        *parts.linear("visual.merger.mlp.2", out, merged, Split.ROW, bias=True),
    )
    return parts.single(Part.PROJECTOR, tensors)


def _sizes(vision: Config) -> tuple[int, int, int, int]:
    """Return (hidden size, heads, width of merged patches, width of the merger's output)."""
    width = vision.integer("hidden_size", low=1)
    merged = width * vision.integer("spatial_merge_size", low=1) ** 2
    return (
        width,
        vision.integer("num_heads", low=1),
        merged,
        vision.integer("out_hidden_size", low=1),
    )


def qwen2_5(vision: Config, _config: Config, _hidden: int) -> tuple[Block, ...]:
    """Qwen2.5-VL and EXAONE 4.5: RMS norms and gated MLPs with biases."""
    vision = vision.with_defaults(QWEN2_5_DEFAULTS)
    width, heads, merged, out = _sizes(vision)
    style = replace(_GATED, prefix="visual.blocks.{}.")
    inner, layers = vision.integer("intermediate_size"), vision.layers("depth")
    kv_heads = vision.integer("num_key_value_heads", default=heads, low=1)
    return (
        _patches(vision, width),
        *vit(style, hidden=width, heads=heads, width=inner, layers=layers, kv_heads=kv_heads),
        _merger(width, merged, out, norm_bias=False),
    )


def qwen3(
    vision: Config, _config: Config, _hidden: int, *, deepstack: bool = True
) -> tuple[Block, ...]:
    """Qwen3-VL and Qwen3.5: learned positions, and with `deepstack` one more merger for each
    layer of `deepstack_visual_indexes`."""
    vision = vision.with_defaults(QWEN3_DEFAULTS)
    width, heads, merged, out = _sizes(vision)
    style = replace(_PLAIN, mlp=("mlp.linear_fc1", "mlp.linear_fc2"))
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
        parts.single(Part.VISION, tower),
        *vit(style, hidden=width, heads=heads, width=inner, layers=layers),
        parts.single(Part.PROJECTOR, (*merger, *projections), "model.visual.merger."),
        *parts.blocks(Part.PROJECTOR, "model.visual.deepstack_merger_list.{}.", [stacked] * depth),
    )


def qwen3_5(vision: Config, config: Config, hidden: int) -> tuple[Block, ...]:
    """Qwen3.5: the tower of Qwen3-VL without deepstack."""
    return qwen3(vision, config, hidden, deepstack=False)


def _glm_merger(width: int, out: int, inner: int, merge: int) -> Block:
    """Return a convolution that merges `merge`^2 patches of `width` features, and a gated MLP."""
    name = "model.visual.merger"
    return parts.single(
        Part.PROJECTOR,
        (
            *patches("model.visual.downsample", out, width, merge, merge),
            *parts.linear(f"{name}.proj", out, out, Split.COLUMN),
            *parts.norm(f"{name}.post_projection_norm", out, bias=True),
            *parts.linear(f"{name}.gate_proj", inner, out, Split.COLUMN),
            *parts.linear(f"{name}.up_proj", inner, out, Split.COLUMN),
            *parts.linear(f"{name}.down_proj", out, inner, Split.ROW),
        ),
    )


def glm4(vision: Config, _config: Config, _hidden: int) -> tuple[Block, ...]:
    """GLM-4.1V and 4.5V: RMS norms, gated MLPs as wide as the output, a convolution that merges
    patches, a gated merger."""
    vision = vision.with_defaults(GLM4_DEFAULTS)
    width, heads = vision.integer("hidden_size", low=1), vision.integer("num_heads", low=1)
    out = vision.integer("out_hidden_size", low=1)
    inner = vision.integer("intermediate_size")
    merge = vision.integer("spatial_merge_size", low=1)
    bias = vision.flag("attention_bias")
    style = replace(_GATED, qkv_bias=bias, out_bias=False, mlp_bias=False)
    positions = (vision.integer("image_size", low=1) // vision.integer("patch_size", low=1)) ** 2
    tower = (
        whole("model.visual.embeddings.position_embedding.weight", positions, width),
        *patches("model.visual.patch_embed.proj", width, *volume(vision)),
        *parts.norm("model.visual.post_conv_layernorm", width),
        *parts.norm("model.visual.post_layernorm", width),
    )
    return (
        parts.single(Part.VISION, tower),
        *vit(style, hidden=width, heads=heads, width=out, layers=vision.layers("depth")),
        _glm_merger(width, out, inner, merge),
    )


def glm_ocr(vision: Config, config: Config, _hidden: int) -> tuple[Block, ...]:
    """GLM-OCR: GLM-4V's tower without learned positions, with norms of queries and keys, and a
    merger as wide as the language model's MLP."""
    vision = vision.with_defaults(GLM_OCR_DEFAULTS)
    width, heads = vision.integer("hidden_size", low=1), vision.integer("num_heads", low=1)
    out = vision.integer("out_hidden_size", low=1)
    merge = vision.integer("spatial_merge_size", low=1)
    inner = config.section("text_config").integer("intermediate_size", default=4096, low=1)
    style = replace(_GATED, extras=parts.norms(("attn.q_norm", "attn.k_norm"), width // heads))
    tower = (
        *patches("model.visual.patch_embed.proj", width, *volume(vision)),
        *parts.norm("model.visual.post_layernorm", width),
    )
    return (
        parts.single(Part.VISION, tower),
        *vit(
            style,
            hidden=width,
            heads=heads,
            width=vision.integer("intermediate_size"),
            layers=vision.layers("depth"),
        ),
        _glm_merger(width, out, inner, merge),
    )


def muse_glimmer(vision: Config, config: Config, hidden: int) -> tuple[Block, ...]:
    """Muse Glimmer: positions of a grid, attention that ranks divide and MLPs that they do not,
    three linears."""
    vision = vision.with_defaults(MUSE_GLIMMER_DEFAULTS)
    width, patch = vision.integer("hidden_size", low=1), vision.integer("patch_size", low=1)
    out = config.integer("out_hidden_size", default=6144, low=1)
    middle = config.integer("projector_hidden_size", default=4096, low=1)
    pixels = 3 * vision.integer("patch_temporal", low=1) * patch**2
    positions = vision.integer("pos_emb_height", low=1) * vision.integer("pos_emb_width", low=1)
    name = "model.vision_encoder"
    style = Vit(
        f"{name}.transformer.{{}}.",
        qkv=("attn.q_proj", "attn.k_proj", "attn.v_proj"),
        out="attn.o_proj",
        norms=("ln_1", "ln_2"),
        mlp=("mlp.c_fc", "mlp.c_proj"),
        whole_mlp=True,
    )
    tower = (
        *parts.linear(f"{name}.conv1_linear", width, pixels),
        whole(f"{name}.positional_embedding_vlm", positions, width),
        *parts.norm(f"{name}.ln_pre", width, bias=True),
        *parts.norm(f"{name}.ln_post", width, bias=True),
    )
    projector = (
        *parts.linear("model.vision_adapter.c_fc", middle, out),
        *parts.linear("model.vision_adapter.c_proj", middle, middle),
        *parts.linear("model.vision_projection", hidden, middle),
    )
    return (
        parts.single(Part.VISION, tower),
        *usual(vision, style),
        parts.single(Part.PROJECTOR, projector),
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

GLM_OCR_DEFAULTS = _SHARED_DEFAULTS | {
    "depth": 24, "hidden_size": 1024, "intermediate_size": 4096, "out_hidden_size": 1536,
}  # fmt: skip
"""transformers 5.20, GlmOcrVisionConfig."""

MUSE_GLIMMER_DEFAULTS = {
    "patch_size": 14, "pos_emb_height": 32, "pos_emb_width": 32, "num_attention_heads": 16,
    "num_hidden_layers": 50, "hidden_size": 1536, "intermediate_size": 8960, "patch_temporal": 2,
}  # fmt: skip
"""transformers 5.20, MuseGlimmerVisionConfig."""
