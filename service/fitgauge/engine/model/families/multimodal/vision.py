"""Models that see: which tower stands before which language model. Source: transformers 5.23,
models/<model_type>."""

from collections.abc import Mapping
from functools import partial
from typing import Any

from fitgauge.engine.model.config import Config
from fitgauge.engine.model.families.dense.dense import Reader, readers
from fitgauge.engine.model.families.mixture import per_layer_heads
from fitgauge.engine.model.families.multimodal import (
    deepseek_vl,
    ernie,
    gemma3n,
    gemma4,
    minicpm,
    mixture_towers,
    mllama,
    perception,
    projectors,
    qwen_vision,
    resamplers,
    speech,
    towers,
)
from fitgauge.engine.model.families.multimodal.wrapper import Wrapper, read_wrapped
from fitgauge.engine.model.spec import ModelSpec


def _sizes(
    vocabulary: int,
    hidden: int,
    width: int,
    layers: int,
    heads: int,
    kv_heads: int,
    positions: int,
    **more: int | str | bool | None,
) -> dict[str, Any]:
    """Return the sizes of a language model by their usual names."""
    return {
        "vocab_size": vocabulary,
        "hidden_size": hidden,
        "intermediate_size": width,
        "num_hidden_layers": layers,
        "num_attention_heads": heads,
        "num_key_value_heads": kv_heads,
        "max_position_embeddings": positions,
    } | more


_QWEN2 = _sizes(152064, 8192, 29568, 80, 64, 8, 32768, head_dim=None)
_GLM4V = _sizes(151552, 4096, 13696, 40, 32, 2, 32768, head_dim=None, attention_bias=True)
_CLIP_LARGE = {
    "hidden_size": 1024, "intermediate_size": 4096, "patch_size": 14, "image_size": 336,
    "num_hidden_layers": 24, "num_attention_heads": 16,
}  # fmt: skip

_SIGLIP_LARGE = {
    "hidden_size": 1152,
    "patch_size": 14,
    "num_attention_heads": 16,
    "vision_use_head": False,
}

_inside = partial(Wrapper, stem="language_model.model.", head="language_model.lm_head.")
_thinker = partial(Wrapper, stem="thinker.model.", head="thinker.lm_head.", ties="text")

WRAPPERS: Mapping[str, Wrapper] = {
    "qwen2_vl": Wrapper("qwen2_vl_text", qwen_vision.qwen2, stem="model.", defaults=_QWEN2,
        ties="either", rotary=True),
    "qwen2_5_vl": Wrapper("qwen2_5_vl_text", qwen_vision.qwen2_5, stem="model.", defaults=_QWEN2,
        ties="either", rotary=True),
    "qwen3_vl": Wrapper("qwen3_vl_text", qwen_vision.qwen3,
        defaults=_sizes(151936, 4096, 22016, 32, 32, 32, 128000, head_dim=128), rotary=True),
    "qwen3_vl_moe": Wrapper("qwen3_vl_moe_text", qwen_vision.qwen3, rotary=True),
    "qwen3_5": Wrapper("qwen3_5_text", qwen_vision.qwen3_5, rotary=True),
    "qwen3_5_moe": Wrapper("qwen3_5_moe_text", qwen_vision.qwen3_5, rotary=True),
    "qwen4_exp": Wrapper("qwen4_exp_text", qwen_vision.qwen3_5, rotary=True),
    "glm4v": Wrapper("glm4v_text", qwen_vision.glm4, defaults=_GLM4V, ties="either", rotary=True),
    "glm4v_moe": Wrapper("glm4v_moe_text", qwen_vision.glm4, ties="either", rotary=True,
        defaults=_sizes(151424, 4096, 10944, 46, 96, 8, 65536, attention_bias=True)),
    "gemma3": _inside("gemma3_text", projectors.gemma3, tied=True),
    "gemma4": Wrapper("gemma4_text", gemma4.towers, tied=True),
    "embedding_gemma2": Wrapper("embedding_gemma2_text", gemma4.towers, stem="language_model.",
        tied=True),
    "diffusion_gemma": Wrapper("diffusion_gemma_text", gemma4.diffusion, tied=True,
        defaults={"hidden_size_per_layer_input": 0, "attention_k_eq_v": True}),
    "gemma3n": Wrapper("gemma3n_text", gemma3n.towers, tied=True),
    "mistral3": _inside("mistral", projectors.mistral3, tied=True,
        absent=_sizes(131072, 5120, 32768, 40, 32, 8, 131072, head_dim=128, sliding_window=None,
            model_type="mistral"),
        vision={"patch_size": 14, "image_size": 1540}),
    "llava": _inside("llama", projectors.llava, ties="either", vision=_CLIP_LARGE),
    "llava_next": _inside("llama", projectors.llava_next, vision=_CLIP_LARGE),
    "llava_next_video": _inside("llama", projectors.llava_onevision, vision=_CLIP_LARGE),
    "llava_onevision": _inside("qwen2", projectors.llava_onevision,
        vision=_SIGLIP_LARGE | {"num_hidden_layers": 26, "intermediate_size": 4304,
            "image_size": 384}),
    "paligemma": _inside("gemma", projectors.paligemma, tied=True,
        absent=_sizes(257152, 2048, 16384, 18, 8, 1, 8192, head_dim=256, model_type="gemma"),
        vision=_SIGLIP_LARGE | {"num_hidden_layers": 27, "intermediate_size": 4096,
            "image_size": 224}),
    "aria": Wrapper("aria_text", resamplers.aria, stem="model.language_model."),
    "audioflamingo3": _inside("qwen2", projectors.audio_flamingo3,
        defaults=_sizes(151936, 4096, 22016, 32, 32, 32, 32768)),
    "blip-2": _inside("opt", resamplers.blip2, tied=True),
    "aya_vision": Wrapper("cohere2", projectors.aya, tied=True),
    "cohere2_vision": Wrapper("cohere2", projectors.cohere2, stem="model.language_model.",
        tied=True),
    "cosmos3_edge": Wrapper("cosmos3_edge_text", projectors.cosmos3,
        defaults=_sizes(131072, 2048, 9216, 28, 16, 8, 131072, head_dim=128)),
    "ernie4_5_vl_moe": Wrapper("ernie4_5_vl_moe_text", ernie.tower, tied=True),
    "deepseek_vl_v2": Wrapper("deepseek_v2", deepseek_vl.towers, stem="model.", ties="text"),
    "glm_ocr": Wrapper("glm_ocr_text", qwen_vision.glm_ocr, rotary=True,
        defaults=_sizes(59392, 1024, 4096, 16, 16, 8, 131072, head_dim=None, attention_bias=False)),
    "muse_glimmer": Wrapper("muse_glimmer_text", qwen_vision.muse_glimmer,
        defaults=_sizes(202048, 6656, 19968, 52, 32, 2, 131072, head_dim=128,
            sliding_window=2048)),
    "paddleocr_vl": Wrapper("ernie4_5", projectors.paddle_ocr, tied=True,
        defaults=_sizes(103424, 1024, 3072, 18, 16, 2, 131072, head_dim=128)),
    "exaone4_5": Wrapper("exaone4", qwen_vision.qwen2_5, rotary=True),
    "internvl_chat": _inside("llama", towers.intern_chat, ties="text"),
    "internvl": _inside("qwen2", projectors.internvl, tied=True),
    "idefics3": Wrapper("llama", towers.idefics, stem="model.text_model."),
    "smolvlm": Wrapper("llama", towers.idefics, stem="model.text_model."),
    "llama4": _inside("llama4_text", mixture_towers.llama4, ties="text"),
    "minicpmv4_6": Wrapper("qwen3_5_text", minicpm.minicpm),
    "minicpmv4_7": Wrapper("qwen3_5_text", minicpm.minicpm),
    "moss_transcribe_diarize": Wrapper("qwen3", projectors.moss, stem="model.language_model.",
        tied=True),
    "mllama": _inside("mllama_text_model", mllama.tower),
    "kimi_vl": _inside("deepseek_v3",
        partial(mixture_towers.moonvit, names=mixture_towers.KIMI_VL_PROJECTOR), ties="text"),
    "kimi_k25": _inside("deepseek_v3", mixture_towers.moonvit, ties="text"),
    "kimi_k3": _inside("kimi_linear", mixture_towers.moonvit_k3, ties="text"),
    "qwen2_audio": _inside("qwen2", projectors.qwen2_audio),
    "voxtral": _inside("llama", projectors.voxtral),
    "qwen2_5_omni": _thinker("qwen2_5_omni_text", speech.qwen2_5_omni, rotary=True,
        defaults=_sizes(152064, 3584, 18944, 28, 28, 4, 32768, head_dim=None)),
    "qwen3_omni_moe": _thinker("qwen3_omni_moe_text", speech.qwen3_omni, rotary=True),
    "qwen3_asr": _thinker("qwen3", speech.qwen3_asr),
    "ultravox": _inside("llama", speech.ultravox, ties="text"),
    "glmasr": _inside("llama", speech.glm_asr, tied=True),
    "granite_speech_plus": _inside("granite", speech.granite_speech, tied=True),
    "granite_speech": _inside("granite", speech.granite_speech, tied=True),
    "lfm2_vl": Wrapper("lfm2", projectors.lfm2, stem="model.language_model.", tied=True),
    "step3p7": Wrapper("step3p5", perception.step, stem="model."),
    "minimax_m3_vl": _inside("minimax_m3_vl_text", mixture_towers.minimax_m3, ties="either"),
}  # fmt: skip


def read_mllama(config: Config) -> ModelSpec:
    """Llama 3.2 Vision: its cross attention keeps the tokens of one image."""
    text = {
        **config.section("text_config").values,
        "source_tokens": mllama.image_tokens(config.section("vision_config")),
    }
    return read_wrapped(config.with_values(text_config=text), WRAPPERS["mllama"])


def read_deepseek_vl(config: Config) -> ModelSpec:
    """DeepSeek-VL2 and DeepSeek-OCR, whose decoder's heads are plain where their latent dimensions
    are 0."""
    text = config.section("language_config")
    kind = "deepseek" if deepseek_vl.plain_attention(text) else "deepseek_v2"
    section = {**text.values, "model_type": kind}
    return read_wrapped(config.with_values(text_config=section), WRAPPERS["deepseek_vl_v2"])


def read_step(config: Config) -> ModelSpec:
    """Step 3.7; a config without sections is a language model alone."""
    if not (config.has("text_config") or config.has("vision_config")) and config.has("hidden_size"):
        return per_layer_heads.read_step(config)
    return read_wrapped(config, WRAPPERS["step3p7"])


def read_thinker(config: Config) -> ModelSpec:
    """Read a model that hears, whose `thinker_config` is the part that writes: what speaks is
    another part, which engines do not load."""
    thinker = config.section("thinker_config").values
    outside = {name: value for name, value in config.values.items() if name != "thinker_config"}
    values = {**thinker, **outside} if thinker else config.values
    wrapper = WRAPPERS[config.text("model_type")]
    return read_wrapped(Config(values, config.where), wrapper)


READERS: dict[str, Reader] = {
    **readers(read_wrapped, WRAPPERS),
    **gemma3n.READERS,
    **gemma4.READERS,
    **dict.fromkeys(deepseek_vl.MODEL_TYPES, read_deepseek_vl),
    "mllama": read_mllama,
    "step3p7": read_step,
    "qwen2_5_omni": read_thinker,
    "qwen3_omni_moe": read_thinker,
    "qwen3_asr": read_thinker,
}
