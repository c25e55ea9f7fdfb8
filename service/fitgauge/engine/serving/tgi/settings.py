"""Text Generation Inference's settings that may be changed so that a workload runs.

Graphs are captured after the blocks, in what is held back of the GPU: leaving them out is the
last step here too, and makes room in that part alone."""

from fitgauge.engine.accelerator import Accelerator
from fitgauge.engine.model.spec import ModelSpec
from fitgauge.engine.serving.ladders import FORWARD_TOKENS, RUNNING_REQUESTS, Ladders, Share, halved
from fitgauge.engine.serving.workload import Workload


def fewer_tokens(workload: Workload, spec: ModelSpec, accelerator: Accelerator) -> tuple[int, ...]:
    """Return the halves of `max_batch_prefill_tokens` that hold a prompt of the whole context."""
    return halved(workload.max_batched_tokens, workload.context_length)


LADDERS = Ladders(
    batch=(
        RUNNING_REQUESTS,
        FORWARD_TOKENS._replace(
            values=fewer_tokens,
            rule="halved, not below `context_length`",
            costs="fewer prompts are read at once",
        ),
    ),
    share=Share(None, 1.0),
    without_graphs=True,
)
