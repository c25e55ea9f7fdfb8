"""One turn of a conversation: a message, what its thread remembers, and the answer."""

import re
from collections.abc import Mapping
from typing import Any, NamedTuple

from fitgauge_plugin.calls import Reply
from fitgauge_plugin.slack.memory import Memory
from fitgauge_plugin.slack.requests import from_words, merged, without_gpu
from fitgauge_plugin.slack.service import PATHS, Question, Service
from fitgauge_plugin.slack.texts import Language, language_of, say

LONGEST_QUESTION = 2_000
"""Characters of a question that the service reads; longer texts may be logs."""

_PATH = re.compile(r" ?\b(?:GET|POST) /v1/[^.]*\.")
"""A sentence for callers of the API."""

_LONGEST_WAIT = 3_600
"""That is said [s]."""

_NEED = "how much VRAM: "
"""Makes a question of a model without a GPU."""


class Turn(NamedTuple):
    """What the service says to a message."""

    language: Language
    """Of the answer."""
    question: Question | None = None
    """What was asked; None where nothing was understood."""
    answer: dict[str, Any] | None = None
    """The answer of the operation; None where there is none."""
    missing: tuple[str, ...] = ()
    """What to add, or why there is no answer: one sentence each."""
    notes: tuple[str, ...] = ()
    """What to know of how the message was read."""
    text: str = ""
    """The question in words, where something of it is missing."""

    @property
    def answer_id(self) -> str:
        """The permalink; empty where there is none."""
        return str((self.answer or {}).get("answer_id") or "")

    @property
    def memory(self) -> Memory:
        """What the thread remembers of this turn."""
        return Memory(self.answer_id, "" if self.answer else self.text, self.language)


async def reply(service: Service, text: str, memory: Memory | None, pool: str) -> Turn:
    """Answer a message. memory: of its thread; pool: the channel's GPU, taken where the question
    names none."""
    language = language_of(text) or (memory.language if memory else "en")
    notes: tuple[str, ...] = ()
    if len(text) > LONGEST_QUESTION:
        log = await service.send(Question("explain_log", {"log": text}))
        if log.is_success:
            return Turn(language, Question("explain_log", {}), log.body)
        length, text = len(text), text[:LONGEST_QUESTION]
        notes = (say(language, "cut", length=f"{length:,}", read=f"{LONGEST_QUESTION:,}"),)
    if memory is not None and memory.answer_id:
        turn = await _changed(service, text, memory, language)
        if turn is not None:
            return turn._replace(notes=notes + turn.notes)
    if memory is not None and memory.text:
        text = f"{memory.text}\n{text}"[-LONGEST_QUESTION:]
    turn = await _ask_in_words(service, text, pool, language)
    return turn._replace(notes=notes + turn.notes)


async def pressed(service: Service, value: Mapping[str, Any], language: Language) -> Turn:
    """Answer a button: the question of an answer with other fields. value: of `buttons.py`."""
    operation, fields = str(value.get("o")), dict(value.get("s") or {})
    if operation not in PATHS:
        return Turn(language, missing=(say(language, "not_understood"),))
    if not value.get("a"):
        return await _sent(service, Question(operation, fields), language)
    earlier = await service.again(str(value["a"]))
    if not earlier.is_success:
        return _refused(earlier, language)
    question = Question(earlier.body["operation"], earlier.body["request"])
    return await _sent(service, merged(question, operation, fields), language)


async def _ask_in_words(service: Service, text: str, pool: str, language: Language) -> Turn:
    """Ask in words; where the words name no GPU and the channel has a pool, with that."""
    reading = await service.ask(text)
    notes: tuple[str, ...] = ()
    if reading.is_success and pool and without_gpu(reading.body):
        with_pool = await service.ask(f"{text[: LONGEST_QUESTION - len(pool) - 8]} on {pool}")
        if with_pool.is_success and with_pool.body.get("answer"):
            reading = with_pool
            notes = (say(language, "pool_default", pool=pool),)
    elif reading.is_success and _is_model_alone(reading.body):
        reading = await service.ask(f"{_NEED}{text}"[:LONGEST_QUESTION])
    if not reading.is_success:
        return _refused(reading, language)
    body = reading.body
    unused = ", ".join(body.get("not_understood") or [])
    if unused:
        notes += (say(language, "not_used", numbers=unused),)
    operation, answer = body.get("operation"), body.get("answer")
    others = (body.get("answers") or [])[1:]
    notes += tuple(one["summary"] for one in others if one.get("summary"))
    if not operation:
        understood = body.get("understood") or {}
        missing = [name for name in ("model", "gpu") if name not in understood]
        sentences = [say(language, f"{name}_missing") for name in missing]
        if not understood:
            sentences = [say(language, "not_understood"), say(language, "help")]
        return Turn(language, None, None, tuple(sentences), notes, text if understood else "")
    missing_fields = tuple(_in_words(sentence, language) for sentence in body.get("missing") or [])
    question = Question(operation, body.get("understood") or {})
    if answer and answer.get("answer_id"):
        earlier = await service.again(answer["answer_id"])
        if earlier.is_success:
            question = Question(earlier.body["operation"], earlier.body["request"])
    return Turn(language, question, answer, missing_fields, notes, text)


def _is_model_alone(reading: Mapping[str, Any]) -> bool:
    return reading.get("operation") is None and "model" in (reading.get("understood") or {})


async def _changed(service: Service, text: str, memory: Memory, language: Language) -> Turn | None:
    """Answer the thread's question with what a message changes of it; None where the message is
    a question of its own."""
    reading = await service.ask(text)
    if not reading.is_success:
        return _refused(reading, language)
    understood, operation = reading.body.get("understood") or {}, reading.body.get("operation")
    whole = ("model" in understood and "gpu" in understood) or "models" in understood
    if whole or not (understood or operation):
        return None
    earlier = await service.again(memory.answer_id)
    if not earlier.is_success:
        return None
    question = Question(earlier.body["operation"], earlier.body["request"])
    if operation is None or (operation == "check_fit" and "training" in question.operation):
        operation = question.operation
    if "gpu" in understood and operation == "recommend_gpus" and "model" not in understood:
        operation = "check_fit"
    changes = from_words(operation, understood)
    if operation != question.operation or changes:
        return await _sent(service, merged(question, operation, changes), language)
    return None


async def _sent(service: Service, question: Question, language: Language) -> Turn:
    sent = await service.send(question)
    if not sent.is_success:
        return _refused(sent, language, question)
    return Turn(language, question, sent.body)


def _refused(refusal: Reply, language: Language, question: Question | None = None) -> Turn:
    """Return why there is no answer."""
    body = refusal.body
    if refusal.retry_after.isdigit():
        seconds = min(int(refusal.retry_after), _LONGEST_WAIT)
        return Turn(language, question, missing=(say(language, "busy", seconds=seconds),))
    if "detail" not in body:
        return Turn(language, question, missing=(say(language, "no_answer"),))
    sentences = [str(body["detail"]), _PATH.sub("", str(body.get("hint") or ""))]
    if body.get("matches"):
        sentences.append(", ".join(map(str, body["matches"])))
    return Turn(language, question, missing=tuple(filter(None, sentences)))


def _in_words(sentence: str, language: Language) -> str:
    """Return what is missing in the language of the conversation, where it has words for it."""
    field = sentence.partition(":")[0]
    if language != "en" and field in ("model", "gpu") and "name one" in sentence:
        return say(language, f"{field}_missing")
    return _PATH.sub("", sentence)
