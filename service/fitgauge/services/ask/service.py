"""POST /v1/ask: read a question, let the service it means answer, and say what is missing."""

from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import msgspec
from msgspec import UNSET, UnsetType, structs

from fitgauge.catalog.catalog import Catalog
from fitgauge.catalog.snapshot import Snapshot
from fitgauge.engine.serving.registry import ENGINES
from fitgauge.errors import FitgaugeError, QueueFullError, UnlikeGpusError
from fitgauge.services.ask.names import GpuNames, ModelNames
from fitgauge.services.ask.reading import Reader, Reading
from fitgauge.services.ask.requests import USUAL_FORMATS, questions
from fitgauge.services.ask.schemas import AskAnswer, AskRequest, Operation
from fitgauge.services.ask.speeds import speed_in_words, wants_rate
from fitgauge.services.ask.tables import format_to_take, lacks_format, together, wants_one_gpu
from fitgauge.services.common.fit_schemas import FitAnswer
from fitgauge.services.common.schemas import FitRequest, Launch
from fitgauge.services.compare.schemas import CompareAnswer, CompareRequest

Answers = Mapping[Operation, Callable[[Any], Awaitable[msgspec.Struct]]]
"""The service of each operation."""

_DIVIDES = next(name for name, engine in ENGINES.items() if engine.line_up is not None)
"""The engine that divides a model over GPUs of several kinds."""


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
        launch: Launch | UnsetType = UNSET
        for one in questions(reading):
            missing += [*one.missing, *one.notes]
            if reading.operation is None or one.request is None:
                continue
            try:
                result, remarks = await self._answered(reading, one.request)
                answers.append(msgspec.to_builtins(result))
                missing += remarks
                launch = await self._launch(reading, result)
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
            launch=launch,
        )

    async def _answered(
        self, reading: Reading, request: msgspec.Struct
    ) -> tuple[msgspec.Struct, list[str]]:
        """Return the answer of the operation that is meant, and what to say of it. Raises the
        errors of fitgauge.errors."""
        assert reading.operation is not None
        answer = self._answers[reading.operation]
        remarks: list[str] = []
        try:
            result = await answer(request)
        except UnlikeGpusError:
            if not isinstance(request, FitRequest) or request.engine is not None:
                raise
            request = structs.replace(request, engine=_DIVIDES)
            remarks.append(f"engine: only {_DIVIDES} divides layers over GPUs of several kinds.")
            result = await answer(request)
        if reading.whole_context and isinstance(request, FitRequest):
            assert isinstance(result, FitAnswer)
            longest = result.model.max_context_length
            if longest is not None:
                result = await answer(structs.replace(request, context_length=longest))
        if isinstance(result, FitAnswer) and wants_rate(reading.text):
            result = structs.replace(result, summary=speed_in_words(result) + result.summary)
        if isinstance(request, CompareRequest):
            assert isinstance(result, CompareAnswer)
            return await self._table(reading, request, result)
        return result, remarks

    async def _table(
        self, reading: Reading, request: CompareRequest, table: CompareAnswer
    ) -> tuple[CompareAnswer, list[str]]:
        """Return a table with what a question in plain words wants besides, and what to say of
        it: formats that fit where none is named and as published nothing does."""
        remarks = []
        if lacks_format(request, table):
            formats = structs.replace(request, quantizations=list(USUAL_FORMATS))
            other = await self._answers["compare_fit"](formats)
            assert isinstance(other, CompareAnswer)
            table = other
            remarks.append("quantization: as published none fits, so these are the usual formats.")
        if wants_one_gpu(reading.text):
            table = structs.replace(table, summary=together(table) + table.summary)
        return table, remarks

    async def _launch(self, reading: Reading, answer: msgspec.Struct) -> Launch | UnsetType:
        """Return what starts the widest format that fits, where a table is one of formats."""
        if not isinstance(answer, CompareAnswer):
            return UNSET
        if (request := format_to_take(reading.understood, answer)) is None:
            return UNSET
        result = await self._answers["check_fit"](request)
        assert isinstance(result, FitAnswer)
        return result.launch or UNSET


def _advice(error: FitgaugeError) -> str:
    """Return an error in one sentence or two: what to send instead."""
    near = f" Did you mean {', '.join(error.matches)}?" if error.matches else ""
    if error.field == "model" and (send := error.send.get("model")) not in (None, *error.matches):
        near += f" Or send {send}."
    field = f"{error.field}: " if error.field else ""
    return f"{field}{error.detail} {error.hint}{near}".strip()
