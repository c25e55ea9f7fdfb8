"""What /metrics shows: requests as they are counted and timed, and at each reading the state of
the queue, the caches and the Hub."""

from collections import Counter
from collections.abc import Iterator, Mapping
from functools import cache
from typing import Protocol

from prometheus_client import CollectorRegistry, Histogram, PlatformCollector, ProcessCollector
from prometheus_client import Counter as LockedCounter
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from fitgauge.api.admission import Admission
from fitgauge.api.answer_cache import AnswerCache
from fitgauge.hub import Hub
from fitgauge.services.common.answered import Answered
from fitgauge.services.facade import Services

_HUB_SECONDS = (0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.0, 5.0, 10.0)


class Cache(Protocol):
    """A cache that /metrics shows."""

    hits: int
    misses: int

    @property
    def held_bytes(self) -> int:
        """Bytes that it takes."""

    def __len__(self) -> int:
        """Return the number of entries."""


class RequestMetrics(Collector):
    """Counts and times requests.

    Label values are bounded: a route is its template, codes and engines are those of the
    contract, and the server accepts a fixed list of methods. Counts are plain numbers, since one
    thread counts: a lock for each costs several times as much."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self.in_progress = 0
        self._seconds = Histogram(
            "fitgauge_request_seconds", "Time to answer.", ("route",), registry=registry
        )
        self._requests: Counter[tuple[str, ...]] = Counter()
        self._refusals: Counter[tuple[str, ...]] = Counter()
        self._verdicts: Counter[tuple[str, ...]] = Counter()
        self._timer = cache(lambda route: self._seconds.labels(route).observe)
        registry.register(self)

    def finished(
        self, route: str, method: str, status: int, seconds: float, answered: Answered
    ) -> None:
        """Record a request, and what it was answered with."""
        self._requests[route, method, str(status)] += 1
        self._timer(route)(seconds)
        for judged in answered.verdicts:
            self._verdicts[judged] += 1
        if answered.code is not None:
            self._refusals[answered.code,] += 1

    def collect(self) -> Iterator[Metric]:
        """Yield the counts."""
        for name, text, labels, counts in (
            ("requests", "Requests answered.", ("route", "method", "status"), self._requests),
            ("refusals", "Requests answered with a problem.", ("code",), self._refusals),
            (
                "verdicts",
                "Verdicts given, cached ones included.",
                ("operation", "engine", "verdict"),
                self._verdicts,
            ),
        ):
            metric = CounterMetricFamily(f"fitgauge_{name}", text, labels=labels)
            for values, count in counts.items():
                metric.add_metric(values, count)
            yield metric


class StateMetrics(Collector):
    """Reads the state of the service whenever /metrics is asked for."""

    def __init__(
        self,
        requests: RequestMetrics,
        services: Services,
        hub: Hub,
        answers: AnswerCache,
        admission: Admission,
    ) -> None:
        self._requests = requests
        self._services = services
        self._hub = hub
        self._caches: dict[str, Cache] = {"answers": answers, "models": hub.memory}
        self._admission = admission

    def collect(self) -> Iterator[Metric]:
        """Yield every metric."""
        hub = self._hub
        for name, text, value in (
            (
                "fitgauge_requests_in_progress",
                "Requests being answered.",
                self._requests.in_progress,
            ),
            (
                "fitgauge_long_questions",
                "Long requests waiting or running.",
                self._services.long_questions_under_way,
            ),
            (
                "fitgauge_request_body_bytes",
                "Request bodies in memory, small ones not counted.",
                self._admission.held_bytes,
            ),
            (
                "fitgauge_hub_breaker_open",
                "1 while the Hub is not asked because it failed.",
                hub.refusal is not None,
            ),
            ("fitgauge_hub_lookups", "Models being looked up.", hub.lookups_under_way),
            (
                "fitgauge_hub_failures",
                "Repositories cached as missing, refused or broken.",
                hub.failures,
            ),
        ):
            yield GaugeMetricFamily(name, text, value=float(value))
        yield from self._of_caches()

    def _of_caches(self) -> Iterator[Metric]:
        size = GaugeMetricFamily("fitgauge_cache_bytes", "Bytes in a cache.", labels=("cache",))
        entries = GaugeMetricFamily(
            "fitgauge_cache_entries", "Entries of a cache.", labels=("cache",)
        )
        reads = CounterMetricFamily(
            "fitgauge_cache_reads", "Reads of a cache.", labels=("cache", "result")
        )
        for name, entry in self._caches.items():
            size.add_metric((name,), entry.held_bytes)
            entries.add_metric((name,), len(entry))
            reads.add_metric((name, "hit"), entry.hits)
            reads.add_metric((name, "miss"), entry.misses)
        yield from (size, entries, reads)


def watch_hub(hub: Hub, registry: CollectorRegistry) -> None:
    """Count and time the requests to the Hub from now on."""
    requests = LockedCounter(
        "fitgauge_hub_requests",
        "Requests to the Hub: ok, unchanged, no-file, cancelled or the code of the error.",
        ("outcome",),
        registry=registry,
    )
    seconds = Histogram(
        "fitgauge_hub_request_seconds",
        "Time of a request to the Hub.",
        buckets=_HUB_SECONDS,
        registry=registry,
    )

    def watch(outcome: str, took: float) -> None:
        requests.labels(outcome).inc()
        seconds.observe(took)

    hub.watch = watch


class SharedOperations(Protocol):
    """A shared state whose operations are counted."""

    is_up: bool

    @property
    def operations(self) -> Mapping[str, int]:
        """Number of operations by outcome."""


class SharedValues(Protocol):
    """What reads shared values."""

    rejected: int


class _SharedMetrics(Collector):
    def __init__(self, state: SharedOperations, values: SharedValues) -> None:
        self._state = state
        self._values = values

    def collect(self) -> Iterator[Metric]:
        """Yield every metric."""
        yield GaugeMetricFamily(
            "fitgauge_shared_state_up",
            "1 while the shared state answers; at 0 this replica goes on alone.",
            value=float(self._state.is_up),
        )
        yield CounterMetricFamily(
            "fitgauge_shared_state_rejected",
            "Values that were no valid answer to what was asked for.",
            value=self._values.rejected,
        )
        operations = CounterMetricFamily(
            "fitgauge_shared_state_operations",
            "Operations on the shared state: ok, failed, or skipped while it is away.",
            labels=("outcome",),
        )
        for outcome, count in self._state.operations.items():
            operations.add_metric((outcome,), count)
        yield operations


def add_shared_state_metrics(
    state: SharedOperations, values: SharedValues, registry: CollectorRegistry
) -> None:
    """Add the metrics of the state that replicas share."""
    registry.register(_SharedMetrics(state, values))


def add_process_metrics(registry: CollectorRegistry) -> None:
    """Add the metrics of the process under the names that every client of Prometheus gives them."""
    ProcessCollector(registry=registry)
    PlatformCollector(registry=registry)
