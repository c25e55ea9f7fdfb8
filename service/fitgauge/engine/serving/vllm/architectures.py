"""Architectures with a class in vLLM, names as in `architectures` of config.json.

Source: vllm 0.4.0 to 0.33.0, model_executor/models/registry.py (0.4.0: models/__init__.py), all
lists but those of plugins and of transformers' own classes."""

from fitgauge.engine.serving.engine_facts import first_releases

FIRST = first_releases("""
0 AquilaForCausalLM AquilaModel BaiChuanForCausalLM BaichuanForCausalLM BloomForCausalLM
ChatGLMForConditionalGeneration ChatGLMModel CohereForCausalLM DbrxForCausalLM DeciLMForCausalLM
DeepseekForCausalLM FalconForCausalLM GPT2LMHeadModel GPTBigCodeForCausalLM GPTJForCausalLM
GPTNeoXForCausalLM GemmaForCausalLM InternLM2ForCausalLM InternLMForCausalLM JAISLMHeadModel
LLaMAForCausalLM LlamaForCausalLM LlavaForConditionalGeneration MPTForCausalLM MistralForCausalLM
MixtralForCausalLM MptForCausalLM OPTForCausalLM OrionForCausalLM PhiForCausalLM QWenLMHeadModel
Qwen2ForCausalLM Qwen2MoeForCausalLM RWForCausalLM StableLMEpochForCausalLM StableLmForCausalLM
Starcoder2ForCausalLM XverseForCausalLM
0.4.1 MiniCPMForCausalLM
0.4.2 OlmoForCausalLM Phi3ForCausalLM
0.4.3 ArcticForCausalLM MistralModel Phi3SmallForCausalLM
0.5.0 LlavaNextForConditionalGeneration
0.5.1 DeepseekV2ForCausalLM Gemma2ForCausalLM JambaForCausalLM Phi3VForCausalLM
0.5.2 FuyuForCausalLM PaliGemmaForConditionalGeneration PersimmonForCausalLM
0.5.3 ChameleonForConditionalGeneration
0.5.4 Blip2ForConditionalGeneration InternVLChatModel MiniCPMV NemotronForCausalLM
0.5.5 UltravoxModel
0.6.0 ExaoneForCausalLM GraniteForCausalLM PhiMoEForCausalLM
0.6.1 LlavaNextVideoForConditionalGeneration PixtralForConditionalGeneration
Qwen2VLForConditionalGeneration
0.6.2 LlavaOnevisionForConditionalGeneration MiniCPM3ForCausalLM MllamaForConditionalGeneration
OlmoeForCausalLM SolarForCausalLM
0.6.3 Gemma2Model GraniteMoeForCausalLM MambaForCausalLM MolmoForCausalLM NVLM_D Qwen2ForRewardModel
0.6.4 BertModel FalconMambaForCausalLM H2OVLChatModel Idefics3ForConditionalGeneration
InternLM2VEForCausalLM LlamaModel Qwen2AudioForConditionalGeneration Qwen2Model RobertaModel
XLMRobertaModel
0.6.5 AriaForConditionalGeneration BertForSequenceClassification Cohere2ForCausalLM GlmForCausalLM
GritLM MantisForConditionalGeneration Olmo2ForCausalLM RobertaForMaskedLM
RobertaForSequenceClassification TeleChat2ForCausalLM XLMRobertaForSequenceClassification
0.6.6 DeepseekV3ForCausalLM JambaForSequenceClassification
0.7.0 DeepseekVLV2ForCausalLM InternLM2ForRewardModel InternLM3ForCausalLM
Qwen2ForProcessRewardModel WhisperForConditionalGeneration
0.7.1 MiniCPMO
0.7.2 Qwen2_5_VLForConditionalGeneration
0.7.3 BambaForCausalLM DeepSeekMTPModel GLM4VForCausalLM Mamba2ForCausalLM
QwenVLForConditionalGeneration
0.8.0 Gemma3ForCausalLM Gemma3ForConditionalGeneration GraniteMoeSharedForCausalLM
Grok1ModelForCausalLM Phi4MMForCausalLM Zamba2ForCausalLM
0.8.2 TeleFLMForCausalLM
0.8.3 AyaVisionForConditionalGeneration Llama4ForCausalLM Llama4ForConditionalGeneration
MiniMaxText01ForCausalLM Mistral3ForConditionalGeneration SkyworkR1VChatModel
0.8.4 EagleLlamaForCausalLM Glm4ForCausalLM Qwen3ForCausalLM Qwen3MoeForCausalLM
SmolVLMForConditionalGeneration
0.8.5 Eagle3LlamaForCausalLM GraniteSpeechForConditionalGeneration GteModel
KimiVLForConditionalGeneration ModernBertForSequenceClassification NomicBertModel Plamo2ForCausalLM
Qwen2_5OmniModel
0.9.0 FalconH1ForCausalLM GraniteMoeHybridForCausalLM GteNewModel MiMoForCausalLM MiMoMTPModel
MiniMaxVL01ForConditionalGeneration ModernBertModel Ovis Qwen2_5OmniForConditionalGeneration
0.9.1 EagleMiniCPMForCausalLM NemotronHForCausalLM TarsierForConditionalGeneration
0.9.2 Dots1ForCausalLM Ernie4_5_MoeForCausalLM GPT2ForSequenceClassification
Gemma3nForConditionalGeneration Glm4vForConditionalGeneration HunYuanMoEV1ForCausalLM
KeyeForConditionalGeneration MiniMaxM1ForCausalLM Tarsier2ForConditionalGeneration
0.10.0 ArceeForCausalLM BailingMoeForCausalLM EagleLlama4ForCausalLM Exaone4ForCausalLM
Glm4MoeForCausalLM Glm4MoeMTPModel HunYuanDenseV1ForCausalLM JinaVLForRanking Llama_Nemotron_Nano_VL
MiniMaxForCausalLM Phi4FlashForCausalLM VoxtralForConditionalGeneration
0.10.1 Cohere2VisionForConditionalGeneration Emu3ForConditionalGeneration Ernie4_5ForCausalLM
Gemma3nForCausalLM Glm4vMoeForConditionalGeneration GptOssForCausalLM HCXVisionForCausalLM
InternS1ForConditionalGeneration Phi4MultimodalForCausalLM SmolLM3ForCausalLM Step3TextForCausalLM
Step3VLForConditionalGeneration
0.10.2 ApertusForCausalLM DonutForConditionalGeneration EagleDeepSeekMTPModel
Ernie4_5_VLMoeForConditionalGeneration ErnieMTPModel Gemma3TextModel GteNewForSequenceClassification
InternVLForConditionalGeneration KeyeVL1_5ForConditionalGeneration Lfm2ForCausalLM
LlamaForCausalLMEagle3 MiDashengLMModel MotifForCausalLM Ovis2_5 Qwen3NextForCausalLM Qwen3NextMTP
RForConditionalGeneration SeedOssForCausalLM Terratorch
0.11.0 BailingMoeV2ForCausalLM BertForTokenClassification CwmForCausalLM DeepseekV32ForCausalLM
DotsOCRForCausalLM LongCatFlashMTPModel LongcatFlashForCausalLM NemotronH_Nano_VL_V2
Olmo3ForCausalLM Qwen3VLForConditionalGeneration Qwen3VLMoeForConditionalGeneration
0.11.1 AfmoeForCausalLM BeeForConditionalGeneration BertSpladeSparseEmbeddingModel CLIPModel
DeepseekOCRForCausalLM Eagle3Qwen2_5vlForCausalLM FlexOlmoForCausalLM KimiLinearForCausalLM
Lfm2MoeForCausalLM LightOnOCRForConditionalGeneration MiniMaxM2ForCausalLM
ModernBertForTokenClassification OpenPanguMTPModel OuroForCausalLM
PaddleOCRVLForConditionalGeneration PanguEmbeddedForCausalLM PanguUltraMoEForCausalLM
Qwen3OmniMoeForConditionalGeneration SiglipModel
0.12.0 Eagle3Qwen3vlForCausalLM EagleMistralLarge3ForCausalLM HunYuanVLForConditionalGeneration
MistralLarge3ForCausalLM OpenCUAForConditionalGeneration Plamo3ForCausalLM TeleChatForCausalLM
0.13.0 AudioFlamingo3ForConditionalGeneration BagelForConditionalGeneration Jais2ForCausalLM
0.14.0 ExaoneMoEForCausalLM ExaoneMoeMTP GlmAsrForConditionalGeneration Grok1ForCausalLM
IQuestCoderForCausalLM IQuestLoopCoderForCausalLM IsaacForConditionalGeneration
KananaVForConditionalGeneration Lfm2VlForConditionalGeneration
LlamaBidirectionalForSequenceClassification LlamaBidirectionalModel MiMoV2FlashForCausalLM
NemotronParseForConditionalGeneration PanguProMoEV2ForCausalLM
0.15.0 BgeM3EmbeddingModel Eagle2_5_VLForConditionalGeneration Glm4MoeLiteForCausalLM
Glm4MoeLiteMTPModel KimiK25ForConditionalGeneration Molmo2ForConditionalGeneration Step1ForCausalLM
StepVLForConditionalGeneration
0.15.1 Step3p5ForCausalLM Step3p5MTP
0.16.0 DeepseekOCR2ForCausalLM FunAudioChatForConditionalGeneration GlmMoeDsaForCausalLM
GlmOcrForConditionalGeneration GlmOcrMTPModel HF_ColBERT InternS1ProForConditionalGeneration
MusicFlamingoForConditionalGeneration NemotronHPuzzleForCausalLM OpenPanguVLForConditionalGeneration
Qwen3ASRForConditionalGeneration VoxtralRealtimeGeneration VoyageQwen3BidirectionalEmbedModel
0.17.0 AXK1ForCausalLM BailingMoeV2_5ForCausalLM ColBERTJinaRobertaModel ColBERTModernBertModel
ColModernVBertForRetrieval ColQwen3 ExtractHiddenStatesModel FireRedASR2ForConditionalGeneration
FunASRForConditionalGeneration LlamaNemotronVLForSequenceClassification LlamaNemotronVLModel
NemotronHMTPModel OpsColQwen3Model Ovis2_6ForCausalLM Ovis2_6_MoeForCausalLM
Qwen3ASRRealtimeGeneration Qwen3VLNemotronEmbedModel Qwen3_5ForConditionalGeneration Qwen3_5MTP
Qwen3_5MoeForConditionalGeneration Qwen3_5MoeMTP
0.18.0 ColPaliForRetrieval Eagle3DeepseekV2ForCausalLM Eagle3DeepseekV3ForCausalLM
ErnieForSequenceClassification ErnieForTokenClassification ErnieModel HCXVisionV2ForCausalLM
HyperCLOVAXForCausalLM MoonshotKimiaForCausalLM OlmoHybridForCausalLM SarvamMLAForCausalLM
SarvamMoEForCausalLM
0.19.0 CohereAsrForConditionalGeneration ColBERTLfm2Model ColQwen3_5 Gemma4ForCausalLM
Gemma4ForConditionalGeneration Qwen3ASRForcedAlignerForTokenClassification
0.20.0 DFlashDraftModel DeepSeekV4MTPModel DeepseekV4ForCausalLM Eagle3MiniMaxM2ForCausalLM
Exaone4_5_ForConditionalGeneration Exaone4_5_MTP Granite4VisionForConditionalGeneration
HYV3ForCausalLM HYV3MTPModel JinaEmbeddingsV5Model JinaForRanking Ministral3ForCausalLM
NemotronH_Nano_Omni_Reasoning_V3 NemotronH_Super_Omni_Reasoning_V3 Param2MoEForCausalLM
Phi4ForCausalLMV Rnj1ForCausalLM TeleChat3ForCausalLM
0.21.0 Cohere2MoeForCausalLM EagleCohereForCausalLM EagleMistralForCausalLM Gemma4MTPModel
HfMoondream InternS2PreviewForConditionalGeneration LagunaForCausalLM MiMoV2ForCausalLM
MiMoV2MTPModel MiMoV2OmniForCausalLM MiMoV2OmniMTPModel MiniCPMV4_6ForConditionalGeneration
Moondream3ForCausalLM OpenVLAForActionPrediction PEagleDraftModel PeagleLlamaForCausalLM
QianfanOCRForConditionalGeneration
0.22.1 MellumForCausalLM
0.23.0 Cosmos3ForConditionalGeneration Gemma4UnifiedForConditionalGeneration
GraniteSpeechPlusForConditionalGeneration Step3p7ForConditionalGeneration
0.24.0 DiffusionGemmaForBlockDiffusion Eagle3Qwen3ForCausalLM HrmTextForCausalLM MiniMaxM3MTP
MiniMaxM3SparseForCausalLM MiniMaxM3SparseForConditionalGeneration MossAudioModel
PeagleQwen3ForCausalLM
0.25.0 BailingMoeV25MTPModel DFlashLagunaForCausalLM DSparkDraftModel
LlavaOnevision2ForConditionalGeneration MossTranscribeDiarizeForConditionalGeneration
OpenAIPrivacyFilterForTokenClassification Qwen3DSparkModel UnlimitedOCRForCausalLM
0.26.0 BertForMaskedLM Cosmos3EdgeForConditionalGeneration Gemma4DSparkModel InklingForCausalLM
InklingForConditionalGeneration InklingMTPModel LongcatFlashNgramForCausalLM
RobertaForTokenClassification XLMRobertaForTokenClassification
0.27.0 ExaoneMoeForCausalLM K3DSparkModel KimiK3ForConditionalGeneration KimiK3MTPModel
Qwen3_5ForCausalLM Qwen3_5MoeForCausalLM VaultGemmaForCausalLM VibeVoiceAsrForConditionalGeneration
0.28.0 BailingMoeV3ForCausalLM BailingMoeV3MTPModel DFlash2DraftModel
DFlashMuseGlimmerAssistantModel Dots3NoteForCausalLM Dots3NoteMTPModel
InternS2MobiusForConditionalGeneration InternS2MobiusMTP MuseGlimmerAssistantModel
MuseGlimmerForCausalLM MuseGlimmerForConditionalGeneration
0.29.0 DeepseekV32MTPModel DeepseekV3BidirectionalModel GraniteMoeSWAForCausalLM
GraniteSWAForCausalLM HYV4ForCausalLM HYV4MTPModel NemotronH_Omni_Reasoning_V3 Qwen3OmniDSparkModel
Qwen4ExpForCausalLM Qwen4ExpForConditionalGeneration Qwen4ExpMTP
0.30.0 BailingMoeV3VLForConditionalGeneration CohereCompassForConditionalGeneration
DSparkV41DraftModel DeepseekV41ForCausalLM DeepseekV4ForConditionalGeneration Glm5NextForCausalLM
Glm5NextForConditionalGeneration Glm5NextMTPModel K2HorizonForCausalLM NanbeigeForCausalLM
0.31.0 LiLiCorrDraftModel
0.32.0 ClefOmniForJointSchema EmbeddingGemma2Model MiniCPMV4_7ForConditionalGeneration
0.33.0 AliceAIForCausalLM Alpamayo2Super BeamForCausalLM ClefFlashForJointSchema
ColUltraVBertForRetrieval D3ForSequenceClassification DFlash2BeamDraftModel DFlashQwen3XPressModel
DomynEdgeForCausalLM DoryForCausalLM FlintForCausalLM Kolibri1ForCausalLM Lfm2BidirectionalModel
MiniCPMOcrForConditionalGeneration ModernVBertModel MuseSparkDSparkModel
MuseSparkForConditionalGeneration ParseAuxMTPModel Qwen3XPressModel RadioMBartPrefixForCausalLM
Step5ForCausalLM Step5ForConditionalGeneration Step5MTP
""")
"""The first release with the architecture, of those read; 0: before them. What 0.22.0 adds counts
from 0.21.0, which was not read."""

LAST: dict[str, tuple[int, ...]] = {
    "MotifForCausalLM": (0, 10, 2), "Phi3SmallForCausalLM": (0, 9, 2),
    "Phi4FlashForCausalLM": (0, 10, 2),
    "Phi4MultimodalForCausalLM": (0, 12, 0), "JAISLMHeadModel": (0, 22, 0),
    "ErnieModel": (0, 23, 0),
    "ErnieForSequenceClassification": (0, 23, 0), "ErnieForTokenClassification": (0, 23, 0),
    "InternLM2VEForCausalLM": (0, 23, 0),
    "QWenLMHeadModel": (0, 23, 0), "QwenVLForConditionalGeneration": (0, 23, 0),
    "InternLMForCausalLM": (0, 23, 0),
    "DonutForConditionalGeneration": (0, 10, 2), "MllamaForConditionalGeneration": (0, 10, 2),
    "XverseForCausalLM": (0, 23, 0),
    "Dots1ForCausalLM": (0, 23, 0), "BambaForCausalLM": (0, 23, 0),
    "MiniMaxForCausalLM": (0, 23, 0),
    "MiniMaxText01ForCausalLM": (0, 23, 0), "MiniMaxM1ForCausalLM": (0, 23, 0),
    "MiniMaxVL01ForConditionalGeneration": (0, 23, 0),
    "BaiChuanForCausalLM": (0, 23, 0), "BaichuanForCausalLM": (0, 23, 0), "AquilaModel": (0, 24, 0),
    "AquilaForCausalLM": (0, 24, 0),
    "Grok1ModelForCausalLM": (0, 24, 0), "Grok1ForCausalLM": (0, 24, 0),
    "TarsierForConditionalGeneration": (0, 24, 0),
    "Tarsier2ForConditionalGeneration": (0, 23, 0), "MantisForConditionalGeneration": (0, 24, 0),
    "MusicFlamingoForConditionalGeneration": (0, 24, 0),
    "AyaVisionForConditionalGeneration": (0, 24, 0),
    "TeleChatForCausalLM": (0, 25, 0), "PersimmonForCausalLM": (0, 25, 0),
    "FuyuForCausalLM": (0, 25, 0), "Plamo2ForCausalLM": (0, 26, 0),
    "OuroForCausalLM": (0, 26, 0), "ArcticForCausalLM": (0, 28, 0),
    "ChameleonForConditionalGeneration": (0, 28, 0),
    "GritLM": (0, 28, 0), "HCXVisionForCausalLM": (0, 28, 0), "MPTForCausalLM": (0, 28, 0),
    "MptForCausalLM": (0, 28, 0),
    "RWForCausalLM": (0, 28, 0), "StableLMEpochForCausalLM": (0, 28, 0),
}  # fmt: skip
"""The last version of an architecture. Source: vllm/model_executor/models/registry.py (0.33),
_PREVIOUSLY_SUPPORTED_MODELS."""

SETTLED = frozenset(name for name in FIRST if FIRST[name].numbers <= (0, 19, 0)) - LAST.keys()
"""Those that 0.19.0 has and 0.33.0 too: known long before the other lists here were read."""

LATER = FIRST.keys() - SETTLED - LAST.keys()
"""Those since then."""

BY_TRANSFORMERS = frozenset({
    "FlexOlmoForCausalLM", "HunYuanMoEV1ForCausalLM", "Kolibri1ForCausalLM", "MellumForCausalLM",
})  # fmt: skip
"""Mixtures that 0.33.0 runs through transformers' own code, which registers the frequencies of
rotary embeddings instead of tables. Source: registry.py, TransformersMoEForCausalLM."""
