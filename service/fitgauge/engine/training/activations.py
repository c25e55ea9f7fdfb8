"""What a training step holds beside parameters: activations, gradients as they come, and the most of it, for one rank."""

import msgspec

from fitgauge.engine.architecture import ModelSpec
from fitgauge.engine.training.segment import Segment
from fitgauge.engine.training.segments import Cut, segments
from fitgauge.engine.training.workload import TrainingWorkload


class Moment(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """The highest moment of a phase [bytes], and what makes it: `total` = `gradients` + `activations` + `logits` + `working`.

    `gradients`: of parameters whose backward is done; `activations`: saved for backward passes to come; `logits`: held by the caller;
    `working`: tensors of the operation at hand and its neighbours.
    """

    total: int
    gradients: int
    activations: int
    logits: int
    working: int


class Activations(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """One forward and backward pass of one micro-batch [bytes beyond parameters and states].

    `after_forward`: live between the passes. `gradients`: what is left after the backward pass.
    """

    after_forward: int
    forward: Moment
    backward: Moment
    gradients: int
    per_layer: tuple[int, ...]


def activations(
    spec: ModelSpec, workload: TrainingWorkload, *, layers: range | None = None, first: bool = True, last: bool = True
) -> Activations:
    """Plays the segments of a stage forward and backward. `layers`: the stage's, None for all; `first`, `last`: whether it holds the
    embedding, the head and the loss.
    """
    return played(segments(spec, workload), layers=layers, first=first, last=last)


def played(cut: Cut, *, layers: range | None = None, first: bool = True, last: bool = True) -> Activations:
    """The same of segments at hand."""
    middle = in_order(cut, layers)
    line = [*([cut.embedding] if first else ()), *middle, *([cut.head] if last else ())]
    live = cut.constants
    forward = Moment(total=0, gradients=0, activations=0, logits=0, working=0)
    ends, casts = [], 0
    for segment in line:
        if live + segment.forward.peak > forward.total:
            total = live + segment.forward.peak
            forward = Moment(total=total, gradients=0, activations=live, logits=segment.logits, working=total - live - segment.logits)
        ends.append(segment.forward.end)
        live += segment.forward.end
        casts += segment.casts
    live -= casts
    after = live
    logits, done = sum(segment.logits for segment in line), 0
    tied = cut.tied_bytes if first and last else 0
    backward = Moment(total=0, gradients=0, activations=0, logits=0, working=0)
    for segment in reversed(line):
        extra = tied if segment is cut.embedding else 0
        peak = live + segment.backward.peak + extra
        if peak > backward.total:
            kept = max(0, min(live - done - logits, peak - done - logits))
            backward = Moment(total=peak, gradients=done, activations=kept, logits=logits, working=peak - done - logits - kept)
        live += segment.backward.end - extra
        done += segment.gradients
    return Activations(
        after_forward=after,
        forward=forward,
        backward=backward,
        gradients=done,
        per_layer=tuple(end for end in ends),
    )


def in_order(cut: Cut, layers: range | None = None) -> list[Segment]:
    """The segment of every layer, in the order of their numbers; of those in `layers`, where given."""
    numbered = sorted((number, kind) for kind, segment in enumerate(cut.layers) for number in segment.layers)
    return [cut.layers[kind] for number, kind in numbered if layers is None or number in layers]
