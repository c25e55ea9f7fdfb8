"""The rules of thumb that people quote for activations. Sizes that are no model are counted by them; nothing else is."""

from fitgauge.engine.architecture import ModelSpec, Part
from fitgauge.engine.training.workload import TrainingWorkload


def megatron_layer_bytes(sequence: int, batch: int, hidden: int, heads: int, *, scores: bool) -> int:
    """34 s b h + 5 a s^2 b: one layer in 16 bit with dropout, a heads; without `scores` (FlashAttention, selective recomputation) 34 s b h.

    Source: arXiv 2205.05198, section 4.1, equation 1.
    """
    return 34 * sequence * batch * hidden + (5 * heads * sequence * sequence * batch if scores else 0)


def forty_bytes(sequence: int, batch: int, hidden: int, layers: int) -> int:
    """40 S H L for one sample: a GPT or Llama in 16 bit with FlashAttention and a gated MLP, planned for pipelines."""
    return 40 * sequence * batch * hidden * layers


def widths_bytes(sequence: int, batch: int, hidden: int, intermediate: int, layers: int, width: int) -> int:
    """(hidden + intermediate) x sequence x layers x bytes of a number: one tensor of the stream and one of the MLP a layer."""
    return (hidden + intermediate) * sequence * batch * layers * width


def quoted_bytes(spec: ModelSpec, workload: TrainingWorkload, layers: int) -> tuple[int, str] | None:
    """(bytes of a micro-batch on `layers` layers, the rule) for a model that is only a size: 40 S H L under Megatron, (h + i) s L in int8;
    None for the others, which are counted in the shape of a known model."""
    if spec.model_type != "nominal":
        return None
    sequence, batch = -(-workload.sequence_length // workload.context_parallel), workload.micro_batch_size
    if workload.framework == "megatron":
        size = forty_bytes(sequence, batch, spec.hidden_size, layers) // workload.tensor_parallel
        return size, f"40 x {sequence} x {batch} x {spec.hidden_size} x {layers} layers"
    if workload.precision == "int8":
        intermediate = next((b.mlp.intermediate_size for b in spec.blocks if b.mlp and b.part is Part.LANGUAGE), 4 * spec.hidden_size)
        size = widths_bytes(sequence, batch, spec.hidden_size, intermediate, layers, 1)
        return size, f"({spec.hidden_size} + {intermediate}) x {sequence} x {batch} x {layers} layers x 1 B"
    return None
