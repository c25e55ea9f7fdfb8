"""explain_log and explain_utilization from request to answer: what ran, next to its estimate."""

from collections.abc import AsyncIterator
from functools import partial

from fitgauge.catalog.catalog import Catalog
from fitgauge.engine.serving.start_log.measurements import StartLog
from fitgauge.errors import HubError, ModelError, UnknownAcceleratorError
from fitgauge.logs.trace import TraceReader
from fitgauge.services.common.long_questions import Checkpoint
from fitgauge.services.explain_log.parsed_log import (
    RAN_OUT,
    ParsedLog,
    read,
    read_run,
    unnamed_model,
    without_names,
)
from fitgauge.services.explain_log.schemas import ExplainLogRequest, LogAnswer
from fitgauge.services.explain_log.service import LogExplainer
from fitgauge.services.shared import Shared
from fitgauge.services.training_fit.service import TrainingFitService
from fitgauge.services.utilization.schemas import UtilizationAnswer, UtilizationRequest
from fitgauge.services.utilization.service import explain_utilization
from fitgauge.services.utilization.trace import explain_trace


class RunQuestions:
    """Resolves what ran, and lets the services explain it."""

    def __init__(self, shared: Shared, training: TrainingFitService) -> None:
        """training: estimates a run of training."""
        self._shared = shared
        self._models = shared.models
        self._ledger = LogExplainer(shared.serving, training)

    async def explain_log(self, request: ExplainLogRequest, catalog: Catalog) -> LogAnswer:
        """Compare what a start-up log measured with the estimate. Raises the errors of
        fitgauge.errors."""
        reading = await self._shared.long.run(lambda _: read(request, self._shared.engines))
        return await self._explained(reading, request, catalog)

    async def explain_run(
        self, log: StartLog, request: ExplainLogRequest, catalog: Catalog
    ) -> LogAnswer:
        """Compare a run with its estimate, as `explain_log` does; `request.log` is not read."""
        reading = read_run(log, request, self._shared.engines)
        return await self._explained(reading, request, catalog)

    async def _explained(
        self, reading: ParsedLog, request: ExplainLogRequest, catalog: Catalog
    ) -> LogAnswer:
        """Return the answer about a log that was understood."""
        launched, full = reading.serving or reading.training, request.detail == "full"
        if launched is None:
            return self._ledger.answer(reading, None, None, full=full)
        try:
            gpu = catalog.find(launched.gpu or "")
        except UnknownAcceleratorError:
            if request.gpu or reading.log.outcome not in RAN_OUT:
                raise
            return self._ledger.answer(without_names(reading, "gpu"), None, None, full=full)
        try:
            model = await self._models.find(launched.model)
        except (ModelError, HubError):
            if request.model:
                raise
            if reading.log.outcome in RAN_OUT:
                return self._ledger.answer(without_names(reading, "model"), None, None, full=full)
            if reading.log.model is None:  # only a file's own name, which is no model's here
                raise unnamed_model(reading.log) from None
            raise
        return await self._shared.long.resume(
            lambda _: self._ledger.answer(reading, model, gpu, full=full)
        )

    async def explain_utilization(
        self, request: UtilizationRequest, catalog: Catalog
    ) -> UtilizationAnswer:
        """Return how much of its GPUs a training run uses. Raises the errors of fitgauge.errors."""
        gpu = catalog.find(request.gpu)
        model = None
        if request.model is not None:
            model = await self._models.find(request.model)
        return explain_utilization(request, model, gpu)

    async def explain_trace(
        self, chunks: AsyncIterator[bytes], catalog: Catalog
    ) -> UtilizationAnswer:
        """Return how the GPUs spend their time in a profiler trace, read in chunks. Raises
        InvalidRequestError where it is not a trace."""
        reader = TraceReader()
        async for chunk in chunks:
            await self._shared.long.resume(partial(_feed, reader, chunk))
        return explain_trace(await self._shared.long.resume(lambda _: reader.finish()), catalog)


def _feed(reader: TraceReader, chunk: bytes, _: Checkpoint) -> None:
    reader.feed(chunk)
