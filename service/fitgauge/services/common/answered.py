"""What the request under way was answered with, for its line in the log and for the metrics."""

from contextvars import ContextVar
from typing import Any, NamedTuple

from msgspec import Struct


class Judged(NamedTuple):
    """A verdict that was given."""

    operation: str
    """The operation that gave it."""
    engine: str
    """The serving engine, or the training framework."""
    verdict: str
    """The verdict."""


class AnswerFacts(NamedTuple):
    """What an answer is about."""

    model: str | None
    """Id of the model, as it was resolved and not as it was sent."""
    judged: Judged | None
    """None where the answer holds no verdict."""


class Answered:
    """What is noted of one request. A request may ask several questions, as /mcp does."""

    __slots__ = ("code", "model", "verdicts")

    def __init__(self) -> None:
        self.model: str | None = None
        self.verdicts: list[Judged] = []
        self.code: str | None = None
        """Code of the problem that it was answered with."""


ANSWERED: ContextVar[Answered | None] = ContextVar("answered", default=None)
"""Of the request that is being answered; None in the terminal."""


def facts_of(operation: str, answer: Struct) -> AnswerFacts:
    """Return what an answer to this operation is about."""
    fields: Any = answer
    model = getattr(fields, "model", None)
    verdict = getattr(fields, "verdict", None)
    if verdict is None:
        return AnswerFacts(getattr(model, "id", None), None)
    understood = fields.understood_as
    engine = understood.get("engine") or understood.get("framework") or "none"
    return AnswerFacts(getattr(model, "id", None), Judged(operation, str(engine), verdict))


def note(facts: AnswerFacts) -> None:
    """Note what a question of the request was answered with."""
    answered = ANSWERED.get()
    if answered is not None:
        answered.model = facts.model
        if facts.judged is not None:
            answered.verdicts.append(facts.judged)


def note_code(code: str) -> None:
    """Note the code of the problem that the request was answered with."""
    answered = ANSWERED.get()
    if answered is not None:
        answered.code = code
