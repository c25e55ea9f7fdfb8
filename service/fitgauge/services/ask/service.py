"""POST /v1/ask: read a question, let the service it means answer, and say what is missing."""

from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import msgspec
from msgspec import UNSET

from fitgauge.catalog.catalog import Catalog
from fitgauge.catalog.snapshot import Snapshot
from fitgauge.errors import FitgaugeError, QueueFullError
from fitgauge.services.ask.names import GpuNames, ModelNames
from fitgauge.services.ask.reading import Reader
from fitgauge.services.ask.requests import questions
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
        missing: list[str] = []
        answers: list[dict[str, Any]] = []
        for one in questions(reading):
            missing += [*one.missing, *one.notes]
            if reading.operation is None or one.request is None:
                continue
            try:
                result = await self._answered(reading.operation, one.request)
                answers.append(msgspec.to_builtins(result))
            except QueueFullError:
                raise
            except FitgaugeError as error:
                missing.append(_advice(error))
        return AskAnswer(
            operation=reading.operation,
            understood=reading.understood,
            missing=list(dict.fromkeys(missing)),
            not_understood=reading.not_understood,
            answer=answers[0] if answers else None,
            answers=answers if len(answers) > 1 else UNSET,
        )

    async def _answered(self, operation: Operation, request: msgspec.Struct) -> msgspec.Struct:
        """Return the answer of an operation. Raises the errors of fitgauge.errors."""
        return await self._answers[operation](request)


def _advice(error: FitgaugeError) -> str:
    """Return an error in one sentence or two: what to send instead."""
    near = f" Did you mean {', '.join(error.matches)}?" if error.matches else ""
    if error.field == "model" and (send := error.send.get("model")) not in (None, *error.matches):
        near += f" Or send {send}."
    field = f"{error.field}: " if error.field else ""
    return f"{field}{error.detail} {error.hint}{near}".strip()
