"""Vision towers: the plain vision transformer that image models share, and the towers that are
little more than it.

A tower is a function of the vision section, the whole config and the language model's width: it
gives the blocks of the tower and of what joins it to the language model. Names are the
checkpoints'. Sources: transformers 5.23,
models/{siglip,clip,pixtral,internvl,idefics3,llava,mistral3,gemma3}; division: vLLM 0.33,
models/{siglip,clip,pixtral,intern_vit}.py (`mm_encoder_tp_mode` "weights", its default)."""

from collections.abc import Callable

from fitgauge.engine.model.config import Config
from fitgauge.engine.model.families import parts
from fitgauge.engine.model.families.multimodal.vit import (
    Vit,
    patch_count,
    patches,
    sides,
    usual,
    whole,
)
from fitgauge.engine.model.spec import Block, Part, Split, Tensor

Tower = Callable[[Config, Config, int], tuple[Block, ...]]
"""(vision section, whole config, width of the language model [features]) -> blocks."""


def siglip(
    vision: Config, _config: Config, _hidden: int, *, name: str = "vision_tower.vision_model"
) -> tuple[Block, ...]:
    """SigLIP: patches, learned positions, layers, and a pooling head unless `vision_use_head` is
    false (transformers keeps it)."""
    vision = vision.with_defaults(SIGLIP_DEFAULTS)
    hidden, channels = vision.integer("hidden_size", low=1), vision.integer("num_channels")
    embeddings = (
        *patches(
            f"{name}.embeddings.patch_embedding", hidden, channels, *sides(vision, "patch_size")
        ),
        whole(f"{name}.embeddings.position_embedding.weight", patch_count(vision), hidden),
    )
    return _siglip(vision, name, embeddings)


def _siglip(vision: Config, name: str, embeddings: tuple[Tensor, ...]) -> tuple[Block, ...]:
    """Return a tower of SigLIP behind its embeddings."""
    hidden, width = vision.integer("hidden_size", low=1), vision.integer("intermediate_size")
    tower = (
        *embeddings,
        *parts.norm(f"{name}.post_layernorm", hidden, bias=True),
        *(
            siglip_head(f"{name}.head", hidden, width)
            if vision.flag("vision_use_head", default=True)
            else ()
        ),
    )
    layers = usual(vision, Vit(f"{name}.encoder.layers.{{}}."))
    return (parts.single(Part.VISION, tower), *layers)


def siglip_head(name: str, hidden: int, width: int) -> tuple[Tensor, ...]:
    """SigLIP's attention pooling: a learned probe, one attention layer, one MLP."""
    return (
        whole(f"{name}.probe", 1, 1, hidden),
        whole(f"{name}.attention.in_proj_weight", 3 * hidden, hidden),
        whole(f"{name}.attention.in_proj_bias", 3 * hidden),
        *parts.linear(f"{name}.attention.out_proj", hidden, hidden, bias=True),
        *parts.norm(f"{name}.layernorm", hidden, bias=True),
        *parts.linear(f"{name}.mlp.fc1", width, hidden, Split.COLUMN, bias=True),
        *parts.linear(f"{name}.mlp.fc2", hidden, width, Split.ROW, bias=True),
    )


def siglip2(vision: Config, *, name: str = "model.vision_tower.vision_model") -> tuple[Block, ...]:
    """SigLIP 2 for images of any shape (NaFlex): patches by a linear, a table of `num_patches`
    positions."""
    hidden = vision.integer("hidden_size", low=1)
    pixels = vision.integer("num_channels") * vision.integer("patch_size", low=1) ** 2
    embeddings = (
        *parts.linear(f"{name}.embeddings.patch_embedding", hidden, pixels, bias=True),
        whole(
            f"{name}.embeddings.position_embedding.weight",
            vision.integer("num_patches", low=1),
            hidden,
        ),
    )
    return _siglip(vision, name, embeddings)


def clip(
    vision: Config, _config: Config, _hidden: int, *, name: str = "vision_tower.vision_model"
) -> tuple[Block, ...]:
    """CLIP: a class token, patches without bias, learned positions, a norm before the layers and
    one after."""
    vision = vision.with_defaults(CLIP_DEFAULTS)
    hidden, channels = vision.integer("hidden_size", low=1), vision.integer("num_channels")
    tower = (
        whole(f"{name}.embeddings.class_embedding", hidden),
        *patches(
            f"{name}.embeddings.patch_embedding",
            hidden,
            channels,
            *sides(vision, "patch_size"),
            bias=False,
        ),
        whole(f"{name}.embeddings.position_embedding.weight", patch_count(vision) + 1, hidden),
        *parts.norm(f"{name}.pre_layrnorm", hidden, bias=True),
        *parts.norm(f"{name}.post_layernorm", hidden, bias=True),
    )
    layers = usual(vision, Vit(f"{name}.encoder.layers.{{}}."))
    return (parts.single(Part.VISION, tower), *layers)


def pixtral(
    vision: Config, _config: Config, _hidden: int, *, name: str = "vision_tower"
) -> tuple[Block, ...]:
    """Pixtral: patches, one RMS norm, layers with gated MLPs and rotary positions; no biases."""
    vision = vision.with_defaults(PIXTRAL_DEFAULTS)
    hidden = vision.integer("hidden_size", low=1)
    style = Vit(
        f"{name}.transformer.layers.{{}}.",
        qkv=("attention.q_proj", "attention.k_proj", "attention.v_proj"),
        out="attention.o_proj",
        norms=("attention_norm", "ffn_norm"),
        mlp=("feed_forward.gate_proj", "feed_forward.up_proj", "feed_forward.down_proj"),
        norm_bias=False,
        qkv_bias=False,
        out_bias=False,
        mlp_bias=False,
    )
    channels = vision.integer("num_channels")
    tower = (
        *patches(f"{name}.patch_conv", hidden, channels, *sides(vision, "patch_size"), bias=False),
        *parts.norm(f"{name}.ln_pre", hidden),
    )
    return (parts.single(Part.VISION, tower), *usual(vision, style))


def intern(vision: Config, _config: Config, _hidden: int) -> tuple[Block, ...]:
    """InternViT as transformers stores it: a class token, learned positions, layer scales. Every
    rank holds the attention whole. Source: vLLM 0.33, models/interns1_vit.py."""
    vision = vision.with_defaults(INTERN_DEFAULTS)
    hidden = vision.integer("hidden_size", low=1)
    channels = vision.integer("num_channels")
    layer_norm = vision.text("norm_type", default="layer_norm") == "layer_norm"
    qk_norm = ("attention.q_norm", "attention.k_norm") if vision.flag("use_qk_norm") else ()
    style = Vit(
        "vision_tower.encoder.layer.{}.",
        qkv=("attention.q_proj", "attention.k_proj", "attention.v_proj"),
        out="attention.projection_layer",
        norms=("layernorm_before", "layernorm_after"),
        norm_bias=layer_norm,
        qkv_bias=vision.flag("attention_bias"),
        whole_attention=True,
        extras=(
            whole("lambda_1", hidden),
            whole("lambda_2", hidden),
            *parts.norms(qk_norm, hidden),
        ),
    )
    embeddings = "vision_tower.embeddings"
    positioned = vision.flag("use_absolute_position_embeddings", default=True)
    pooled = vision.flag("use_mean_pooling", default=True)
    tower = (
        whole(f"{embeddings}.cls_token", 1, 1, hidden),
        *(
            (whole(f"{embeddings}.mask_token", 1, 1, hidden),)
            if vision.flag("use_mask_token")
            else ()
        ),
        *(
            (whole(f"{embeddings}.position_embeddings", 1, patch_count(vision) + 1, hidden),)
            if positioned
            else ()
        ),
        *patches(
            f"{embeddings}.patch_embeddings.projection",
            hidden,
            channels,
            *sides(vision, "patch_size"),
        ),
        *(() if pooled else parts.norm("vision_tower.layernorm", hidden, bias=True)),
    )
    return (parts.single(Part.VISION, tower), *usual(vision, style))


def intern_chat(vision: Config, config: Config, hidden: int) -> tuple[Block, ...]:
    """InternVL as OpenGVLab's repositories store it (vLLM 0.33, models/intern_vit.py and
    internvl.py): joint qkv, its own names."""
    vision = vision.with_defaults(INTERN_CHAT_DEFAULTS)
    width = vision.integer("hidden_size", low=1)
    qk_norm = ("attn.q_norm", "attn.k_norm") if vision.flag("qk_normalization") else ()
    style = Vit(
        "vision_model.encoder.layers.{}.",
        qkv=("attn.qkv",),
        out="attn.proj",
        norms=("norm1", "norm2"),
        norm_bias=vision.text("norm_type", default="rms_norm") == "layer_norm",
        qkv_bias=vision.flag("qkv_bias"),
        extras=(whole("ls1", width), whole("ls2", width), *parts.norms(qk_norm, width)),
    )
    embeddings = "vision_model.embeddings"
    tower = (
        whole(f"{embeddings}.class_embedding", 1, 1, width),
        *patches(
            f"{embeddings}.patch_embedding",
            width,
            vision.integer("num_channels"),
            *sides(vision, "patch_size"),
        ),
        whole(f"{embeddings}.position_embedding", 1, patch_count(vision) + 1, width),
    )
    ratio = config.number("downsample_ratio", default=0.5, low=1 / 64, high=1)
    gathered = width * int(1 / ratio) ** 2
    projector = (
        *parts.norm("mlp1.0", gathered, bias=True),
        *parts.linear("mlp1.1", hidden, gathered, bias=True),
        *parts.linear("mlp1.3", hidden, hidden, bias=True),
    )
    return (
        parts.single(Part.VISION, tower),
        *usual(vision, style),
        parts.single(Part.PROJECTOR, projector),
    )


def idefics(vision: Config, config: Config, hidden: int) -> tuple[Block, ...]:
    """Idefics 3 and SmolVLM: a SigLIP without head, and one linear over `scale_factor`^2
    patches."""
    vision = vision.with_defaults(IDEFICS_DEFAULTS)
    tower = siglip(
        vision.with_values(vision_use_head=False), config, hidden, name="model.vision_model"
    )
    gathered = (
        vision.integer("hidden_size", low=1) * config.integer("scale_factor", default=2, low=1) ** 2
    )
    return (
        *tower,
        parts.single(
            Part.PROJECTOR,
            parts.linear("model.connector.modality_projection.proj", hidden, gathered),
        ),
    )


SIGLIP_DEFAULTS = {
    "hidden_size": 768, "intermediate_size": 3072, "num_hidden_layers": 12,
    "num_attention_heads": 12, "num_channels": 3, "image_size": 224, "patch_size": 16,
}  # fmt: skip
"""transformers 5.23, SiglipVisionConfig."""

SIGLIP2_DEFAULTS = SIGLIP_DEFAULTS | {"num_patches": 256}
"""transformers 5.23, Siglip2VisionConfig."""

CLIP_DEFAULTS = SIGLIP_DEFAULTS | {"patch_size": 32}
"""transformers 5.23, CLIPVisionConfig."""

IDEFICS_DEFAULTS = SIGLIP_DEFAULTS | {
    "hidden_size": 1152,
    "num_attention_heads": 16,
    "patch_size": 32,
}
"""transformers 5.23, Idefics3VisionConfig and SmolVLMVisionConfig."""

PIXTRAL_DEFAULTS = {
    "hidden_size": 1024, "intermediate_size": 4096, "num_hidden_layers": 24,
    "num_attention_heads": 16, "num_channels": 3, "image_size": 1024, "patch_size": 16,
}  # fmt: skip
"""transformers 5.23, PixtralVisionConfig."""

INTERN_DEFAULTS = PIXTRAL_DEFAULTS | {"image_size": 448, "patch_size": 14}
"""transformers 5.23, InternVLVisionConfig."""

INTERN_CHAT_DEFAULTS = {
    "hidden_size": 3200, "intermediate_size": 12800, "num_hidden_layers": 48,
    "num_attention_heads": 25, "num_channels": 3, "image_size": 224, "patch_size": 14,
    "qkv_bias": False, "qk_normalization": True, "norm_type": "rms_norm",
}  # fmt: skip
"""The InternVisionConfig of OpenGVLab's repositories."""
