"""Both passes of one micro-batch over the segments of a rank: activations, gradients as they
come, and the most of them."""

import msgspec

from fitgauge.engine.model.spec import ModelSpec
from fitgauge.engine.training.autograd.segment import Segment
from fitgauge.engine.training.autograd.segments import ModelSegments, segments
from fitgauge.engine.training.workload import TrainingWorkload


class StageSegments(msgspec.Struct, frozen=True, kw_only=True):
    """The segments of one rank."""

    segments: tuple[Segment, ...]
    """In the order they run."""
    constants: int = 0
    """What is there before them: rotary tables and masks [bytes]."""
    passing: int = 0
    """Of masks, what goes with the forward pass [bytes]."""
    tied: int = 0
    """Gradient of the weight that embedding and head share [bytes]."""


class Passes(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """Both passes of a micro-batch [bytes beyond parameters and states]."""

    forward_peak: int
    """The most of the forward pass."""
    between: int
    """Live between the passes."""
    backward: int
    """The most of the backward pass after its first segment has left a gradient."""
    opening: int
    """The most of the backward pass before that."""
    arrived: int
    """When its first segment has left a gradient, with that whole."""
    gradients: int
    """Gradients held at the moment of `backward`."""
    left: int
    """Gradients at its end."""

    @property
    def backward_peak(self) -> int:
        """The most of the whole backward pass."""
        return max(self.backward, self.opening)


def activations(
    spec: ModelSpec,
    workload: TrainingWorkload,
    *,
    layers: range | None = None,
    first: bool = True,
    last: bool = True,
) -> Passes:
    """Return the Passes of a stage that keeps all its gradients; see `stage_segments`."""
    return simulated(stage_segments(segments(spec, workload), layers, first=first, last=last))


def stage_segments(
    model_segments: ModelSegments,
    layers: range | None = None,
    *,
    first: bool = True,
    last: bool = True,
) -> StageSegments:
    """Return the Line of a stage. `layers`: the stage's, None for all; `first`, `last`: whether
    it holds the embedding, the head and the loss."""
    line = (
        *((model_segments.embedding,) if first else ()),
        *in_order(model_segments, layers),
        *((model_segments.head,) if last else ()),
    )
    return StageSegments(
        segments=line,
        constants=model_segments.constants,
        passing=model_segments.passing,
        tied=model_segments.tied_bytes if first and last else 0,
    )


def simulated(line: StageSegments, *, stays: float = 1) -> Passes:
    """Return both passes of one micro-batch. `stays`: the share of a segment's gradients that
    this rank keeps when the segment has ended: all of them, its shard, or none where they go
    into main gradients or are stepped with at once."""
    live, forward = line.constants + line.passing, 0
    for segment in line.segments:
        forward = max(forward, live + segment.forward.peak)
        live += segment.forward.end
    live -= line.passing + sum(segment.casts + segment.logits for segment in line.segments)
    between, backward, at, done, opening = live, 0, 0, 0, 0
    arrived = live + line.segments[-1].backward.end
    for number, segment in enumerate(reversed(line.segments)):
        shared = line.tied if number == len(line.segments) - 1 else 0
        peak = live + segment.backward.peak + shared
        if number == 0 and len(line.segments) > 1:
            opening = peak
        elif peak > backward:
            own = min(segment.gradients, segment.backward.parameter_gradients)
            backward, at = peak, done + (own if stays == 1 else 0)
        reduced = (
            min(segment.gradients, segment.released)
            if stays == 1
            else int(stays * segment.released)
        )
        gone = shared if stays == 1 else int(stays * shared) + segment.released - reduced
        live += segment.backward.end - gone
        done += reduced
    return Passes(
        forward_peak=forward,
        between=between,
        backward=backward,
        opening=opening,
        arrived=arrived,
        gradients=at,
        left=done,
    )


def in_order(model_segments: ModelSegments, layers: range | None = None) -> list[Segment]:
    """Return the segment of every layer, in the order of their numbers; of those in `layers`,
    where given."""
    numbered = sorted(
        (number, kind)
        for kind, segment in enumerate(model_segments.layers)
        for number in segment.layers
    )
    return [
        model_segments.layers[kind]
        for number, kind in numbered
        if layers is None or number in layers
    ]
