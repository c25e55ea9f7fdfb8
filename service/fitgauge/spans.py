"""Spans of tracing: none are made until a tracer is set, which costs a call and no import."""

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Protocol


class Span(Protocol):
    """A span that has started."""

    def set_attribute(self, key: str, value: str, /) -> None:
        """Describe it further."""


StartSpan = Callable[[str, dict[str, str]], AbstractContextManager[Span]]
"""Starts a span of this name with these attributes; it ends with the context."""

_NOTHING = nullcontext()


class _Tracer:
    start: StartSpan | None = None


def use(start: StartSpan | None) -> None:
    """Start spans so from now on; None: not at all."""
    _Tracer.start = start


def span(name: str, **attributes: str) -> AbstractContextManager[Span | None]:
    """Return the context of one span; of nothing where no tracer is set."""
    start = _Tracer.start
    return _NOTHING if start is None else start(name, attributes)
