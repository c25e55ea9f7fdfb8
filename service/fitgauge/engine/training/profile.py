"""What a training process holds beside PyTorch's tensors, by measurement. Data of the catalog."""

from typing import Literal

import msgspec

from fitgauge.engine.model.spec import ModelSpec
from fitgauge.engine.serving.profile import Coefficient
from fitgauge.engine.training.autograd.operations import FLOAT
from fitgauge.engine.training.workload import TrainingWorkload

_WHOLE = ("full", "in_place", "log_probs", "log_probs_in_place")
"""Losses that make the logits of all tokens at once."""

AllocatorKind = Literal["transformers", "fsdp1", "fsdp2", "deepspeed", "megatron"]
"""What keeps blocks in its own way."""


class TrainingProfile(msgspec.Struct, frozen=True, kw_only=True):
    """Calibrated on published runs.

    `runtime_bytes`: CUDA context, libraries and their workspaces. What the caching allocator
    reserves beyond what is allocated at its peak, where memory is plenty: what its rules make of
    the tensors (`kept_in_vain`, of transformers and FSDP), `fragmentation`, a share of the peak,
    and `fragmentation_logits`, times the logits of a decoder in fp32, whose blocks nothing else
    is as large as, and whose loss may take copies a token shorter; `fragmentation_dispatched`,
    the share in the place of all these where ranks exchange the tokens of their experts, whose
    blocks have another size on every rank, in every layer and step (NVIDIA-NeMo/RL issues 919
    and 2319); `fragmentation_least`: what cannot be given back where memory is short.
    `communication_bytes`: buffers of collectives on two ranks or more. `spread`: of what real
    runs print over what is counted, of all but states, for families with a recipe;
    `spread_assumed` for those without, `spread_routed` where experts get uneven shares of the
    tokens; `slack`: of all that is allocated, what versions and kernels move either way."""

    runtime_bytes: Coefficient
    fragmentation: dict[AllocatorKind, Coefficient]
    fragmentation_logits: Coefficient
    fragmentation_dispatched: Coefficient
    fragmentation_least: Coefficient
    communication_bytes: Coefficient
    spread: Coefficient
    spread_assumed: Coefficient
    spread_routed: Coefficient
    slack: Coefficient


def logits_bytes(spec: ModelSpec, workload: TrainingWorkload, stage: int) -> int:
    """Return the bytes of a micro-batch's logits in fp32 on one rank of a pipeline stage, where
    it makes them whole and the allocator has to find blocks of their size, as it has not where
    its segments grow: tokens x vocabulary x 4; 0 of a model whose loss shifts no labels. Source:
    c10/cuda/CUDACachingAllocator.cpp, ExpandableSegment."""
    decodes = spec.task == "generate" and workload.loss in _WHOLE
    if workload.uses_expandable_segments or not decodes or stage != workload.pipeline_parallel - 1:
        return 0
    if workload.framework == "fsdp" and workload.compile:  # a compiled loss makes no fp32 copy
        return 0
    kept = min(workload.logits_tokens or workload.sequence_length, workload.sequence_length)
    tokens = -(-kept // workload.context_parallel) * workload.micro_batch_size
    return tokens * -(-spec.vocabulary_size // workload.tensor_parallel) * FLOAT


def allocator_kind(workload: TrainingWorkload) -> AllocatorKind:
    """Return whose way of keeping blocks a workload has."""
    if workload.framework == "fsdp":
        return "fsdp1" if workload.fsdp_version == 1 else "fsdp2"
    return workload.framework
