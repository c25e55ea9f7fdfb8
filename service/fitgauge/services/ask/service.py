"""POST /v1/ask: read a question, let the service it means answer, and say what is missing."""

from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import msgspec
from msgspec import UNSET, structs

from fitgauge.catalog.catalog import Catalog
from fitgauge.catalog.snapshot import Snapshot
from fitgauge.errors import FitgaugeError, QueueFullError
from fitgauge.services.ask.names import GpuNames, ModelNames
from fitgauge.services.ask.reading import Reader, Reading
from fitgauge.services.ask.requests import questions
from fitgauge.services.ask.schemas import AskAnswer, AskRequest, Operation
from fitgauge.services.common.fit_schemas import FitAnswer
from fitgauge.services.common.schemas import FitRequest
from fitgauge.services.compare.schemas import CompareAnswer

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
                result = await self._answered(reading, one.request)
                answers.append(msgspec.to_builtins(result))
                missing += _format_to_name(result)
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

    async def _answered(self, reading: Reading, request: msgspec.Struct) -> msgspec.Struct:
        """Return the answer of the operation that is meant. Raises the errors of
        fitgauge.errors."""
        assert reading.operation is not None
        answer = self._answers[reading.operation]
        result = await answer(request)
        if reading.whole_context and isinstance(request, FitRequest):
            assert isinstance(result, FitAnswer)
            longest = result.model.max_context_length
            if longest is not None:
                result = await answer(structs.replace(request, context_length=longest))
        return result


def _format_to_name(result: msgspec.Struct) -> list[str]:
    """Return which format to name for a command, where the answer is a table of several."""
    if not isinstance(result, CompareAnswer):
        return []
    formats = [row.quantization for row in result.items if row.verdict == "fits"]
    if len({row.quantization for row in result.items}) == 1 or not formats:
        return []
    return [f"quantization: name one, such as {formats[0]}, for its command."]


def _advice(error: FitgaugeError) -> str:
    """Return an error in one sentence or two: what to send instead."""
    near = f" Did you mean {', '.join(error.matches)}?" if error.matches else ""
    if error.field == "model" and (send := error.send.get("model")) not in (None, *error.matches):
        near += f" Or send {send}."
    field = f"{error.field}: " if error.field else ""
    return f"{field}{error.detail} {error.hint}{near}".strip()
