"""What joins a vision tower to a language model: the towers of LLaVA and its kin, with their
projectors.

Sources: transformers 5.23, models/{llava,llava_next,mistral3,gemma3,internvl}; division: vLLM
0.33, models of the same names."""

from collections.abc import Mapping
from typing import Any

from fitgauge.engine.model.config import Config
from fitgauge.engine.model.families import parts
from fitgauge.engine.model.families.multimodal import audio, towers, vit
from fitgauge.engine.model.families.multimodal.towers import Tower
from fitgauge.engine.model.spec import Block, Part, Split


def llava(
    vision: Config, config: Config, hidden: int, *, divided: bool = True
) -> tuple[Block, ...]:
    """LLaVA: any of three towers, and two linears, `divided` over ranks or whole."""
    tower, width = any_tower(vision, config, hidden)
    bias = config.flag("multimodal_projector_bias", default=True)
    column, row = (Split.COLUMN, Split.ROW) if divided else (Split.NONE, Split.NONE)
    name = "multi_modal_projector"
    projector = (
        *parts.linear(
            f"{name}.linear_1", hidden, width * feature_layers(config), column, bias=bias
        ),
        *parts.linear(f"{name}.linear_2", hidden, hidden, row, bias=bias),
    )
    return (*tower, parts.single(Part.PROJECTOR, projector))


def llava_next(vision: Config, config: Config, hidden: int) -> tuple[Block, ...]:
    """LLaVA-NeXT: LLaVA and a learned line break."""
    return (*llava(vision, config, hidden), _line_break(hidden))


def llava_onevision(vision: Config, config: Config, hidden: int) -> tuple[Block, ...]:
    """LLaVA-OneVision: LLaVA with its linears whole on every rank, and a learned line break."""
    return (*llava(vision, config, hidden, divided=False), _line_break(hidden))


def _line_break(hidden: int) -> Block:
    return parts.single(Part.PROJECTOR, (vit.whole("image_newline", hidden),))


def paddle_ocr(vision: Config, config: Config, hidden: int) -> tuple[Block, ...]:
    """PaddleOCR-VL: SigLIP without its head, a norm and two linears over merged patches, whole on
    every rank."""
    vision = vision.with_values(vision_use_head=False)
    tower, width = any_tower(vision, config, hidden)
    merged = width * vision.integer("spatial_merge_size", default=2, low=1) ** 2
    name = "model.projector"
    projector = (
        *parts.norm(f"{name}.pre_norm", width, bias=True),
        *parts.linear(f"{name}.linear_1", merged, merged, bias=True),
        *parts.linear(f"{name}.linear_2", hidden, merged, bias=True),
    )
    return (*tower, parts.single(Part.PROJECTOR, projector))


def paligemma(vision: Config, config: Config, hidden: int) -> tuple[Block, ...]:
    """PaliGemma: SigLIP and one linear."""
    tower, width = any_tower(vision, config, hidden)
    out = vision.integer(
        "projection_dim", default=config.integer("projection_dim", default=2048), low=1
    )
    return (
        *tower,
        parts.single(
            Part.PROJECTOR, parts.linear("multi_modal_projector.linear", out, width, bias=True)
        ),
    )


def mistral3(vision: Config, config: Config, hidden: int) -> tuple[Block, ...]:
    """Mistral Small 3: Pixtral, a norm, a linear that merges patches, two linears."""
    tower, width = any_tower(vision, config, hidden)
    merge = config.integer("spatial_merge_size", default=2, low=1)
    bias = config.flag("multimodal_projector_bias")
    name = "multi_modal_projector"
    projector = (
        *parts.norm(f"{name}.norm", width),
        *parts.linear(f"{name}.patch_merger.merging_layer", width, width * merge**2),
        *parts.linear(
            f"{name}.linear_1", hidden, width * feature_layers(config), Split.COLUMN, bias=bias
        ),
        *parts.linear(f"{name}.linear_2", hidden, hidden, Split.ROW, bias=bias),
    )
    return (*tower, parts.single(Part.PROJECTOR, projector))


def gemma3(vision: Config, config: Config, hidden: int) -> tuple[Block, ...]:
    """Gemma 3: SigLIP, a norm and one projection."""
    tower, width = any_tower(vision, config, hidden)
    name = "multi_modal_projector"
    projector = (
        vit.whole(f"{name}.mm_input_projection_weight", width, hidden),
        *parts.norm(f"{name}.mm_soft_emb_norm", width),
    )
    return (*tower, parts.single(Part.PROJECTOR, projector))


def internvl(vision: Config, config: Config, hidden: int) -> tuple[Block, ...]:
    """InternVL: InternViT, pixel shuffle, a norm and two linears."""
    tower, width = any_tower(vision, config, hidden)
    ratio = config.number("downsample_ratio", default=0.5, low=1 / 64, high=1)
    gathered = width * int(1 / ratio) ** 2
    name = "multi_modal_projector"
    projector = (
        *parts.norm(f"{name}.layer_norm", gathered, bias=True),
        *parts.linear(f"{name}.linear_1", hidden, gathered, bias=True),
        *parts.linear(f"{name}.linear_2", hidden, hidden, bias=True),
    )
    return (*tower, parts.single(Part.PROJECTOR, projector))


def cohere2(vision: Config, config: Config, hidden: int) -> tuple[Block, ...]:
    """Command A Vision: SigLIP, pixels unshuffled, a gated projection of
    `alignment_intermediate_size`."""
    tower, width = any_tower(vision, config, hidden)
    inner = config.integer("alignment_intermediate_size", default=36864, low=2)
    gathered = width * config.integer("downsample_factor", default=2, low=1) ** 2
    name = "model.multi_modal_projector"
    projector = (
        *parts.linear(f"{name}.linear_1", inner, gathered, Split.COLUMN, bias=True),
        *parts.linear(f"{name}.linear_2", hidden, inner // 2, Split.ROW, bias=True),
    )
    return (*tower, parts.single(Part.PROJECTOR, projector))


def aya(vision: Config, config: Config, hidden: int) -> tuple[Block, ...]:
    """Aya Vision: Command A Vision's tower and projection, behind a norm."""
    inner = config.integer("alignment_intermediate_size", default=hidden, low=2)
    *tower, joint = cohere2(vision, config.with_values(alignment_intermediate_size=inner), hidden)
    norm = parts.norm("model.multi_modal_projector.layernorm", joint.tensors[0].shape[1], bias=True)
    return (*tower, parts.single(Part.PROJECTOR, (*norm, *joint.tensors)))


def cosmos3(vision: Config, config: Config, hidden: int) -> tuple[Block, ...]:
    """Cosmos 3 Edge: SigLIP 2, a norm and two linears over merged patches."""
    vision = vision.with_defaults(towers.SIGLIP2_DEFAULTS)
    width = vision.integer("hidden_size", low=1)
    merged = width * vision.integer("spatial_merge_size", default=2, low=1) ** 2
    inner = config.integer("projector_hidden_size", default=11520, low=1)
    name = "model.visual.projector"
    projector = (
        *parts.norm(f"{name}.norm", width, bias=True),
        *parts.linear(f"{name}.linear_fc1", inner, merged, Split.COLUMN, bias=True),
        *parts.linear(f"{name}.linear_fc2", hidden, inner, Split.ROW, bias=True),
    )
    tower = towers.siglip2(vision.with_values(vision_use_head=False), name="model.visual.encoder")
    return (*tower, parts.single(Part.PROJECTOR, projector))


def qwen2_audio(_vision: Config, config: Config, hidden: int) -> tuple[Block, ...]:
    """Qwen2-Audio: Whisper's encoder instead of a vision tower."""
    return audio.whisper(config.section("audio_config"), hidden)


def voxtral(_vision: Config, config: Config, hidden: int) -> tuple[Block, ...]:
    """Voxtral: Whisper's encoder under other keys, four positions stacked, two linears."""
    return _renamed_whisper(config, hidden, stacked=4, bias=False)


def audio_flamingo3(_vision: Config, config: Config, hidden: int) -> tuple[Block, ...]:
    """Audio Flamingo 3: Whisper's encoder under other keys, two linears."""
    bias = config.flag("projector_bias", default=True)
    return _renamed_whisper(config, hidden, stacked=1, bias=bias)


def moss(_vision: Config, config: Config, hidden: int) -> tuple[Block, ...]:
    """MOSS-Transcribe-Diarize: Whisper's encoder under other keys, `audio_merge_size` positions
    stacked, two linears and a norm, of PyTorch's own. Source: vLLM 0.33,
    models/moss_transcribe_diarize.py."""
    stacked = config.integer("audio_merge_size", default=4, low=1)
    norm = parts.norm("multi_modal_projector.norm", hidden, bias=True)
    return (
        *_renamed_whisper(config, hidden, stacked=stacked, bias=True),
        parts.single(Part.PROJECTOR, norm),
    )


def _renamed_whisper(config: Config, hidden: int, *, stacked: int, bias: bool) -> tuple[Block, ...]:
    """Return Whisper's encoder under the usual keys and two linears over `stacked` positions."""
    keys = config.section("audio_config")
    renamed = {
        "d_model": keys.integer("hidden_size", "d_model", default=1280, low=1),
        "encoder_layers": keys.integer("num_hidden_layers", "encoder_layers", default=32, low=1),
        "encoder_attention_heads": keys.integer(
            "num_attention_heads", "encoder_attention_heads", default=20, low=1
        ),
        "encoder_ffn_dim": keys.integer(
            "intermediate_size", "encoder_ffn_dim", default=5120, low=1
        ),
    }
    encoder = audio.whisper(keys.with_values(**renamed), hidden)
    name = "multi_modal_projector"
    projector = (
        *parts.linear(f"{name}.linear_1", hidden, stacked * renamed["d_model"], bias=bias),
        *parts.linear(f"{name}.linear_2", hidden, hidden, bias=bias),
    )
    return (*encoder[:-1], parts.single(Part.PROJECTOR, projector))


def lfm2(vision: Config, config: Config, hidden: int) -> tuple[Block, ...]:
    """LFM2-VL: SigLIP 2, pixel unshuffle, a norm (`projector_use_layernorm`) and two linears."""
    vision = vision.with_defaults(towers.SIGLIP2_DEFAULTS)
    width = vision.integer("hidden_size", low=1)
    gathered = width * config.integer("downsample_factor", default=2, low=1) ** 2
    inner = config.integer("projector_hidden_size", default=2560)
    bias = config.flag("projector_bias", default=True)
    normed = config.flag("projector_use_layernorm", default=True)
    name = "model.multi_modal_projector"
    projector = (
        *(parts.norm(f"{name}.layer_norm", gathered, bias=True) if normed else ()),
        *parts.linear(f"{name}.linear_1", inner, gathered, bias=bias),
        *parts.linear(f"{name}.linear_2", hidden, inner, bias=bias),
    )
    return (*towers.siglip2(vision), parts.single(Part.PROJECTOR, projector))


def any_tower(vision: Config, config: Config, hidden: int) -> tuple[tuple[Block, ...], int]:
    """Return the tower that `vision_config.model_type` names (by the wrapper's habit where it is
    silent) and its width."""
    siglip = "siglip_vision_model"
    habit = {
        "gemma3": siglip,
        "paligemma": siglip,
        "llava_onevision": siglip,
        "mistral3": "pixtral",
        "internvl": "internvl_vision",
        "aya_vision": siglip,
        "cohere2_vision": siglip,
        "paddleocr_vl": siglip,
    }
    kind = vision.text(
        "model_type", default=habit.get(config.text("model_type"), "clip_vision_model")
    )
    tower, defaults = TOWERS.get(kind, TOWERS["clip_vision_model"])
    return tower(vision, config, hidden), vision.integer(
        "hidden_size", default=defaults["hidden_size"], low=1
    )


def feature_layers(config: Config) -> int:
    """Return how many layers' features the projector joins: `vision_feature_layer` is one number
    or a list."""
    value = config.values.get("vision_feature_layer")
    return max(len(value), 1) if isinstance(value, list) else 1


TOWERS: Mapping[str, tuple[Tower, Mapping[str, Any]]] = {
    "siglip_vision_model": (towers.siglip, towers.SIGLIP_DEFAULTS),
    "paddleocr_vl_vision": (
        towers.siglip,
        towers.SIGLIP_DEFAULTS
        | {
            "hidden_size": 1152,
            "intermediate_size": 4304,
            "num_hidden_layers": 27,
            "num_attention_heads": 16,
            "image_size": 384,
            "patch_size": 14,
        },
    ),
    "clip_vision_model": (towers.clip, towers.CLIP_DEFAULTS),
    "pixtral": (towers.pixtral, towers.PIXTRAL_DEFAULTS),
    "internvl_vision": (towers.intern, towers.INTERN_DEFAULTS),
}
"""Towers by `vision_config.model_type`, with their defaults."""
