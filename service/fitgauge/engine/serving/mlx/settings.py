"""MLX's settings that may be changed so that a workload runs.

The wired limit is the owner's (sysctl iogpu.wired_limit_mb) and is not changed."""

from fitgauge.engine.accelerator import Accelerator
from fitgauge.engine.model.spec import ModelSpec
from fitgauge.engine.serving.ladders import FORWARD_TOKENS, Ladders, halved
from fitgauge.engine.serving.workload import Workload

_LEAST_STEP = 512


def prefill_steps(workload: Workload, spec: ModelSpec, accelerator: Accelerator) -> tuple[int, ...]:
    """Return the halves of the prefill step, at least 512."""
    return halved(workload.max_batched_tokens, _LEAST_STEP)


LADDERS = Ladders(
    batch=(
        FORWARD_TOKENS._replace(
            values=prefill_steps,
            rule="halved, not below 512",
            costs="prompts are read in smaller passes, so first tokens come later",
        ),
    )
)
