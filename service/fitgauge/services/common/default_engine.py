"""The engine of a request that names none."""

from collections.abc import Callable

from fitgauge.engine.serving.workload import EngineName
from fitgauge.engine.unsupported import UnsupportedError

USUAL: tuple[EngineName, ...] = ("vllm", "mlx", "llama.cpp")
"""The engines to try, in this order: the first that runs these weights on the GPU is taken."""


def first_that_runs(runs: Callable[[EngineName], bool]) -> EngineName:
    """Return the first of these engines that runs the request; the first of all, whose refusal
    explains what is missing, where none does."""
    return next((engine for engine in USUAL if runs(engine)), USUAL[0])


def unnamed(refused: UnsupportedError, engine: EngineName) -> str:
    """Return why another engine than the first was taken. refused: its refusal."""
    return f"`engine` not set: using {engine}, because {refused.reason}"
