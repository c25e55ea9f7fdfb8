"""One room per engine: which function estimates for which, and how each lays weights out."""

from collections.abc import Callable
from typing import NamedTuple

from fitgauge.engine import transformers, weights
from fitgauge.engine.accelerator import Accelerator
from fitgauge.engine.architecture import ModelSpec
from fitgauge.engine.estimate import Estimate
from fitgauge.engine.profile import EngineProfile
from fitgauge.engine.vllm import layout as vllm_layout
from fitgauge.engine.vllm import serve as vllm
from fitgauge.engine.weights import Laid
from fitgauge.engine.workload import EngineName, Workload


class Engine(NamedTuple):
    """What every room offers: `estimate`, and `lay_out`, which prepares a model's weights in a scheme for it."""

    estimate: Callable[[ModelSpec, Laid, Workload, Accelerator, EngineProfile], Estimate]
    lay_out: Callable[..., Laid]


ENGINES: dict[EngineName, Engine] = {
    "vllm": Engine(vllm.estimate, vllm_layout.laid_out),
    "transformers": Engine(transformers.estimate, weights.laid_out),
}
