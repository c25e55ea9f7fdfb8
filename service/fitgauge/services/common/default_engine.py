"""The engine of a request that names none."""

from collections.abc import Callable

from fitgauge.engine.serving.registry import DEFAULT_ENGINES
from fitgauge.engine.serving.workload import EngineName
from fitgauge.engine.unsupported import UnsupportedError
from fitgauge.services.common.schemas import Assumption


def first_that_runs(runs: Callable[[EngineName], bool]) -> EngineName:
    """Return the first default engine that runs the request; the first of all, whose refusal
    explains what is missing, where none does."""
    return next((engine for engine in DEFAULT_ENGINES if runs(engine)), DEFAULT_ENGINES[0])


def other_engine(refused: UnsupportedError, engine: EngineName) -> Assumption:
    """Return why another engine than the first is assumed. refused: its refusal."""
    why = refused.reason.rstrip(".")
    return Assumption("engine", engine, f"`engine` not set: assuming {engine}, because {why}.")
