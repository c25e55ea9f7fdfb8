"""An answer as the blocks of a message. Pure: a turn in, blocks out."""

import re
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from fitgauge_plugin.slack.bar import available, bar, gib, percent
from fitgauge_plugin.slack.blocks import SECTION, Block, context, fields, preformatted, section
from fitgauge_plugin.slack.buttons import (
    changed_in_words,
    option_buttons,
    outcome_buttons,
    question_buttons,
)
from fitgauge_plugin.slack.conversation import Turn
from fitgauge_plugin.slack.lists import list_lines
from fitgauge_plugin.slack.markup import joined, line
from fitgauge_plugin.slack.texts import say

_TEXT = 3_000
"""Characters of the text that notifications show."""

_SUMMARY = 1_000
_NAME = 120
_FIXES = 4
_NOTES = 4
_ASSUMED = 6

_SEND = re.compile(r" ?Send `\w+`[^.]*\.")
"""Advice for callers of the API."""

_LIMITS = (
    "max_context_length", "max_concurrency", "max_micro_batch_size", "max_sequence_length",
)  # fmt: skip


class Message(NamedTuple):
    """What is posted."""

    text: str
    """Without blocks, for notifications and readers of screens."""
    blocks: list[Block]
    """At most 50."""
    metadata: dict[str, Any]
    """What the thread remembers."""


def message(turn: Turn) -> Message:
    """Return a turn as a message."""
    answer = turn.answer
    if answer is None:
        lines = [line(sentence, _SUMMARY) for sentence in turn.missing]
        blocks = [section(lines or [say(turn.language, "not_understood")])]
    elif "verdict" in answer and answer["verdict"] is not None:
        lines, blocks = _estimate(turn, answer)
    elif "smallest" in answer:
        lines, blocks = _needs(turn, answer)
    else:
        lines = list_lines(answer, turn.language)
        options = [one for one in answer.get("options") or [] if one.get("request")]
        blocks = [section(lines), *option_buttons(options, "check_fit", turn)]
        if training := answer.get("training_options"):
            blocks += option_buttons(training, "check_training_fit", turn)
    notes = [line(note, 500) for note in turn.notes]
    if answer is not None:
        notes += [line(sentence, 500) for sentence in turn.missing]
    if notes:
        blocks.append(context(notes))
    return Message(joined(lines, _TEXT), blocks, turn.memory.metadata())


def _estimate(turn: Turn, answer: dict[str, Any]) -> tuple[list[str], list[Block]]:
    """Return the answer of a fit: verdict, figures, memory, command, fixes, what was assumed."""
    language, gpu = turn.language, answer["gpu"]
    name = f"{line(answer['model']['id'], _NAME)} · {gpu['count']} x {line(gpu['name'], _NAME)}"
    lines = [f"*{say(language, answer['verdict'])}* · {name}"]
    if language == "en" or answer["per_gpu"] is None:
        lines.append(line(answer["summary"], _SUMMARY))
    blocks = [section(lines)]
    if answer["per_gpu"] is not None:
        blocks += [fields(_figures(turn, answer)), preformatted(bar(answer))]
    command = (answer["launch"] or {}).get("command", "")
    if 0 < len(command) <= SECTION:  # half a command would start something else
        blocks.append(preformatted(command))
    fixes = answer["suggestions"][:_FIXES]
    if fixes:
        heading = f"*{say(language, 'fixes')}*"
        blocks.append(
            section([heading, *(f"• {changed_in_words(language, one)}" for one in fixes)])
        )
    if small := _small_print(turn, answer):
        blocks.append(context(small))
    return lines, [*blocks, *question_buttons(turn), *outcome_buttons(turn)]


def _figures(turn: Turn, answer: dict[str, Any]) -> list[tuple[str, str]]:
    language, count = turn.language, answer["gpu"]["count"]
    needs, has = answer["per_gpu"]["required_bytes"], available(answer)
    expected = needs["expected"]
    per_gpu = say(
        language,
        "of",
        need=gib(expected),
        available=gib(has),
        low=gib(needs["low"]),
        high=gib(needs["high"]),
    )
    figures = [(say(language, "per_gpu"), per_gpu)]
    if count > 1:
        total = say(
            language, "total", need=gib(expected * count), available=gib(has * count), count=count
        )
        figures.append((say(language, "in_total"), total))
    figures.append((say(language, "likely"), percent(answer["fit_probability"])))
    limits = answer["limits"] or {}
    return figures + [
        (say(language, name), f"{limits[name]:,}") for name in _LIMITS if limits.get(name)
    ]


def _small_print(turn: Turn, answer: dict[str, Any]) -> list[str]:
    """Return what was assumed and guessed, and what to know of the estimate."""
    language = turn.language
    assumed: Sequence[Mapping[str, Any]] = answer["assumed"][:_ASSUMED]
    lines = []
    if assumed:
        texts = ", ".join(f"{one['field']} {one['value']}" for one in assumed)
        lines.append(f"{say(language, 'assumed')}: {line(texts, 400)}")
    read_as = [line(guess["taken"], 200) for guess in answer["read_as"][:_NOTES]]
    lines += [f"{say(language, 'read_as')}: {taken}" for taken in read_as]
    if language == "en":
        warnings = [_SEND.sub("", one["message"]) for one in answer["warnings"][:_NOTES]]
        lines += [line(warning, 300) for warning in warnings]
    return lines


def _needs(turn: Turn, answer: dict[str, Any]) -> tuple[list[str], list[Block]]:
    """Return the answer without a GPU: what the model needs, and the GPUs that hold it."""
    language = turn.language
    lines = [f"*{say(language, 'needs')}* · {line(answer['model']['id'], _NAME)}"]
    if language == "en":
        lines.append(line(answer["summary"], _SUMMARY))
    lines += [
        f"• {line(need['name'], 40)}: {gib(need['required_bytes']['expected'])} GiB"
        for need in answer["needs"]
    ]
    operation = turn.question.operation if turn.question else "check_fit"
    return lines, [section(lines), *option_buttons(answer["smallest"], operation, turn)]
