"""The vision towers of Llama 4, Kimi-VL, K2.5 and K3, and MiniMax M3.

Sources: transformers 5.23, models/{llama4,kimi_k25,minimax_m3_vl}; vLLM 0.33,
models/{mllama4,kimi_vl,moonvit,kimi_k25_vit}.py, models/minimax_m3 and
transformers_utils/configs/kimi_k3.py for what transformers does not know, and for the division."""

from collections.abc import Sequence

from fitgauge.engine.model.config import Config
from fitgauge.engine.model.families import parts
from fitgauge.engine.model.families.multimodal.vit import (
    Vit,
    patch_count,
    patches,
    sides,
    usual,
    vit,
    whole,
)
from fitgauge.engine.model.spec import Block, Part, Split


def llama4(vision: Config, _config: Config, hidden: int) -> tuple[Block, ...]:
    """Llama 4: patches by a linear, layers with biases, pixel shuffle and an MLP, one linear to
    the language model."""
    vision = vision.with_defaults(LLAMA4_DEFAULTS)
    width = vision.integer("hidden_size", low=1)
    patch, inner = vision.integer("patch_size", low=1), vision.integer("intermediate_size")
    style = Vit(
        "vision_model.model.layers.{}.",
        out="self_attn.o_proj",
        norms=("input_layernorm", "post_attention_layernorm"),
    )
    tower = (
        whole("vision_model.class_embedding", width),
        whole("vision_model.positional_embedding_vlm", patch_count(vision) + 1, width),
        *parts.linear(
            "vision_model.patch_embedding.linear",
            width,
            vision.integer("num_channels") * patch**2,
            Split.COLUMN,
        ),
        *parts.norm("vision_model.layernorm_pre", width, bias=True),
        *parts.norm("vision_model.layernorm_post", width, bias=True),
    )
    inside, outside = vision.integer("projector_input_dim"), vision.integer("projector_output_dim")
    projector = (
        *parts.linear("vision_model.vision_adapter.mlp.fc1", inside, inner, Split.COLUMN),
        *parts.linear("vision_model.vision_adapter.mlp.fc2", outside, outside, Split.ROW),
        *parts.linear(
            "multi_modal_projector.linear_1",
            hidden,
            vision.integer("vision_output_dim"),
            Split.COLUMN,
        ),
    )
    return (
        parts.single(Part.VISION, tower),
        *usual(vision, style),
        parts.single(Part.PROJECTOR, projector),
    )


def moonvit(
    vision: Config,
    _config: Config,
    hidden: int,
    names: Sequence[str] = ("mm_projector.pre_norm", "mm_projector.proj.0", "mm_projector.proj.2"),
) -> tuple[Block, ...]:
    """MoonViT of Kimi-VL and K2.5: a learned plane of positions, joint qkv, a norm at the end, two
    linears over merged patches. `names`: of its projector's norm and linears."""
    vision = vision.with_defaults(MOONVIT_DEFAULTS)
    width = vision.integer("vt_hidden_size", "hidden_size", low=1)
    gathered = width * merged_patches(vision)
    projector = (
        *parts.norm(
            names[0], vision.integer("mm_hidden_size", "projection_hidden_size", low=1), bias=True
        ),
        *parts.linear(names[1], gathered, gathered, bias=True),
        *parts.linear(names[2], hidden, gathered, bias=True),
    )
    return (
        *moon_tower(vision, width, norm_bias=True, bias=True, patch_bias=True),
        parts.single(Part.PROJECTOR, projector),
    )


def moonvit_k3(vision: Config, _config: Config, hidden: int) -> tuple[Block, ...]:
    """MoonViT of Kimi K3: RMS norms, heads over `qkv_hidden_size`, hardly a bias; two linears
    without, and a norm after them."""
    vision = vision.with_defaults(MOONVIT_K3_DEFAULTS)
    width = vision.integer("vt_hidden_size", low=1)
    gathered = width * merged_patches(vision)
    projector = (
        *parts.linear("mm_projector.linear_1", gathered, gathered),
        *parts.linear("mm_projector.linear_2", hidden, gathered),
        *parts.norm("mm_projector.post_norm", hidden),
    )
    tower = moon_tower(
        vision,
        width,
        norm_bias=vision.text("norm_type") != "rmsnorm",
        bias=vision.flag("linear_bias"),
        patch_bias=vision.flag("patch_embed_proj_bias"),
    )
    return (*tower, parts.single(Part.PROJECTOR, projector))


def moon_tower(
    vision: Config, width: int, *, norm_bias: bool, bias: bool, patch_bias: bool
) -> tuple[Block, ...]:
    """Return patches, positions, layers and the last norm. `bias`: of the MLPs; those of
    attention follow `attn_bias`."""
    name = "vision_tower"
    heads = vision.integer("vt_num_attention_heads", "num_attention_heads", low=1)
    attention_bias = vision.flag("attn_bias", default=bias)
    style = Vit(
        f"{name}.encoder.blocks.{{}}.",
        qkv=("wqkv",),
        out="wo",
        norms=("norm0", "norm1"),
        mlp=("mlp.fc0", "mlp.fc1"),
        norm_bias=norm_bias,
        qkv_bias=attention_bias,
        out_bias=attention_bias,
        mlp_bias=bias,
    )
    high = vision.integer("init_pos_emb_height", "pos_emb_height")
    wide = vision.integer("init_pos_emb_width", "pos_emb_width")
    tower = (
        *patches(
            f"{name}.patch_embed.proj", width, 3, *sides(vision, "patch_size"), bias=patch_bias
        ),
        whole(f"{name}.patch_embed.pos_emb.weight", high, wide, width),
        *parts.norm(f"{name}.encoder.final_layernorm", width, bias=norm_bias),
    )
    layers = vit(
        style,
        hidden=width,
        heads=heads,
        width=vision.integer("vt_intermediate_size", "intermediate_size"),
        layers=vision.layers("vt_num_hidden_layers", "num_hidden_layers"),
        inner=vision.integer("qkv_hidden_size", default=width, low=1),
    )
    return (parts.single(Part.VISION, tower), *layers)


def merged_patches(vision: Config) -> int:
    """Return the patches that become one token."""
    across, down = sides(vision, "merge_kernel_size")
    return across * down


def minimax_m3(vision: Config, config: Config, hidden: int) -> tuple[Block, ...]:
    """MiniMax M3: a CLIP-like tower over volumes without positions, two linears to the language
    model, two over merged patches."""
    compression = vision.section("img_token_compression_config").values
    vision = vision.with_defaults(
        MINIMAX_M3_DEFAULTS | {key: compression[key] for key in _COMPRESSION if key in compression}
    )
    width = vision.integer("hidden_size", low=1)
    frames = vision.integer("temporal_patch_size", low=1)
    merge = vision.integer("spatial_merge_size", low=1)
    name = "vision_tower.vision_model"
    tower = (
        *patches(
            f"{name}.embeddings.patch_embedding",
            width,
            vision.integer("num_channels"),
            frames,
            *sides(vision, "patch_size"),
            bias=False,
        ),
        *parts.norm(f"{name}.pre_layrnorm", width, bias=True),
    )
    inner = config.integer("projector_hidden_size", default=hidden, low=1)
    gathered = hidden * merge**2
    projector = (
        *parts.linear("multi_modal_projector.linear_1", inner, width, Split.COLUMN, bias=True),
        *parts.linear("multi_modal_projector.linear_2", hidden, inner, Split.ROW, bias=True),
        *parts.linear("patch_merge_mlp.linear_1", inner, gathered, Split.COLUMN, bias=True),
        *parts.linear("patch_merge_mlp.linear_2", hidden, inner, Split.ROW, bias=True),
    )
    layers = usual(vision, Vit(f"{name}.encoder.layers.{{}}."))
    return (parts.single(Part.VISION, tower), *layers, parts.single(Part.PROJECTOR, projector))


_COMPRESSION = ("spatial_merge_size", "temporal_patch_size")

LLAMA4_DEFAULTS = {
    "hidden_size": 768, "num_hidden_layers": 34, "num_attention_heads": 16, "num_channels": 3,
    "intermediate_size": 5632, "vision_output_dim": 7680, "image_size": 448, "patch_size": 14,
    "projector_input_dim": 4096, "projector_output_dim": 4096,
}  # fmt: skip
"""transformers 5.23, Llama4VisionConfig."""

MOONVIT_DEFAULTS = {
    "hidden_size": 1152, "intermediate_size": 4304, "num_hidden_layers": 27,
    "num_attention_heads": 16, "patch_size": 14, "pos_emb_height": 64, "pos_emb_width": 64,
    "merge_kernel_size": [2, 2], "projection_hidden_size": 1152,
}  # fmt: skip
"""transformers 5.23, Kimi_K25VisionConfig; published configs say the same with `vt_` and `init_`
before the names."""

KIMI_VL_PROJECTOR = [
    f"multi_modal_projector.{name}" for name in ("pre_norm", "linear_1", "linear_2")
]
"""Names of the norm and the linears of Kimi-VL's."""

MOONVIT_K3_DEFAULTS = {
    "patch_size": 14, "init_pos_emb_height": 64, "init_pos_emb_width": 64,
    "vt_num_attention_heads": 12, "vt_num_hidden_layers": 27, "vt_hidden_size": 1024,
    "vt_intermediate_size": 4096, "merge_kernel_size": [2, 2], "qkv_hidden_size": 1536,
    "norm_type": "rmsnorm", "attn_bias": False, "patch_embed_proj_bias": False,
    "linear_bias": False,
}  # fmt: skip
"""vLLM 0.33, KimiK3VisionConfig."""

MINIMAX_M3_DEFAULTS = {
    "hidden_size": 1280, "intermediate_size": 5120, "num_hidden_layers": 32,
    "num_attention_heads": 16, "num_channels": 3,
    "image_size": 2016, "patch_size": 14, "temporal_patch_size": 2, "spatial_merge_size": 2,
}  # fmt: skip
"""transformers 5.23, MiniMaxM3VLVisionConfig."""
