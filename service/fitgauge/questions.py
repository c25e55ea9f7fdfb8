"""The services of a process, wired from its settings: of the API and of every command.

No command waits for the imports of the API's framework."""

from pathlib import Path

from fitgauge.catalog.catalog import Catalog
from fitgauge.catalog.engines import Engines, load_engines
from fitgauge.catalog.snapshot import Snapshot
from fitgauge.hub import Hub, HubSettings
from fitgauge.services.common.model_resolver import ModelResolver
from fitgauge.services.facade import Services
from fitgauge.services.own_runs import read_own_runs, with_own_runs
from fitgauge.settings import Settings


def create_hub(settings: Settings) -> Hub:
    """Return the Hub client for these settings and huggingface_hub's environment variables."""
    hosts = tuple(settings.hub_redirect_hosts.split(","))
    return Hub(HubSettings(wait_seconds=settings.hub_wait_seconds, redirect_hosts=hosts))


def create_models(hub: Hub) -> ModelResolver:
    """Return the models of a Hub and of the bundled snapshot."""
    return ModelResolver(hub, Snapshot())


def create_engines(settings: Settings, catalog: Catalog) -> Engines:
    """Return the engines' profiles, with the doubt that runs of one's own leave. Raises
    InvalidSettingsError where their file cannot be read."""
    engines = load_engines()
    if not settings.truth:
        return engines
    return with_own_runs(engines, read_own_runs(Path(settings.truth)), catalog, Snapshot())


def create_questions(hub: Hub, catalog: Catalog, settings: Settings) -> Services:
    """Return the services over a Hub, the bundled snapshot and a catalog. Raises
    InvalidSettingsError as `create_engines`."""
    engines = create_engines(settings, catalog)
    return Services(create_models(hub), engines, catalog, settings.question_seconds)
