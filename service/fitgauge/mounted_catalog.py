"""The catalog that the settings mount over the bundled one."""

from pathlib import Path

from fitgauge.catalog.catalog import bundled
from fitgauge.catalog.overlay_reload import OverlayReload
from fitgauge.settings import Settings


def create_mounted(settings: Settings) -> OverlayReload | None:
    """Return the mounted catalog of the settings, if any. Raises InvalidCatalogError where it is
    invalid."""
    return OverlayReload(Path(settings.catalog), bundled()) if settings.catalog else None
