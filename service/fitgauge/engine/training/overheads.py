"""What a training process holds beside PyTorch's tensors, by measurement. Data of the catalog."""

import msgspec

from fitgauge.engine.architecture import ModelSpec
from fitgauge.engine.profile import Coefficient
from fitgauge.engine.training.workload import Framework, TrainingWorkload

_FLOAT = 4
_WHOLE = ("full", "in_place", "log_probs", "log_probs_in_place")
"""Losses that make the logits of all tokens at once."""


class TrainingProfile(msgspec.Struct, frozen=True, kw_only=True):
    """Calibrated on published runs.

    `runtime_bytes`: CUDA context, libraries and their workspaces. What the caching allocator reserves beyond what is allocated at its
    peak, where memory is plenty: `fragmentation`, a share of it, by framework, and `fragmentation_logits`, times the logits in fp32,
    whose blocks nothing else is as large as; `fragmentation_dispatched`, the share in the framework's place where ranks exchange the
    tokens of their experts, whose blocks have another size on every rank, in every layer and step (NVIDIA-NeMo/RL issues 919 and 2319);
    `fragmentation_least`: what cannot be given back where memory is short.
    `communication_bytes`: buffers of collectives on two ranks or more. `spread`: of what real runs print over what is counted, of all but
    states, for families with a recipe; `spread_assumed` for those without, `spread_routed` where experts get uneven shares of the tokens;
    `slack`: of all that is allocated, what versions and
    kernels move either way.
    """

    runtime_bytes: Coefficient
    fragmentation: dict[Framework, Coefficient]
    fragmentation_logits: Coefficient
    fragmentation_dispatched: Coefficient
    fragmentation_least: Coefficient
    communication_bytes: Coefficient
    spread: Coefficient
    spread_assumed: Coefficient
    spread_routed: Coefficient
    slack: Coefficient


def logits_bytes(spec: ModelSpec, workload: TrainingWorkload, stage: int) -> int:
    """Bytes of a micro-batch's logits in fp32 on one rank of a pipeline stage, where it makes them whole and the allocator has to find
    blocks of their size, as it has not where its segments grow: tokens x vocabulary x 4. Source: c10/cuda/CUDACachingAllocator.cpp,
    ExpandableSegment."""
    if workload.segments_grow or workload.loss not in _WHOLE or stage != workload.pipeline_parallel - 1:
        return 0
    if workload.framework == "fsdp" and workload.compiled:  # a compiled loss makes no fp32 copy
        return 0
    kept = min(workload.logits_tokens or workload.sequence_length, workload.sequence_length)
    tokens = -(-kept // workload.context_parallel) * workload.micro_batch_size
    return tokens * -(-spec.vocabulary_size // workload.tensor_parallel) * _FLOAT
