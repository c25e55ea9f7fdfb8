"""The terminal as it is: its width, its letters, and the command's own words.

Answers and errors speak the API's words ("Send context_length 40960"); here they are printed as
they are typed ("Use --context-length 40960")."""

import os
import re
import sys
from functools import cache
from io import TextIOBase
from typing import TYPE_CHECKING, TextIO, cast

import click
import msgspec
from msgspec import structs

if TYPE_CHECKING:
    from rich.console import Console

ARGUMENTS = {"model", "gpu", "models", "gpus", "question"}
"""Fields that are arguments of a command, not options."""

_COMMANDS = {
    "POST /v1/compare": "`fitgauge compare`",
    "POST /v1/explain-log": "`fitgauge explain-log`",
    "POST /v1/fit": "`fitgauge check`",
    "POST /v1/models-for-gpu": "`fitgauge models-for`",
    "POST /v1/recommend": "`fitgauge recommend`",
    "POST /v1/training-fit": "`fitgauge train-check`",
    "POST /v1/training-plan": "`fitgauge train-plan`",
    "POST /v1/utilization": "`fitgauge utilization`",
    "GET /v1/gpus": "`fitgauge gpus`",
}

_ASCII = {
    "█": "#",
    "▏": " ",
    "▎": " ",
    "▍": " ",
    "▌": " ",
    "▋": "#",
    "▊": "#",
    "▉": "#",
    "±": "+-",
    "×": "x",
    "–": "-",
    "—": "-",
    "…": "...",
}
"""What is printed where the terminal has no such letter; eighths of a block are rounded."""

_TABLE = 160
"""Columns that a table takes in a pipe at most."""


_PATH = re.compile("|".join(sorted(map(re.escape, _COMMANDS), key=len, reverse=True)))


_NAME = re.compile(r"`(\w+)`|(?<![\w`-])(\w+)(?![\w`])")
"""A word in backticks, or one without them."""


@cache
def _fields() -> frozenset[str]:
    """Return the fields of requests that are options."""
    from fitgauge.services.requests import LINKED  # of every service, for the few texts with one

    fields = {field.name for request in LINKED.values() for field in structs.fields(request)}
    return frozenset(fields - ARGUMENTS)


def _is_option(name: str) -> bool:
    """Return whether a field is an option of the command: what most take as arguments, some have
    as options."""
    context = click.get_current_context(silent=True)
    own = context.command.params if context is not None and name in ARGUMENTS else ()
    return name in _fields() or any(f"--{name}" in one.opts for one in own)


def _option(name: re.Match[str]) -> str:
    """Return the option of a field, in backticks or of several words without them; any other word
    as it is."""
    is_field = (name[1] or "_" in name[2]) and _is_option(name[1] or name[2])
    return "--" + (name[1] or name[2]).replace("_", "-") if is_field else name[0]


def as_typed(text: str) -> str:
    """Return a message of the API with the command's options and commands in place of fields and
    paths."""
    text = _PATH.sub(lambda path: _COMMANDS[path[0]], text)
    text = re.sub(r"(?m)(^|[.:;] )Send ", r"\1Use ", text)
    text = re.sub(r"\bsend (?=`?[a-z_]+`? )", "use ", text)
    if "_" not in text and "`" not in text:
        return text
    return _NAME.sub(_option, text)


def open_console() -> "Console":
    """Return a console on standard output: ASCII where that has no more, in a pipe without blanks
    at the ends of lines and without wrapping."""
    from rich.console import Console  # some MiB that a service never needs

    piped = not sys.stdout.isatty()
    output = _Output(sys.stdout, trims=piped)
    width = None if not piped or _columns_named() else _TABLE
    return Console(file=cast(TextIO, output), width=width, soft_wrap=piped and not _columns_named())


def echo_json(value: object) -> None:
    """Print a value as JSON, in UTF-8 whatever the terminal speaks."""
    click.echo(msgspec.json.format(msgspec.json.encode(value), indent=2))


def echo_error(text: str) -> None:
    """Print an error in the command's words."""
    click.echo(plain(as_typed(text), getattr(sys.stderr, "encoding", None)), err=True)


def plain(text: str, encoding: str | None) -> str:
    """Return the text in letters that an encoding has."""
    try:
        text.encode(encoding or "ascii")
    except UnicodeEncodeError:
        for letter, instead in _ASCII.items():
            text = text.replace(letter, instead)
        return text.encode(encoding or "ascii", "replace").decode(encoding or "ascii")
    return text


def _columns_named() -> bool:
    """Return whether the caller names the width."""
    return os.environ.get("COLUMNS", "").isdigit()


class _Output(TextIOBase):
    """A text file that writes what its encoding has; trims: no blanks at the ends of lines."""

    def __init__(self, file: TextIO, *, trims: bool) -> None:
        """Write to `file`."""
        self._file = file
        self._trims = trims

    @property
    def encoding(self) -> str:  # type: ignore[override]
        """The encoding of the file."""
        return getattr(self._file, "encoding", None) or "utf-8"

    def isatty(self) -> bool:
        return self._file.isatty()

    def fileno(self) -> int:
        return self._file.fileno()

    def write(self, text: str) -> int:
        if self._trims:
            text = re.sub(r"[ \t]+(?=\n)", "", text)
        self._file.write(plain(text, self.encoding))
        return len(text)

    def flush(self) -> None:
        self._file.flush()
