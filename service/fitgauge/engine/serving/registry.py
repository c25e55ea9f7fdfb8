"""The serving engines: one row each, with all facts of the engine (`engine.Engine`)."""

from fitgauge.engine.serving.engine import Engine
from fitgauge.engine.serving.llamacpp import engine as llamacpp
from fitgauge.engine.serving.mlx import engine as mlx
from fitgauge.engine.serving.sglang import engine as sglang
from fitgauge.engine.serving.tensorrt_llm import engine as tensorrt_llm
from fitgauge.engine.serving.tgi import engine as tgi
from fitgauge.engine.serving.transformers import engine as transformers
from fitgauge.engine.serving.vllm import engine as vllm
from fitgauge.engine.serving.workload import EngineName

ENGINES: dict[EngineName, Engine] = {
    row.name: row
    for row in (
        vllm.ENGINE,
        sglang.ENGINE,
        tensorrt_llm.ENGINE,
        llamacpp.ENGINE,
        llamacpp.OLLAMA,
        tgi.ENGINE,
        mlx.ENGINE,
        transformers.ENGINE,
    )
}
"""By name, in the order in which messages list them."""


def preferred() -> tuple[EngineName, ...]:
    """Return the engines that answers name where another does not run, best first."""
    ranks = {name: row.preference for name, row in ENGINES.items() if row.preference is not None}
    return tuple(sorted(ranks, key=ranks.__getitem__))


DEFAULT_ENGINES = tuple(name for name in preferred() if ENGINES[name].default)
"""The engines to try where a request names none: the first that runs the weights on the GPU is
taken."""


def engine_named(word: str) -> EngineName | None:
    """Return the engine of a name or alias in small letters and digits alone; None where there
    is none."""
    return next((name for name, row in ENGINES.items() if word in row.words), None)
