"""DeepSeek-VL2, DeepSeek-OCR and Unlimited-OCR: a decoder of DeepSeek V2's kind behind SigLIP, or
behind SAM's encoder and CLIP, one after the other.

Source: vLLM 0.33, models/{deepseek_vl2,deepseek_ocr,deepencoder,deepseek_v2}.py and
transformers_utils/configs/deepseek_vl2.py, which fix the sizes of the towers. The checkpoint of
DeepSeek-OCR has 2,710 tensors: 179 of SAM, 293 of CLIP, 2,231 of its layers."""

from fitgauge.engine.model.config import Config
from fitgauge.engine.model.families import parts
from fitgauge.engine.model.families.multimodal.towers import siglip
from fitgauge.engine.model.families.multimodal.vit import Vit, patches, vit, whole
from fitgauge.engine.model.spec import Block, Part

MODEL_TYPES = ("deepseek_vl_v2", "unlimited-ocr", "unlimited_ocr")
"""Unlimited-OCR is DeepSeek-OCR with a window over what it writes, for which vLLM plans as for full
attention. Source: v1/kv_cache_interface.py, RSWASpec."""

_SIGLIP = {
    "hidden_size": 1152, "intermediate_size": 4304, "num_hidden_layers": 27,
    "num_attention_heads": 16, "patch_size": 14, "image_size": 384,
}  # fmt: skip
"""vit_so400m_patch14_siglip_384."""

_SAM_WINDOW, _SAM_PATCHES, _SAM_GLOBAL = 14, 64, (2, 5, 8, 11)
"""Patches along a window and along an image of SAM's encoder, and the layers that see all."""


def plain_attention(config: Config) -> bool:
    """Return whether a decoder's attention is not latent: its latent dimensions are 0."""
    dims = ("qk_nope_head_dim", "qk_rope_head_dim")
    return all(config.values.get(name) == 0 for name in dims)


def towers(vision: Config, config: Config, hidden: int) -> tuple[Block, ...]:
    """Return the towers, and the projector with what separates lines and views."""
    encoders = isinstance(vision.values.get("width"), dict)
    blocks = (*_sam(), *_clip()) if encoders else siglip(Config(_SIGLIP), config, hidden)
    projector = config.section("projector_config")
    width = projector.integer("input_dim", default=_SIGLIP["hidden_size"], low=1)
    if projector.text("projector_type") == "linear":
        linears = parts.linear("projector.layers", hidden, width, bias=True)
    else:
        inner = hidden * projector.integer("mlp_ratio", default=1)
        gathered = width * projector.integer("downsample_ratio", default=2, low=1) ** 2
        depth = projector.integer("depth", default=2, low=1, high=8)
        linears = (
            *parts.linear("projector.layers.0", inner, gathered, bias=True),
            *(
                tensor
                for index in range(1, depth - 1)
                for tensor in parts.linear(f"projector.layers.{2 * index}", inner, inner, bias=True)
            ),
            *parts.linear(f"projector.layers.{2 * (depth - 1)}", hidden, inner, bias=True),
        )
    separators = (whole("image_newline", hidden), whole("view_seperator", hidden))
    return (*blocks, parts.single(Part.PROJECTOR, (*linears, *separators)))


def _sam() -> tuple[Block, ...]:
    """SAM's encoder of the smallest size, whole on every rank; its relative positions reach over a
    window or the image, and three convolutions halve it twice."""
    name, hidden, layers = "sam_model", 768, 12
    reaches = [_SAM_PATCHES if i in _SAM_GLOBAL else _SAM_WINDOW for i in range(layers)]
    tower = (
        *patches(f"{name}.patch_embed.proj", hidden, 3, 16, 16),
        whole(f"{name}.pos_embed", _SAM_PATCHES, _SAM_PATCHES, hidden),
        *(
            whole(f"{name}.blocks.{layer}.attn.rel_pos_{side}", 2 * reach - 1, hidden // layers)
            for layer, reach in enumerate(reaches)
            for side in "hw"
        ),
        *patches(f"{name}.neck.0", 256, hidden, 1, 1, bias=False),
        *parts.norm(f"{name}.neck.1", 256, bias=True),
        *patches(f"{name}.neck.2", 256, 256, 3, 3, bias=False),
        *parts.norm(f"{name}.neck.3", 256, bias=True),
        *patches(f"{name}.net_2", 512, 256, 3, 3, bias=False),
        *patches(f"{name}.net_3", 1024, 512, 3, 3, bias=False),
    )
    style = Vit(
        f"{name}.blocks.{{}}.",
        qkv=("attn.qkv",),
        out="attn.proj",
        norms=("norm1", "norm2"),
        mlp=("mlp.lin1", "mlp.lin2"),
        sharded=False,
    )
    blocks = vit(style, hidden=hidden, heads=layers, width=4 * hidden, layers=layers)
    return (parts.single(Part.VISION, tower), *blocks)


def _clip() -> tuple[Block, ...]:
    """CLIP of the large size without its last norm; its patches are what SAM's encoder makes."""
    name, hidden = "vision_model", 1024
    tower = (
        whole(f"{name}.embeddings.class_embedding", hidden),
        *patches(f"{name}.embeddings.patch_embedding", hidden, 3, 14, 14, bias=False),
        whole(f"{name}.embeddings.position_embedding.weight", 257, hidden),
        *parts.norm(f"{name}.pre_layrnorm", hidden, bias=True),
    )
    style = Vit(f"{name}.transformer.layers.{{}}.", qkv=("self_attn.qkv_proj",))
    blocks = vit(style, hidden=hidden, heads=16, width=4096, layers=24)
    return (parts.single(Part.VISION, tower), *blocks)
