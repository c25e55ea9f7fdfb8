"""Flags as engines print them: `key=value` in the repr of a dataclass, `'key': value` in a dict,
`--key value` on a command line."""

import re
from functools import lru_cache

from fitgauge.engine.serving.start_log.measurements import NUMBER, Flag

_VALUE = (
    r"(?:'(?P<single>[^']{0,512})'|\"(?P<double>[^\"]{0,512})\""
    r"|(?P<bare>(?!--)[^\s,'\"{}()\[\]]{1,128}))"
)

_NUMBER = re.compile(NUMBER)
_WORD = re.compile(r"[A-Za-z][\w.-]{0,23}", re.ASCII)
"""What names a format: anything longer or with a slash may name a person or a place."""


@lru_cache(maxsize=256)
def _patterns(key: str) -> tuple[re.Pattern[str], ...]:
    word, option = re.escape(key), re.escape(key.replace("_", "-"))
    return (
        re.compile(rf"(?<![\w.-]){word}={_VALUE}"),
        re.compile(rf"['\"]{word}['\"]: ?{_VALUE}"),
        re.compile(rf"--(?:{option}|{word})[ =]{_VALUE}"),
    )


def argument(text: str, key: str) -> str | None:
    """Return the value of `key` in any of the three spellings; None where it is absent or None
    itself."""
    if key not in text and key.replace("_", "-") not in text:
        return None
    for pattern in _patterns(key):
        match = pattern.search(text)
        if match:
            value = next(
                group
                for group in (match["single"], match["double"], match["bare"])
                if group is not None
            )
            return None if value in ("None", "null", "") else value
    return None


def flag(text: str, key: str, kind: type[Flag]) -> Flag | None:
    """Return the value of `key` as a str, int, float or bool; None where it is absent or of
    another kind."""
    value = argument(text, key)
    if kind is bool:
        if value is None:
            return (
                True if re.search(rf"--{re.escape(key.replace('_', '-'))}(?![\w-])", text) else None
            )
        return {"true": True, "false": False}.get(value.lower())
    if value is None or not (_WORD if kind is str else _NUMBER).fullmatch(value):
        return None
    try:
        return kind(value)
    except ValueError:
        return None


def options(wanted: dict[str, tuple[str, type[Flag]]]) -> tuple[str, ...]:
    """Return the options of a command line that `flags` reads."""
    return tuple(f"--{key.replace('_', '-')}" for key, _ in wanted.values())


def flags(text: str, wanted: dict[str, tuple[str, type[Flag]]]) -> dict[str, Flag]:
    """Return what `text` says of `wanted`: the contract's name -> (the engine's name, its kind)."""
    values = {name: flag(text, key, kind) for name, (key, kind) in wanted.items()}
    return {name: value for name, value in values.items() if value is not None}
