"""Slack delivers an event again where it saw no answer in time: it is answered once."""

from collections import OrderedDict

_MOST = 10_000


class Deliveries:
    """The events that this process has taken, the last ones."""

    def __init__(self) -> None:
        self._taken: OrderedDict[str, None] = OrderedDict()

    def is_new(self, event_id: str) -> bool:
        """Take an event; return whether it was not taken before."""
        if event_id in self._taken:
            return False
        self._taken[event_id] = None
        while len(self._taken) > _MOST:
            self._taken.popitem(last=False)
        return True
