"""The engine of a request that names none."""

from collections.abc import Callable

from fitgauge.engine.serving.registry import DEFAULT_ENGINES
from fitgauge.engine.serving.workload import EngineName


def first_that_runs(runs: Callable[[EngineName], bool]) -> EngineName:
    """Return the first default engine that runs the request; the first of all, whose refusal
    explains what is missing, where none does."""
    return next((engine for engine in DEFAULT_ENGINES if runs(engine)), DEFAULT_ENGINES[0])


def unnamed(refused: str, engine: EngineName) -> str:
    """Return why another engine than the first was taken. refused: its refusal, and a remedy."""
    return f"`engine` not set: using {engine}, because {refused.partition('. Send ')[0]}."
