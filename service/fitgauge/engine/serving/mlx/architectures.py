"""Model types that MLX's packages run.

Source: mlx-lm 0.32.0 (d78bf58), mlx_lm/models and MODEL_REMAPPING of utils.py; mlx-vlm 0.6.15
(9b13f52), mlx_vlm/models and its MODEL_REMAPPING."""

_MODEL_TYPES = """
Klear afm7 afmoe apertus baichuan_m1 bailing_moe bailing_moe_linear bitnet cohere cohere2 dbrx
deepseek deepseek_v2 deepseek_v3 deepseek_v32 dots1 ernie4_5 ernie4_5_moe exaone exaone4 exaone_moe
falcon_h1 falcon_mamba gemma gemma2 gemma3 gemma3_text gemma3n gemma4 gemma4_text gemma4_unified glm
glm4 glm4_moe glm4_moe_lite glm_moe_dsa gpt2 gpt_bigcode gpt_neox gpt_oss granite granitemoe
granitemoehybrid helium hunyuan hunyuan_v1_dense internlm2 internlm3 iquestcoder iquestloopcoder
jamba joyai_llm_flash kimi_k2 kimi_k25 kimi_linear kimi_vl laguna lfm2 lfm2-vl lfm2_moe lille-130m
llama llama4 llama4_text llava longcat_flash longcat_flash_ngram mamba mamba2 mellum mimo
mimo_v2_flash minicpm minicpm3 minimax minimax_m2 ministral3 mistral mistral3 mixtral nanochat
nemotron nemotron-nas nemotron_h olmo olmo2 olmo3 olmoe openelm phi phi-msft phi3 phi3small phimoe
phixtral pixtral plamo plamo2 qwen qwen2 qwen2_5_vl qwen2_moe qwen2_vl qwen3 qwen3_5 qwen3_5_moe
qwen3_moe qwen3_next qwen3_vl qwen3_vl_moe recurrent_gemma rwkv7 seed_oss smollm3 solar_open
stablelm starcoder2 step3p5 telechat3 youtu_llm
"""
MODEL_TYPES = frozenset(_MODEL_TYPES.split())
"""`model_type` of config.json, in mlx-lm."""

_VISION = """
aya_vision bert bonsai bunny-llama cohere2_moe cohere2_vision cohere2moe cohere_compass colidefics3
colqwen2_5 deepseek_v4 deepseek_vl_v2 deepseekocr deepseekocr_2 diffusion_gemma dots_ocr
ernie4_5_moe_vl falcon-perception falcon_ocr falcon_perception fastvlm florence2 gemma3_embedding
glm4v glm4v_moe glm_ocr got granite-vision granite4-vision granite4_vision granite_vision hrm_text
hunyuan_vl idefics2 idefics3 inkling inkling_mm_model internvl_chat jina_vlm jvlm kimi_k3 klear
lfm2_embedding lfm2_vl lille_130m llada2_moe llama_bidirec llama_nemotron_vl_embedding llava-qwen2
llava_bunny llava_next llava_qwen2 llmjpvl locateanything mage_vl minicpmo minicpmv4_6 minimax_h3
minimax_m3 minimax_m3_vl ministral3_embedding mistral4 mllama modernbert molmo molmo2 molmo_point
moondream2 moondream3 multi_modality muse_glimmer nemotron_h_nano_omni nemotron_labs_diffusion
nemotron_nas nemotron_parse nemotron_voicechat nemotronh_nano_omni_reasoning_v3 paddleocr_vl
paligemma phi3_v phi4-siglip phi4_siglip phi4mm plamo2vl qwen3_embedding qwen3_omni_moe
qwen3_vl_embedding siglip smolvlm step3p7 unlimited-ocr unlimited_ocr xlm_roberta youtu_vl zaya1_vl
"""
VISION = frozenset(_VISION.split())
"""Architectures that mlx-vlm has as well."""
