"""A serving question with what it names, and how it was judged."""

from collections.abc import Mapping, Sequence

from msgspec import Struct, field, structs

from fitgauge.catalog.gpu_match import GpuMatch
from fitgauge.engine.accelerator import Accelerator, slices_refusal
from fitgauge.engine.model.model import Model
from fitgauge.engine.model.spec import ModelSpec
from fitgauge.engine.quantity import GIB, NOTHING, Bytes, gib
from fitgauge.engine.serving.estimate import Estimate
from fitgauge.engine.serving.fit import Verdict, fit_probability, starting_probability, verdict
from fitgauge.engine.serving.profile import EngineProfile
from fitgauge.engine.serving.registry import ENGINES
from fitgauge.engine.serving.support import context_refusal, refusal
from fitgauge.engine.serving.workload import Workload
from fitgauge.engine.unsupported import UnsupportedError
from fitgauge.services.common.fit_schemas import LimitedBy
from fitgauge.services.common.host_memory import ROOM_GIB
from fitgauge.services.common.responses import gpu_count_in_words
from fitgauge.services.common.schemas import FitRequest
from fitgauge.services.common.weight_cache import CachedWeights, read_scheme
from fitgauge.services.fit.checkpoints import CheckpointChoice
from fitgauge.services.fit.quantized_repos import QuantizedRepo

Settings = Mapping[str, int | float | bool]
"""Request fields with a value each."""


class FitQuery(Struct, frozen=True):
    """A question with what it names: the model, the GPU, how many of them, and what is known of
    the engine."""

    request: FitRequest
    """With the format that is judged."""

    original: FitRequest
    """As it was sent."""

    model: Model
    """The model that the request names."""

    match: GpuMatch
    """The GPU."""

    count: int
    """How many GPUs there are."""

    profile: EngineProfile
    """What is measured of the engine."""

    checkpoint: CheckpointChoice
    """What the engine loads of the model."""

    siblings: Sequence[QuantizedRepo] = ()
    """Published repositories of the same weights, of which one may be loaded."""

    @property
    def loaded(self) -> Model:
        """The model as the engine loads it: a published repository of it in another format, or
        itself."""
        return self.checkpoint.model

    @property
    def spec(self) -> ModelSpec:
        """What the model is made of."""
        return self.loaded.spec

    @property
    def accelerator(self) -> Accelerator:
        """The GPU by itself; of several kinds the smallest."""
        return self.match.accelerator

    @property
    def gpus(self) -> tuple[Accelerator, ...]:
        """GPUs of several kinds, in the engine's order; empty for GPUs of one kind, and for an
        engine that takes no others."""
        line_up = ENGINES[self.profile.engine].line_up
        return () if line_up is None else line_up(self.match.unlike)

    @property
    def gpus_in_words(self) -> str:
        """'2 x RTX 4090', 'RTX 4090 + RTX 3060 12GB'."""
        return self.match.unlike_name or gpu_count_in_words(self.accelerator, self.count)


class FitEstimate(Struct, frozen=True):
    """One question, estimated."""

    query: FitQuery
    """The question."""

    request: FitRequest
    """The request with the settings that were judged."""

    prepared: CachedWeights
    """The sharded weights."""
    workload: Workload
    """The workload, settled."""
    estimate: Estimate
    """Terms of every stage."""
    outside: Bytes
    """What the engine and others hold of the fullest GPU outside the engine's share of it."""
    probability: float
    """How likely it fits."""

    choice: "Choice | None" = None
    """What was changed from the engine's defaults; None where they were judged."""

    lacks_host: bool = False
    """Whether it offloads more than the machine has."""

    @property
    def verdict(self) -> Verdict:
        """The verdict of its chance."""
        return verdict(self.probability)

    @property
    def count(self) -> int:
        """How many GPUs there are."""
        return self.query.count

    @property
    def required(self) -> int:
        """What the fullest GPU is expected to need [bytes]."""
        return self.estimate.fullest.required.expected

    @property
    def starting_probability(self) -> float:
        """How likely what is held outside the engine's share leaves it its share."""
        row, estimate = ENGINES[self.workload.engine], self.estimate
        if not row.budget_is_device_share or estimate.given_pool_bytes is not None:
            return 1.0
        return starting_probability(
            NOTHING, estimate.budget, self.outside, estimate.accelerator.usable
        )

    @property
    def limited_by(self) -> LimitedBy:
        """What decides: the engine's share of the fullest GPU, or the whole GPU."""
        workload, estimate = self.workload, self.estimate
        row = ENGINES[workload.engine]
        if not row.budget_is_device_share or estimate.given_pool_bytes is not None:
            return "device"
        within = fit_probability(estimate.fullest.required, estimate.budget)
        return "budget" if within <= self.starting_probability else "device"

    @property
    def shown(self) -> Bytes:
        """What the device will show of the fullest GPU [bytes]: all that is needed, or, where the
        engine fills its share with a KV cache, that share, less what it leaves free; and what is
        outside."""
        estimate, fullest = self.estimate, self.estimate.fullest
        within = fullest.required
        fills = ENGINES[self.workload.engine].preallocates_kv_cache and fullest.layout.keeps
        if fills and estimate.given_pool_bytes is None:
            budget = estimate.budget
            within = Bytes(
                low=max(budget.low, within.low),
                expected=max(budget.expected, within.expected),
                high=max(budget.high, within.high),
            )
        free = sum(term.bytes for term in fullest.fixed if term.name == "reserve")
        outside = self.outside
        return Bytes(
            low=within.low - free + outside.low,
            expected=within.expected - free + outside.expected,
            high=within.high - free + outside.high,
        )

    @property
    def too_long(self) -> UnsupportedError | None:
        """Why the model cannot read the context, None where it can."""
        workload, sent = self.workload, self.query.original.rope_scaling_factor
        return context_refusal(workload.context_length, self.query.spec, workload.engine, sent)

    @property
    def host_tables(self) -> Sequence[int]:
        """What a GPU of every stage keeps of the model's tables in host memory [bytes]."""
        tables = ENGINES[self.workload.engine].host_tables
        if tables is None:
            return [0] * self.workload.pipeline_parallel
        query = self.query
        return tables(query.spec, self.prepared.sharded, self.workload, query.accelerator)

    @property
    def lacks_host_of_tables(self) -> UnsupportedError | None:
        """Why the machine's memory does not hold such tables, None where it does or is not sent."""
        host = self.query.request.host_memory_gib
        size = self.workload.tensor_parallel * sum(self.host_tables) if host is not None else 0
        if host is None or not size or size <= (host - ROOM_GIB) * GIB:
            return None
        return UnsupportedError(
            "host_memory_gib",
            f"{self.workload.engine} keeps tables of n-grams of {gib(size)} in host memory;"
            f" `host_memory_gib` {host:g} does not hold them and the system.",
        )

    @property
    def over_slices(self) -> UnsupportedError | None:
        """Why several slices of a GPU serve no one model, None for any other GPUs."""
        return slices_refusal(self.query.accelerator, self.workload.gpus)

    @property
    def refused(self) -> UnsupportedError | None:
        """Why the engine does not run it on this GPU, None where it does."""
        query, scheme = self.query, read_scheme(self.query.model, self.prepared.scheme)
        refusals = (
            refusal(self.workload, scheme, accelerator, query.spec)
            for accelerator in dict.fromkeys(query.gpus or (query.accelerator,))
        )
        impossible = self.too_long or self.lacks_host_of_tables or self.over_slices
        return impossible or next(filter(None, refusals), None)

    @property
    def short_bytes(self) -> int:
        """How much the fullest GPU lacks; negative where something is left."""
        return self.required - self.estimate.budget.expected

    def at_share(self, share: float) -> "FitEstimate":
        """Return the same with another share of the GPU, of an engine whose budget alone depends
        on it (`Engine.budget_is_device_share`)."""
        workload = structs.replace(self.workload, gpu_memory_utilization=share)
        budget = ENGINES[workload.engine].budget(self.estimate.accelerator, workload)
        estimate = structs.replace(self.estimate, budget=budget)
        return structs.replace(
            self,
            request=structs.replace(self.request, gpu_memory_utilization=share),
            workload=workload,
            estimate=estimate,
            probability=probability_of(self.query.profile, workload, estimate, self.outside),
        )

    @property
    def pinned(self) -> "FitEstimate":
        """The same launch as a question that leaves nothing open."""
        request = structs.replace(self.request, settings="defaults")
        sent = structs.replace(request, quantization=self.query.original.quantization)
        return structs.replace(
            self, query=structs.replace(self.query, request=request, original=sent)
        )

    @property
    def fits(self) -> bool:
        """Whether its verdict is that it fits."""
        return self.verdict == "fits"

    def rest_fits(self, share: float) -> bool:
        """Return whether what lies outside this share of the GPU surely fits into the rest."""
        workload = structs.replace(self.workload, gpu_memory_utilization=share)
        accelerator = self.estimate.accelerator
        budget = ENGINES[workload.engine].budget(accelerator, workload)
        chance = starting_probability(NOTHING, budget, self.outside, accelerator.usable)
        return verdict(chance) == "fits"


class Choice(Struct, frozen=True):
    """Settings that a search chose instead of the engine's defaults."""

    default: FitEstimate
    """The engine's defaults, judged."""

    changed: Settings
    """What differs from them."""

    without: Mapping[str, FitEstimate] = field(default_factory=dict)
    """By setting: the same launch with this one at its default."""

    estimates: int = 0
    """How many estimates it took."""


def probability_of(
    profile: EngineProfile, workload: Workload, estimate: Estimate, outside: Bytes
) -> float:
    """Return the chance that the launch runs the requests. outside: what is held of the fullest
    GPU outside the engine's share [bytes]."""
    pool_bytes = estimate.given_pool_bytes
    if pool_bytes is not None and needed_pool_bytes(workload, estimate) > pool_bytes:
        return 0.0
    row = ENGINES[workload.engine]
    return min(
        row.allowance(outside, profile, workload, estimate.gpu_of(stage)).probability(
            stage.required
        )
        for stage in (estimate.stages if estimate.gpus else (estimate.fullest,))
    )


def needed_pool_bytes(workload: Workload, estimate: Estimate) -> int:
    """Return the least pool that holds the requests asked for on every stage [bytes]."""
    return max(
        stage.layout.pool_bytes(workload.requests_per_replica, workload.context_length)
        for stage in estimate.stages
    )
