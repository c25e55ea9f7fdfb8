"""A forward pass that nothing is learnt from: log-probabilities, values and rewards."""

from fitgauge.engine.model.dtypes import BITS
from fitgauge.engine.model.spec import ModelSpec, Part
from fitgauge.engine.training.autograd.segments import segments
from fitgauge.engine.training.parallel.fsdp import computed
from fitgauge.engine.training.states.parameters import units
from fitgauge.engine.training.states.sharding import is_sharded, tensor_slice
from fitgauge.engine.training.workload import TrainingWorkload, precision_policy


def inference_bytes(spec: ModelSpec, workload: TrainingWorkload) -> int:
    """Return the highest moment of a pass under no_grad [bytes, without weights]: the widest
    segment, whose input is all that is left of the one before it, and of a model cut over ranks the
    two units that are whole at that moment (the one at work and the next).

    `workload` checkpoints everything, so that a layer keeps nothing but its input; of one layer
    that is the same pass."""
    model_segments = segments(spec, computed(workload))
    widest = max(
        segment.forward.peak
        for segment in (model_segments.embedding, *model_segments.layers, model_segments.head)
    )
    stream = (
        workload.tokens
        // workload.context_parallel
        * spec.hidden_size
        * BITS[precision_policy(workload).compute]
        // 8
    )
    return (
        model_segments.constants
        + stream
        + widest
        + (gathered_bytes(spec, workload) if is_sharded("weights", workload) else 0)
    )


def gathered_bytes(spec: ModelSpec, workload: TrainingWorkload) -> int:
    """Return two of the largest units in the format of products [bytes]: FSDP gathers the next
    while one is at work; ZeRO-3 and offloading too."""
    width = BITS[precision_policy(workload).compute]
    sizes = [
        sum(tensor_slice(parameter, unit.part, workload).elements for parameter in unit.parameters)
        for unit in units(spec, workload)
        if unit.part is not Part.MTP
    ]
    return 2 * max(sizes, default=0) * width // 8


def whole_bytes(spec: ModelSpec, workload: TrainingWorkload) -> int:
    """Return all weights of a rank in the format of products [bytes]: what DeepSpeed's
    generation gathers (trl, ds3_gather_for_generation)."""
    numbers = sum(
        len(unit.layers) * tensor_slice(parameter, unit.part, workload).elements
        for unit in units(spec, workload)
        for parameter in unit.parameters
    )
    return numbers * BITS[precision_policy(workload).compute] // 8
