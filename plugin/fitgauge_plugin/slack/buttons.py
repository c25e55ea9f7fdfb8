"""What the buttons below an answer do: their values hold the question, so any replica answers."""

from collections.abc import Mapping
from typing import Any

from fitgauge_plugin.slack.bar import available, gib
from fitgauge_plugin.slack.blocks import Block, actions, button
from fitgauge_plugin.slack.conversation import Turn
from fitgauge_plugin.slack.markup import line
from fitgauge_plugin.slack.texts import Language, say

ASK = "fitgauge_ask"
"""Begins the action of every button that asks another question; a number follows."""

OUTCOME = "fitgauge_outcome"
"""Begins the action of the buttons that say what happened, and is the name of their row."""

_FIXES = 2
_OPTIONS = 3
_LABEL = 75


def question_buttons(turn: Turn) -> list[Block]:
    """Return the row of other questions: fixes, half the context, one more GPU, recommend."""
    answer, question = turn.answer or {}, turn.question
    if question is None or not turn.answer_id:
        return []
    values: list[tuple[str, dict[str, Any]]] = []
    language, operation = turn.language, question.operation
    for fix in answer["suggestions"][:_FIXES]:
        label = say(language, "apply", change=line(fix["change"], _LABEL))
        values.append((label, _change(turn, operation, fix["request"])))
    understood = answer["understood_as"]
    field = "sequence_length" if "training" in operation else "context_length"
    if (tokens := understood.get(field) or 0) > 1:
        label = say(language, "halve", tokens=f"{tokens // 2:,}")
        values.append((label, _change(turn, operation, {field: tokens // 2})))
    if answer["gpu"] is not None:
        count = answer["gpu"]["count"] + 1
        values.append(
            (say(language, "add_gpu", count=count), _change(turn, operation, {"gpu_count": count}))
        )
    values.append((say(language, "recommend"), _change(turn, "recommend_gpus", {})))
    return _row(values)


def option_buttons(options: list[Mapping[str, Any]], operation: str, turn: Turn) -> list[Block]:
    """Return a row that asks about each of the first options of a list: its `request`."""
    values = []
    for option in options[:_OPTIONS]:
        request = option["request"]
        gpu = f"{request.get('gpu_count') or 1} x {request['gpu']}"
        label = say(turn.language, "take", gpu=line(gpu, _LABEL))
        values.append((label, {"o": operation, "s": request, "l": turn.language}))
    return _row(values)


def outcome_buttons(turn: Turn) -> list[Block]:
    """Return the row that says what happened, with the figures that the message shows."""
    answer = turn.answer or {}
    if not turn.answer_id or not answer.get("per_gpu"):
        return []
    value = {
        "a": turn.answer_id,
        "v": answer["verdict"],
        "p": answer["fit_probability"],
        "n": answer["per_gpu"]["required_bytes"]["expected"],
        "u": available(answer),
        "l": turn.language,
    }
    return actions(
        OUTCOME,
        [
            button(say(turn.language, "ran"), f"{OUTCOME}_ran", value),
            button(say(turn.language, "did_not_run"), f"{OUTCOME}_did_not_run", value),
        ],
    )


def changed_in_words(language: Language, fix: Mapping[str, Any]) -> str:
    """Return what a fix changes, with what is needed then."""
    change = fix["change"] if language == "en" else _fields(fix["request"])
    needs = f"{gib(fix['required_bytes'])} GiB" if fix.get("required_bytes") else ""
    verdict = say(language, fix["verdict"]) if fix.get("verdict") else ""
    return line(" · ".join(filter(None, (change, verdict, needs))), 250)


def _fields(request: Mapping[str, Any]) -> str:
    return ", ".join(f"{name} {value}" for name, value in request.items())


def _change(turn: Turn, operation: str, fields: Mapping[str, Any]) -> dict[str, Any]:
    return {"o": operation, "a": turn.answer_id, "s": dict(fields), "l": turn.language}


def _row(values: list[tuple[str, dict[str, Any]]]) -> list[Block]:
    row = [button(label, f"{ASK}_{place}", value) for place, (label, value) in enumerate(values)]
    return actions(ASK, row)
