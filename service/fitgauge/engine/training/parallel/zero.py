"""What data parallelism keeps besides states: buckets, gathered parameters and the copies of a
step, by framework."""

import msgspec

from fitgauge.engine.quantity import NOTHING, Bytes
from fitgauge.engine.training.states.sharding import RankStates
from fitgauge.engine.training.workload import Implementation, TrainingWorkload

BUCKET_ELEMENTS = 500_000_000
"""DeepSpeed's reduce_bucket_size and allgather_bucket_size. Source:
deepspeed/runtime/zero/config.py."""
LIVE_ELEMENTS = 1_000_000_000
"""DeepSpeed's stage3_max_live_parameters and stage3_max_reuse_distance. Source: the same."""
PREFETCH_ELEMENTS = 50_000_000
"""DeepSpeed's stage3_prefetch_bucket_size. Source: the same."""
_FLAT_TEMPORARIES: dict[Implementation, int] = {"fused": 0, "foreach": 1, "for_loop": 2}
"""Tensors as long as its own that AdamW makes of a flat one: square roots, and their quotient.
Source: torch/optim/adamw.py, _multi_tensor_adamw, _single_tensor_adamw; DeepSpeed's own is fused
(deepspeed/ops/adam/fused_adam.py)."""


class Exchange(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """Buffers of data parallelism."""

    buckets: Bytes
    """While gradients are made, but not yet at the loss [bytes]."""
    standing: Bytes
    """All the time [bytes]."""
    gathered: Bytes
    """Parameters gathered during the passes [bytes]."""
    step_copies: int = 0
    """fp32 gradients of a step, and what its AdamW makes [bytes]."""
    ordered: int = 0
    """Copy of the gradients that are reduced once the passes are over [bytes]."""
    frees_gradients: bool = False
    """Whether they and one flat copy of this rank's part are all that is left of gradients and
    buckets then."""


def exchange(
    workload: TrainingWorkload,
    rank: RankStates,
    *,
    trained: int,
    elements: int,
    largest: int,
    width: int,
) -> Exchange:
    """Return what this framework exchanges over data-parallel ranks.

    `trained`, `elements`: numbers of trained and of all parameters of the stage, whole; `largest`:
    of its largest unit; `width`: bytes of a gathered or reduced number. DDP copies every gradient
    into buckets that it makes at the start (torch/nn/parallel/distributed.py,
    gradient_as_bucket_view False). ZeRO-1 and 2 make a bucket when the first gradient is there, of
    its whole size whatever is in it (stage_1_and_2.py, setup_buckets); ZeRO-1 keeps it from one
    micro-batch to the next, ZeRO-2 puts what a full one holds in the order of ranks next to it, one
    that is never full when the passes are over. Without ZeRO DeepSpeed copies gradients into one
    bucket after another then (deepspeed/runtime/engine.py, allreduce_no_retain). ZeRO-3 makes one
    bucket at the start (stage3.py). So do single ranks. Where ZeRO-1 or 2 offloads, the largest
    parameter's gradient has a buffer all the time (temp_grad_buffer_for_gpu_offload). Asked for
    fp32 gradients, ZeRO-1 makes none, and keeps the 16-bit gradients next to them
    (deepspeed/runtime/bf16_optimizer.py). A step of ZeRO steps from an fp32 copy of the gradients'
    shard (step; stage3.py, _prepare_fp32_grad_for_sub_group). ZeRO-3 keeps what it will use again
    within 1e9 numbers, forward and back: half of that around the loss, and never less than a unit
    and the next prefetch. ZeRO++ (hpZ) keeps a second copy of the 16-bit weights cut over the ranks
    of a node (arXiv 2306.10209, section 3.2), of those that it let go in this step and where the
    first is (partition_parameters.py, _partition_param_sec: remote_device). Measured on DeepSpeed
    itself: tools/accuracy/measure_zero.py."""
    zero = workload.framework == "deepspeed" and workload.zero_stage > 0
    if workload.framework == "megatron":
        return Exchange(
            buckets=NOTHING,
            standing=NOTHING,
            gathered=NOTHING,
            step_copies=_step_copy(workload, rank),
        )
    if not zero and workload.data_parallel * workload.context_parallel == 1:
        return Exchange(buckets=NOTHING, standing=NOTHING, gathered=NOTHING)
    filled = min(BUCKET_ELEMENTS, trained) * width
    if workload.framework == "deepspeed" and not zero:
        return Exchange(
            buckets=NOTHING,
            standing=NOTHING,
            gathered=NOTHING,
            step_copies=_temporaries(workload, rank.master_weights),
            ordered=filled,
        )
    if not zero:
        copies = trained * width
        return Exchange(
            buckets=NOTHING, standing=Bytes(low=0, expected=copies, high=copies), gathered=NOTHING
        )
    if (
        workload.zero_stage == 1
        and workload.gradient_dtype == "fp32"
        and workload.offload == "none"
    ):
        return Exchange(
            buckets=NOTHING,
            standing=more(NOTHING, trained * width),
            gathered=NOTHING,
            step_copies=_temporaries(workload, rank.master_weights),
        )
    whole = BUCKET_ELEMENTS * width
    bucket = Bytes(low=filled // 10, expected=whole, high=whole)
    copies = _step_copy(workload, rank)
    travels = width * rank.largest if workload.offload != "none" else 0
    travelling = more(NOTHING, travels)
    if workload.zero_stage == 1:
        stays = workload.micro_batches > 1
        buckets, standing = (NOTHING, more(bucket, travels)) if stays else (bucket, travelling)
        return Exchange(
            buckets=buckets,
            standing=standing,
            gathered=NOTHING,
            step_copies=copies,
            frees_gradients=True,
        )
    if workload.zero_stage == 2:
        ordered = Bytes(
            low=bucket.low, expected=whole * (1 + (trained > BUCKET_ELEMENTS)), high=whole + filled
        )
        return Exchange(
            buckets=ordered,
            standing=travelling,
            gathered=NOTHING,
            step_copies=copies,
            ordered=0 if trained > BUCKET_ELEMENTS else filled,
            frees_gradients=True,
        )
    least = min(elements, largest + PREFETCH_ELEMENTS)
    usual = min(elements, max(LIVE_ELEMENTS // 2, least))
    most = min(elements, max(LIVE_ELEMENTS, least))
    copied = workload.zero_hpz_partition_size > 1 and not rank.parked
    second = (elements - usual) * width // workload.zero_hpz_partition_size if copied else 0
    gathered = Bytes(
        low=least * width + second, expected=usual * width + second, high=most * width + second
    )
    return Exchange(buckets=NOTHING, standing=bucket, gathered=gathered, step_copies=copies)


def more(size: Bytes, by: int) -> Bytes:
    """Return the size and `by` [bytes] more."""
    return Bytes(low=size.low + by, expected=size.expected + by, high=size.high + by)


def _step_copy(workload: TrainingWorkload, rank: RankStates) -> int:
    """Return an fp32 gradient for every number the rank steps, where DeepSpeed steps on the
    device, or Megatron from gradients of 16 bit (megatron/core/optimizer/distrib_optimizer.py,
    shard_model_grad.float()); of ZeRO-3 one sub-group of 1e9. Under DeepSpeed with what AdamW
    makes of it."""
    if workload.offload != "none":
        return 0
    if workload.framework == "megatron":
        return rank.master_weights if workload.gradient_dtype == "bf16" else 0
    if workload.framework != "deepspeed" or workload.zero_stage == 0:
        return 0
    stepped = (
        min(rank.master_weights, 4 * LIVE_ELEMENTS)
        if workload.zero_stage == 3
        else rank.master_weights
    )
    return stepped + _temporaries(workload, stepped)


def _temporaries(workload: TrainingWorkload, stepped: int) -> int:
    """Return what AdamW makes on the device of flat tensors of `stepped` bytes."""
    on_device = workload.offload == "none" and workload.optimizer == "adamw"
    return stepped * _FLAT_TEMPORARIES[workload.optimizer_implementation] if on_device else 0
