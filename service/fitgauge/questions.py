"""The services of a process, wired from its settings: of the API and of every command.

No command waits for the imports of the API's framework."""

from pathlib import Path

from fitgauge.catalog.catalog import Catalog, bundled
from fitgauge.catalog.engines import load_engines
from fitgauge.catalog.overlay_reload import OverlayReload
from fitgauge.catalog.snapshot import Snapshot
from fitgauge.hub import Hub, HubSettings
from fitgauge.services import Services
from fitgauge.services.common.long_questions import QUESTION_SECONDS
from fitgauge.services.common.model_resolver import ModelResolver
from fitgauge.settings import Settings


def create_hub(settings: Settings) -> Hub:
    """Return the Hub client for these settings and huggingface_hub's environment variables."""
    hosts = tuple(settings.hub_redirect_hosts.split(","))
    return Hub(HubSettings(wait_seconds=settings.hub_wait_seconds, redirect_hosts=hosts))


def create_mounted(settings: Settings) -> OverlayReload | None:
    """Return the mounted catalog of the settings, if any. Raises InvalidCatalogError where it is
    invalid."""
    return OverlayReload(Path(settings.catalog), bundled()) if settings.catalog else None


def create_questions(
    hub: Hub, catalog: Catalog, question_seconds: float = QUESTION_SECONDS
) -> Services:
    """Return the services over a Hub, the bundled snapshot and a catalog."""
    return Services(ModelResolver(hub, Snapshot()), load_engines(), catalog, question_seconds)
