"""The engines in words, for descriptions and hints."""

from collections.abc import Sequence

from fitgauge.engine.serving.registry import DEFAULT_ENGINES, ENGINES


def choice(names: Sequence[str]) -> str:
    """Return "a, b or c"."""
    *others, last = names
    return f"{', '.join(others)} or {last}" if others else last


def choices_of_engine() -> str:
    """Return the engines to send, the defaults first."""
    first, *others = DEFAULT_ENGINES
    rest = [name for name in ENGINES if name not in DEFAULT_ENGINES]
    return f"{first} (default; else {choice(others)}), {choice(rest)}."


def titles_with_logs() -> str:
    """Return the engines whose start-up logs are read."""
    return choice([row.title for row in ENGINES.values() if row.log_parser is not None])
