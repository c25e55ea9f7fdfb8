"""What an engine's settings may be changed to so that a workload runs: the ladders of
`settings: "auto"`.

Each engine's package has its own (`serving/NAME/settings.py`, `Engine.ladders`); services/fit
searches them and knows no engine by name. A ladder names a request field and the values that the
field may take instead of the engine's default, the nearest to the default first. Nothing here
changes what a caller gets: no number format, no context, no host memory."""

from collections.abc import Callable, Iterable, Iterator
from math import ceil, floor
from typing import NamedTuple

from fitgauge.engine.accelerator import USUAL_NODE, Accelerator
from fitgauge.engine.model.spec import ModelSpec
from fitgauge.engine.serving.workload import Workload

FEWEST_TOKENS = 2048
"""Tokens of a forward pass below which no ladder goes: smaller passes read prompts slowly."""

MOST_LAYOUTS = 12

_ROUNDING = 1e-6
"""How far a share of whole hundredths may be off as a float."""


class Ladder(NamedTuple):
    """One setting, and what it may be changed to."""

    setting: str
    """The request field."""

    values: Callable[[Workload, ModelSpec, Accelerator], tuple[int, ...]]
    """The values that a workload allows instead of its own, nearest first."""

    rule: str
    """The values in words, for the documentation."""

    costs: str
    """What a caller gives up."""


class Share(NamedTuple):
    """How far the engine's share of the GPU moves, in steps of 0.01."""

    lowest: float | None
    """Where less is free than the engine's share; None: it moves up alone."""

    highest: float
    """The largest share of the GPU."""

    def higher(self, default: float) -> tuple[float, ...]:
        """Return the shares above the default, nearest first."""
        return tuple(
            hundredth / 100
            for hundredth in range(
                floor(default * 100 + _ROUNDING) + 1, round(self.highest * 100) + 1
            )
        )

    def lower(self, default: float) -> tuple[float, ...]:
        """Return the shares below the default, nearest first."""
        if self.lowest is None:
            return ()
        least = round(self.lowest * 100)
        return tuple(
            hundredth / 100
            for hundredth in range(ceil(default * 100 - _ROUNDING) - 1, least - 1, -1)
        )

    @property
    def rule(self) -> str:
        """The values in words."""
        down = "" if self.lowest is None else f", down to {self.lowest:.2f} where the start fails"
        return f"up to {self.highest:.2f}{down}, by 0.01"


class Degrees(NamedTuple):
    """A layout over GPUs, by request field."""

    tensor_parallel: int = 1
    """GPUs that divide every layer."""
    pipeline_parallel: int = 1
    """Pipeline stages."""
    data_parallel: int = 1
    """Replicas."""
    expert_parallel: int = 1
    """GPUs over which experts are spread."""


class Ladders(NamedTuple):
    """The steps of an engine after A, its defaults. What is empty the engine does not have."""

    batch: tuple[Ladder, ...] = ()
    """B: limits of the scheduler, in the order in which they are lowered."""

    share: Share | None = None
    """C: the share of the GPU."""

    layouts: Callable[[ModelSpec, int], tuple[Degrees, ...]] | None = None
    """D: layouts of a model over a number of GPUs, in the order in which they are tried."""

    layouts_rule: str = ""
    """The layouts in words."""

    without_graphs: bool = False
    """E: whether CUDA graphs can be left out, which costs speed."""


def halved(value: int, least: int) -> tuple[int, ...]:
    """Return value / 2, value / 4, ... as long as they are whole and at least `least`."""
    values = []
    while value % 2 == 0 and value // 2 >= max(1, least):
        value //= 2
        values.append(value)
    return tuple(values)


def fewer_requests(
    workload: Workload, spec: ModelSpec, accelerator: Accelerator
) -> tuple[int, ...]:
    """Return the halves of `max_num_seqs` that still run all requests of a replica at once."""
    return halved(workload.max_num_seqs, workload.requests_per_replica)


def fewer_tokens(workload: Workload, spec: ModelSpec, accelerator: Accelerator) -> tuple[int, ...]:
    """Return the halves of `max_batched_tokens`, at least 2,048 and one token a request."""
    return halved(workload.max_batched_tokens, max(FEWEST_TOKENS, workload.max_num_seqs))


RUNNING_REQUESTS = Ladder(
    "max_num_seqs",
    fewer_requests,
    "halved, not below `concurrency`",
    "more requests than that wait for their turn",
)

FORWARD_TOKENS = Ladder(
    "max_batched_tokens",
    fewer_tokens,
    "halved, not below 2,048 or `max_num_seqs`",
    "long prompts are read in more passes, so first tokens come later",
)


def tensor_widths(spec: ModelSpec, most: int) -> list[int]:
    """Return the tensor-parallel degrees up to `most` that divide the attention heads."""
    return [width for width in range(1, most + 1) if spec.query_heads % width == 0]


def all_layouts(spec: ModelSpec, gpus: int) -> tuple[Degrees, ...]:
    """Return tensor x pipeline, attention replicas, pipeline alone, and whole replicas."""
    return _first((*_of_one_server(spec, gpus), *whole_replicas(spec, gpus)))


def without_replicas(spec: ModelSpec, gpus: int) -> tuple[Degrees, ...]:
    """Return the same for an engine whose replicas are servers of their own."""
    return _first(_of_one_server(spec, gpus))


def _of_one_server(spec: ModelSpec, gpus: int) -> Iterator[Degrees]:
    yield from tensor_by_pipeline(spec, gpus)
    yield from attention_replicas(spec, gpus)
    yield from pipeline_alone(spec, gpus)


def _first(layouts: Iterable[Degrees]) -> tuple[Degrees, ...]:
    return tuple(dict.fromkeys(layouts))[:MOST_LAYOUTS]


def tensor_by_pipeline(spec: ModelSpec, gpus: int) -> Iterator[Degrees]:
    """Yield tensor degrees within a node, widest first, with the other GPUs as stages."""
    for width in reversed(tensor_widths(spec, min(gpus, USUAL_NODE))):
        if width > 1 and gpus % width == 0 and gpus // width <= max(1, spec.layers):
            yield Degrees(tensor_parallel=width, pipeline_parallel=gpus // width)


def attention_replicas(spec: ModelSpec, gpus: int) -> Iterator[Degrees]:
    """Yield replicas of the attention over which the experts of a mixture are spread, fewest
    first."""
    if spec.has_experts:
        for replicas in _replicas(spec, gpus):
            yield replicas._replace(expert_parallel=gpus)


def pipeline_alone(spec: ModelSpec, gpus: int) -> Iterator[Degrees]:
    """Yield a stage on every GPU."""
    if 1 < gpus <= spec.layers:
        yield Degrees(pipeline_parallel=gpus)


def whole_replicas(spec: ModelSpec, gpus: int) -> Iterator[Degrees]:
    """Yield replicas that share nothing, fewest first; of a mixture `attention_replicas` needs
    less."""
    if not spec.has_experts:
        yield from _replicas(spec, gpus)


def _replicas(spec: ModelSpec, gpus: int) -> Iterator[Degrees]:
    for width in reversed(tensor_widths(spec, min(gpus // 2, USUAL_NODE))):
        if gpus % width == 0:
            yield Degrees(tensor_parallel=width, data_parallel=gpus // width)
