"""What a family computes that its tensors do not tell: activation function, style of norm, dropout, scaling.

Source: transformers 5.23, models/<model_type>/configuration_*.py (activation, dropout) and modeling_*.py (the rest).
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Literal

from fitgauge.engine.architecture import ModelSpec
from fitgauge.engine.training.workload import AttentionKernel


@dataclass(frozen=True, kw_only=True)
class Traits:
    """Where a family departs from Llama.

    `norm`, where it has no bias to tell: rms, wide_rms (times the weight in fp32), shifted_rms (times 1 + weight in fp32), centred (a
    LayerNorm written out in fp32), layer, bare (without weight). `proven`: its saved tensors were compared with autograd's own.
    `slices`: a fused projection is sliced, not split. `rotates_part`: rotated and plain parts of queries and keys are put together
    again, `interleaves`: by tables made anew in every layer. `parallel`: attention and MLP side by side. `scales_queries`: before the
    product instead of after. `score_cap`, `logits_cap`: tanh caps. `float_softmax`: softmax in fp32. `lacks`: kinds of attention that
    transformers has not for it and runs eagerly instead.
    """

    activation: str = "silu"
    norm: Literal["rms", "wide_rms", "shifted_rms", "centred", "layer", "bare"] = "rms"
    slices: bool = False
    rotates_part: bool = False
    interleaves: bool = False
    parallel: bool = False
    scales_queries: bool = False
    scales_residual: bool = False
    scales_embedding: bool = False
    scales_logits: bool = False
    score_cap: bool = False
    logits_cap: bool = False
    float_softmax: bool = True
    lacks: tuple[str, ...] = ()
    residual_dropout: bool = False
    attention_dropout: bool = False
    embedding_dropout: bool = False
    proven: bool = True

    def eager(self, attention: AttentionKernel) -> bool:
        """Whether scores are written out when this attention is asked for."""
        return attention == "eager" or attention in self.lacks


LLAMA = Traits()
GEMMA = Traits(activation="gelu", norm="shifted_rms", scales_embedding=True)
PLAIN = Traits(activation="gelu", norm="layer")

TRAITS: Mapping[str, Traits] = {
    **dict.fromkeys(
        ("llama", "mistral", "ministral", "ministral3", "qwen2", "qwen3", "qwen3_moe", "qwen2_moe", "mixtral",
         "olmoe", "smollm3", "exaone4", "internlm3", "hunyuan_v1_dense", "nominal"),
        LLAMA,
    ),
    **dict.fromkeys(("olmo2", "olmo3"), Traits(norm="wide_rms")),
    "helium": Traits(norm="wide_rms", interleaves=True),
    "ernie4_5": Traits(interleaves=True, proven=False),
    "phi3": Traits(slices=True, rotates_part=True),
    "gpt_oss": Traits(lacks=("sdpa",), proven=False),
    "seed_oss": Traits(residual_dropout=True, attention_dropout=True, proven=False),
    "glm": Traits(rotates_part=True, interleaves=True),
    "glm4": Traits(rotates_part=True, interleaves=True),
    "granite": Traits(scales_residual=True, scales_embedding=True, scales_logits=True),
    "granitemoe": Traits(scales_residual=True, scales_embedding=True, scales_logits=True),
    "gemma": GEMMA,
    "gemma2": replace(GEMMA, score_cap=True, logits_cap=True, lacks=("sdpa",)),
    "gemma3_text": GEMMA,
    "olmo": Traits(norm="bare"),
    "stablelm": Traits(norm="layer", rotates_part=True),
    "cohere": Traits(norm="centred", parallel=True, scales_logits=True),
    "cohere2": Traits(norm="centred", parallel=True, scales_logits=True),
    "nemotron": Traits(activation="relu_squared", norm="layer", rotates_part=True),
    "starcoder2": PLAIN,
    "phi": replace(PLAIN, activation="gelu_new", parallel=True, rotates_part=True),
    "gpt_neox": replace(PLAIN, parallel=True, rotates_part=True),
    "falcon": replace(PLAIN, parallel=True, proven=False),
    "mpt": replace(PLAIN, lacks=("sdpa", "flash"), proven=False),
    "gptj": replace(PLAIN, activation="gelu_new", parallel=True, rotates_part=True, proven=False, lacks=("sdpa",)),
    "opt": Traits(activation="relu", norm="layer", scales_queries=True, residual_dropout=True),
    "bloom": Traits(activation="bloom_gelu", norm="layer", lacks=("sdpa", "flash")),
    "gpt2": Traits(
        activation="gelu_new", norm="layer", float_softmax=False, residual_dropout=True, attention_dropout=True, embedding_dropout=True
    ),
    "gpt_bigcode": Traits(
        activation="gelu", norm="layer", residual_dropout=True, attention_dropout=True, embedding_dropout=True, proven=False
    ),
}  # fmt: skip


def traits_of(spec: ModelSpec) -> Traits:
    """The traits of a family; Llama's for one that was not taught."""
    return TRAITS.get(spec.model_type, LLAMA)


def taught(spec: ModelSpec) -> bool:
    """Whether the family's activations were derived from its modelling code."""
    return spec.model_type in TRAITS and TRAITS[spec.model_type].proven
