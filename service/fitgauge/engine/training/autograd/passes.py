"""The forward and backward pass of one micro-batch over the segments of a rank: peaks, and
gradients as they appear."""

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
    """Rotary tables and masks, which live before them [bytes]."""
    passing: int = 0
    """Features of images that are freed after the forward pass [bytes]."""
    masks: int = 0
    """Masks that are freed before the last segment's forward pass [bytes]."""
    tied: int = 0
    """Gradient of the weight that embedding and head share [bytes]."""


class Passes(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """Both passes of a micro-batch [bytes beyond parameters and states]."""

    forward_peak: int
    """Peak of the forward pass."""
    between: int
    """Live bytes between the passes."""
    backward: int
    """Peak of the backward pass once a first segment has left its gradients."""
    opening: int
    """Peak of the backward pass before that."""
    arrived: int
    """When its first segment has left a gradient, with that whole."""
    gradients: int
    """Gradients held at the moment of `backward`."""
    left: int
    """Gradients at its end."""

    @property
    def backward_peak(self) -> int:
        """Peak of the whole backward pass."""
        return max(self.backward, self.opening)


def activations(
    spec: ModelSpec,
    workload: TrainingWorkload,
    *,
    layers: range | None = None,
    first: bool = True,
    last: bool = True,
) -> Passes:
    """Return the Passes of a stage that holds all its gradients. Arguments: see
    `stage_segments`."""
    return simulated(stage_segments(segments(spec, workload), layers, first=first, last=last))


def stage_segments(
    model_segments: ModelSegments,
    layers: range | None = None,
    *,
    first: bool = True,
    last: bool = True,
) -> StageSegments:
    """Return the segments of a pipeline stage. `layers`: those of the stage, None for all; `first`,
    `last`: whether it holds the embedding, the head and the loss."""
    line = (
        *((model_segments.embedding,) if first else ()),
        *in_order(model_segments, layers),
        *((model_segments.head,) if last else ()),
    )
    return StageSegments(
        segments=line,
        constants=model_segments.constants,
        passing=model_segments.passing + (0 if last else model_segments.masks),
        masks=model_segments.masks if last else 0,
        tied=model_segments.tied_bytes if first and last else 0,
    )


def simulated(line: StageSegments, *, stays: float = 1) -> Passes:
    """Return both passes of one micro-batch.

    `stays`: the share of a segment's gradients that this rank holds after the segment: 1 for all,
    its shard's share, or 0 where they are added to main gradients or stepped with at once."""
    live, forward = line.constants + line.passing + line.masks, 0
    for segment in line.segments:
        if segment is line.segments[-1]:
            live -= line.masks
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
        if stays == 1:
            reduced = min(segment.gradients, segment.released)
        else:
            reduced = int(stays * segment.released)
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
    """Return the segment of every layer by layer number; only of `layers` where that is set."""
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
