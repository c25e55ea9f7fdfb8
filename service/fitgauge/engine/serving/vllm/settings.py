"""vLLM's settings that may be changed so that a workload runs."""

from fitgauge.engine.accelerator import Accelerator
from fitgauge.engine.model.spec import ModelSpec
from fitgauge.engine.serving.ladders import (
    FEWEST_TOKENS,
    FORWARD_TOKENS,
    RUNNING_REQUESTS,
    Ladders,
    Share,
    all_layouts,
    halved,
)
from fitgauge.engine.serving.vllm.defaults import first_engine
from fitgauge.engine.serving.vllm.encoder import largest_image
from fitgauge.engine.serving.workload import Workload


def fewer_tokens(workload: Workload, spec: ModelSpec, accelerator: Accelerator) -> tuple[int, ...]:
    """Return the halves of `max_num_batched_tokens` that vLLM accepts: an image is encoded
    whole, an encoder reads whole prompts, and the first engine's default is its least.

    Source: vllm/config/scheduler.py (0.33), verify_max_model_len and SchedulerConfig."""
    if first_engine(accelerator, workload.engine_version):
        return ()
    whole = workload.context_length if spec.task != "generate" else 0
    least = max(FEWEST_TOKENS, workload.max_num_seqs, largest_image(spec), whole)
    return halved(workload.max_batched_tokens, least)


LADDERS = Ladders(
    batch=(
        RUNNING_REQUESTS,
        FORWARD_TOKENS._replace(
            values=fewer_tokens,
            rule="halved, not below 2,048, `max_num_seqs`, the largest image or an encoder's"
            " `context_length`",
        ),
    ),
    share=Share(0.80, 0.95),
    layouts=all_layouts,
    layouts_rule="tensor x pipeline, attention replicas with experts parallel, pipeline alone,"
    " whole replicas",
    without_graphs=True,
)
