"""What a training process holds besides PyTorch's tensors, by measurement. Data of the catalog."""

from typing import Literal

import msgspec

from fitgauge.engine.model.dtypes import BITS
from fitgauge.engine.model.spec import ModelSpec
from fitgauge.engine.serving.profile import Coefficient
from fitgauge.engine.training.autograd.layers.losses import widens_logits
from fitgauge.engine.training.autograd.layers.traits import traits_of
from fitgauge.engine.training.autograd.operations import FLOAT
from fitgauge.engine.training.workload import TrainingWorkload, precision_policy

_WHOLE = ("full", "in_place", "log_probs", "log_probs_in_place", "divergence", "divergence_in_fp32")
"""Losses that make the logits of all tokens at once."""

AllocatorKind = Literal["transformers", "fsdp1", "fsdp2", "deepspeed", "megatron"]
"""What fragments memory in its own way."""


class TrainingProfile(msgspec.Struct, frozen=True, kw_only=True):
    """Calibrated on published runs.

    Fragmentation is what the caching allocator reserves beyond what is allocated at its peak."""

    runtime_bytes: Coefficient
    """CUDA context, libraries and their workspaces."""
    fragmentation: dict[AllocatorKind, Coefficient]
    """Share of the peak, where memory is plenty."""
    fragmentation_logits: Coefficient
    """Times a decoder's logits in fp32, added to the share: no other block is as large, and the
    loss may take copies one token shorter."""
    fragmentation_dispatched: Coefficient
    """Share of the peak instead of `fragmentation` where ranks exchange the tokens of their
    experts, whose blocks differ in size on every rank, in every layer and step
    (NVIDIA-NeMo/RL issues 919 and 2319)."""
    fragmentation_varied: Coefficient
    """Share of activations that is added where samples differ in length: the allocator keeps
    blocks of several sizes, unless its segments grow."""
    fragmentation_least: Coefficient
    """Share of the peak that cannot be released where memory is short."""
    filled_probability: Coefficient
    """The highest chance that training runs where what the allocator would reserve fills the
    GPU."""
    communication_bytes: Coefficient
    """Buffers of collectives on two ranks or more."""
    spread: Coefficient
    """What runs print over what is counted, of all but states, for families with a recipe."""
    spread_assumed: Coefficient
    """The same for families without a recipe."""
    spread_routed: Coefficient
    """The same where experts get uneven shares of the tokens."""
    slack: Coefficient
    """Share of all that is allocated that versions and kernels move either way."""


def outside_bytes(workload: TrainingWorkload, profile: TrainingProfile) -> int:
    """Return what a process holds besides PyTorch's tensors, as `training_stage`
    (estimate.py) adds it up."""
    runtime = profile.runtime_bytes.expected
    collectives = profile.communication_bytes.expected if workload.gpus > 1 else 0
    return int(runtime if workload.runtime_bytes is None else workload.runtime_bytes) + int(
        collectives
    )


def least_fragmentation_bytes(tensors: int, profile: TrainingProfile) -> int:
    """Return what the allocator cannot release where so many bytes of tensors are allocated."""
    return int(profile.fragmentation_least.expected * tensors)


def logits_bytes(spec: ModelSpec, workload: TrainingWorkload, stage: int) -> int:
    """Return the bytes of a micro-batch's logits in fp32 (in 16 bit where nothing widens them) on
    one rank of a pipeline stage: tokens x vocabulary x width.

    0 where it does not make them whole, or its segments grow, so that the allocator need not find
    blocks of their size; 0 of a model whose loss shifts no labels. Source:
    c10/cuda/CUDACachingAllocator.cpp, ExpandableSegment."""
    decodes = spec.task == "generate" and workload.loss in _WHOLE
    if workload.uses_expandable_segments or not decodes or stage != workload.pipeline_parallel - 1:
        return 0
    if workload.framework == "fsdp" and workload.compiles_loss:
        # a compiled loss makes no fp32 copy
        return 0
    logit_tokens = min(workload.logits_tokens or workload.sequence_length, workload.sequence_length)
    tokens = -(-logit_tokens // workload.context_parallel) * workload.micro_batch_size
    policy = precision_policy(workload)
    wide = policy.autocast or widens_logits(traits_of(spec), workload)
    width = FLOAT if wide else BITS[policy.compute] // 8
    return tokens * -(-spec.vocabulary_size // workload.tensor_parallel) * width


def allocator_kind(workload: TrainingWorkload) -> AllocatorKind:
    """Return whose share of fragmentation a workload has."""
    if workload.framework == "fsdp":
        return "fsdp1" if workload.fsdp_version == 1 else "fsdp2"
    return workload.framework
