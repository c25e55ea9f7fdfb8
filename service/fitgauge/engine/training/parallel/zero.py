"""What data parallelism keeps besides states: buckets, gathered parameters and the copies of a
step, by framework."""

import msgspec

from fitgauge.engine.quantity import NOTHING, Bytes, more
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


_ADAFACTOR_UPDATES = 2
"""Tensors as long as a flat one that Adafactor makes of it at once: the squares of gradients, then
the update, which a name still holds while its negative is added. Source: transformers
optimization.py, Adafactor.step, of a vector: not factored."""


class Exchange(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """Buffers of data parallelism."""

    buckets: Bytes = NOTHING
    """While gradients are made, but not yet at the loss [bytes]."""
    standing: Bytes = NOTHING
    """All the time [bytes]."""
    gathered: Bytes = NOTHING
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
    gradient_as_bucket_view False). Without ZeRO DeepSpeed copies gradients into one bucket after
    another when the passes are over (deepspeed/runtime/engine.py, allreduce_no_retain)."""
    if workload.framework == "megatron":
        return Exchange(step_copies=_step_copy(workload, rank))
    if workload.framework == "deepspeed" and workload.zero_stage > 0:
        if workload.zero_stage == 3:
            return _zero_3(workload, rank, trained, elements, largest, width)
        return _zero_1_or_2(workload, rank, trained, width)
    several = workload.data_parallel * workload.context_parallel > 1
    if workload.framework == "deepspeed":
        return Exchange(
            step_copies=_unsharded_copies(workload, rank.master_weights),
            ordered=_filled(trained, width) if several else 0,
        )
    if not several:
        return Exchange()
    copies = trained * width
    return Exchange(standing=Bytes(low=0, expected=copies, high=copies))


def _zero_1_or_2(
    workload: TrainingWorkload, rank: RankStates, trained: int, width: int
) -> Exchange:
    """Return what ZeRO-1 and 2 exchange.

    They make a bucket when the first gradient is there, of its whole size whatever is in it
    (stage_1_and_2.py, setup_buckets), on single ranks too; ZeRO-1 keeps it from one micro-batch
    to the next, ZeRO-2 puts what a full one holds in the order of ranks next to it, one that is
    never full when the passes are over. Where they offload, the largest parameter's gradient has a
    buffer all the time (temp_grad_buffer_for_gpu_offload). Asked for fp32 gradients, ZeRO-1 makes
    no bucket, and keeps the 16-bit gradients next to them (deepspeed/runtime/bf16_optimizer.py). A
    step steps from an fp32 copy of the gradients' shard (step). Measured on DeepSpeed itself:
    tools/accuracy/measure_zero.py."""
    is_offloaded = workload.offload != "none"
    if workload.zero_stage == 1 and workload.gradient_dtype == "fp32" and not is_offloaded:
        return Exchange(
            standing=more(NOTHING, trained * width),
            step_copies=_temporaries(workload, rank.master_weights),
        )
    bucket, travels = _bucket(trained, width), width * rank.largest if is_offloaded else 0
    buckets, standing, ordered = bucket, more(NOTHING, travels), 0
    if workload.zero_stage == 1 and workload.micro_batches > 1:
        buckets, standing = NOTHING, more(bucket, travels)
    elif workload.zero_stage == 2:
        is_full, filled = trained > BUCKET_ELEMENTS, _filled(trained, width)
        ordered = 0 if is_full else filled
        buckets = Bytes(
            low=bucket.low, expected=bucket.expected * (1 + is_full), high=bucket.high + filled
        )
    return Exchange(
        buckets=buckets,
        standing=standing,
        step_copies=_step_copy(workload, rank),
        ordered=ordered,
        frees_gradients=True,
    )


def _zero_3(
    workload: TrainingWorkload,
    rank: RankStates,
    trained: int,
    elements: int,
    largest: int,
    width: int,
) -> Exchange:
    """Return what ZeRO-3 exchanges.

    It makes one bucket at the start (stage3.py), on single ranks too. It keeps what it will
    use again within 1e9 numbers, forward and back: half of that around the loss, and never less
    than a unit and the next prefetch. ZeRO++ (hpZ) keeps a second copy of the 16-bit weights cut
    over the ranks of a node (arXiv 2306.10209, section 3.2), of those that it let go in this step
    and where the first is (partition_parameters.py, _partition_param_sec: remote_device). A step
    steps from an fp32 copy of the gradients' shard (_prepare_fp32_grad_for_sub_group). Measured on
    DeepSpeed itself: tools/accuracy/measure_zero.py."""
    least = min(elements, largest + PREFETCH_ELEMENTS)
    usual = min(elements, max(LIVE_ELEMENTS // 2, least))
    most = min(elements, max(LIVE_ELEMENTS, least))
    copied = workload.zero_hpz_partition_size > 1 and not rank.offloaded_weights
    second = (elements - usual) * width // workload.zero_hpz_partition_size if copied else 0
    gathered = Bytes(low=least * width, expected=usual * width, high=most * width)
    return Exchange(
        standing=_bucket(trained, width),
        gathered=more(gathered, second),
        step_copies=_step_copy(workload, rank),
    )


def _filled(trained: int, width: int) -> int:
    """Return what a bucket holds of the gradients, at most [bytes]."""
    return min(BUCKET_ELEMENTS, trained) * width


def _bucket(trained: int, width: int) -> Bytes:
    """Return the size of a bucket [bytes]."""
    whole = BUCKET_ELEMENTS * width
    return Bytes(low=_filled(trained, width) // 10, expected=whole, high=whole)


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
    if workload.zero_stage == 3:
        stepped = min(rank.master_weights, 4 * LIVE_ELEMENTS)
    else:
        stepped = rank.master_weights
    return stepped + _temporaries(workload, stepped)


def _unsharded_copies(workload: TrainingWorkload, masters: int) -> int:
    """Return what DeepSpeed makes of 16-bit gradients to step all master weights: each gradient in
    fp32, for its own AdamW flat once more while the 16-bit ones are still there
    (deepspeed/runtime/fp16/fused_optimizer.py, unfused_optimizer.py, step), and what any other
    optimizer makes."""
    flat = workload.optimizer == "adamw" and workload.optimizer_implementation == "fused"
    return masters * (1 + flat) + _temporaries(workload, masters)


def _temporaries(workload: TrainingWorkload, stepped: int) -> int:
    """Return what AdamW and Adafactor make on the device of flat tensors of `stepped` bytes."""
    if workload.offload != "none":
        return 0
    if workload.optimizer == "adafactor":
        return _ADAFACTOR_UPDATES * stepped
    if workload.optimizer == "adamw":
        return stepped * _FLAT_TEMPORARIES[workload.optimizer_implementation]
    return 0
