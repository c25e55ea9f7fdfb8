"""Choose the engine of a request that names none."""

from collections.abc import Callable

from fitgauge.engine.serving.workload import EngineName

USUAL: tuple[EngineName, ...] = ("vllm", "mlx", "llama.cpp")
"""Default engines, in order of preference: the first that runs these weights on the GPU is used."""


def first_that_runs(runs: Callable[[EngineName], bool]) -> EngineName:
    """Return the first usual engine that runs what is asked; vLLM, which says what is missing,
    where none does."""
    return next((engine for engine in USUAL if runs(engine)), USUAL[0])


def unnamed(refused: str, engine: EngineName) -> str:
    """Return why another engine than the first usual one was taken where none was named;
    refused: what that one does not do, and a remedy."""
    return f"`engine` not set: using {engine}, because {refused.partition('. Send ')[0]}."
