"""Adds the terms up, for every pipeline stage: the Estimate."""

from collections.abc import Sequence
from typing import NamedTuple, Protocol

import msgspec

from fitgauge.engine.accelerator import Accelerator
from fitgauge.engine.quantity import Bytes, Sum, Term, added, total


class CacheLayout(Protocol):
    """How an engine lays out what it keeps of requests, on one rank."""

    @property
    def keeps(self) -> bool:
        """Whether anything is kept of a request: encoders and ranks without attention keep
        nothing."""
        ...

    def pool_bytes(self, concurrency: int, context_length: int) -> int:
        """Return the bytes that `concurrency` requests of `context_length` tokens need."""
        ...

    def tokens(self, pool_bytes: int) -> int:
        """Return the tokens of cache the engine would report for a pool of that size."""
        ...

    def requests(self, pool_bytes: int, context_length: int) -> int:
        """Return the requests of `context_length` tokens that a pool of that size holds."""
        ...


class UnpagedCache(CacheLayout):
    """One that holds every request by itself, in whole."""

    __slots__ = ("context_length",)
    context_length: int
    """Length of the question's requests [tokens]."""

    @property
    def keeps(self) -> bool:
        """Whether these layers keep anything of a request."""
        return self.pool_bytes(1, 1) > 0

    def requests(self, pool_bytes: int, context_length: int) -> int:
        """Return the requests of `context_length` tokens that `pool_bytes` hold."""
        return pool_bytes // self.pool_bytes(1, context_length)

    def tokens(self, pool_bytes: int) -> int:
        """Return the tokens of requests of the question's length."""
        return self.requests(pool_bytes, self.context_length) * self.context_length


class StageEstimate(msgspec.Struct, frozen=True, kw_only=True):
    """One rank of a pipeline stage."""

    stage: int
    """Number of the stage, from 0."""
    layers: int
    """Layers of the language model that it holds."""
    fixed: tuple[Term, ...]
    """Terms that are there before any request."""
    cache: tuple[Term, ...]
    """Terms of the requests' cache."""
    layout: CacheLayout
    """How the engine holds requests in the memory that it gives to its cache."""
    idle: Sum
    """All that is no cache, added up."""
    required: Bytes
    """What the stage needs in all."""

    @property
    def fixed_bytes(self) -> int:
        """Expected bytes of all that is no cache."""
        return self.idle.expected

    @property
    def terms(self) -> tuple[Term, ...]:
        """All terms, largest first."""
        return tuple(sorted((*self.fixed, *self.cache), key=lambda term: -term.bytes))


class StageMemory(NamedTuple):
    """All memory of one rank of a pipeline stage but its weights, whose number format changes
    none of it."""

    layers: int
    """The layers of the stage."""

    fixed: tuple[Term, ...]
    """Whatever requests do."""

    cache: tuple[Term, ...]
    """The KV cache and states of the requests."""

    layout: CacheLayout
    """How both are laid out in a pool."""

    in_reserve: tuple[Term, ...] = ()
    """What comes after the pools, and lives in what the engine keeps back of the GPU."""

    @property
    def expected_bytes(self) -> int:
        """Expected bytes of all of it."""
        return sum([term.bytes for term in (*self.fixed, *self.cache, *self.in_reserve)])


def stage_estimates(
    loaded: Sequence[tuple[Term, ...]], other_memory: Sequence[StageMemory]
) -> tuple[StageEstimate, ...]:
    """Return every stage: what is loaded, and what it holds in addition."""
    return tuple(
        stage_estimate(
            stage=number,
            layers=rest.layers,
            fixed=(*terms, *rest.fixed),
            cache=rest.cache,
            layout=rest.layout,
        )
        for number, (terms, rest) in enumerate(zip(loaded, other_memory, strict=True))
    )


def fullest_required(
    loaded: Sequence[tuple[Term, ...]], other_memory: Sequence[StageMemory]
) -> tuple[Bytes, int, int]:
    """Return (`required`, layers, `fixed_bytes`) of the stage that needs most, the same as
    `Estimate.fullest` of these stages, without making the others."""
    unlike = {id(rest): rest for rest in other_memory}
    others = {name: rest.expected_bytes for name, rest in unlike.items()}
    sizes = [
        sum([term.bytes for term in terms]) + others[id(rest)]
        for terms, rest in zip(loaded, other_memory, strict=True)
    ]
    number = sizes.index(max(sizes))
    rest = other_memory[number]
    required = total((*loaded[number], *rest.fixed, *rest.cache))
    return required, rest.layers, required.expected - sum([term.bytes for term in rest.cache])


def stage_estimate(
    *,
    stage: int,
    layers: int,
    fixed: tuple[Term, ...],
    cache: tuple[Term, ...],
    layout: CacheLayout,
) -> StageEstimate:
    """Return a stage with its sums."""
    idle = added(fixed)
    return StageEstimate(
        stage=stage,
        layers=layers,
        fixed=fixed,
        cache=cache,
        layout=layout,
        idle=idle,
        required=added(cache, idle).interval(),
    )


class Estimate(msgspec.Struct, frozen=True, kw_only=True):
    """What a deployment needs of every GPU."""

    accelerator: Accelerator
    """The GPU it was estimated for."""
    stages: tuple[StageEstimate, ...]
    """One rank of each pipeline stage."""
    budget: Bytes
    """The usable memory that the engine may take."""
    given_pool_bytes: int | None = None
    """Size of the KV cache where the request gives it outright [bytes]."""
    gpus: tuple[Accelerator, ...] = ()
    """The GPU of every stage where they are of several kinds; then `accelerator` and `budget` are
    of the fullest stage, and all usable memory of a GPU is its budget."""

    @property
    def fullest(self) -> StageEstimate:
        """The stage that needs most; on GPUs of several kinds the one that has least left."""
        if not self.gpus:
            return max(self.stages, key=lambda stage: stage.required.expected)
        return max(
            self.stages, key=lambda stage: stage.required.expected - self.budget_of(stage).expected
        )

    def gpu_of(self, stage: StageEstimate) -> Accelerator:
        """Return the GPU of a stage."""
        return self.gpus[stage.stage] if self.gpus else self.accelerator

    def budget_of(self, stage: StageEstimate) -> Bytes:
        """Return the usable memory that the engine may take for a stage."""
        return self.gpus[stage.stage].usable if self.gpus else self.budget

    def pool_bytes_of(self, stage: StageEstimate) -> int:
        """Return what the GPU of a stage has for the cache [bytes]: of like GPUs what the one with
        the least has."""
        if not self.gpus:
            return self.pool_bytes
        return max(0, self.budget_of(stage).expected - stage.fixed_bytes)

    @property
    def pool_bytes(self) -> int:
        """What one GPU of the fullest stage has for the cache [bytes]: given, or the budget less
        all else; never negative."""
        if self.given_pool_bytes is not None:
            return self.given_pool_bytes
        if self.gpus:
            return self.pool_bytes_of(self.fullest)
        return max(0, self.budget.expected - max(stage.fixed_bytes for stage in self.stages))


def on_gpus(estimate: Estimate, gpus: tuple[Accelerator, ...]) -> Estimate:
    """Return an estimate of which every stage is on a GPU of its own kind."""
    placed = msgspec.structs.replace(estimate, gpus=gpus)
    decides = placed.gpu_of(placed.fullest)
    return msgspec.structs.replace(placed, accelerator=decides, budget=decides.usable)
