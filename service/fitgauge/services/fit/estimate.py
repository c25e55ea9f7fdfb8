"""A serving question, estimated: what it names is found, its degrees are settled, and its need
is set against the GPU."""

from collections.abc import Hashable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from operator import add

from msgspec import structs

from fitgauge.catalog.engines import Engines
from fitgauge.catalog.gpu_match import GpuMatch
from fitgauge.engine.accelerator import USUAL_NODE, shared
from fitgauge.engine.memo import WeakMemo
from fitgauge.engine.model.model import Model
from fitgauge.engine.quantity import GIB, Bytes
from fitgauge.engine.serving.doubt import with_doubt
from fitgauge.engine.serving.estimate import Estimate, StageEstimate, on_gpus
from fitgauge.engine.serving.kv_offload import offloaded_tokens
from fitgauge.engine.serving.ladders import tensor_widths
from fitgauge.engine.serving.profile import EngineProfile
from fitgauge.engine.serving.registry import ENGINES
from fitgauge.engine.serving.workload import Workload
from fitgauge.services.common import parsing
from fitgauge.services.common.host_memory import exceeds_host, lacks_host
from fitgauge.services.common.host_schemas import HostMemory
from fitgauge.services.common.reading_schemas import Verdict
from fitgauge.services.common.schemas import FitRequest
from fitgauge.services.common.unsupported import IMPOSSIBLE, refused_field
from fitgauge.services.common.weight_cache import CachedWeights, WeightCache
from fitgauge.services.fit.auto_settings import AutoSettings, Launch
from fitgauge.services.fit.checkpoints import CheckpointChoice, Checkpoints, default_format
from fitgauge.services.fit.quantized_repos import QuantizedRepo
from fitgauge.services.fit.query import FitEstimate, FitQuery, probability_of
from fitgauge.services.fit.workload import (
    base_workload,
    gpu_count,
    over_unlike_gpus,
    serving_workload,
)

_ESTIMATES = 128
"""Estimates that are held: those of one question, which comes back to some of them."""

Judged = tuple[Estimate, Bytes, float]
"""An estimate, what is held outside the engine's share of the GPU [bytes], and the chance that it
fits."""


class Estimator:
    """Estimates questions about models that are at hand, and changes of them. Pure arithmetic:
    no I/O, no await."""

    def __init__(
        self,
        engines: Engines,
        checkpoints: Checkpoints | None = None,
        weights: WeightCache | None = None,
    ) -> None:
        """checkpoints: the published repositories at hand; None: nothing but the models
        themselves. weights: where sharded weights are held; None: in a cache of its own."""
        self._engines = engines
        self._checkpoints = checkpoints or Checkpoints(None)
        self._preparer = weights or WeightCache()
        self._served_models: WeakMemo[Model, Hashable, Model] = WeakMemo()
        self._estimates: WeakMemo[Model, Hashable, tuple[Estimate, Bytes, float]] = WeakMemo(
            _ESTIMATES
        )

    def ask(
        self,
        request: FitRequest,
        model: Model,
        match: GpuMatch,
        *,
        siblings: Sequence[QuantizedRepo] = (),
        count: int | None = None,
        as_launched: bool = False,
    ) -> FitQuery:
        """Return the question. siblings: repositories found on the Hub. count: the GPUs, where
        it is settled. as_launched: the model and the format are those of a launch, which no
        default changes. Raises InvalidRequestError for an engine or a version that is not sized
        here, and for an unknown format."""
        profile = self._profile(request)
        quantization = parsing.engine_format(
            parsing.quantization(request.quantization), profile.engine
        )
        if request.quantization is None and not as_launched:
            quantization = default_format(model, profile.engine)
        if as_launched:
            checkpoint = CheckpointChoice(model, quantization)
        else:
            checkpoint = self._checkpoints.choose(model, quantization, profile.engine, siblings)
        checkpoint = checkpoint._replace(model=_drafting_as(model, checkpoint.model))
        checkpoint = checkpoint._replace(model=self._served(checkpoint.model, request))
        settled = structs.replace(request, quantization=quantization)
        return FitQuery(
            request=settled,
            original=request,
            model=model,
            match=match,
            count=count or gpu_count(request, match.count),
            profile=profile,
            checkpoint=checkpoint,
            siblings=siblings,
        )

    def _served(self, model: Model, request: FitRequest) -> Model:
        """Return what the engine loads of a model to embed texts, or to read them alone: the same
        one each time."""
        row = ENGINES[parsing.engine(request.engine)]
        parts = (
            row.language_model if request.language_model_only else None,
            row.with_pooling if request.pooling else None,
        )
        if not any(parts) or model.spec.task != "generate":
            return model

        def served() -> Model:
            spec = model.spec
            for part in filter(None, parts):
                spec = part(spec)
            return structs.replace(model, spec=spec)

        return self._served_models.get_or_compute(model, (row.name, parts), served)

    def change(
        self,
        query: FitQuery,
        fields: Mapping[str, object],
        *,
        model: Model | None = None,
        count: int | None = None,
        siblings: Sequence[QuantizedRepo] | None = None,
    ) -> FitQuery:
        """Return the question with other `fields`, and another model, number of GPUs or other
        repositories where they are set. Raises as `ask`."""
        return self.ask(
            structs.replace(query.original, **fields),
            model or query.model,
            query.match,
            siblings=query.siblings if siblings is None else siblings,
            count=count or query.count,
        )

    def _profile(self, request: FitRequest) -> EngineProfile:
        version = parsing.version(request.engine_version) if request.engine_version else None
        return self._engines.profile(parsing.engine(request.engine), version)

    def prepared(self, query: FitQuery) -> CachedWeights:
        """Return the weights of the question. Raises UnsupportedError for an unknown format."""
        return self._preparer.prepare(query.loaded, query.checkpoint.derived, query.profile.engine)

    def is_prepared(self, query: FitQuery) -> bool:
        """Return whether the sharded weights of the question are cached."""
        return (
            self._preparer.peek(query.loaded, query.checkpoint.derived, query.profile.engine)
            is not None
        )

    def host_memory(self, checked: FitEstimate) -> HostMemory | None:
        """Return the host memory of what is offloaded and of tables that always lie there; None
        where nothing does."""
        workload, offload = checked.workload, ENGINES[checked.workload.engine].kv_offload
        sizes, cache = self._offloaded_weights(checked), workload.kv_offload_bytes
        tables = checked.host_tables
        if offload is None or not cache:
            return None if sum(sizes) + sum(tables) <= 0 else _of_host(workload, sizes, tables)
        tokens = offloaded_tokens(offload, checked.query.spec, workload, checked.estimate)
        with_cache = _of_host(workload, [max(0, size) + cache for size in sizes], tables)
        return structs.replace(with_cache, kv_cache_tokens=tokens)

    def _offloaded_weights(self, checked: FitEstimate) -> list[int]:
        """Return what weights and cache of every stage take of a GPU without host memory, less
        what they take with it [bytes]."""
        nothing = [0] * checked.workload.pipeline_parallel
        if not checked.workload.offloads:
            return nothing
        on_gpus = {"cpu_offload_gib": None, "n_gpu_layers": None, "n_cpu_moe": None}
        whole = self.possible(self.change(checked.pinned.query, on_gpus))
        if whole is None:
            return nothing
        before, after = whole.estimate.stages, checked.estimate.stages
        return [
            _held_bytes(one) - _held_bytes(other) for one, other in zip(before, after, strict=True)
        ]

    def exceeds_host(self, checked: FitEstimate) -> bool:
        """Return whether more is offloaded than the machine holds, or any."""
        return exceeds_host(self.host_memory(checked), checked.query.request.host_memory_gib)

    def check(self, query: FitQuery, *, settle: bool = True) -> FitEstimate:
        """Return the question, estimated: with the settings that the request sets, and for the
        others the engine's defaults, or under `settings: "auto"` what is nearest to them and fits.

        settle: return the settings nearest to the defaults also where nothing fits. Raises
        InvalidRequestError or UnsupportedError where the question is impossible.
        """
        default = self._with_defaults(query)
        if query.request.settings == "defaults" or default.verdict == "fits" or default.refused:
            return self._within_machine(default)
        return self._within_machine(self._search(default).search(settle=settle))

    def _within_machine(self, checked: FitEstimate) -> FitEstimate:
        """Return the same, without a chance where more is offloaded than the machine has."""
        machine = checked.query.request.host_memory_gib
        if machine is None or not lacks_host(self.host_memory(checked), machine):
            return checked
        return structs.replace(checked, probability=0.0, lacks_host=True)

    def fits(self, query: FitQuery) -> bool:
        """Return whether `check` finds a launch that fits: the ends of the ladders do wherever the
        defaults do."""
        search = None if query.request.settings == "defaults" else self._open_search(query)
        if search is None or search.is_refused():
            return self._fits_from_defaults(query)
        return search.can_fit()

    def _fits_from_defaults(self, query: FitQuery) -> bool:
        """Return the same, with the widest degrees that the engine accepts."""
        try:
            default = self._with_defaults(query)
        except IMPOSSIBLE:
            return False
        if query.request.settings == "defaults" or default.verdict == "fits":
            return default.verdict == "fits"
        return self._search(default).can_fit()

    def attempt(self, query: FitQuery) -> FitEstimate | None:
        """Return the same as `possible`, but without the search for the least that it takes where
        the weights alone are too much: then the engine's defaults, which do not fit either."""
        try:
            default = self._with_defaults(query)
        except IMPOSSIBLE:
            return None
        if query.request.settings == "defaults" or default.verdict == "fits" or default.refused:
            return default
        search = self._search(default)
        return default if search.is_hopeless() else search.search(settle=False)

    def verdict(self, query: FitQuery) -> Verdict | None:
        """Return the verdict of `possible` alone; None where the engine refuses the question."""
        try:
            default = self._with_defaults(query)
        except IMPOSSIBLE:
            return None
        if default.refused:
            return "unsupported"
        if query.request.settings == "defaults" or default.verdict == "fits":
            return default.verdict
        search = self._search(default)
        if search.can_fit():
            return "fits"
        return "does_not_fit" if search.is_hopeless() else search.search(settle=False).verdict

    def ends(self, checked: FitEstimate, *, others: bool = True) -> list[FitEstimate]:
        """Return the least that the question takes, by layout, with settings at the ends of
        their ladders; under `settings: "defaults"` the question itself."""
        if checked.query.request.settings == "defaults":
            return [checked]
        default = checked.choice.default if checked.choice else checked
        return self._search(default, checked.query).ends(others=others)

    def ends_of(self, query: FitQuery, *, others: bool) -> list[FitEstimate]:
        """Return the same of a question that is not estimated yet; nothing where the engine
        refuses it."""
        search = self._open_search(query)
        if search is None or search.end() is None:
            try:
                search = self._search(self._with_defaults(query))
            except IMPOSSIBLE:
                return []
        return search.ends(others=others)

    def _open_search(self, query: FitQuery) -> AutoSettings | None:
        """Return the search of a question whose defaults are not estimated; None where they decide
        its degrees."""
        if query.match.unlike:
            return None
        spec, accelerator, profile = query.spec, query.accelerator, query.profile
        try:
            base = base_workload(query.request, spec, accelerator, query.count, profile)
            workload = ENGINES[profile.engine].with_defaults(base, spec, accelerator)
            weights = self.prepared(query).sharded
        except IMPOSSIBLE:
            return None
        launch = Launch(query, query.request, workload, weights, base)
        return AutoSettings(launch, partial(self._trial, query))

    def _search(self, default: FitEstimate, query: FitQuery | None = None) -> AutoSettings:
        """Return the search from the engine's defaults on."""
        launch = Launch(default.query, default.request, default.workload, default.prepared.sharded)
        return AutoSettings(launch, partial(self._trial, query or default.query), default)

    def _trial(
        self, query: FitQuery, request: FitRequest, workload: Workload
    ) -> FitEstimate | None:
        try:
            return self._estimated(query, request, workload)
        except IMPOSSIBLE:
            return None

    def _with_defaults(self, query: FitQuery) -> FitEstimate:
        """Return the estimate at the degrees asked for; those left out are the widest that the
        engine accepts. Raises as `check`."""
        try:
            return self._estimated(query, query.request, self._workload(query, query.request))
        except IMPOSSIBLE as refused:
            for request in _other_degrees(query, refused_field(refused)):
                with suppress(*IMPOSSIBLE):
                    return self._estimated(query, request, self._workload(query, request))
            raise

    def possible(self, query: FitQuery) -> FitEstimate | None:
        """Return the question, estimated; None where the engine refuses it."""
        try:
            return self.check(query, settle=False)
        except IMPOSSIBLE:
            return None

    def _workload(self, query: FitQuery, request: FitRequest) -> Workload:
        """Return what a request means. Raises as `serving_workload`."""
        return serving_workload(request, query.spec, query.accelerator, query.count, query.profile)

    def _estimated(self, query: FitQuery, request: FitRequest, workload: Workload) -> FitEstimate:
        spec, accelerator, profile = query.spec, query.accelerator, query.profile
        gpus = query.gpus
        if request.other_memory_gib and not workload.other_memory_bytes:
            others = int(request.other_memory_gib * GIB)
            accelerator = shared(accelerator, others)
            gpus = tuple(shared(gpu, others) for gpu in gpus)
        if query.match.unlike:
            workload = over_unlike_gpus(workload, gpus)
        prepared = self.prepared(query)

        def compute() -> Judged:
            row = ENGINES[workload.engine]
            estimate = row.estimate(spec, prepared.sharded, workload, accelerator, profile)
            estimate = with_doubt(on_gpus(estimate, gpus) if gpus else estimate, profile)
            layers = estimate.fullest.layers
            outside = row.bytes_outside_budget(
                spec, profile, workload, estimate.accelerator, layers=layers
            )
            return estimate, outside, probability_of(profile, workload, estimate, outside)

        key = query.checkpoint.derived, workload, accelerator, gpus
        judged = self._estimates.get_or_compute(query.loaded, key, compute)
        return FitEstimate(query, request, prepared, workload, *judged)


def _other_degrees(query: FitQuery, refused: str | None) -> Iterator[FitRequest]:
    """Yield the request with other degrees where it leaves out the one that the engine refuses:
    narrower tensor degrees, and the engine's own layouts without pipeline stages."""
    request, layouts = query.request, ENGINES[query.profile.engine].ladders.layouts
    if refused == "tensor_parallel" and request.tensor_parallel is None:
        for width in reversed(tensor_widths(query.spec, min(query.count, USUAL_NODE))):
            yield structs.replace(request, tensor_parallel=width)
    if refused == "pipeline_parallel" and request.pipeline_parallel is None and layouts:
        for degrees in layouts(query.spec, query.count):
            fields = degrees._asdict()
            if degrees.pipeline_parallel == 1 and all(
                getattr(request, name) in (None, value) for name, value in fields.items()
            ):
                yield structs.replace(request, **fields)


def _of_host(workload: Workload, sizes: Sequence[int], tables: Sequence[int]) -> HostMemory:
    """Return the host memory of all ranks. sizes: of a GPU of every stage; tables: the part that
    replicas share [bytes]."""
    ranks = workload.tensor_parallel * workload.data_parallel
    return HostMemory(
        per_gpu_bytes=max(map(add, sizes, tables)),
        total_bytes=ranks * sum(sizes) + workload.tensor_parallel * sum(tables),
    )


def _held_bytes(stage: StageEstimate) -> int:
    """Return the expected weights and cache of one pipeline stage [bytes]."""
    weights = [term for term in stage.fixed if term.name == "weights"]
    return sum(term.bytes for term in (*weights, *stage.cache))


def _drafting_as(model: Model, loaded: Model) -> Model:
    """Return what is loaded in place of a model with the draft model that was attached to that."""
    draft = model.spec.draft
    if draft is None or loaded.spec.draft is not None:
        return loaded
    return structs.replace(loaded, spec=structs.replace(loaded.spec, draft=draft))
