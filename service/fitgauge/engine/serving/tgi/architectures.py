"""Model types that text-generation-inference serves.

Source: text-generation-inference 3.3.7 (db931fc), server/text_generation_server/models/__init__.py
(ModelType, get_model); transformers 4.51.3, which its server pins, models/auto/modeling_auto.py
(causal and sequence-to-sequence models).
"""

_MODEL_TYPES = """
RefinedWeb RefinedWebModel baichuan bloom cohere dbrx deepseek_v2 deepseek_v3 falcon galactica gemma
gemma2 gemma3 gemma3_text gpt2 gpt_bigcode gpt_neox gptj granite idefics idefics2 idefics3 llama
llama4 llava_next mamba mistral mixtral mllama mpt opt paligemma phi phi-msft phi3 phimoe qwen2
qwen2_5_vl qwen2_vl santacoder starcoder2 t5
"""
MODEL_TYPES = frozenset(_MODEL_TYPES.split())
"""`model_type` of config.json, with a class of its own."""

_AUTOMATIC = """
aria_text bamba bart bert bert-generation big_bird bigbird_pegasus biogpt blenderbot
blenderbot-small camembert code_llama codegen cohere2 cpmant ctrl data2vec-text diffllama electra
emu3 encoder-decoder ernie falcon_mamba fsmt fuyu git glm glm4 got_ocr2 gpt-sw3 gpt_neo
gpt_neox_japanese gptsan-japanese granitemoe granitemoeshared helium jamba jetmoe led llama4_text
longt5 m2m_100 mamba2 marian mbart mega megatron-bert moshi mt5 musicgen musicgen_melody mvp
nemotron nllb-moe olmo olmo2 olmoe open-llama openai-gpt pegasus pegasus_x persimmon phi4_multimodal
plbart prophetnet qdqbert qwen2_audio qwen2_moe qwen3 qwen3_moe recurrent_gemma reformer rembert
roberta roberta-prelayernorm roc_bert roformer rwkv seamless_m4t seamless_m4t_v2 speech_to_text_2
stablelm switch_transformers transfo-xl trocr umt5 whisper xglm xlm xlm-prophetnet xlm-roberta
xlm-roberta-xl xlnet xmod zamba zamba2
"""
AUTOMATIC = frozenset(_AUTOMATIC.split())
"""Those it gives to transformers' own classes, without AWQ or GPTQ."""

_LATER = """
afmoe apertus arcee axk1 axk2 bailing_hybrid beam bitnet blt cohere2_moe cohere_compass cosmos3_edge
cosmos3_omni cwm deepseek_ocr2 deepseek_v32 deepseek_v4 deepseek_vl deepseek_vl_hybrid
diffusion_gemma doge dots1 dots3_note ernie4_5 ernie4_5_moe ernie4_5_vl_moe evolla exaone4 exaone4_5
exaone_moe falcon_h1 fast_vlm flex_olmo flint florence2 fun_asr_nano gemma3n gemma4 gemma4_assistant
gemma4_unified gemma4_unified_assistant glm46v glm4_moe glm4_moe_lite glm4v glm4v_moe glm5_next
glm_moe_dsa glm_ocr glmasr glmga gpt_oss granite_docling granite_speech granite_speech_plus
granite_swa granitemoe_swa granitemoehybrid hunyuan_v1_dense hunyuan_v1_moe hunyuan_vl hy_v3 hy_v4
hyperclovax hyperclovax_vision_v2 inkling2 inkling_mm_model internlm3 internvl iquestcoder jais2
janus kimi_linear kolibri1 kosmos-2.5 laguna lfm2 lfm2_moe lfm2_vl lfm3 lfm3_vl lighton_ocr
longcat_flash mellum mimo_v2_flash minicpm3 minicpm_ocr minicpmv4_6 minicpmv4_7 minimax
minimax_m3_vl ministral ministral3 mistral4 mistral_large4 modernbert-decoder molmo2
moss_transcribe_diarize muse_glimmer muse_spark nanochat nemo_speechlm nemotron_h_omni olmo3
olmo_hybrid ovis2 paddleocr_vl perception_lm pi0 pp_chart2table pp_formulanet qianfan_ocr
qwen2_5_omni qwen3_5 qwen3_5_moe qwen3_asr qwen3_next qwen3_omni_moe qwen3_vl qwen3_vl_moe qwen4_exp
seed_oss smollm3 solar_open step3p7 t5gemma2 unlimited_ocr vaultgemma vibevoice_asr video_llama_3
voxtral voxtral_realtime xlstm youtu zaya
"""
LATER = frozenset(_LATER.split())
"""Language models that transformers 5.23 knows and 4.51.3 does not, and whose repositories bring
no code of their own."""
