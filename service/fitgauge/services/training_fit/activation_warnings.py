"""Warnings about the activation recipe of a model and its assumptions."""

from fitgauge.engine.model.mixers import CompressedAttention, Recurrent
from fitgauge.engine.model.spec import ModelSpec
from fitgauge.engine.note import Note
from fitgauge.engine.quantization.requested import BITSANDBYTES
from fitgauge.engine.training.autograd.layers.traits import TRAITS, is_supported, traits_of
from fitgauge.engine.training.rules_of_thumb import rule_of
from fitgauge.engine.training.states.parameters import base_scheme
from fitgauge.engine.training.workload import TrainingWorkload


def recipe_notes(spec: ModelSpec, workload: TrainingWorkload) -> list[Note]:
    """Return warnings about how the activations of this model are derived."""
    notes, name = list[Note](), spec.model_type or "this architecture"
    rule = rule_of(spec, workload)
    if rule != "recipe":
        notes.append(
            Note(
                "activations-by-rule",
                "activation_rule",
                f"Activations follow the rule of thumb {rule}: send activation_rule recipe for the"
                " tensors autograd saves.",
            )
        )
    elif not is_supported(spec):
        like = "Llama's" if spec.task == "generate" else "BERT's"
        message = (
            f"The activation recipe of {name} is derived from its code, not checked against a"
            " measured step."
            if spec.model_type in TRAITS
            else f"No activation recipe for {name}: using {like} with its own tensors."
        )
        notes.append(Note("activations-unverified", "model", message))
        if any(
            isinstance(mixer, CompressedAttention)
            for block in spec.blocks
            for mixer in block.mixers
        ):
            notes.append(
                Note(
                    "activations-omitted",
                    "model",
                    "The recipe omits hyper-connections and compressors: a measured step of a small"
                    " model saved five times as much.",
                )
            )
    if workload.attention != "eager" and traits_of(spec).eager(workload.attention):
        notes.append(
            Note(
                "attention-falls-back",
                "attention",
                f"transformers has no {workload.attention} attention for {name}: it runs eager"
                " attention, with its scores in memory.",
            )
        )
    if rule == "recipe" and traits_of(spec).drops:
        notes.append(
            Note(
                "saved-masks-of-cuda",
                None,
                f"Dropout masks of {name} take a byte per number, as CUDA kernels save them; a CPU"
                " saves more, and with SDPA the scores too.",
            )
        )
    kinds = {
        mixer.kind
        for block in spec.blocks
        for mixer in block.mixers
        if isinstance(mixer, Recurrent)
    }
    if kinds:
        message = (
            "Recurrent layers: counted as transformers runs them in plain PyTorch."
            if workload.attention == "eager" and kinds == {"mamba1"}
            else (
                "Recurrent layers: counted as the CUDA kernels of mamba_ssm, causal_conv1d and fla"
                " run them; plain PyTorch saves far more."
            )
        )
        notes.append(Note("recurrent-kernels-assumed", "attention", message))
    if spec.task == "encoder_decoder":
        notes.append(
            Note(
                "source-length-assumed",
                "sequence_length",
                "Assuming a source as long as sequence_length, or as a spectrogram's encoder fixes"
                " it.",
            )
        )
    if spec.max_context_length and workload.sequence_length > spec.max_context_length:
        notes.append(
            Note(
                "context-exceeds-model",
                "sequence_length",
                f"sequence_length {workload.sequence_length} exceeds the model's maximum of"
                f" {spec.max_context_length}.",
            )
        )
    scheme = base_scheme(spec, workload)
    if (
        scheme is not None
        and scheme.name in BITSANDBYTES
        and spec.routed_experts
        and not workload.quantize_experts
    ):
        notes.append(
            Note(
                "experts-unquantized",
                "quantize_experts",
                "bitsandbytes leaves experts unquantized (transformers 5 fuses them in one"
                " parameter). If your trainer quantizes them (Unsloth; axolotl's"
                " quantize_moe_experts), send quantize_experts true.",
            )
        )
    return notes
