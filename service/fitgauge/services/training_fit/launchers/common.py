"""What the commands of several tools have in common: how a frozen base is quantized, on how many
cards they run."""

from fitgauge.engine.accelerator import USUAL_NODE
from fitgauge.engine.quantization.requested import canonical_name
from fitgauge.engine.training.workload import TrainingWorkload


def base_format(workload: TrainingWorkload) -> str | None:
    """nf4, nf4_double, fp4, int8 or another format of a quantized base; None where it is not
    quantized."""
    return (
        None if workload.base_quantization is None else canonical_name(workload.base_quantization)
    )


def on_node(workload: TrainingWorkload) -> int:
    """Return the number of processes of one node."""
    return min(USUAL_NODE, workload.gpus)
