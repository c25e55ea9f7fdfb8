"""The pairs of keys and values in `options`, as agents write them."""

import json
import re
import shlex
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from fitgauge.services.tools.aliases import SWITCHES, plain

_PAIR = re.compile(r"[,;\n]\s*(?=[\w-]+\s*[=:])|[;\n]|(?<=\w)\s+(?=[\w-]+=)")
_LONGEST_JSON = 4_000
_DEEPEST_JSON = 40
_MOST_WORDS = 8
"""Words of a name."""

_QUOTES = " \t'\""
_FLAG = re.compile(r"(?:^|\s)--?[a-zA-Z]")


def pairs(options: object, is_name: Callable[..., bool]) -> Iterator[tuple[str, Any]]:
    """Yield the keys and values of `options`: text, flags of a command, JSON, or an object."""
    options = from_json(options)
    if isinstance(options, str):
        options = options.strip().strip("{}[]")
    if isinstance(options, Mapping):
        yield from ((str(key), value) for key, value in options.items())
    elif isinstance(options, list):
        for one in options:
            yield from pairs(one, is_name)
    elif isinstance(options, str) and options.strip().lower() not in ("null", "none", "{}"):
        yield from _flags(options) if _FLAG.search(options) else _of_text(options, is_name)


def from_json(value: Any) -> Any:  # noqa: ANN401 - JSON is any
    """Return what a text holds that is a list or an object in JSON; else the value, as for a log
    whose lines are JSON, and for what is nested too deeply."""
    text = value.strip() if isinstance(value, str) and len(value) <= _LONGEST_JSON else ""
    if not text.startswith(("[", "{")) or text.count("[") + text.count("{") > _DEEPEST_JSON:
        return value
    try:
        return json.loads(text)
    except ValueError:
        return value


def _of_text(text: str, is_name: Callable[..., bool]) -> Iterator[tuple[str, Any]]:
    """Yield the pairs of `key=value, key value`; a name alone is true."""
    for part in _PAIR.split(text):
        key, separator, value = re.sub(r"\s*[=:]\s*", "\0", part, count=1).partition("\0")
        pieces = value.split(",")
        # What follows the sign is a value, also where it is a name elsewhere ("fp8", "lora").
        values = [
            piece
            for at, piece in enumerate(pieces)
            if at == 0 or not is_name(_name_and_value(piece, is_name)[0], key)
        ]
        if separator:
            yield key.strip(_QUOTES), ",".join(values).strip(_QUOTES)
        else:
            pieces = key.split(",")
        for piece in pieces:
            if (not separator or piece not in values) and piece.strip(_QUOTES):
                yield _name_and_value(piece.strip(_QUOTES), is_name)


def _name_and_value(text: str, is_name: Callable[..., bool]) -> tuple[str, Any]:
    """Return "kv cache fp8" and "fp8 kv cache" as a name and its value; a name alone is true."""
    words = text.split()
    if is_name(text):
        return text, True
    sizes = range(min(len(words) - 1, _MOST_WORDS), 0, -1)
    pairs = [(" ".join(words[:size]), " ".join(words[size:])) for size in sizes]
    pairs += [(" ".join(words[-size:]), " ".join(words[:-size])) for size in sizes]
    named = [pair for pair in pairs if is_name(pair[0])]
    # A switch is the name of last resort: it may be a value ("fp8").
    return min(named, key=lambda pair: plain(pair[0]) in SWITCHES, default=(text, True))


def _flags(text: str) -> Iterator[tuple[str, Any]]:
    """Yield the pairs of `--key value --switch`."""
    try:
        words = shlex.split(text.replace(",", " "))
    except ValueError:
        words = text.split()
    key: str | None = None
    for word in words:
        if re.match(r"--?[a-zA-Z]", word):
            if key is not None:
                yield key, True
            key, _, value = word.lstrip("-").partition("=")
            if value:
                yield key, value
                key = None
        elif key is not None:
            yield key, word
            key = None
    if key is not None:
        yield key, True
