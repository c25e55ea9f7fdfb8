"""A pasted log as clean lines: no colours, no control characters, no line too long to read."""

import re
from typing import NamedTuple

MAX_CHARACTERS = 512 * 1024
"""More than any start-up prints; what a text holds beyond is not read."""

_LONGEST_LINE = 16 * 1024
_FLATTENED = 4 * 1024
"""Lines longer than this may be a whole log whose newlines were lost."""

_COLOUR = re.compile(r"(?:\x1b|\^\[)\[[0-9;?]{0,32}[A-Za-z]|\[[0-9;]{1,12}m")
_CONTROL = dict.fromkeys([*range(9), *range(11, 13), *range(14, 32), 127])
_NEWLINE = re.compile(r"\r\n|\n|\r")
_ENTRY = re.compile(r"(?=\b(?:INFO|WARNING|ERROR|DEBUG) \d\d-\d\d \d\d:\d\d:\d\d )")


class Line(NamedTuple):
    """One line of a log."""

    number: int
    """Its number in the text, from 1."""
    text: str
    """What it prints."""


def clean_lines(text: str) -> list[Line]:
    """Return the lines of a log that say anything. A carriage return ends a line too: progress
    bars use it."""
    lines: list[Line] = []
    for number, raw in enumerate(_NEWLINE.split(text[:MAX_CHARACTERS]), start=1):
        line = _COLOUR.sub("", raw).translate(_CONTROL)
        entries = _ENTRY.split(line) if len(line) > _FLATTENED else (line,)
        lines.extend(
            Line(number, entry[:_LONGEST_LINE])
            for entry in entries
            if entry and not entry.isspace()
        )
    return lines


def joined(lines: list[Line], *literals: str) -> str:
    """Return the lines that hold any of these literals, as one text."""
    return " ".join(
        line.text for line in lines if any(literal in line.text for literal in literals)
    )
