"""Estimate and measurement side by side, term by term."""

from collections.abc import Callable, Iterable
from math import hypot

from msgspec import structs

from fitgauge.engine.quantity import Bytes, Term, total
from fitgauge.engine.serving.estimate import Estimate, StageEstimate
from fitgauge.engine.serving.registry import ENGINES
from fitgauge.engine.serving.start_log.measurements import Measurement
from fitgauge.engine.serving.workload import EngineName
from fitgauge.services.explain_log.schemas import ComparisonRow

_WEIGHTS = ("weights", "buffers", "fragmentation", "workspace", "repacking")
_ACTIVATIONS = ("activations", "logits", "encoder")
_RUNTIME = ("runtime", "communication")
_TERMS: tuple[tuple[str, tuple[str, ...], tuple[str, ...]], ...] = (
    ("weights", ("weights", "weights_rounded"), _WEIGHTS),
    ("activations", ("activations",), _ACTIVATIONS),
    ("activations_and_graphs", ("activations_and_graphs",), (*_ACTIVATIONS, "cuda_graphs")),
    ("runtime", ("runtime",), _RUNTIME),
    ("weights_and_runtime", ("consumed",), (*_WEIGHTS, *_RUNTIME, "sampler_states")),
    ("cuda_graphs", ("cuda_graphs",), ("cuda_graphs",)),
    ("state_cache", ("state",), ("state_cache",)),
)
"""A row's name, the readings it comes from, best first, and the terms of the estimate it stands
for."""

_NOT_PYTORCH = (*_RUNTIME, "cuda_graphs")


class Measured:
    """The readings of one log, asked for by name."""

    def __init__(self, readings: Iterable[Measurement]) -> None:
        self._readings = tuple(readings)

    def of_rank(self, name: str) -> dict[str, Measurement]:
        """Return the last reading of that name from every rank: a later one corrects an earlier
        one."""
        return {reading.rank: reading for reading in self._readings if reading.name == name}

    def pick(self, *names: str, by: Callable[..., Measurement] = max) -> Measurement | None:
        """Return the first of `names` that was printed: of the fullest rank, or with by=min of
        the emptiest."""
        for name in names:
            ranks = self.of_rank(name)
            if ranks:
                return by(ranks.values(), key=lambda reading: reading.value)
        return None

    def value(self, *names: str) -> float | None:
        """Return the number that `pick` finds, in bytes or a count."""
        reading = self.pick(*names)
        return reading.value if reading else None


def pool_of(estimate: Estimate) -> Bytes:
    """Return what the estimate leaves for the cache [bytes]: the budget less all else, with the
    doubt of both."""
    if estimate.given_pool_bytes is not None:
        expected = estimate.given_pool_bytes
        return Bytes(low=expected, expected=expected, high=expected)
    fixed = total(max(estimate.stages, key=lambda stage: stage.fixed_bytes).fixed)
    budget, expected = estimate.budget, estimate.pool_bytes
    below = hypot(fixed.high - fixed.expected, budget.expected - budget.low)
    above = hypot(fixed.expected - fixed.low, budget.high - budget.expected)
    return Bytes(low=max(0, int(expected - below)), expected=expected, high=int(expected + above))


def tokens_of(estimate: Estimate, pool: Bytes) -> Bytes | None:
    """Cache tokens of one replica for a pool on every rank; None where no rank keeps anything."""
    layouts = [stage.layout for stage in estimate.stages if stage.layout.keeps]
    if not layouts:
        return None
    low, expected, high = (
        min(layout.tokens(size) for layout in layouts)
        for size in (pool.low, pool.expected, pool.high)
    )
    return Bytes(low=low, expected=expected, high=high)


def rows(
    engine: EngineName, measured: Measured, estimate: Estimate | None, context_length: int
) -> list[ComparisonRow]:
    """Return every row the log has a number for, in the order memory is taken."""
    rows = []
    for name, readings, terms in _TERMS:
        reading = measured.pick(*readings)
        if reading:
            rows.append(_row(name, reading, _of_terms(estimate, terms)))
    rows += _cache_rows(engine, measured, estimate, context_length)
    rows += _whole_rows(measured, estimate)
    return rows


def _cache_rows(
    engine: EngineName, measured: Measured, estimate: Estimate | None, context_length: int
) -> list[ComparisonRow]:
    rows = []
    pooled = ENGINES[engine].preallocates_kv_cache
    pool = measured.pick("kv_pool", by=min if pooled else max)
    state = measured.pick("state")
    if pool and state and ENGINES[engine].splits_cache_budget:
        pool = structs.replace(
            pool, value=pool.value + state.value, resolution=pool.resolution + state.resolution
        )
    estimated_pool = pool_of(estimate) if estimate and pooled else None
    if pool:
        rows.append(
            _row("kv_cache", pool, estimated_pool if pooled else _of_terms(estimate, ("kv_cache",)))
        )
    needed = measured.pick("kv_needed")
    if needed:
        need = None
        if estimate:
            need = max(stage.layout.pool_bytes(1, context_length) for stage in estimate.stages)
        rows.append(_row("kv_cache_needed", needed, _exactly(need)))
    tokens = measured.pick("kv_tokens", by=min)
    if tokens and pooled:
        rows.append(
            _row(
                "kv_tokens",
                tokens,
                tokens_of(estimate, estimated_pool) if estimate and estimated_pool else None,
                unit="tokens",
            )
        )
        if pool and estimate:
            low, high = int(pool.value - pool.resolution), int(pool.value + pool.resolution)
            expected = tokens_of(estimate, Bytes(low=low, expected=int(pool.value), high=high))
            rows.append(_row("kv_tokens_of_pool", tokens, expected, unit="tokens"))
    return rows


def _whole_rows(measured: Measured, estimate: Estimate | None) -> list[ComparisonRow]:
    rows = []
    usable = measured.pick("total")
    if usable:
        rows.append(_row("usable", usable, estimate.accelerator.usable if estimate else None))
    allocated, requested = measured.pick("allocated"), measured.pick("requested")
    if allocated and requested:
        tensors = _most(estimate, lambda term: term.name not in _NOT_PYTORCH) if estimate else None
        row = _row("required_by_pytorch", allocated, tensors)
        row.measured += int(requested.value)
        row.measured_is = "at_least"
        if tensors:
            row.difference = row.measured - tensors.expected
            row.within = row.measured <= tensors.high
        rows.append(row)
    return rows


def _row(
    name: str, reading: Measurement, estimated: Bytes | None, *, unit: str = "bytes"
) -> ComparisonRow:
    row = ComparisonRow(
        name=name,
        unit="tokens" if unit == "tokens" else "bytes",
        measured=round(reading.value),
        lines=[reading.line],
    )
    if estimated is not None:
        row.estimated, row.low, row.high = estimated.expected, estimated.low, estimated.high
        row.difference = row.measured - estimated.expected
        row.within = (
            estimated.low - reading.resolution
            <= reading.value
            <= estimated.high + reading.resolution
        )
    return row


def _of_terms(estimate: Estimate | None, names: tuple[str, ...]) -> Bytes | None:
    """Return the stage where these terms are largest; None where the estimate has none of them."""
    return _most(estimate, lambda term: term.name in names) if estimate else None


def _most(estimate: Estimate, counts: Callable[[Term], bool]) -> Bytes | None:
    sums = [total(chosen) for stage in estimate.stages if (chosen := _chosen(stage, counts))]
    return max(sums, key=lambda size: size.expected) if sums else None


def _chosen(stage: StageEstimate, counts: Callable[[Term], bool]) -> list[Term]:
    return [term for term in (*stage.fixed, *stage.cache) if counts(term)]


def _exactly(size: int | None) -> Bytes | None:
    return Bytes(low=size, expected=size, high=size) if size is not None else None
