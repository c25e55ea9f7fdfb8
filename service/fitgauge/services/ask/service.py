"""POST /v1/ask: read a question, let the service it means answer, and say what is missing."""

from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import msgspec

from fitgauge.catalog.catalog import Catalog
from fitgauge.catalog.snapshot import Snapshot
from fitgauge.errors import FitgaugeError, QueueFullError
from fitgauge.services.ask.names import GpuNames, ModelNames
from fitgauge.services.ask.reading import Reader
from fitgauge.services.ask.requests import question
from fitgauge.services.ask.schemas import AskAnswer, AskRequest, Operation

Answers = Mapping[Operation, Callable[[Any], Awaitable[msgspec.Struct]]]
"""The service of each operation."""


class AskService:
    """Answers questions in plain words."""

    def __init__(self, snapshot: Snapshot, catalog: Catalog, answers: Answers) -> None:
        self._models = ModelNames(snapshot)
        self._answers = answers
        self.use(catalog)

    def use(self, catalog: Catalog) -> None:
        """Read the names of this catalog from now on."""
        self._reader = Reader(GpuNames(catalog), self._models)

    async def answer(self, request: AskRequest) -> AskAnswer:
        """Return what was understood, and the answer where nothing is missing. Raises
        QueueFullError where too many long questions wait."""
        reading = self._reader.read(request.question)
        asked_question = question(reading)
        missing = [*asked_question.missing, *asked_question.notes]
        result = None
        if reading.operation is not None and asked_question.request is not None:
            try:
                result = await self._answered(reading.operation, asked_question.request)
            except QueueFullError:
                raise
            except FitgaugeError as error:
                missing = [*missing, _advice(error)]
        return AskAnswer(
            operation=reading.operation,
            understood=reading.understood,
            missing=missing,
            not_understood=reading.not_understood,
            answer=None if result is None else msgspec.to_builtins(result),
        )

    async def _answered(self, operation: Operation, request: msgspec.Struct) -> msgspec.Struct:
        """Return the answer of an operation. Raises the errors of fitgauge.errors."""
        return await self._answers[operation](request)


def _advice(error: FitgaugeError) -> str:
    """Return an error in one sentence or two: what to send instead."""
    near = f" Did you mean {', '.join(error.matches)}?" if error.matches else ""
    field = f"{error.field}: " if error.field else ""
    return f"{field}{error.detail} {error.hint}{near}".strip()
