"""The models of the bundled snapshot, each read once for all tests of a process, and the
questions that are answered from them alone."""

from functools import cache

from fitgauge.catalog.catalog import bundled
from fitgauge.catalog.engines import load_engines
from fitgauge.catalog.snapshot import Snapshot
from fitgauge.engine.model.model import Model
from fitgauge.engine.model.spec import ModelSpec
from fitgauge.hub import Hub, HubSettings
from fitgauge.services.common.model_resolver import ModelResolver
from fitgauge.services.facade import Services

SNAPSHOT = Snapshot()


@cache
def model_of(name: str) -> Model:
    """Return the bundled model of this id."""
    model = SNAPSHOT.model(name)
    assert model is not None, name
    return model


def spec_of(name: str) -> ModelSpec:
    """Return what the bundled model of this id is made of."""
    return model_of(name).spec


def offline_models() -> ModelResolver:
    """Return the bundled models, without a Hub."""
    return ModelResolver(Hub(HubSettings(offline=True, cache_dir=None, token=False)), SNAPSHOT)


def offline_questions() -> Services:
    """Return every answer, without a Hub, by services of one's own."""
    return Services(offline_models(), load_engines(), bundled())


@cache
def shared_questions() -> Services:
    """Return the same by the services that all tests of a process share, with what they keep."""
    return offline_questions()
