"""One model over many cards: the estimate is made once for cards that an engine treats alike, and set against each card's memory."""

from typing import NamedTuple

from fitgauge.catalog.engines import Engines
from fitgauge.engine.accelerator import Accelerator
from fitgauge.engine.architecture import Model
from fitgauge.engine.engines import ENGINES
from fitgauge.engine.estimate import Estimate
from fitgauge.engine.fit import Verdict, fit_probability, verdict
from fitgauge.engine.profile import EngineProfile
from fitgauge.engine.quantity import Bytes
from fitgauge.engine.support import refusal
from fitgauge.engine.vllm.serve import budget_bytes, starts
from fitgauge.engine.workload import EngineName, Workload
from fitgauge.errors import InvalidQuestion
from fitgauge.questions.prepared import Prepared, Preparer
from fitgauge.questions.schemas import FitRequest
from fitgauge.questions.workloads import serving_workload

_BY_WORKLOAD: frozenset[EngineName] = frozenset({"llama.cpp", "ollama", "mlx"})
"""Engines that hold the same on every card; vLLM's terms depend on the kind of card, those of the others on its size too."""


class Fitted(NamedTuple):
    """How one question turned out: what the fullest GPU needs, what the engine may use of it, and how likely that suffices."""

    workload: Workload
    required: Bytes
    budget: Bytes
    probability: float

    @property
    def verdict(self) -> Verdict:
        """The verdict of this chance."""
        return verdict(self.probability)


class Fitting:
    """Estimates of one model, kept for as long as one question takes. The same numbers as `Serving`, without words."""

    def __init__(self, model: Model, engines: Engines, preparer: Preparer) -> None:
        self._model = model
        self._engines = engines
        self._preparer = preparer
        self._kept: dict[object, Estimate] = {}

    def profile(self, engine: EngineName) -> EngineProfile:
        """The newest profile of an engine."""
        return self._engines.profile(engine, None)

    def prepared(self, quantization: str | None, engine: EngineName) -> Prepared:
        """The model's weights. Raises InvalidQuestion for an unknown format."""
        return self._preparer.prepare(self._model, quantization, engine)

    def refused(self, request: FitRequest, engine: EngineName, accelerator: Accelerator) -> str | None:
        """Why the engine does not run it on one such card, None where it does. Raises InvalidQuestion for an unknown format."""
        workload = serving_workload(request, self._model.spec, accelerator, 1, self.profile(engine))
        return refusal(workload, self.prepared(request.quantization, engine).scheme, accelerator, self._model.spec)

    def possible(self, request: FitRequest, engine: EngineName, accelerator: Accelerator, count: int) -> Fitted | None:
        """The question on `count` cards; None where it is impossible."""
        try:
            return self.fitted(request, engine, accelerator, count)
        except InvalidQuestion:
            return None

    def fitted(self, request: FitRequest, engine: EngineName, accelerator: Accelerator, count: int) -> Fitted:
        """The question on `count` cards. Raises InvalidQuestion where the engine cannot be laid out over them."""
        profile = self.profile(engine)
        workload = serving_workload(request, self._model.spec, accelerator, count, profile)
        estimate = self._estimate(request.quantization, workload, accelerator, profile)
        budget = budget_bytes(accelerator, workload) if engine == "vllm" else accelerator.usable
        required = estimate.fullest.required
        if engine == "vllm":
            return Fitted(workload, required, budget, starts(estimate, self._model.spec, profile, workload, accelerator))
        return Fitted(workload, required, budget, fit_probability(required, budget))

    def _estimate(self, quantization: str | None, workload: Workload, accelerator: Accelerator, profile: EngineProfile) -> Estimate:
        """The engine's own, or one it made for a card that it treats alike."""
        key = (quantization, workload, _alike(workload.engine, accelerator))
        kept = self._kept.get(key)
        if kept is None:
            laid = self._preparer.prepare(self._model, quantization, workload.engine).laid
            kept = ENGINES[workload.engine].estimate(self._model.spec, laid, workload, accelerator, profile)
            self._kept[key] = kept
        return kept


def _alike(engine: EngineName, accelerator: Accelerator) -> object:
    """What cards have in common that an engine treats alike."""
    if engine in _BY_WORKLOAD:
        return None
    if engine == "vllm":
        return accelerator.compute_capability, accelerator.vendor, accelerator.gfx, accelerator.unified_memory, accelerator.nvlink
    return accelerator.id
