"""A serving question, estimated: what it names is found, its degrees are settled, and its need
is set against the card."""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from msgspec import structs

from fitgauge.catalog.engines import Engines
from fitgauge.catalog.lookup import GpuMatch
from fitgauge.engine.accelerator import USUAL_NODE, Accelerator, shared
from fitgauge.engine.model.spec import Model, ModelSpec
from fitgauge.engine.quantity import GIB, Bytes, total
from fitgauge.engine.serving.doubt import doubt, with_doubt
from fitgauge.engine.serving.estimate import Estimate, StageEstimate
from fitgauge.engine.serving.fit import Verdict, fit_probability, starting_probability, verdict
from fitgauge.engine.serving.profile import EngineProfile
from fitgauge.engine.serving.registry import ENGINES
from fitgauge.engine.serving.support import context_refusal, refusal
from fitgauge.engine.serving.workload import Workload
from fitgauge.engine.unsupported import UnsupportedError
from fitgauge.services.common import parsing as words
from fitgauge.services.common.schemas import FitRequest, HostMemory, LimitedBy
from fitgauge.services.common.unsupported import IMPOSSIBLE, refused_field
from fitgauge.services.common.weight_cache import CachedWeights, WeightCache
from fitgauge.services.fit.workload import gpu_count, serving_workload, tensor_widths


@dataclass(frozen=True, slots=True)
class FitQuery:
    """A question with what it names: the model, the card, how many of them, and what is known of
    the engine."""

    request: FitRequest
    model: Model
    card: GpuMatch
    count: int
    profile: EngineProfile

    @property
    def spec(self) -> ModelSpec:
        """What the model is made of."""
        return self.model.spec

    @property
    def accelerator(self) -> Accelerator:
        """The card by itself."""
        return self.card.accelerator


@dataclass(frozen=True, slots=True)
class FitEstimate:
    """One question, estimated."""

    asked: FitQuery
    prepared: CachedWeights
    workload: Workload
    estimate: Estimate
    probability: float

    @property
    def verdict(self) -> Verdict:
        """The verdict of its chance."""
        return verdict(self.probability)

    @property
    def count(self) -> int:
        """How many cards there are."""
        return self.asked.count

    @property
    def required(self) -> int:
        """What the fullest card is expected to need [bytes]."""
        return self.estimate.fullest.required.expected

    @property
    def outside(self) -> Bytes:
        """What the engine and others hold of the fullest card outside the engine's share of it."""
        asked, fullest = self.asked, self.estimate.fullest
        terms = ENGINES[self.workload.engine].terms_outside_budget
        if terms is None:
            return total(())
        accelerator, layers = self.estimate.accelerator, fullest.layers
        return total(terms(asked.spec, asked.profile, self.workload, accelerator, layers=layers))

    @property
    def starting_probability(self) -> float:
        """How likely what is held outside the engine's share leaves it its share."""
        row, estimate = ENGINES[self.workload.engine], self.estimate
        if not row.budget_is_device_share or estimate.given_pool_bytes is not None:
            return 1.0
        nothing = Bytes(low=0, expected=0, high=0)
        return starting_probability(
            nothing, estimate.budget, self.outside, estimate.accelerator.usable
        )

    @property
    def limited_by(self) -> LimitedBy:
        """What decides: the engine's share of the fullest card, or the whole card."""
        workload, estimate = self.workload, self.estimate
        row = ENGINES[workload.engine]
        if not row.budget_is_device_share or estimate.given_pool_bytes is not None:
            return "device"
        within = fit_probability(estimate.fullest.required, estimate.budget)
        return "budget" if within <= self.starting_probability else "device"

    @property
    def shown(self) -> Bytes:
        """What the device will show of the fullest card [bytes]: all that is needed, or, where the
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
        return context_refusal(self.workload.context_length, self.asked.spec)

    @property
    def refused(self) -> UnsupportedError | None:
        """Why the engine does not run it on this card, None where it does."""
        return self.too_long or refusal(
            self.workload, self.prepared.scheme, self.asked.accelerator, self.asked.spec
        )


class Estimator:
    """Estimates questions about models that are at hand, and changes of them. Pure arithmetic:
    no I/O, no await."""

    def __init__(self, engines: Engines) -> None:
        self._engines = engines
        self._preparer = WeightCache()

    def ask(self, request: FitRequest, model: Model, card: GpuMatch) -> FitQuery:
        """Return the question. Raises InvalidRequestError for an engine or a version that is not
        sized here."""
        request = structs.replace(request, quantization=words.quantization(request.quantization))
        return FitQuery(
            request, model, card, gpu_count(request, card.count), self._profile(request)
        )

    def change(
        self,
        asked: FitQuery,
        fields: Mapping[str, object],
        *,
        model: Model | None = None,
        count: int | None = None,
    ) -> FitQuery:
        """Return the question with other `fields`, and another model or number of cards where
        they are given. Raises as `ask`."""
        request = structs.replace(asked.request, **fields)
        return replace(
            asked,
            request=request,
            model=model or asked.model,
            count=count or asked.count,
            profile=self._profile(request),
        )

    def _profile(self, request: FitRequest) -> EngineProfile:
        version = words.version(request.engine_version) if request.engine_version else None
        return self._engines.profile(words.engine(request.engine), version)

    def prepared(self, asked: FitQuery) -> CachedWeights:
        """Return the weights of the question. Raises UnsupportedError for an unknown format."""
        return self._preparer.prepare(asked.model, asked.request.quantization, asked.profile.engine)

    def is_prepared(self, asked: FitQuery) -> bool:
        """Return whether the weights of the question are laid out already."""
        return (
            self._preparer.peek(asked.model, asked.request.quantization, asked.profile.engine)
            is not None
        )

    def host_memory(self, checked: FitEstimate) -> HostMemory | None:
        """Return the host memory of what is offloaded: what weights and cache take of the GPUs
        without, less what they take with it."""
        if not checked.workload.cpu_offload_bytes:
            return None
        whole = self.possible(self.change(checked.asked, {"cpu_offload_gib": None}))
        if whole is None:
            return None
        workload = checked.workload
        ranks = workload.tensor_parallel * workload.data_parallel
        before, after = whole.estimate.stages, checked.estimate.stages
        sizes = [
            _held_bytes(one) - _held_bytes(other) for one, other in zip(before, after, strict=True)
        ]
        if sum(sizes) <= 0:
            return None
        return HostMemory(per_gpu_bytes=max(sizes), total_bytes=ranks * sum(sizes))

    def check(self, asked: FitQuery) -> FitEstimate:
        """Return the estimate at the degrees asked for; those left out are the widest that the
        engine accepts.

        Raises InvalidRequestError or UnsupportedError where the question is impossible.
        """
        try:
            return self._estimated(asked, asked.request)
        except IMPOSSIBLE as refused:
            if (
                asked.request.tensor_parallel is not None
                or refused_field(refused) != "tensor_parallel"
            ):
                raise
            for width in reversed(tensor_widths(asked.spec, min(asked.count, USUAL_NODE))):
                try:
                    return self._estimated(
                        asked, structs.replace(asked.request, tensor_parallel=width)
                    )
                except IMPOSSIBLE:
                    continue
            raise

    def possible(self, asked: FitQuery) -> FitEstimate | None:
        """Return the question, estimated; None where the engine refuses it."""
        try:
            return self.check(asked)
        except IMPOSSIBLE:
            return None

    def _estimated(self, asked: FitQuery, request: FitRequest) -> FitEstimate:
        spec, accelerator, profile = asked.spec, asked.accelerator, asked.profile
        workload = serving_workload(request, spec, accelerator, asked.count, profile)
        if request.other_memory_gib and not workload.other_memory_bytes:
            accelerator = shared(accelerator, int(request.other_memory_gib * GIB))
        prepared = self.prepared(asked)
        estimate = with_doubt(
            ENGINES[workload.engine].estimate(spec, prepared.laid, workload, accelerator, profile),
            doubt(profile, accelerator),
        )
        given = estimate.given_pool_bytes
        if given is not None and needed_pool_bytes(workload, estimate) > given:
            probability = 0.0
        else:
            fullest = estimate.fullest
            probability = ENGINES[workload.engine].startup_probability(
                fullest.required, fullest.layers, spec, profile, workload, accelerator
            )
        return FitEstimate(asked, prepared, workload, estimate, probability)


def needed_pool_bytes(workload: Workload, estimate: Estimate) -> int:
    """Return the least pool that holds the requests asked for on every stage [bytes]."""
    return max(
        stage.layout.pool_bytes(workload.requests_per_replica, workload.context_length)
        for stage in estimate.stages
    )


def _held_bytes(stage: StageEstimate) -> int:
    """Return the expected weights and cache of one pipeline stage [bytes]."""
    weights = [term for term in stage.fixed if term.name == "weights"]
    return sum(term.bytes for term in (*weights, *stage.cache))
