"""What is counted of requests to the Hub, for whoever watches them."""

from collections.abc import Awaitable, Callable
from time import perf_counter
from typing import Protocol, TypeVar

from fitgauge.errors import FitgaugeError
from fitgauge.spans import span


class HubReply(Protocol):
    """A reply as far as its outcome follows from it."""

    @property
    def body(self) -> bytes | None:
        """None where there is none."""

    @property
    def unchanged(self) -> bool:
        """Whether the file is as it was."""


Reply = TypeVar("Reply", bound=HubReply)
HubWatch = Callable[[str, float], None]
"""Takes the outcome and the seconds of each request."""


def unwatched(outcome: str, seconds: float) -> None:
    """Count nothing."""


async def watched(watch: HubWatch, asking: Awaitable[Reply]) -> Reply:
    """Return the reply of the Hub, and hand its outcome on: ok, unchanged, no-file, cancelled or
    the code of its error."""
    started, outcome = perf_counter(), "cancelled"
    with span("hub request") as current:
        try:
            reply = await asking
            outcome = "unchanged" if reply.unchanged else "no-file" if reply.body is None else "ok"
            return reply
        except FitgaugeError as error:
            outcome = error.code
            raise
        finally:
            watch(outcome, perf_counter() - started)
            if current is not None:
                current.set_attribute("fitgauge.outcome", outcome)
