"""POST /v1/ask: read a question, let the service it means answer, and say what is missing."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

import msgspec
from msgspec import UNSET, UnsetType, structs

from fitgauge.catalog.catalog import Catalog
from fitgauge.catalog.format_names import USUAL_GGUF
from fitgauge.catalog.snapshot import Snapshot
from fitgauge.engine.serving.registry import ENGINES
from fitgauge.errors import FitgaugeError, InvalidRequestError, QueueFullError, UnlikeGpusError
from fitgauge.services.ask import leads, widest
from fitgauge.services.ask.commands import as_started, how_it_is
from fitgauge.services.ask.lengths import MOST_AT_ONCE, requests_a_second, texts_to_read
from fitgauge.services.ask.machines import ENOUGH
from fitgauge.services.ask.names import GpuNames, ModelNames
from fitgauge.services.ask.operations import Reading
from fitgauge.services.ask.reading import Reader
from fitgauge.services.ask.request_fields import USUAL_FORMATS
from fitgauge.services.ask.requests import fit_request, questions
from fitgauge.services.ask.schemas import AskAnswer, AskRequest, Operation, Understood
from fitgauge.services.ask.topics import is_about
from fitgauge.services.common.fit_schemas import FitAnswer
from fitgauge.services.common.schemas import FitRequest, Launch
from fitgauge.services.common.smallest import step_here
from fitgauge.services.compare.schemas import CompareAnswer, CompareRequest
from fitgauge.services.recommend.schemas import RecommendAnswer
from fitgauge.services.training_fit.schemas import TrainingAnswer, TrainingRequest

Answers = Mapping[Operation, Callable[[Any], Awaitable[msgspec.Struct]]]
"""The service of each operation."""

_NEEDED = frozenset({"model", "models", "gpu", "gpus", "log"})
"""Fields without which there is no question."""

_ALONE = "question: name the model and the GPU in one; of an earlier one nothing is remembered."
"""What to send where a text names one of them and asks nothing: it may go on with another text."""

_USUAL = "quantization: as published none fits, so these are the usual formats."
_WHOLE = 500
"""Rows of a table that is asked for whole."""

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
        missing = (
            [_ALONE] if reading.operation is None and reading.understood != Understood() else []
        )
        results: list[msgspec.Struct] = []
        launch: Launch | UnsetType = UNSET
        operation = reading.operation
        requests = questions(reading)
        for one in requests:
            missing += [*one.missing, *one.notes]
            if reading.operation is None or one.request is None:
                continue
            try:
                result, remarks = await self._answered(reading, one.request)
                results.append(result)
                missing += remarks
                launch = await self._launch(reading, result)
                if isinstance(result, FitAnswer):
                    operation = "check_fit"
            except QueueFullError:
                raise
            except FitgaugeError as error:
                missing.append(_advice(error))
        answers: list[dict[str, Any]] = [msgspec.to_builtins(one) for one in results]
        if is_about(reading.text, "one gpu") and (lead := leads.needs_together(results)):
            answers[0]["summary"] = lead + answers[0]["summary"]
        sent = [one.request for one in requests if one.request is not None]
        sentences = [*missing, *(one["summary"] for one in answers if "summary" in one)]
        unread = self._reader.unread(reading, sent, sentences)
        if answers and unread and "summary" in answers[0]:
            answers[0]["summary"] = f"Not read: {'; '.join(unread)}. " + answers[0]["summary"]
        return AskAnswer(
            operation=operation,
            understood=reading.understood,
            missing=list(dict.fromkeys(missing)),
            not_understood=unread,
            answer=answers[0] if answers else None,
            answers=answers if len(answers) > 1 else UNSET,
            launch=launch,
        )

    async def _answered(
        self, reading: Reading, request: msgspec.Struct, changes: int = 3
    ) -> tuple[msgspec.Struct, list[str]]:
        """Return the answer of the operation that is meant, and what to say of it. changes: times
        that what an error says is sent instead. Raises the errors of fitgauge.errors."""
        assert reading.operation is not None
        answer = self._answers[reading.operation]
        remarks: list[str] = []
        try:
            result = await answer(request)
        except InvalidRequestError as error:
            if changes and (other := _instead(reading, request, error)) is not None:
                result, remarks = await self._answered(*other, changes - 1)
                summary = getattr(result, "summary", None)
                if summary is not None:
                    lead = _instead_in_words(error, request, other[1])
                    result = structs.replace(result, summary=lead + summary)
                return result, [_advice(error), *remarks]
            if (fewest := await self._fewest(reading)) is None:
                raise
            return fewest, remarks
        except UnlikeGpusError:
            if not isinstance(request, FitRequest) or request.engine is not None:
                raise
            request = structs.replace(request, engine=_DIVIDES)
            remarks.append(f"engine: only {_DIVIDES} divides layers over GPUs of several kinds.")
            result = await answer(request)
        if isinstance(request, FitRequest):
            assert isinstance(result, FitAnswer)
            result = await self._with_what_is_asked(reading, request, result)
        if isinstance(request, TrainingRequest):
            assert isinstance(result, TrainingAnswer)
            result = await self._with_most(reading, request, result)
        if isinstance(result, RecommendAnswer) and is_about(reading.text, "month"):
            result = structs.replace(result, summary=leads.month_in_words(result) + result.summary)
        if isinstance(request, CompareRequest):
            assert isinstance(result, CompareAnswer)
            return await self._table(reading, request, result)
        return result, remarks

    async def _fit(self, request: FitRequest) -> FitAnswer:
        result = await self._answers["check_fit"](request)
        assert isinstance(result, FitAnswer)
        return result

    async def _train(self, request: TrainingRequest) -> TrainingAnswer:
        result = await self._answers["check_training_fit"](request)
        assert isinstance(result, TrainingAnswer)
        return result

    async def _fewest(self, reading: Reading) -> FitAnswer | None:
        """Return the answer of as few of one kind of GPU as hold a model, where that is asked and
        they are more than a list of options goes up to; None for other questions."""
        if reading.operation != "recommend_gpus" or reading.training:
            return None
        if (request := fit_request(reading)) is None:
            return None
        of_one = await self._fit(request)
        if of_one.limits is None or of_one.limits.min_gpu_count is None:
            return None
        fewest = structs.replace(request, gpu_count=of_one.limits.min_gpu_count)
        return await self._fit(fewest)

    async def _with_what_is_asked(
        self, reading: Reading, request: FitRequest, result: FitAnswer
    ) -> FitAnswer:
        """Return the answer that says first what a text asks for: the most that the launch holds,
        how fast it is, or how large its cache is."""
        text, understood, lead = reading.text, reading.understood, ""
        if request.gpu is None and is_about(text, "no gpu"):
            return await self._without_gpu(request, understood.host_memory_gib)
        if reading.whole_context and (longest := result.model.max_context_length) is not None:
            request, result, lead = await self._of_whole_context(reading, request, longest)
        if reading.command and not lead:
            lead = as_started(result)
        field = leads.most_asked(text, understood, FitRequest)
        most = leads.most_of(field, request, result)
        if most is None and (step := leads.to_fit(text, understood, result)) is not None:
            changed = structs.replace(request, **step.request)
            again = await self._fit(changed)
            if again.model.parameters == result.model.parameters:  # the same weights
                request, result = changed, again
                offered = bool(understood.host_memory_gib) or is_about(text, "rate")
                lead = leads.to_fit_in_words(step, offered=offered)
                most = leads.most_of(field, request, result)
        if most is not None:
            result, at_most = await self._at_speed(*most)
            lead += at_most
        machine = request.host_memory_gib or ENOUGH
        if machine < ENOUGH and result.verdict == "does_not_fit":
            enough = await self._fit(structs.replace(request, host_memory_gib=ENOUGH))
            lead += leads.host_in_words(machine, enough)
        result, at_rate = await self._at_rate(text, request, result)
        lead += at_rate + leads.layers_in_words(text, result)
        if copies := leads.copies_in_words(text, result):
            each = result.limits.min_gpu_count if result.limits else None
            lead, result = copies, await self._fit(structs.replace(request, gpu_count=each))
        if is_about(text, "rate") and "tokens/s" not in lead:
            lead += leads.speed_in_words(result, texts_to_read(text))
        if is_about(text, "cache"):
            lead += leads.cache_in_words(result)
        return structs.replace(result, summary=lead + result.summary)

    async def _at_speed(self, request: FitRequest, sentence: str) -> tuple[FitAnswer, str]:
        """Return the answer with the most that a text asks for, and the sentence that says it; as
        many requests at once as keep the speed that it wants, where fewer do."""
        result = await self._fit(request)
        held, most = 0, request.concurrency or 1
        while leads.is_too_slow(result) and most - held > 1:
            middle = (held + most) // 2
            answer = await self._fit(structs.replace(request, concurrency=middle))
            held, most = (held, middle) if leads.is_too_slow(answer) else (middle, most)
        if not held:
            return result, sentence
        noun = "request" if held == 1 else "requests"
        answer = await self._fit(structs.replace(request, concurrency=held))
        return answer, f"{held:,} {noun} at once at most at that speed. "

    async def _without_gpu(self, request: FitRequest, machine: float | None) -> FitAnswer:
        """Return the answer about a machine without a GPU: what of its memory a model takes in the
        format that is named, else in the widest file that it holds. machine: its memory [GiB]."""
        files = leads.FILES if machine else (USUAL_GGUF,)
        for form in [request.quantization] if request.quantization else files:
            result = await self._fit(
                structs.replace(request, quantization=form, host_memory_gib=None)
            )
            if leads.needed_gib(result) <= (machine or ENOUGH):
                break
        summary = leads.without_gpu_in_words(result, machine)
        return structs.replace(result, summary=summary, smallest=[])

    async def _of_whole_context(
        self, reading: Reading, request: FitRequest, longest: int
    ) -> tuple[FitRequest, FitAnswer, str]:
        """Return the question and the answer with the model's whole context, and what to say of
        it; of a command that names none and does not start so, those with the longest that fits."""
        whole = structs.replace(request, context_length=longest)
        answer = await self._fit(whole)
        if not reading.command or answer.verdict == "fits":
            return whole, answer, ""
        for other in (structs.replace(request, settings="defaults"), request):
            shorter = await self._fit(other)
            if shorter.verdict == "fits" and shorter.limits is not None:
                tokens = shorter.limits.max_context_length
                other = structs.replace(other, context_length=tokens)
                lead = f"As started, with the model's whole context of {longest:,} tokens, it"
                lead += f" {how_it_is(answer.verdict)}; with {tokens:,} tokens it fits. "
                return other, await self._fit(other), lead
        return whole, answer, ""

    async def _at_rate(
        self, text: str, request: FitRequest, result: FitAnswer
    ) -> tuple[FitAnswer, str]:
        """Return the answer at as many requests at once as so many a second are, and what to say
        of it: the fewest of which as many end, else the most that fit."""
        rate = requests_a_second(text)
        if rate is not None and result.texts is not None:
            return result, leads.speed_in_words(result)
        if rate is None or request.gpu is None or request.concurrency is not None:
            return result, ""
        lead, at_once = "", 1
        while at_once <= MOST_AT_ONCE:
            answer = await self._fit(structs.replace(request, concurrency=at_once))
            seconds = leads.seconds_of_each(answer)
            if answer.verdict != "fits" or seconds is None:
                break
            reached = at_once >= rate * seconds
            result, lead = answer, leads.requests_in_words(rate, answer, seconds, reached=reached)
            at_once = MOST_AT_ONCE + 1 if reached else 2 * at_once
        return result, lead

    async def _with_most(
        self, reading: Reading, request: TrainingRequest, result: TrainingAnswer
    ) -> TrainingAnswer:
        """Return the answer at the largest micro-batch or the longest sequences, said first, where
        a text asks for them."""
        field = leads.most_asked(reading.text, reading.understood, TrainingRequest)
        most, lead = leads.most_of(field, request, result), ""
        step = step_here(result.suggestions) if result.verdict == "does_not_fit" else None
        if step is not None and field is not None:
            request = structs.replace(request, **step.request)
            again = await self._train(request)
            if again.model.parameters == result.model.parameters:
                most = leads.most_of(field, request, again)
                lead = leads.to_fit_in_words(step, offered=False)
        if most is None:
            return result
        again = await self._train(most[0])
        return structs.replace(again, summary=lead + most[1] + again.summary)

    async def _table(
        self, reading: Reading, request: CompareRequest, table: CompareAnswer
    ) -> tuple[CompareAnswer, list[str]]:
        """Return a table with what a question in plain words wants besides, and what to say of
        it: formats that fit where none is named and as published nothing does."""
        remarks, as_asked, more = [], table, ""
        missing = widest.fits_nowhere(table) if request.quantizations is None else []
        if leads.lacks_format(request, table):
            table = await self._in_usual_formats(request)
            remarks.append(_USUAL)
        elif missing:
            tried = await self._in_usual_formats(widest.lacking(request, missing))
            more = widest.also_in_words(table, missing, tried)
        rows = leads.side_by_side(reading.text, table)
        if field := leads.most_asked(reading.text, reading.understood, FitRequest):
            rows = leads.fitting_rows(table) or rows
        each = await self._each([leads.as_question(row, reading.understood) for row in rows])
        lead = leads.speeds_in_words(each)
        if field and rows:
            lead = leads.most_of_each(field, leads.row_names(rows, table), each)
        apart = is_about(reading.text, "comparison", "fastest", "rate")
        at_once = reading.understood.models and not apart
        if at_once or is_about(reading.text, "one gpu"):
            lead = leads.together(table) or lead
        nearest = leads.nearest_rows(reading.understood, table) and leads.nearest_rows(
            reading.understood, as_asked
        )
        each = await self._each([leads.as_question(row, reading.understood) for row in nearest])
        lead += leads.enough_of_each(each)
        table = widest.widest(table)
        return structs.replace(table, summary=lead + table.summary + more), remarks

    async def _in_usual_formats(self, request: CompareRequest) -> CompareAnswer:
        formats = structs.replace(request, quantizations=list(USUAL_FORMATS), limit=_WHOLE)
        table = await self._answers["compare_fit"](formats)
        assert isinstance(table, CompareAnswer)
        return table

    async def _each(self, requests: Sequence[FitRequest]) -> list[FitAnswer]:
        """Return the answer of each of several rows of a table."""
        return [await self._fit(request) for request in requests]

    async def _launch(self, reading: Reading, answer: msgspec.Struct) -> Launch | UnsetType:
        """Return what starts the widest format that fits, where a table is one of formats."""
        if not isinstance(answer, CompareAnswer):
            return UNSET
        if (request := leads.format_to_take(reading.understood, answer)) is None:
            return UNSET
        result = await self._fit(request)
        return result.launch or UNSET


def _instead(
    reading: Reading, request: msgspec.Struct, error: FitgaugeError
) -> tuple[Reading, msgspec.Struct] | None:
    """Return a question with what an error says to send where nothing does what is asked, such as
    the longest context that a model reads, else without the setting that is wrong; None where that
    is no other question."""
    sent = error.send if error.code == "unsupported" else {error.field: None}
    fields = {name: value for name, value in sent.items() if name and hasattr(request, name)}
    if "draft_model" in fields:
        fields["speculative_tokens"] = None
    is_other = any(getattr(request, name) != value for name, value in fields.items())
    if not is_other or not fields.keys().isdisjoint(_NEEDED):
        return None
    changed = {name: value for name, value in fields.items() if hasattr(reading.understood, name)}
    read = reading._replace(understood=structs.replace(reading.understood, **changed))
    return read, structs.replace(request, **fields)


def _instead_in_words(error: FitgaugeError, before: msgspec.Struct, after: msgspec.Struct) -> str:
    """Return why a setting is left out of an answer, or which it has instead."""
    new = (
        f"{name} {value}"
        for name in before.__struct_fields__
        if (value := getattr(after, name)) not in (None, getattr(before, name))
    )
    with_new = f"with {words}" if (words := ", ".join(new)) else "without it"
    return f"{error.detail.rstrip('.')}; {with_new}: "


def _advice(error: FitgaugeError) -> str:
    """Return an error in one sentence or two: what to send instead."""
    near = f" Did you mean {', '.join(error.matches)}?" if error.matches else ""
    if error.field == "model" and (send := error.send.get("model")) not in (None, *error.matches):
        near += f" Or send {send}."
    field = f"{error.field}: " if error.field else ""
    return f"{field}{error.detail} {error.hint}{near}".strip()
