"""What SGLang's classes do differently from vLLM's for single model types.

Source: sglang 0.5.23, the module of srt/models named at each field."""

from collections.abc import Mapping
from typing import NamedTuple

from fitgauge.engine.model.spec import ModelSpec


class Quirks(NamedTuple):
    """How SGLang's class of one model type differs."""

    untied_head: bool = False
    """Its head is a tensor of its own, also where the checkpoint ties it to the embedding. Source:
    lfm2.py, lfm2_moe.py, phi.py, whisper.py (proj_out)."""

    head_in_f32: bool = False
    """Its head, also where that is the embedding, is in float32. Source: falcon_h1.py."""

    vocabulary_positions: bool = False
    """Its tower's positions are divided as a vocabulary is. Source: qwen3_vl.py, pos_embed."""

    whole: tuple[str, ...] = ()
    """Parts of the names of tensors that every rank holds whole."""

    divided_tower: bool = False
    """Its tower, which vLLM takes from transformers, is divided. Source: gemma4_vision.py,
    gemma3n_audio.py."""

    padded_heads: bool = False
    """Its tower's heads are padded to a multiple of the ranks. Source: the classes with
    num_dummy_heads (glm4v.py, qwen2_5_vl.py, internvl.py, mllama.py)."""

    keys_of_all_layers: bool = False
    """Layers that read another's cache have keys and values of their own. Source:
    gemma4_causal.py, gemma3n_causal.py (QKVParallelLinear)."""

    unquantized: tuple[str, ...] = ()
    """Modules in 16 bit whatever the checkpoint says, as their classes are built without
    quantization."""

    unnamed: tuple[str, ...] = ()
    """Modules that are built without a name, so that no checkpoint's list leaves them out. Source:
    voxtral.py, VoxtralWhisperAttention."""

    unquantized_off_blackwell: tuple[str, ...] = ()
    """The same on every GPU but those of compute capability 10. Source: deepseek_v4.py,
    wo_a_fp8_gemm_enabled; serving_hook.py and model_hook.py (SGLANG_OPT_FP8_WO_A_GEMM)."""

    router_in_16_bit: bool = False
    """Its routers, in float32 in the checkpoint, are built in bfloat16. Source: minimax_m3.py,
    bf16_router_gemm; environ.py (SGLANG_OPT_USE_BF16_ROUTER_GEMM)."""

    router_in_f32: bool = False
    """Its routers are in float32, whatever the checkpoint's are. Source: beam.py, laguna.py."""

    latent_cache: bool = False
    """Its cache holds latents, of which vLLM caches the keys and values. Source: minicpm3.py;
    srt/configs/model_config.py (AttentionArch.MLA)."""

    packed_positions: int = 0
    """Rows of a second table of its tower's positions, which no checkpoint's tensor fills in vLLM.
    Source: paddleocr_vl.py, packing_position_embedding."""

    unquantized_experts: bool = False
    """Its experts are parameters of a class of its own. Source: dbrx.py, DbrxExperts."""

    complex_frequencies: bool = False
    """Its attention holds every rotary table in complex64 too, as many bytes. Source:
    deepseek_v4.py, freqs_cis."""

    tower_frequencies: bool = False
    """Its tower keeps the frequencies of its positions and no table. Source: qwen2_vl.py,
    qwen2_5_vl.py."""

    unread_tower: bool = False
    """Its config class leaves `vision_config` a dict, of which no size is read. Source:
    configs/minimax_vl.py, MiniMaxM3VLConfig, to which transformers 5 gives a constructor that
    skips its parent's."""

    shared_expert_in_experts: bool = False
    """Its shared expert, as wide as a routed one, is one more of them, also under expert
    parallelism: each rank holds it. Source: qwen3_next.py, enable_cuda_shared_expert_fusion;
    qwen2_moe.py, can_fuse_shared_expert."""


_QWEN_VISION = Quirks(vocabulary_positions=True)
_GLM_VISION = Quirks(whole=("merger.proj.",), padded_heads=True)
_PADDED = Quirks(padded_heads=True)
_WHOLE_EMBEDDING = Quirks(whole=("embed_tokens",))
_GEMMA4 = Quirks(
    whole=("embed_tokens", "per_layer_model_projection"),
    divided_tower=True,
    keys_of_all_layers=True,
)
_KIMI_MLP = Quirks(whole=("vision_tower.encoder.blocks.{}.mlp.", "mm_projector."))
_KIMI_TOWER = Quirks(whole=("vision_tower.", "mm_projector."))
_LFM = Quirks(untied_head=True)
_ROUTER = Quirks(router_in_16_bit=True)

_QUIRKS: Mapping[str, Quirks] = {
    "clip": Quirks(
        whole=("token_embedding",), unquantized=("text_projection", "visual_projection")
    ),
    "dbrx": Quirks(unquantized_experts=True),
    "deepseek_v4": Quirks(unquantized_off_blackwell=("attn.wo_a",), complex_frequencies=True),
    "beam": Quirks(router_in_f32=True),
    "falcon_h1": Quirks(head_in_f32=True, unquantized=("mamba",)),
    "gemma3": _WHOLE_EMBEDDING,
    "gemma3_text": _WHOLE_EMBEDDING,
    "gemma3n": _WHOLE_EMBEDDING._replace(divided_tower=True, keys_of_all_layers=True),
    "gemma4": _GEMMA4,
    "gemma4_text": _GEMMA4,
    "gemma4_unified": _GEMMA4,
    "glm4v": _GLM_VISION,
    "glm4v_moe": _GLM_VISION,
    "glm_ocr": _GLM_VISION,
    "internvl": _PADDED,
    "internvl_chat": _PADDED,
    "kimi_k25": _KIMI_MLP,
    "kimi_k3": _KIMI_TOWER,
    "laguna": Quirks(router_in_f32=True),
    "lfm2": _LFM,
    "lfm2_moe": _LFM,
    "lfm2_vl": _LFM,
    "minicpm3": Quirks(latent_cache=True),
    "minimax_m3": _ROUTER,
    "minimax_m3_vl": _ROUTER._replace(unread_tower=True),
    "mistral3": Quirks(whole=("multi_modal_projector.",)),
    "mllama": Quirks(whole=("multi_modal_projector.",), padded_heads=True),
    "olmo": Quirks(unquantized=("self_attn",)),
    "paddleocr_vl": Quirks(packed_positions=32768),
    "phi": Quirks(untied_head=True),
    "qwen2_5_vl": _PADDED._replace(tower_frequencies=True),
    "qwen2_vl": Quirks(tower_frequencies=True),
    "qwen3_5": _QWEN_VISION,
    "qwen3_5_moe": _QWEN_VISION,
    "qwen3_next": Quirks(shared_expert_in_experts=True),
    "qwen3_omni_moe": _QWEN_VISION,
    "qwen3_vl": _QWEN_VISION,
    "qwen3_vl_moe": _QWEN_VISION,
    "stablelm": Quirks(unquantized=("self_attn",)),
    "voxtral": Quirks(
        unquantized=("re:audio_tower.*(fc1|fc2)$",), unnamed=("re:audio_tower.*self_attn.*",)
    ),
    "whisper": Quirks(untied_head=True, unquantized=("fc1", "fc2")),
}
"""By model type. Source of what is whole: clip.py, CLIPTextEmbeddings; gemma3_causal.py,
Gemma3TextScaledWordEmbedding; glm4_1v.py, Glm4vPatchMerger; kimi_k25.py, MLP2; kimi_k3_vl.py,
MoonViTEncoderLayer; mistral.py and mllama.py, multi_modal_projector. Of what is unquantized:
clip.py, CLIPModel; falcon_h1.py, MambaMixer2; olmo.py, OlmoAttention; stablelm.py,
StablelmDecoderLayer; whisper.py, WhisperEncoderLayer; voxtral.py."""

_NONE = Quirks()


def quirks(spec: ModelSpec) -> Quirks:
    """Return how SGLang's class of a model differs from vLLM's."""
    return _QUIRKS.get(spec.model_type, _NONE)
