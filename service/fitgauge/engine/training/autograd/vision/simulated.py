"""A part of a tower as a segment."""

import msgspec

from fitgauge.engine.training.autograd.operations import Value
from fitgauge.engine.training.autograd.segment import Segment, trace_segment
from fitgauge.engine.training.autograd.tape import Pass, Tape
from fitgauge.engine.training.states.parameters import Unit
from fitgauge.engine.training.workload import TrainingWorkload


def simulated(
    name: str,
    tape: Tape,
    start: Value,
    output: Value,
    units: list[Unit],
    workload: TrainingWorkload,
    *,
    checkpointed: str,
) -> Segment:
    """Return a segment, which has no backward pass where nothing asks for a gradient."""
    segment = trace_segment(
        name,
        (),
        tape,
        start,
        output,
        units,
        workload,
        checkpointed=checkpointed if output.grad else "none",
    )
    return (
        segment if output.grad else msgspec.structs.replace(segment, backward=Pass(peak=0, end=0))
    )
