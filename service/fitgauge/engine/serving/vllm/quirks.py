"""What vLLM's classes do differently for single model types.

Source: vLLM 0.33.0, the module of vllm/model_executor/models named at each field."""

from typing import Any, NamedTuple

from fitgauge.engine.model.spec import ModelSpec, Part


class Quirks(NamedTuple):
    """How vLLM treats one model type otherwise than the rest."""

    attention_sinks: bool = False
    """FlashInfer does not run it below Hopper. Source: the models' own classes."""

    triton_attention: bool = False
    """Has heads of two sizes: Triton attention below Blackwell. Source: models/config.py."""

    experts_not_silu: bool = False
    """FlashInfer's TRT-LLM kernels lack its experts' activation: gelu, clamped swiglu, situ.
    Source: fused_moe/experts/trtllm_bf16_moe.py, _supports_activation (silu and relu2)."""

    experts_without_triton: bool = False
    """Triton's MXFP4 kernels lack its experts' activation, so Hopper runs Marlin's. Source:
    fused_moe/experts/gpt_oss_triton_kernels_moe.py, _supports_activation; models/kimi_k3."""

    experts_unnamed: bool = False
    """Its experts' class has a name of its own, which compressed-tensors does not count as linears,
    so that they stay in 16 bit. Source: compressed_tensors/utils.py, find_matched_target;
    models/dbrx.py, DbrxExperts."""

    joint_router_kernels: bool = False
    """Runs kernels of router and experts together, from `releases.JOINT_ROUTER_KERNELS` on."""

    router_in_f32: bool = False
    """Its routers have F32 weights on every GPU. Source: ernie45_moe.py, glm4_moe.py and others,
    GateLinear with params_dtype."""

    router_in_f32_without_kernel: bool = False
    """They have F32 weights where no kernel sums 16-bit ones in F32. Source:
    fused_moe/router/gate_linear.py (force_fp32_compute: kernels for 9.0 and 10.x),
    models/nemotron_h.py."""

    unquantized_tower: bool = False
    """Its class builds tower and projector in 16 bits. Source: the models' own classes; mllama4.py,
    Llama4ForConditionalGeneration (quant_config=None)."""

    cache_dtype_ignored: bool = False
    """Its attention is built without the settings of the cache, which stays in the model's dtype.
    Source: falcon.py, FalconAttention."""

    holds_pooling_head: bool = False
    """Its tower, timm's SigLIP, has its pooling head, though no layer reads it. Source:
    deepseek_vl2.py, _init_vision_module."""

    padded_injection: bool = False
    """Whether what a block adds to its residual streams is padded. Source: models/qwen4_exp."""

    padded_tables: bool = False
    """An encoder whose position and type tables are padded like vocabularies, and whose pooler is
    left out. Source: bert.py, roberta.py."""

    whole_vocabulary: bool = False
    """Every rank holds the whole embedding. Source: whisper.py."""

    zero_key_bias: bool = False
    """Its keys have no bias, and one of zeros in the fused projection. Source: whisper.py."""

    rotary_tables_cut: bool = False
    """Its multimodal rotary tables have its positions from `releases.ROTARY_TABLES_CUT` on, all
    others four times as many. Source: rotary_embedding/mrope.py, positions_factor;
    models/qwen3_vl.py, mrope_positions_factor."""

    tables_as_started: bool = False
    """Its rotary tables have no more positions than the context it is started with. Source:
    embedding_gemma2.py, EmbeddingGemma2TextModel."""

    tower_ends_early: bool = False
    """Its tower ends with the layer that its config names (`vision_feature_layer`; -2, one early,
    where it names none), without its last norm unless that is the last. Source: llava.py,
    _get_num_hidden_layers; clip.py."""

    tower_once_whole: bool = False
    """Its tower was whole on every rank before `releases.PIXTRAL_DIVIDED`."""

    towers_of_transformers: bool = False
    """Its towers are transformers' own modules, whole on every rank. Source:
    models/gemma4_mm.py, audioflamingo3.py, qwen2_audio.py."""

    no_tensor_parallel_plan: bool = False
    """Served through transformers' class without a plan: attention and gated MLPs, which are fused,
    are divided, other MLPs are not. Source: models/transformers/base.py; transformers 5.23,
    base_model_tp_plan."""

    registers_causal_mask: bool = False
    """That class registers a boolean mask of positions x positions."""

    native_resolution: bool = False
    """Its images keep their resolution up to the largest image of encoder.py. Later model types
    bound a whole video by less than their largest image."""

    video_by_frame: bool = False
    """Its videos are sized a frame at a time, each as large as the largest image."""

    embedding_on_every_stage: bool = False
    """Every pipeline stage builds its token embedding. Source: the models' own classes, where no
    `is_first_rank` guards `embed_tokens`."""

    head_on_every_stage: bool = False
    """Every pipeline stage builds its output head. Source: the same, `lm_head`."""

    quantized_router: bool = False
    """Its routers are linears of the checkpoint's quantization. Source: the models' own classes,
    GateLinear with quant_config."""

    unquantized_projector: bool = False
    """Its projector takes no quantization. Source: the models' own classes, nn.Linear;
    kimi_k25_vit.py, KimiK25MultiModalProjector."""

    head_never_tied: bool = False
    """Its head is a weight of its own, whatever its config says. Source: the models' own classes,
    lm_head."""

    head_always_tied: bool = False
    """Its head is the embedding, whatever its config says. Source: the models' own classes."""

    head_without_bias: bool = False
    """Served through transformers' class, whose output head has no bias there. Source:
    models/transformers/causal.py, lm_head."""

    kv_heads_divide: bool = False
    """Its KV heads are divided by the ranks, which may not outnumber them: none is replicated.
    Source: gpt_oss.py and param2moe.py (num_key_value_heads // tp_size)."""

    audio_of_transformers: bool = False
    """Its tower of sound is transformers' own, whole on every rank. Source:
    qwen2_5_omni_thinker.py."""

    tower_whole_if_uneven: bool = False
    """Its tower is whole on every rank where its heads do not divide over them; others refuse.
    Source: models/vision.py, is_vit_use_data_parallel(num_heads), and who calls it so."""

    tower_attention_whole_if_uneven: bool = False
    """The same of its tower's attention alone. Source: intern_vit.py, InternParallelAttention
    (disable_tp)."""

    shared_experts_whole: bool = False
    """Its shared experts are whole on every rank where the tokens of a step are spread over tensor
    ranks. Source: shared_experts.py."""

    mlps_whole: bool = False
    """So are then the MLPs of its layers without experts. Source: models/deepseek_v32."""

    experts_on_every_stage: bool = False
    """Its class refuses a pipeline stage without experts. Source: pipeline.py, _lacks_experts."""

    least_expert_width: int = 0
    """What an expert's width on a rank is padded to. Source: models/kimi_k3/nvidia/model.py,
    min_moe_intermediate_per_partition."""

    experts_uncounted: bool = False
    """Its config names the experts as no other does, so that none are counted. Source:
    transformers_utils/model_arch_config_convertor.py, get_num_experts."""

    counts_experts_by_default: bool = False
    """Its config class has experts whether or not the model has. Source: the same; transformers
    5.23, NemotronHConfig."""

    pooled_patches: int | None = None
    """Patches pooled into one token, where no projection shows it. Source: transformers,
    models/gemma3 and gemma4 (pooling kernels 4 and 3)."""

    largest_item: int = 0
    """Tokens of its largest image or video, where all have one bound. Source: Gemma 3's
    mm_tokens_per_image; models/gemma4_mm.py and gemma4_unified.py, get_mm_max_tokens_per_item
    (32 frames of 78 tokens)."""

    @property
    def own_class(self) -> bool:
        """Whether vLLM's class builds other tensors than the checkpoint holds."""
        return (
            self.padded_tables
            or self.router_in_f32
            or self.tower_ends_early
            or self.whole_vocabulary
        )


_QWEN2_VISION = Quirks(native_resolution=True, video_by_frame=True)
_QWEN3_VISION = Quirks(rotary_tables_cut=True, native_resolution=True)
_ENCODER = Quirks(padded_tables=True)

_QUIRKS: dict[str, Quirks] = {
    "audioflamingo3": Quirks(towers_of_transformers=True),
    "bert": _ENCODER,
    "gemma3": Quirks(pooled_patches=16, largest_item=256),
    "gemma3n": Quirks(pooled_patches=1, towers_of_transformers=True),
    "gemma4": Quirks(
        triton_attention=True,
        experts_not_silu=True,
        towers_of_transformers=True,
        pooled_patches=9,
        largest_item=2496,
    ),
    "embedding_gemma2": Quirks(towers_of_transformers=True, tables_as_started=True),
    "diffusion_gemma": Quirks(towers_of_transformers=True, pooled_patches=9, largest_item=2496),
    "gemma4_unified": Quirks(largest_item=2496),
    "gpt_bigcode": Quirks(no_tensor_parallel_plan=True, registers_causal_mask=True),
    "gpt_oss": Quirks(attention_sinks=True, experts_not_silu=True, joint_router_kernels=True),
    "grok": Quirks(experts_not_silu=True),
    "kimi_k3": Quirks(experts_not_silu=True, experts_without_triton=True, least_expert_width=256),
    "kimi_linear": Quirks(least_expert_width=256),
    "llava": Quirks(tower_ends_early=True),
    "llava_next": Quirks(tower_ends_early=True),
    "llava_next_video": Quirks(tower_ends_early=True),
    "mimo_v2": Quirks(attention_sinks=True),
    "mimo_v2_flash": Quirks(attention_sinks=True),
    "minimax_m3": Quirks(experts_not_silu=True),
    "minimax_m3_vl": Quirks(experts_not_silu=True),
    "mistral3": Quirks(tower_once_whole=True),
    "nemotron_h": Quirks(router_in_f32_without_kernel=True),
    "pixtral": Quirks(tower_once_whole=True),
    "qwen2_audio": Quirks(towers_of_transformers=True),
    "qwen2_5_omni": _QWEN2_VISION._replace(audio_of_transformers=True),
    "qwen2_5_vl": _QWEN2_VISION,
    "qwen2_vl": _QWEN2_VISION,
    "qwen3_5": _QWEN3_VISION,
    "qwen3_5_moe": _QWEN3_VISION,
    "qwen3_omni_moe": Quirks(native_resolution=True),
    "qwen3_vl": _QWEN3_VISION,
    "qwen3_vl_moe": _QWEN3_VISION,
    "qwen4_exp": _QWEN3_VISION._replace(padded_injection=True),
    "roberta": _ENCODER,
    "whisper": Quirks(whole_vocabulary=True, zero_key_bias=True),
    "xlm-roberta": _ENCODER,
}
"""By model type."""

_FLAGS: dict[str, str] = {
    "embedding_on_every_stage": """
        bloom chatglm cohere cohere2 cohere2_moe cohere2_vision cohere_compass
        cohere_compass_text cosmos3_edge dbrx falcon falcon_mamba gemma gemma2 gemma3 gemma3_text
        gemma4
        gemma4_text gemma4_unified gpt-sw3 gpt2 gpt_oss gptj granitemoe granitemoe_swa
        granitemoehybrid granitemoeshared hy_v3 internlm2 jamba k2_horizon lfm2 lfm2_moe mamba
        minicpm minicpm3 mixtral molmo molmo2 muse_glimmer nemotron_h olmo_hybrid olmoe opt orion
        phimoe plamo3 qwen2_moe qwen3_5 qwen3_5_moe qwen3_5_moe_text qwen3_5_text qwen3_moe
        qwen3_next qwen3_omni_moe qwen3_vl_moe rnj1 stablelm
    """,
    "head_on_every_stage": """
        bloom chatglm cosmos3_edge dbrx falcon falcon_mamba gemma gemma3 gemma3_text gemma4
        gemma4_text gpt-sw3 gpt2 gpt_oss gptj granitemoe granitemoe_swa granitemoehybrid
        granitemoeshared hy_v3 internlm2 jamba k2_horizon mamba minicpm minicpm3 mixtral molmo
        molmo2 muse_glimmer nemotron_h olmo_hybrid olmoe opt orion phimoe plamo3 qwen2_moe
        qwen3_moe qwen3_next qwen3_omni_moe qwen3_vl_moe rnj1 stablelm
    """,
    "router_in_f32": """
        afmoe beam ernie4_5_moe glm4_moe glm4_moe_lite glm4v_moe hy_v3 param2moe step3p5 step3p7
    """,
    "unquantized_projector": """
        aria cohere2_vision deepseek_vl_v2 internvl_chat kimi_k25 llava_next_video llava_onevision
        paddleocr_vl paligemma unlimited-ocr unlimited_ocr voxtral
    """,
    "unquantized_tower": """
        granite_speech granite_speech_plus internvl kimi_vl llama4 muse_glimmer
    """,
    "cache_dtype_ignored": """
        falcon
    """,
    "head_always_tied": """
        cohere cohere2 cohere2_moe gemma2 gemma3n gemma3n_text lfm2 lfm2_moe zamba2
    """,
    "head_never_tied": """
        afmoe alice_ai aria axk1 cosmos3_edge deepseek_v2 deepseek_v3 deepseek_v32 deepseek_v4 dory
        glm4_moe glm4_moe_lite glm5_next glm_moe_dsa gpt_oss jamba longcat_flash minimax_m2
        minimax_m3 minimax_m3_vl molmo2 muse_glimmer nemotron_h olmoe qwen3_next
    """,
    "head_without_bias": """
        phi
    """,
    "kv_heads_divide": """
        gpt_oss param2moe
    """,
    "shared_experts_whole": """
        deepseek_v2 deepseek_v3 deepseek_v32 deepseek_v4 glm_moe_dsa kimi_linear llama4 llama4_text
        nemotron_h qwen3_5_moe qwen3_5_moe_text qwen3_next
    """,
    "mlps_whole": """
        deepseek_v32 glm_moe_dsa kimi_linear
    """,
    "experts_on_every_stage": """
        afmoe glm4_moe glm4_moe_lite glm4v_moe hy_v3 lfm2_moe mixtral nemotron_h param2moe
        qwen3_5_moe qwen3_moe qwen3_next qwen3_vl_moe step3p5 step3p7
    """,
    "tower_whole_if_uneven": """
        kimi_k25 kimi_k3 muse_glimmer
    """,
    "tower_attention_whole_if_uneven": """
        internvl_chat
    """,
    "holds_pooling_head": """
        deepseek_vl_v2
    """,
    "rotary_tables_cut": """
        alpamayo2_super cosmos3 qwen3_5_moe_text qwen3_5_text
    """,
    "experts_uncounted": """
        dbrx
    """,
    "experts_unnamed": """
        dbrx
    """,
    "counts_experts_by_default": """
        nemotron_h
    """,
    "quantized_router": """
        hunyuan_v1_moe k2_horizon lfm2_moe qwen3_moe qwen3_omni_moe qwen3_vl_moe
    """,
}
"""By flag, the model types for which it is set in addition to `_QUIRKS`."""

for _flag, _model_types in _FLAGS.items():
    for _model_type in _model_types.split():
        _settings: dict[str, Any] = {_flag: True}
        _QUIRKS[_model_type] = _QUIRKS.get(_model_type, Quirks())._replace(**_settings)

_NONE = Quirks()


def quantizes_routers(spec: ModelSpec) -> bool:
    """Return whether the model's class, or that of its language model, quantizes routers."""
    return any(special.quantized_router for special in _both(spec))


def _both(spec: ModelSpec) -> tuple[Quirks, Quirks]:
    """Return how vLLM treats the model's type and that of its language model."""
    return quirks(spec), _QUIRKS.get(spec.language_type, _NONE)


def holds_shared_experts_whole(spec: ModelSpec) -> bool:
    """Return whether the class, or that of its language model, has whole shared experts where the
    tokens of a step are spread over tensor ranks."""
    return any(special.shared_experts_whole for special in _both(spec))


def head_tied(spec: ModelSpec) -> bool | None:
    """Return whether the head of the model's class, or of its language model's, is the embedding;
    None where that is as the config says."""
    both = _both(spec)
    if any(special.head_always_tied for special in both):
        return True
    return False if any(special.head_never_tied for special in both) else None


def parts_on_every_stage(spec: ModelSpec) -> frozenset[Part]:
    """Return the parts outside the layers that every pipeline stage holds."""
    parts = set()
    for special in _both(spec):
        if special.embedding_on_every_stage:
            parts.add(Part.EMBEDDING)
        if special.head_on_every_stage:
            parts.add(Part.HEAD)
    return frozenset(parts)


def quirks(spec: ModelSpec) -> Quirks:
    """Return how vLLM treats a model's type otherwise than the rest."""
    return _QUIRKS.get(spec.model_type, _NONE)
