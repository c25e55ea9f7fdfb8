"""Which models vLLM 0.33 divides into pipeline stages.

Source: vllm 0.33.0, config/model.py (verify_with_parallel_config), the models' own classes
(SupportsPP), model_executor/layers/attention/attention.py (validate_kv_sharing_target)."""

from collections.abc import Callable

from fitgauge.engine.model.mixers import Attention
from fitgauge.engine.model.spec import ModelSpec, Part
from fitgauge.engine.serving.vllm.quirks import quirks
from fitgauge.engine.unsupported import UnsupportedError, nearest
from fitgauge.engine.weights.rank_bytes import pipeline_stages

_NAMES = """
AliceAIForCausalLM AriaForConditionalGeneration BertForMaskedLM BertForSequenceClassification
BertForTokenClassification BertModel BertSpladeSparseEmbeddingModel BgeM3EmbeddingModel CLIPModel
CohereAsrForConditionalGeneration ColBERTJinaRobertaModel ColBERTLfm2Model ColBERTModernBertModel
ColModernVBertForRetrieval ColUltraVBertForRetrieval D3ForSequenceClassification
DiffusionGemmaForBlockDiffusion DomynEdgeForCausalLM DoryForCausalLM EmbeddingGemma2Model
FireRedASR2ForConditionalGeneration FunASRForConditionalGeneration GPT2ForSequenceClassification
Gemma3TextModel Gemma3nForCausalLM Gemma3nForConditionalGeneration GteModel
GteNewForSequenceClassification GteNewModel HF_ColBERT HrmTextForCausalLM IQuestLoopCoderForCausalLM
Idefics3ForConditionalGeneration JinaForRanking Lfm2BidirectionalModel
LlamaBidirectionalForSequenceClassification LlamaBidirectionalModel Mamba2ForCausalLM
ModernBertForSequenceClassification ModernBertForTokenClassification ModernBertModel
ModernVBertModel NemotronH_Nano_Omni_Reasoning_V3 NemotronH_Nano_VL_V2 NemotronH_Omni_Reasoning_V3
NemotronH_Super_Omni_Reasoning_V3 NemotronParseForConditionalGeneration NomicBertModel
OpenAIPrivacyFilterForTokenClassification PaddleOCRVLForConditionalGeneration Phi4MMForCausalLM
Qwen4ExpForCausalLM Qwen4ExpForConditionalGeneration RadioMBartPrefixForCausalLM RobertaForMaskedLM
RobertaForSequenceClassification RobertaForTokenClassification RobertaModel SiglipModel
SmolVLMForConditionalGeneration Terratorch VoyageQwen3BidirectionalEmbedModel
WhisperForConditionalGeneration XLMRobertaForSequenceClassification XLMRobertaForTokenClassification
XLMRobertaModel Zamba2ForCausalLM
"""
_WITHOUT_STAGES = frozenset(_NAMES.split())
"""Architectures whose class does not say SupportsPP, and Qwen4Exp, whose n-gram embeddings models/
config.py refuses beyond one stage."""


def check_pipeline(spec: ModelSpec, pipeline_parallel: int) -> None:
    """Raise UnsupportedError where vLLM refuses to divide the model into so many stages, with the
    counts that work."""
    if pipeline_parallel == 1:
        return
    if spec.architecture in _WITHOUT_STAGES:
        raise UnsupportedError(
            "pipeline_parallel",
            f"vLLM has no pipeline stages for {spec.architecture}.",
            ({"pipeline_parallel": (1,)},),
        )
    for refuses, reason in _REFUSALS:
        if refuses(spec, pipeline_parallel):
            works = [n for n in range(1, pipeline_parallel) if not refuses(spec, n)]
            raise UnsupportedError(
                "pipeline_parallel",
                f"vLLM needs {reason}.",
                ({"pipeline_parallel": nearest(works, pipeline_parallel)},),
            )


def _parts_the_deepstack(spec: ModelSpec, pipeline_parallel: int) -> bool:
    """Return whether a later stage has a layer that adds features of the tower's layers."""
    stages = pipeline_stages(spec.layers, pipeline_parallel)
    return pipeline_parallel > 1 and stages[1].start < _deepstack(spec)


def _deepstack(spec: ModelSpec) -> int:
    """Return how many layers add features of a tower's layers. Source: models/qwen3_vl.py,
    Qwen3LLMForCausalLM's start_layer."""
    return sum(
        len(block.layers) for block in spec.blocks if "deepstack_merger_list" in block.prefix
    )


def _cache_owners(spec: ModelSpec) -> dict[int, int]:
    """Return by layer that reads another layer's cache the layer that writes it: the last one
    with a cache of its own whose window is the same."""
    mixers = {
        layer: mixer
        for block in spec.blocks
        if block.part is Part.LANGUAGE and "{}" in block.prefix
        for layer in block.layers
        for mixer in block.mixers
        if isinstance(mixer, Attention)
    }
    last: dict[int | None, int] = {}
    for layer in sorted(mixers):
        if not mixers[layer].shares_cache:
            last[mixers[layer].window] = layer
    return {
        layer: last[mixer.window]
        for layer, mixer in mixers.items()
        if mixer.shares_cache and mixer.window in last
    }


def _parts_a_shared_cache(spec: ModelSpec, pipeline_parallel: int) -> bool:
    stages, owners = pipeline_stages(spec.layers, pipeline_parallel), _cache_owners(spec)
    return any(
        layer in stage and owner not in stage for layer, owner in owners.items() for stage in stages
    )


def _lacks_experts(spec: ModelSpec, pipeline_parallel: int) -> bool:
    """Return whether a stage has no layer with experts, of which the class looks at one. Source:
    models/nemotron_h.py, qwen3_moe.py, glm4_moe.py and the like (example_moe)."""
    layers = {
        layer
        for block in spec.blocks
        if block.part is Part.LANGUAGE and block.mlp is not None and block.mlp.experts
        for layer in block.layers
    }
    stages = pipeline_stages(spec.layers, pipeline_parallel)
    return quirks(spec).experts_on_every_stage and any(layers.isdisjoint(one) for one in stages)


_REFUSALS: tuple[tuple[Callable[[ModelSpec, int], bool], str], ...] = (
    (
        _parts_the_deepstack,
        "the layers that read the tower's deepstack in the first pipeline stage",
    ),
    (_parts_a_shared_cache, "layers that share a KV cache in one pipeline stage"),
    (_lacks_experts, "a layer with experts in every pipeline stage"),
)
"""What of a model's layers may not be divided, and why."""
