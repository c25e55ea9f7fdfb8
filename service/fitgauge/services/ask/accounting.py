"""Whether an answer is of all that a question says: every number, name and flag in it is held by a
request, named in a note, or listed as not read."""

import math
import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from functools import cached_property
from typing import Any

import msgspec

from fitgauge.engine.quantity import GB
from fitgauge.services.ask import meant
from fitgauge.services.ask.facts import Fact
from fitgauge.services.ask.gpu_phrases import Hardware
from fitgauge.services.ask.lengths import (
    PERIODS,
    at_once,
    is_seen,
    lengths_asked_about,
    requests_a_second,
    share_at_once,
)
from fitgauge.services.ask.model_choice import end_of_contrast, not_among
from fitgauge.services.ask.names import GpuNames, ModelNames
from fitgauge.services.ask.operations import Reading
from fitgauge.services.ask.other_gpus import gpus_not_among
from fitgauge.services.ask.topics import is_about
from fitgauge.services.ask.vocabulary import PHRASES
from fitgauge.services.training_fit.setting_names import MEANINGS

_OF_TOKENS = frozenset({
    "context_length", "context_lengths", "prompt_tokens", "output_tokens", "sequence_length",
    "prompt_length", "completion_length", "max_batched_tokens", "image_tokens", "token_budget",
})  # fmt: skip
_OF_GPUS = frozenset({"gpu_count", "max_gpu_count", "tensor_parallel", "resume_gpu_count"})
_IN_NAMES = re.compile(r"\d+(?:\.\d+)?")
_COUNTED = re.compile(r"\b(\d{1,5})x ")
_OF_REQUESTS = frozenset({"concurrency", "concurrencies", "max_num_seqs"})
_FIELDS = {
    **dict.fromkeys(("length", "tokens", "prompt", "output"), _OF_TOKENS),
    "users": _OF_REQUESTS,
}
"""Fields that hold the number of a fact, by its kind: for any other kind it is any field. 40 users
are not read where 40 stands in the name of a GPU, nor 8k tokens where there are 8,192 samples."""

_NAMES = ("engine", "trainer", "framework", "method", "format")
"""Facts that name something other than a model or a GPU."""

_PRINTED = re.compile(
    r"\|\s?[^|\n]*$|\bGPU \d?$|[\d.]\s?[x*×=<>]\s?$|[<>]=?\s?$"
    r"|\b(?:claude|gpt|gemini|ryzen|core|loss|to gpu|on device|capacity of|of which|allocate"
    r"|compute capability|attempting to|ddr\d)\b[^.,;]{0,16}$",
    re.IGNORECASE,
)
"""What stands before a number that a driver or a program prints, arithmetic or a name has."""
_COUNTS_NOTHING = re.compile(
    r"\s?[x*×=]\s?[\d(]|[ -]?(?:core|thread|way|bytes?\b|MiB\b|years?\b|months?\b|weeks?\b|days?\b"
    r"|hours?\b|times\b|iterations?\b|%? ?(?:faster|slower|cheaper|better)|(?:st|nd|rd|th)\b"
    r"|个月|年|天|芯|次)",
    re.IGNORECASE,
)
"""What follows a number that says nothing of memory."""

_FLAG = re.compile(r"(?<![\w-])--[a-z][a-z\d]*(?:[-_][a-z\d]+)+\b", re.IGNORECASE)
_CLAUSE = re.compile(r"[,;?!。，、\n]|\. ")
_AROUND = 16
"""Characters around a fact that was not read."""
_MOST = 10
_THOUSANDS = (1.0, 1000 / 1024, (1000 / 1024) ** 2)
"""By what the number of a fact differs from that of a field: its thousands are of two or ten."""
_TOLERANCE = 0.001
_ROUNDED = 0.06
"""How far memory may be from what a GPU is sold with: "12G" of 11."""


def unread(
    reading: Reading,
    requests: Sequence[msgspec.Struct],
    notes: Sequence[str],
    gpus: GpuNames,
    models: ModelNames,
) -> list[str]:
    """Return what a question says and neither a request holds nor a note names, in its own words.
    A log is sent whole, and a text about something else is not read at all."""
    if reading.operation in (None, "explain_log"):
        return []
    account = _Account(reading, requests or [reading.understood], notes, gpus, models)
    return list(dict.fromkeys(account.left()))[:_MOST]


class _Account:
    """The facts of one question against its requests."""

    def __init__(
        self,
        reading: Reading,
        requests: Sequence[msgspec.Struct],
        notes: Sequence[str],
        gpus: GpuNames,
        models: ModelNames,
    ) -> None:
        self._text = reading.text
        self._facts = reading.facts
        self._training = reading.training
        self._is_checked = reading.operation == "check_fit"
        self._understood = reading.understood
        self._questions = reading.questions
        self._contrast = end_of_contrast(reading.text)
        self._gpus = gpus
        self._models = models
        self._sent = [
            (str(name), value)
            for one in requests
            for name, value in _leaves(msgspec.to_builtins(one))
        ]
        understood = [value for _, value in _leaves(msgspec.to_builtins(reading.understood))]
        sent = [value for _, value in self._sent] + [reading.model_text]
        self._notes = [one.lower() for one in notes]
        self._names = [one.lower() for one in sent if isinstance(one, str)]
        self._strings = [*self._names, *(one.lower() for one in understood if isinstance(one, str))]

    def left(self) -> Iterator[str]:
        """Yield the words of each fact that nothing holds, in the order of the text."""
        names = [*self._strings, *self._notes]
        models = [one for one in self._of("model") if self._models.has(str(one.value))]
        lost_models = not_among(self._text, models, names)
        gpus = [one for one in self._of("hardware") if one.value.name]
        lost_gpus = list(gpus_not_among(self._text, gpus, names, self._gpus))
        named = [*self._asked_about(models, lost_models), *self._asked_about(gpus, lost_gpus)]
        left = [one for one in self._facts if one not in named and self._is_lost(one)]
        flags = dict(self._flags(left))
        lost = [(start, self._text[start:end]) for start, end in flags.items()]
        lost += [(one.start, self._text[one.start : one.end]) for one in named]
        lost += [
            (one.start, _around(self._text, one)) for one in left if one.end not in flags.values()
        ]
        yield from (words for _, words in sorted(lost))

    def _flags(self, left: Sequence[Fact]) -> Iterator[tuple[int, int]]:
        """Yield where each flag begins and ends that neither words of settings nor those of a
        trainer are, with its value where nothing holds that. left: facts that nothing holds."""
        for flag in _FLAG.finditer(self._text):
            name = flag[0].lstrip("-").lower().replace("-", "_")
            value = next((one for one in self._facts if 0 < one.start - flag.end() <= 2), None)
            is_held = value is not None and value not in left
            if not (is_held or name in MEANINGS or tuple(name.split("_")) in PHRASES):
                yield flag.start(), value.end if value else flag.end()

    def _asked_about(self, facts: Sequence[Fact], lost: Sequence[Fact]) -> Iterator[Fact]:
        """Yield the names in a question, or next to one that the answer takes: others
        tell of what ran or of what somebody heard."""
        sentences = {one.sentence for one in facts if one not in lost} | set(self._questions)
        for fact in lost:
            if fact.start >= self._contrast and (fact.sentence in sentences or not sentences):
                yield fact

    def _of(self, *kinds: str) -> list[Fact]:
        return [fact for fact in self._facts if fact.kind in kinds]

    def _is_lost(self, fact: Fact) -> bool:
        if self._is_noted(fact):
            return False
        if fact.kind in _NAMES:
            return self._is_name_lost(fact)
        if fact.kind == "hardware":
            is_lost = self._is_count_lost(fact.value) or self._is_memory_lost(fact.value)
            return is_lost and fact.start >= self._contrast
        if not isinstance(fact.value, (int, float)) or is_seen(self._text, fact):
            return False
        if fact.start not in self._asked_lengths:
            return False
        before = self._text[max(0, fact.start - 2 * _AROUND) : fact.start]
        if fact.kind in ("number", "other") and (
            not any(map(str.isdigit, self._text[fact.start : fact.end]))
            or _PRINTED.search(before)
            or _COUNTS_NOTHING.match(self._text, fact.end)
        ):
            return False
        if fact.value == 1 or self._holds(fact.value, _FIELDS.get(fact.kind)):
            return False
        amounts = [f"{fact.value * scale:,.0f} " for scale in _THOUSANDS]
        return not any("," in amount and amount in one for one in self._notes for amount in amounts)

    @cached_property
    def _asked_lengths(self) -> Collection[int]:
        """Where the facts begin that are no lengths, or lengths that the question is about."""
        of_all = (self._text, self._facts, self._questions, self._training)
        return {fact.start for fact in lengths_asked_about(*of_all)}

    def _is_noted(self, fact: Fact) -> bool:
        words = self._text[fact.start : fact.end].lower()
        return len(words) > 1 and any(words in note for note in self._notes)

    def _holds(self, number: float, fields: Iterable[str] | None = None) -> bool:
        """Return whether a field holds a number."""
        held = (value for name, value in self._numbers if fields is None or name in fields)
        return any(
            math.isclose(number * scale, value, rel_tol=_TOLERANCE)
            for value in held
            for scale in _THOUSANDS
        )

    @cached_property
    def _numbers(self) -> Sequence[tuple[str, float]]:
        """The numbers of the requests, and those that the text says otherwise than in a field."""
        numbers = [
            (name, float(value))
            for name, value in self._sent
            if isinstance(value, (int, float)) and not isinstance(value, bool)
        ]
        users = self._of("users", "batch")
        share = share_at_once(self._text)
        some = at_once(self._text, users)
        numbers += [("concurrency", one.value) for one in users if share < 1 or one not in some]
        understood = self._understood
        prompt, answer = understood.prompt_tokens or 0, understood.output_tokens or 0
        if prompt + answer == understood.context_length:
            numbers += [("prompt_tokens", prompt), ("output_tokens", answer)]
        names = " ".join(self._strings)
        of_names = [("", float(number)) for number in _IN_NAMES.findall(names)]
        rate = requests_a_second(self._text) if self._is_checked else None
        others = (
            100 * share,
            understood.global_batch_size,
            *(rate * one for one in (1, *PERIODS.values()) if rate),
        )
        return [*numbers, *of_names, *(("", float(one)) for one in others if one)]

    def _is_name_lost(self, fact: Fact) -> bool:
        value = str(fact.value).lower()
        if value in self._strings or meant.is_refused(self._text, fact):
            return False
        if fact.kind != "format":
            return False
        if meant.is_no_format(self._text, fact) or any(
            re.sub(r"\W|_", "", value) in re.sub(r"\W|_", "", one) for one in self._strings
        ):
            return False
        has_format = any(name.startswith("quantization") for name, _ in self._sent)
        return not (
            (value in meant.WIDTHS and has_format)
            or (self._training and value in meant.PRECISIONS)
            or meant.of_the_optimizer(self._text, fact)
        )

    def _is_count_lost(self, one: Hardware) -> bool:
        """Return whether the number of GPUs or of machines is nowhere."""
        total = (one.count or 1) * (one.machines or 1)
        if total == 1:
            return False
        sent = {int(value) for name, value in self._numbers if name in _OF_GPUS}
        sent |= {int(count) for name in self._names for count in _COUNTED.findall(name)}
        sent |= {self._understood.gpu_count or 1} if is_about(self._text, "nodes") else set()
        parts = {1, *(part.count or 1 for part in self._hardware)}
        parts |= {part.machines or 1 for part in self._hardware}
        matches = (self._gpus.find(name) for name in self._names)
        parts |= {match.accelerator.node_size or 1 for match in matches if match}
        return not any(each == total * part for each in sent for part in parts)

    def _is_memory_lost(self, one: Hardware) -> bool:
        """Return whether memory of counted GPUs without a name is nowhere: "or 1x48GB"."""
        if one.memory is None or one.count is None or one.name is not None:
            return False
        matches = (self._gpus.find(name) for name in self._strings)
        sizes = [match.accelerator.marketed_bytes / GB for match in matches if match]
        sizes += [float(number) for name in self._strings for number in _IN_NAMES.findall(name)]
        return not any(math.isclose(one.memory, size, rel_tol=_ROUNDED) for size in sizes)

    @cached_property
    def _hardware(self) -> Sequence[Hardware]:
        return [fact.value for fact in self._of("hardware")]


def _leaves(value: Any, name: str = "") -> Iterator[tuple[str, Any]]:  # noqa: ANN401 - builtins
    """Yield the values of a request, each with the field that it stands in."""
    if isinstance(value, dict):
        for key, one in value.items():
            yield from _leaves(one, key)
    elif isinstance(value, (list, tuple)):
        for one in value:
            yield from _leaves(one, name)
    else:
        yield name, value


def _around(text: str, fact: Fact) -> str:
    """Return a fact with the words around it, within its clause."""
    first, last = max(0, fact.start - _AROUND), fact.end + _AROUND
    before, after = text[first : fact.start], text[fact.end : last]
    if first and text[first - 1].isalnum():
        before = before.partition(" ")[2]
    if text[last : last + 1].isalnum():
        after = after.rpartition(" ")[0]
    before, after = _CLAUSE.split(before)[-1], _CLAUSE.split(after)[0]
    return f"{before}{text[fact.start : fact.end]}{after}".strip()
