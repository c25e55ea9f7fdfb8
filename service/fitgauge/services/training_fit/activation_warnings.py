"""Warnings about the activation recipe of a model and its assumptions."""

from collections.abc import Iterator

from fitgauge.engine.model.mixers import CompressedAttention, Mixer, Recurrent
from fitgauge.engine.model.spec import ModelSpec
from fitgauge.engine.note import Note
from fitgauge.engine.quantization.requested import BITSANDBYTES
from fitgauge.engine.training.autograd.layers.traits import TRAITS, is_supported, traits_of
from fitgauge.engine.training.rules_of_thumb import rule_of
from fitgauge.engine.training.states.parameters import base_scheme
from fitgauge.engine.training.workload import TrainingWorkload


def recipe_notes(spec: ModelSpec, workload: TrainingWorkload) -> list[Note]:
    """Return warnings about how the activations of this model are derived."""
    return [
        *_of_the_rule(spec, workload),
        *_of_attention(spec, workload),
        *_of_lengths(spec, workload),
        *_of_experts(spec, workload),
    ]


def _name(spec: ModelSpec) -> str:
    return spec.model_type or "this architecture"


def _of_the_rule(spec: ModelSpec, workload: TrainingWorkload) -> Iterator[Note]:
    """Yield what the activations rest on."""
    rule = rule_of(spec, workload)
    if rule != "recipe":
        yield Note(
            "activations-by-rule",
            "activation_rule",
            f"Activations follow the rule of thumb {rule}: send activation_rule recipe for the"
            " tensors autograd saves.",
        )
    elif not is_supported(spec):
        like = "Llama's" if spec.task == "generate" else "BERT's"
        message = (
            f"The activation recipe of {_name(spec)} is derived from its code, not checked against"
            " a measured step."
            if spec.model_type in TRAITS
            else f"No activation recipe for {_name(spec)}: using {like} with its own tensors."
        )
        yield Note("activations-unverified", "model", message)
        if any(isinstance(mixer, CompressedAttention) for mixer in _mixers(spec)):
            yield Note(
                "activations-omitted",
                "model",
                "The recipe omits hyper-connections and compressors: a measured step of a small"
                " model saved five times as much.",
            )


def _of_attention(spec: ModelSpec, workload: TrainingWorkload) -> Iterator[Note]:
    """Yield which kernels of attention, dropout and recurrent layers are taken."""
    if workload.attention != "eager" and traits_of(spec).eager(workload.attention):
        yield Note(
            "attention-falls-back",
            "attention",
            f"transformers has no {workload.attention} attention for {_name(spec)}: it runs eager"
            " attention, with its scores in memory.",
        )
    if rule_of(spec, workload) == "recipe" and traits_of(spec).drops:
        yield Note(
            "saved-masks-of-cuda",
            None,
            f"Dropout masks of {_name(spec)} take a byte per number, as CUDA kernels save them; a"
            " CPU saves more, and with SDPA the scores too.",
        )
    kinds = {mixer.kind for mixer in _mixers(spec) if isinstance(mixer, Recurrent)}
    if kinds:
        message = (
            "Recurrent layers: counted as transformers runs them in plain PyTorch."
            if workload.attention == "eager" and kinds == {"mamba1"}
            else (
                "Recurrent layers: counted as the CUDA kernels of mamba_ssm, causal_conv1d and fla"
                " run them; plain PyTorch saves far more."
            )
        )
        yield Note("recurrent-kernels-assumed", "attention", message)


def _of_lengths(spec: ModelSpec, workload: TrainingWorkload) -> Iterator[Note]:
    """Yield what is assumed of a source's length, and a sequence beyond the model's positions."""
    if spec.task == "encoder_decoder":
        yield Note(
            "source-length-assumed",
            "sequence_length",
            "Assuming a source as long as sequence_length, or as a spectrogram's encoder fixes it.",
        )
    if spec.max_context_length and workload.sequence_length > spec.max_context_length:
        yield Note(
            "context-exceeds-model",
            "sequence_length",
            f"sequence_length {workload.sequence_length} exceeds the model's maximum of"
            f" {spec.max_context_length}.",
        )


def _of_experts(spec: ModelSpec, workload: TrainingWorkload) -> Iterator[Note]:
    """Yield that bitsandbytes leaves experts as they are."""
    scheme = base_scheme(spec, workload)
    if (
        scheme is not None
        and scheme.name in BITSANDBYTES
        and spec.routed_experts
        and not workload.quantize_experts
    ):
        yield Note(
            "experts-unquantized",
            "quantize_experts",
            "bitsandbytes leaves experts unquantized (transformers 5 fuses them in one parameter)."
            " If your trainer quantizes them (Unsloth; axolotl's quantize_moe_experts), send"
            " quantize_experts true.",
        )


def _mixers(spec: ModelSpec) -> Iterator[Mixer]:
    return (mixer for block in spec.blocks for mixer in block.mixers)
