"""Names of models that the Hub lists for what somebody is typing."""

import time

from fitgauge.engine.memo import Memo
from fitgauge.errors import FitgaugeError
from fitgauge.hub import Hub
from fitgauge.hub.single_flight import SingleFlight, outcome
from fitgauge.services.common.name_search import MOST

_SHORTEST = 3
"""Letters of a search: fewer are in too many names."""
_UNDER_WAY = 4
"""Searches at once; more are answered with nothing."""
_CACHED = 512


class HubNames:
    """Searches for names on the Hub, cached for `refusal_seconds`. Searches never wait longer than
    `sibling_seconds`, and nothing is what a Hub that does not answer has."""

    def __init__(self, hub: Hub) -> None:
        self._hub = hub
        self._results: Memo[str, tuple[list[str], float]] = Memo(_CACHED)
        self._flights: SingleFlight[str, list[str]] = SingleFlight(_UNDER_WAY)

    async def find(self, text: str) -> list[str]:
        """Return the ids, the most downloaded first; empty offline. Never raises."""
        words = " ".join(text.split())
        if len(words) < _SHORTEST or self._hub.offline:
            return []
        names, until = self._results.get(words) or ([], 0.0)
        if time.monotonic() < until:
            return names
        try:
            flight = self._flights.join(words, lambda: self._look_up(words))
            return await outcome(flight, self._hub.settings.sibling_seconds)
        except (TimeoutError, FitgaugeError):
            return []

    async def close(self) -> None:
        """End what is under way."""
        await self._flights.close()

    async def _look_up(self, words: str) -> list[str]:
        names = [one.id for one in await self._hub.search(words, MOST)]
        self._results.put(words, (names, time.monotonic() + self._hub.settings.refusal_seconds))
        return names
