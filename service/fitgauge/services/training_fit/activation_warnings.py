"""What an answer says of the recipe behind its activations: whether there is one, and what it
takes for granted."""

from fitgauge.engine.model.spec import CompressedAttention, ModelSpec, Recurrent
from fitgauge.engine.quantization.requested import BITSANDBYTES
from fitgauge.engine.training.autograd.layers.traits import TRAITS, is_supported, traits_of
from fitgauge.engine.training.parallel.validate import experts
from fitgauge.engine.training.rules_of_thumb import rule_of
from fitgauge.engine.training.states.parameters import base_scheme
from fitgauge.engine.training.workload import TrainingWorkload
from fitgauge.services.training_fit.images import image_notes


def recipe_notes(spec: ModelSpec, workload: TrainingWorkload) -> list[str]:
    """Warnings about how the activations of this model were derived."""
    said, name = [], spec.model_type or "this architecture"
    rule = rule_of(spec, workload)
    if rule != "recipe":
        said.append(
            f"Activations by the rule of thumb {rule}: send activation_rule recipe for what"
            " autograd keeps."
        )
    elif not is_supported(spec):
        like = "Llama's" if spec.task == "generate" else "BERT's"
        said.append(
            f"The activation recipe of {name} was derived from its code and not compared with a"
            " measured step."
            if spec.model_type in TRAITS
            else f"No activation recipe for {name}: {like} was used on its own tensors."
        )
        if any(
            isinstance(mixer, CompressedAttention)
            for block in spec.blocks
            for mixer in block.mixers
        ):
            said.append(
                "Hyper-connections and compressors are left out of that: a measured step of a small"
                " model kept five times as much."
            )
    if workload.attention != "eager" and traits_of(spec).eager(workload.attention):
        said.append(
            f"transformers has no {workload.attention} attention for {name}: it runs eagerly, with"
            " its scores in memory."
        )
    if rule == "recipe" and traits_of(spec).drops:
        said.append(
            f"Dropout of {name} is as CUDA's kernels keep it, a byte a number; a CPU keeps more,"
            " and with SDPA scores too."
        )
    kinds = {
        mixer.kind
        for block in spec.blocks
        for mixer in block.mixers
        if isinstance(mixer, Recurrent)
    }
    if kinds:
        said.append(
            "Recurrent layers: as transformers runs them in PyTorch alone."
            if workload.attention == "eager" and kinds == {"mamba1"}
            else (
                "Recurrent layers: as the CUDA kernels of mamba_ssm, causal_conv1d and fla run"
                " them; in PyTorch alone they keep far more."
            )
        )
    if spec.task == "encoder_decoder":
        said.append(
            "The source is taken to be as long as sequence_length, or as a spectrogram's encoder"
            " fixes it."
        )
    if spec.max_context_length and workload.sequence_length > spec.max_context_length:
        said.append(
            f"sequence_length {workload.sequence_length} is beyond the model's maximum of"
            f" {spec.max_context_length}."
        )
    scheme = base_scheme(spec, workload)
    if (
        scheme is not None
        and scheme.name in BITSANDBYTES
        and experts(spec)
        and not workload.quantize_experts
    ):
        said.append(
            "bitsandbytes leaves experts unquantized, which transformers 5 keeps in one parameter:"
            " where your trainer quantizes them (Unsloth; axolotl's quantize_moe_experts) send"
            " quantize_experts true."
        )
    return said + image_notes(workload, spec)
