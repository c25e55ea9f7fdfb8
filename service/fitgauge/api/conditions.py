"""Why the service answers with less than it could."""

from collections.abc import Callable
from typing import Protocol

from fitgauge.catalog.overlay_reload import OverlayReload
from fitgauge.hub import Hub
from fitgauge.services.common.catalog_status import Condition

Conditions = Callable[[], list[Condition]]
"""What holds at the moment; each may end by itself."""


class Away(Protocol):
    """A store that may be away."""

    is_up: bool
    failure: str


def conditions_of(hub: Hub, overlay: OverlayReload | None, shared: Away | None) -> Conditions:
    """Return a function that reads the conditions of the catalog, the Hub and the shared state,
    without I/O."""

    def conditions() -> list[Condition]:
        holding = []
        if overlay is not None and overlay.refused:
            holding.append(Condition("catalog-refused", overlay.refused.error.detail))
        if hub.offline:
            holding.append(Condition("hub-offline", "HF_HUB_OFFLINE is set."))
        elif refusal := hub.refusal:
            holding.append(Condition("hub-away", refusal.detail))
        if shared is not None and not shared.is_up:
            detail = f"This replica goes on alone: {shared.failure}"
            holding.append(Condition("shared-state-away", detail))
        return holding

    return conditions
