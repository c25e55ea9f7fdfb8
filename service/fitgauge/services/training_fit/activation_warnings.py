"""Warnings about the activation recipe of a model and its assumptions."""

from fitgauge.engine.model.spec import CompressedAttention, ModelSpec, Recurrent
from fitgauge.engine.quantization.requested import BITSANDBYTES
from fitgauge.engine.training.autograd.layers.traits import TRAITS, is_supported, traits_of
from fitgauge.engine.training.parallel.validate import experts
from fitgauge.engine.training.rules_of_thumb import rule_of
from fitgauge.engine.training.states.parameters import base_scheme
from fitgauge.engine.training.workload import TrainingWorkload
from fitgauge.services.training_fit.images import image_notes


def recipe_notes(spec: ModelSpec, workload: TrainingWorkload) -> list[str]:
    """Return warnings about how the activations of this model are derived."""
    messages, name = list[str](), spec.model_type or "this architecture"
    rule = rule_of(spec, workload)
    if rule != "recipe":
        messages.append(
            f"Activations follow the rule of thumb {rule}: send activation_rule recipe for the"
            " tensors autograd saves."
        )
    elif not is_supported(spec):
        like = "Llama's" if spec.task == "generate" else "BERT's"
        messages.append(
            f"The activation recipe of {name} is derived from its code, not checked against a"
            " measured step."
            if spec.model_type in TRAITS
            else f"No activation recipe for {name}: using {like} with its own tensors."
        )
        if any(
            isinstance(mixer, CompressedAttention)
            for block in spec.blocks
            for mixer in block.mixers
        ):
            messages.append(
                "The recipe omits hyper-connections and compressors: a measured step of a small"
                " model saved five times as much."
            )
    if workload.attention != "eager" and traits_of(spec).eager(workload.attention):
        messages.append(
            f"transformers has no {workload.attention} attention for {name}: it runs eager"
            " attention, with its scores in memory."
        )
    if rule == "recipe" and traits_of(spec).drops:
        messages.append(
            f"Dropout masks of {name} take a byte per number, as CUDA kernels save them; a CPU"
            " saves more, and with SDPA the scores too."
        )
    kinds = {
        mixer.kind
        for block in spec.blocks
        for mixer in block.mixers
        if isinstance(mixer, Recurrent)
    }
    if kinds:
        messages.append(
            "Recurrent layers: counted as transformers runs them in plain PyTorch."
            if workload.attention == "eager" and kinds == {"mamba1"}
            else (
                "Recurrent layers: counted as the CUDA kernels of mamba_ssm, causal_conv1d and fla"
                " run them; plain PyTorch saves far more."
            )
        )
    if spec.task == "encoder_decoder":
        messages.append(
            "Assuming a source as long as sequence_length, or as a spectrogram's encoder fixes it."
        )
    if spec.max_context_length and workload.sequence_length > spec.max_context_length:
        messages.append(
            f"sequence_length {workload.sequence_length} exceeds the model's maximum of"
            f" {spec.max_context_length}."
        )
    scheme = base_scheme(spec, workload)
    if (
        scheme is not None
        and scheme.name in BITSANDBYTES
        and experts(spec)
        and not workload.quantize_experts
    ):
        messages.append(
            "bitsandbytes leaves experts unquantized (transformers 5 fuses them in one parameter)."
            " If your trainer quantizes them (Unsloth; axolotl's quantize_moe_experts), send"
            " quantize_experts true."
        )
    return messages + image_notes(workload, spec)
