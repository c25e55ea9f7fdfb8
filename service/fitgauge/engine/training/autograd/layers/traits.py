"""What a family computes that its tensors do not tell: activation function, style of norm, dropout,
scaling.

Source: transformers 5.23, models/<model_type>/configuration_*.py (activation, dropout) and
modeling_*.py (the rest)."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Literal

from fitgauge.engine.model.spec import ModelSpec, Place
from fitgauge.engine.training.workload import AttentionKernel


@dataclass(frozen=True, kw_only=True)
class Traits:
    """Where a family departs from Llama."""

    activation: str = "silu"
    """Activation of the MLP."""
    gated_activation: str | None = None
    """Activation where the MLP is gated; None: the same."""
    norm: Literal["rms", "narrow_rms", "wide_rms", "shifted_rms", "centred", "layer", "bare"] = (
        "rms"
    )
    """The norm where no bias tells it: rms, narrow_rms (T5's: the input itself times rsqrt),
    wide_rms (times the weight in fp32), shifted_rms (times 1 + weight in fp32), centred (a
    LayerNorm written out in fp32), layer, bare (without weight)."""
    norms_after: bool = False
    """Whether norms of an encoder or encoder-decoder take the sum of stream and branch."""
    slices: bool = False
    """Whether a fused projection is sliced, not split."""
    rotates_part: bool = False
    """Whether rotated and plain parts of queries and keys are put together again."""
    interleaves: bool = False
    """Whether every layer makes its own rotary tables."""
    parallel: bool = False
    """Whether attention and MLP read the same input."""
    scales_queries: bool = False
    """Whether queries are scaled before the product instead of after."""
    copies_queries: bool = False
    """Whether queries are copied head by head, as then the output is (Whisper)."""
    always_masked: bool = False
    """Whether SDPA gets the causal mask as a tensor in every layer (Falcon)."""
    boolean_mask: bool = False
    """Whether eager attention fills by a mask of booleans, which that saves (MPT)."""
    explicit_mask: bool = True
    """Whether SDPA in a decoder with an encoder gets its causal mask as a tensor."""
    scales_residual: bool = False
    """Whether what is added to the stream is scaled."""
    scales_embedding: bool = False
    """Whether the embedding is scaled."""
    scales_logits: bool = False
    """Whether logits are scaled."""
    score_cap: bool = False
    """Whether attention scores are capped by a tanh."""
    logits_cap: bool = False
    """Whether logits are capped by a tanh."""
    logits_bias: bool = False
    """Whether a buffer is added to logits."""
    float_softmax: bool = True
    """Whether the softmax runs in fp32 whatever the precision."""
    float_scores: bool = False
    """Whether attention scores are in fp32."""
    float_rotary: bool = False
    """Whether queries and keys are rotated in fp32."""
    float_router: bool = False
    """Whether the router's input is in fp32."""
    casts_router: bool = False
    """Whether the router's weight is cast to fp32 too."""
    float_weights: bool = False
    """Whether the weights of chosen experts stay in fp32."""
    sinks: bool = False
    """Whether a learned score stands next to those of every query."""
    clamps: bool = False
    """Whether gates, and what they weigh, are bounded (gpt-oss)."""
    float_loss: bool = True
    """Whether the loss is computed on fp32 logits."""
    late_float_loss: bool = False
    """Whether that is so only since releases.py, SHIFTED_LABELS."""
    position_bias: bool = False
    """Whether a trained table is added to scores."""
    bare_sdpa: bool = False
    """Whether PyTorch's SDPA reads keys as they are, not repeated before."""
    lacks: tuple[str, ...] = ()
    """Kinds of attention that transformers lacks for it and runs eagerly instead."""
    drops: frozenset[Place] = frozenset()
    """Where dropout applies, unless the config states a rate."""
    verified: bool = True
    """Whether its saved tensors were compared with autograd's own."""

    def eager(self, attention: AttentionKernel) -> bool:
        """Return whether scores are written out when this attention is asked for."""
        named = "flash" if attention == "flex" else attention
        return named == "eager" or named in self.lacks


LLAMA = Traits()
GEMMA = Traits(activation="gelu", norm="shifted_rms", scales_embedding=True)
PLAIN = Traits(activation="gelu", norm="layer")
BERT = Traits(
    activation="gelu", norm="layer", norms_after=True, float_softmax=False, float_loss=False,
    drops=frozenset({"embedding", "weights", "attention", "mlp"}),
)  # fmt: skip
BART = replace(BERT, logits_bias=True, drops=frozenset({"embedding", "attention", "mlp"}))
T5 = Traits(
    activation="relu", gated_activation="gelu_new", norm="narrow_rms", float_softmax=False,
    float_loss=False, position_bias=True,
    drops=frozenset({"embedding", "weights", "attention", "inside", "mlp", "final"}),
)  # fmt: skip

TRAITS: Mapping[str, Traits] = {
    **dict.fromkeys(
        ("llama", "mistral", "ministral", "ministral3", "qwen2", "qwen3", "qwen3_moe", "qwen2_moe",
            "mixtral",
         "olmoe", "smollm3", "exaone4", "internlm3", "mimo", "hunyuan_v1_dense", "phimoe",
         "nominal",
         "qwen2_vl", "qwen2_5_vl", "qwen3_vl", "qwen3_vl_moe", "internvl", "internvl_chat",
         "idefics3", "smolvlm", "mistral3", "mllama"),
        LLAMA,
    ),
    **dict.fromkeys(("llava", "llava_next", "llava_onevision"), Traits(late_float_loss=True)),
    **dict.fromkeys(("olmo2", "olmo3"), Traits(norm="wide_rms")),
    "helium": Traits(norm="wide_rms", interleaves=True),
    "ernie4_5": Traits(interleaves=True, float_rotary=True),
    "ernie4_5_moe": Traits(interleaves=True, float_rotary=True, float_router=True),
    "phi3": Traits(slices=True, rotates_part=True),
    "internlm2": Traits(slices=True, verified=False),  # its repositories' modeling_internlm2.py
    "gpt_oss": Traits(norm="wide_rms", lacks=("sdpa",), float_softmax=False, sinks=True,
        clamps=True),
    **dict.fromkeys(
        ("minimax_m3", "minimax_m3_text", "minimax_m3_vl_text", "minimax_m3_vl"),
        Traits(norm="shifted_rms", rotates_part=True, float_weights=True, clamps=True,
            verified=False),
    ),
    **dict.fromkeys(("llama4", "llama4_text"), Traits(float_softmax=False)),
    "minimax_m2": Traits(rotates_part=True),
    "seed_oss": Traits(drops=frozenset({"weights", "attention", "mlp"})),
    "glm": Traits(rotates_part=True, interleaves=True),
    **dict.fromkeys(("glm4", "glm4v"), Traits(rotates_part=True, interleaves=True)),
    **dict.fromkeys(("glm4_moe", "glm4v_moe"),
        Traits(rotates_part=True, float_router=True, casts_router=True)),
    "granite": Traits(scales_residual=True, scales_embedding=True, scales_logits=True),
    "granitemoe": Traits(scales_residual=True, scales_embedding=True, scales_logits=True),
    "gemma": GEMMA,
    "gemma2": replace(GEMMA, score_cap=True, logits_cap=True, lacks=("sdpa",)),
    "gemma3_text": GEMMA,
    **dict.fromkeys(("gemma3", "paligemma"), GEMMA),
    **dict.fromkeys(("gemma4", "gemma4_text"), replace(GEMMA, norm="wide_rms", logits_cap=True)),
    "olmo": Traits(norm="bare"),
    "stablelm": Traits(norm="layer", rotates_part=True, late_float_loss=True),
    "cohere": Traits(norm="centred", parallel=True, scales_logits=True),
    "cohere2": Traits(norm="centred", parallel=True, scales_logits=True),
    "nemotron": Traits(activation="relu_squared", norm="layer", rotates_part=True),
    "starcoder2": replace(PLAIN, drops=frozenset({"embedding", "weights", "attention", "mlp"})),
    "phi": replace(PLAIN, activation="gelu_new", parallel=True, rotates_part=True),
    "gpt_neox": replace(PLAIN, parallel=True, rotates_part=True, late_float_loss=True),
    "falcon": replace(PLAIN, parallel=True, float_softmax=False, bare_sdpa=True,
        always_masked=True, late_float_loss=True),
    "mpt": replace(PLAIN, lacks=("sdpa", "flash"), boolean_mask=True, late_float_loss=True),
    "gpt_neo": replace(PLAIN, activation="gelu_new", float_scores=True, lacks=("sdpa",)),
    **dict.fromkeys(
        ("gptj", "codegen"),
        replace(PLAIN, activation="gelu_new", parallel=True, rotates_part=True,
            float_scores=True, lacks=("sdpa",)),
    ),
    "apertus": Traits(activation="xielu"),
    "lfm2": LLAMA,
    "opt": Traits(activation="relu", norm="layer", scales_queries=True, late_float_loss=True,
        drops=frozenset({"attention", "mlp"})),
    "bloom": Traits(activation="bloom_gelu", norm="layer", lacks=("sdpa", "flash"),
        late_float_loss=True),
    "gpt2": Traits(
        activation="gelu_new", norm="layer", float_softmax=False, late_float_loss=True,
        drops=frozenset({"embedding", "weights", "attention", "mlp"})
    ),
    "arcee": Traits(activation="relu_squared"),
    **dict.fromkeys(("qwen3_next", "qwen3_5", "qwen3_5_moe"),
        Traits(norm="shifted_rms", rotates_part=True, verified=False)),
    **dict.fromkeys(("mamba", "mamba2", "jamba", "bamba"), Traits(verified=False)),
    "nemotron_h": Traits(activation="relu_squared", verified=False),
    **dict.fromkeys(
        ("deepseek_v2", "deepseek_v3", "deepseek_v32", "glm_moe_dsa", "kimi_k2", "kimi_k25",
            "dots1", "hy_v3", "glm4_moe_lite"),
        Traits(float_router=True, casts_router=True),
    ),
    "gpt_bigcode": Traits(
        activation="gelu", norm="layer", late_float_loss=True,
        drops=frozenset({"embedding", "weights", "attention", "mlp"})
    ),
    **dict.fromkeys(("bert", "roberta", "xlm-roberta", "camembert", "electra"), BERT),
    "albert": replace(BERT, activation="gelu_new", drops=frozenset()),
    "distilbert": replace(BERT, drops=BERT.drops - {"attention"}),
    **dict.fromkeys(("mpnet", "deberta-v2"), replace(BERT, lacks=("sdpa", "flash"))),
    "nomic_bert": replace(BERT, activation="silu", drops=frozenset()),
    "modernbert": Traits(activation="gelu", norm="layer"),
    "bart": BART,
    "marian": replace(BART, activation="silu", verified=False),
    "mbart": replace(BART, norms_after=False),
    "pegasus": replace(BART, activation="relu", norms_after=False),
    "m2m_100": replace(BART, activation="relu", norms_after=False, logits_bias=False,
        drops=BERT.drops),
    "whisper": replace(
        BART, norms_after=False, logits_bias=False, drops=frozenset(), scales_queries=True,
        copies_queries=True, explicit_mask=False
    ),
    **dict.fromkeys(("t5", "mt5", "umt5"), T5),
}  # fmt: skip


def traits_of(spec: ModelSpec) -> Traits:
    """Return the traits of a family; of an unsupported one Llama's, or BERT's where it is
    no decoder; dropout where the config states a rate, branches in the order it states."""
    traits = TRAITS.get(spec.model_type, LLAMA if spec.task == "generate" else BERT)
    if spec.sequential_branches:
        traits = _one_after_the_other(traits)
    return _with_dropout(traits, frozenset(spec.dropout.items())) if spec.dropout else traits


@lru_cache(maxsize=64)
def _one_after_the_other(traits: Traits) -> Traits:
    return replace(traits, parallel=False)


@lru_cache(maxsize=256)
def _with_dropout(traits: Traits, rates: frozenset[tuple[Place, float]]) -> Traits:
    stated = {place for place, _ in rates}
    dropped = {place for place, rate in rates if rate > 0}
    return replace(traits, drops=(traits.drops - stated) | dropped)


def is_supported(spec: ModelSpec) -> bool:
    """Return whether the family's activations were derived from its modelling code."""
    return spec.model_type in TRAITS and TRAITS[spec.model_type].verified
