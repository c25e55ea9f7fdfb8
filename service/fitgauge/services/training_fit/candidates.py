"""Changes worth trying where training does not fit, in ladders: of a ladder the first change that
fits is taken. Each is re-estimated before it is returned."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from msgspec.structs import replace

from fitgauge.engine.training.algorithms.setup import Setup
from fitgauge.engine.training.releases import LAST_BY_THE_HOST
from fitgauge.engine.training.workload import Method, TrainingWorkload
from fitgauge.services.training_fit.launchers.tool import Tool

_SHORTEST = 512
"""Tokens below which a shorter sequence is no suggestion."""

Fields = dict[str, str | int | float | bool]
_COUNTS = (2, 4, 8, 16, 32, 64, 128)


class Change(NamedTuple):
    """A change of a request."""

    words: str
    """The change in words."""
    fields: Fields
    """The fields to send."""


def sharded_by_trl(change: Change) -> Change:
    """Return the change with TRL where it shards, which another tool does not."""
    if change.fields.get("framework") not in ("fsdp", "deepspeed"):
        return change
    return Change(f"{change.words} (TRL)", change.fields | {"trainer": "trl"})


class Ladder(NamedTuple):
    """Changes of one kind, the smallest first."""

    changes: tuple[Change, ...]
    """The changes, the smallest first."""
    always: bool = False
    """Belongs to the answer even where others are smaller: another method, more GPUs."""
    last_resort: bool = False
    """Pointless where something else fits on these GPUs: shorter sequences."""


def _by_unsloth(workload: TrainingWorkload) -> Iterator[Change]:
    """Yield Unsloth's kernels, which keep less and put checkpointed activations in host memory, and
    the same with micro-batches of 1."""
    words, fields = "train with Unsloth", Fields(framework="unsloth")
    yield Change(words, fields)
    for batches in [*_smaller_batches(workload)][-1:]:
        yield Change(f"{words}, {batches.words}", fields | batches.fields)


def ladders(
    workload: TrainingWorkload,
    setup: Setup,
    count: int,
    *,
    tool: Tool,
    mixture: bool,
    unsloth: bool,
    min_gpu_count: int | None,
) -> Iterator[Ladder]:
    """Yield the ladders, cheapest first.

    tool: whose command runs it. mixture: the model has routed experts. unsloth: its kernels run on
    the GPU. min_gpu_count: the fewest GPUs on which it fits with nothing else changed, where that
    is known.
    """
    if setup.algorithm not in tool.fuses_loss:
        workload = replace(workload, loss="fused")  # there is no other to offer
    settings = [*_of_algorithm(workload, setup, tool), *_settings(workload)]
    for change in settings:
        batches = _smaller_batches(workload) if "micro_batch_size" in change.fields else [change]
        yield Ladder((*batches,))
    fused = replace(workload, loss="fused")
    if {"reference": "none"} in [change.fields for change in settings] and not (
        tool.places_reference("none", fused, setup.algorithm)
    ):
        settings = [change for change in settings if "loss" not in change.fields]
    if len(settings) > 1:
        combined: Fields = {}
        for change in settings:
            combined |= change.fields
        words = [change.words for change in settings if change.fields.items() <= combined.items()]
        yield Ladder((Change(", ".join(words), combined),))
    for change in (*_room_for_rollout(workload, setup), *_divided(workload)):
        yield Ladder((change,))
    by_unsloth = [*_by_unsloth(workload)] if unsloth and _replaces_trl(workload, setup) else []
    yield Ladder((*by_unsloth,))
    for change in _states(workload):
        yield Ladder((change,))
    if workload.method == "full":
        yield Ladder((*_adapters("lora", workload, setup, count, by_unsloth),), always=True)
    if workload.method in ("full", "lora", "dora"):
        yield Ladder((*_adapters("qlora", workload, setup, count, by_unsloth),), always=True)
    for change in _offloaded(workload, setup):
        yield Ladder((change,))
    yield Ladder((*_loaded_by_the_host(workload, setup),))
    if mixture and not workload.quantize_experts and workload.framework == "transformers":
        yield Ladder((*_quantized_experts(workload),))
    yield Ladder((*_more_gpus(workload, count, min_gpu_count),), always=True)
    yield Ladder((*_shorter(workload, setup, by_unsloth),), last_resort=True)


def _saving(workload: TrainingWorkload, change: Change) -> Change:
    """Return the change together with what saves memory at little cost: activations checkpointed,
    the loss fused with the head, micro-batches of 1. The words say all that it changes."""
    words, fields = change.words, Fields()
    if workload.activation_checkpointing != "full":
        words += ", checkpoint activations"
        fields["activation_checkpointing"] = "full"
    if workload.loss not in ("fused", "none"):
        words += ", fuse the loss with the head (Liger)"
        fields["loss"] = "fused"
    for batches in [*_smaller_batches(workload, change.fields)][-1:]:
        words += f", {batches.words}"
        fields |= batches.fields
    return Change(words, fields | change.fields)


def _settings(workload: TrainingWorkload) -> Iterator[Change]:
    """Yield what costs a little speed, and no quality to speak of."""
    if (
        workload.uses_adapters
        and workload.base_quantization is None
        and workload.base_precision == "fp32"
        and workload.precision in ("mixed_bf16", "mixed_fp16")
        and workload.framework == "transformers"
    ):
        half = "fp16" if workload.precision == "mixed_fp16" else "bf16"
        yield Change(f"load the base in {half}", {"base_precision": "half"})
    if workload.attention == "eager":
        yield Change("use SDPA or FlashAttention instead of eager attention", {"attention": "sdpa"})
    if workload.loss not in ("fused", "none"):
        yield Change("fuse the loss with the head (Liger)", {"loss": "fused"})
    yield from [*_smaller_batches(workload)][-1:]
    if workload.activation_checkpointing != "full":
        yield Change("checkpoint activations", {"activation_checkpointing": "full"})
    if (
        workload.optimizer == "adamw"
        and workload.optimizer_implementation == "foreach"
        and workload.framework == "transformers"
    ):
        yield Change("use the fused optimizer", {"optimizer_implementation": "fused"})


def _of_algorithm(workload: TrainingWorkload, setup: Setup, tool: Tool) -> Iterator[Change]:
    """Yield savings of the models other than the policy."""
    rollout = setup.rollout
    if rollout is not None and rollout.serves:
        if rollout.sleep == "off":
            yield Change(
                "let the rollout engine sleep while the policy is trained",
                {"rollout_sleep": "level_2"},
            )
        less = next(
            (share for share in (0.5, 0.3, 0.2) if share < rollout.memory_utilization), None
        )
        if less is not None:
            yield Change(
                f"give the rollout engine {less:.0%} of the GPU",
                {"rollout_memory_utilization": less},
            )
    if setup.trainer == "verl" and setup.rests != "all":
        yield Change(
            "offload parameters and optimizer states while completions are sampled",
            {"offload": "cpu"},
        )
    if setup.reference != "resident":
        return
    if tool.places_reference("offloaded", workload, setup.algorithm):
        yield Change("keep the reference in host memory", {"reference": "offloaded"})
    if tool.computes_reference_first(workload, setup.algorithm):
        yield Change("compute the reference's log-probabilities beforehand", {"reference": "none"})


def _room_for_rollout(workload: TrainingWorkload, setup: Setup) -> Iterator[Change]:
    """Yield changes that let an engine start whose share of the GPU does not hold its model."""
    rollout = setup.rollout
    if rollout is None or not rollout.serves:
        return
    for ranks in (2, 4, 8):
        if ranks > rollout.tensor_parallel and workload.gpus % ranks == 0:
            yield Change(
                f"share a copy of the rollout engine among {ranks} GPUs",
                {"rollout_tensor_parallel": ranks},
            )
    more = next((share for share in (0.5, 0.7, 0.85) if share > rollout.memory_utilization), None)
    if more is not None:
        yield Change(
            f"give the rollout engine {more:.0%} of the GPU", {"rollout_memory_utilization": more}
        )


def _smaller_batches(workload: TrainingWorkload, others: Fields | None = None) -> Iterator[Change]:
    """Yield micro-batches of half, a quarter ... of their size, so many more that a step sees as
    many sequences, where gradients add up: FSDP1 does not add up those that it puts in host
    memory (engine/training/parallel/validate.py). `others`: what changes as well."""
    size, sequences = workload.micro_batch_size, workload.micro_batch_size * workload.micro_batches
    changed = {"offload": workload.offload, "framework": workload.framework} | (others or {})
    adds = changed["offload"] == "none" or changed["framework"] == "deepspeed"
    while size > 1:
        size //= 2
        words, fields = f"take micro-batches of {size}", Fields(micro_batch_size=size)
        if adds:
            fields["micro_batches"] = -(-sequences // size)
            words += f" and accumulate gradients of {fields['micro_batches']}"
        yield Change(words, fields)


def _divided(workload: TrainingWorkload) -> Iterator[Change]:
    """Yield more sharding over the same GPUs, which costs communication."""
    if (
        workload.gpus == 1
        or workload.pipeline_parallel > 1
        or workload.framework == "megatron"
        or workload.zero_stage == 3
    ):
        return
    fields: Fields = {"zero_stage": 3}
    if workload.framework == "transformers":
        words = "shard parameters by FSDP instead of a copy on each GPU (DDP)"
        fields = {"framework": "fsdp", "zero_stage": 3}
    else:
        words = f"shard parameters too ({'FSDP' if workload.framework == 'fsdp' else 'ZeRO-3'})"
    yield Change(words, fields)
    yield _saving(workload, Change(words, fields))


def _states(workload: TrainingWorkload) -> Iterator[Change]:
    """Yield changes that affect the result a little: smaller states and weights."""
    if not workload.activation_offload and workload.framework in ("transformers", "fsdp"):
        yield _saving(
            workload,
            Change("offload checkpointed activations to host memory", {"activation_offload": True}),
        )
    if workload.framework not in ("transformers", "fsdp"):
        return
    eight_bits: Fields = {}
    words = "train in bf16 alone"
    if workload.optimizer == "adamw" and workload.framework == "transformers":
        eight_bits = {"optimizer": "adamw_8bit"}
        yield _saving(workload, Change("keep optimizer states in 8 bit", eight_bits))
        words += " with optimizer states in 8 bit"
    if workload.method == "full" and workload.precision == "mixed_bf16":
        yield _saving(workload, Change(words, {"precision": "bf16", **eight_bits}))


def _adapters(
    method: Method,
    workload: TrainingWorkload,
    setup: Setup,
    count: int,
    by_unsloth: Sequence[Change],
) -> Iterator[Change]:
    """Yield adapters on a frozen base: a copy on each GPU, else by Unsloth, else on one GPU of
    shorter sequences, else sharded over them, else in host memory, else over more."""
    fields: Fields = {"method": method}
    words, in_4bit = "train adapters on a 4-bit base (QLoRA)", method == "qlora"
    if not in_4bit:
        half = workload.precision == "mixed_fp16"
        words = f"train adapters (LoRA) on {'an fp16' if half else 'a bf16'} base"
        if workload.precision in ("mixed_bf16", "mixed_fp16"):
            fields["base_precision"] = "half"
    if setup.reference in ("resident", "offloaded"):
        fields["reference"] = "adapter"
    yield Change(words, fields)
    yield _saving(workload, Change(words, fields))
    for change in _room_for_rollout(workload, setup):
        yield Change(f"{words}, {change.words}", fields | change.fields)
    for change in by_unsloth:
        how = change.words.removeprefix("train ")
        yield Change(f"{words} {how}", fields | change.fields)
    if in_4bit and count == 1:  # nothing needs less of one GPU but shorter sequences
        for change in _shorter(workload, setup):
            yield Change(f"{words}, {change.words}", fields | change.fields)
    adapted = replace(workload, method=method)
    offloaded = [*_loaded_by_the_host(adapted, setup), *_offloaded(adapted, setup)]
    sharded = [
        Change(f"{words}, {one.words}", fields | one.fields) for one in _fsdp(workload, count)
    ]
    here = [change for change in sharded if change.fields["gpu_count"] == count]
    for change in here:
        yield from (change, _saving(workload, change))
    for change in offloaded:
        yield Change(f"{words}, {change.words}", fields | change.fields)
    for change in sharded[len(here) :]:
        yield from (change, _saving(workload, change))


def _replaces_trl(workload: TrainingWorkload, setup: Setup) -> bool:
    """Return whether Unsloth can train in place of TRL, of several GPUs with a copy on each."""
    by_trl = workload.framework == "transformers" or (
        workload.framework == "fsdp" and workload.uses_adapters
    )
    return by_trl and setup.algorithm == "sft" and workload.data_parallel == workload.gpus


def _quantized_experts(workload: TrainingWorkload) -> Iterator[Change]:
    """Yield experts in 4 bit too, which bitsandbytes does not quantize under transformers 5 and
    Unsloth does on one GPU."""
    if workload.gpus > 1:
        return
    yield _saving(
        workload,
        Change(
            "train adapters on a 4-bit base with its experts in 4 bit too (Unsloth)",
            {
                "framework": "unsloth",
                "method": "qlora",
                "precision": "mixed_bf16",
                "quantize_experts": True,
            },
        ),
    )


def _shorter(
    workload: TrainingWorkload, setup: Setup, by_unsloth: Sequence[Change] = ()
) -> Iterator[Change]:
    """Yield sequences of half, a quarter ... of their length, with every memory saving, then by
    Unsloth."""
    length = workload.sequence_length
    while not setup.sampled and length > _SHORTEST:
        length = max(_SHORTEST, length // 2)
        change = Change(f"cut sequences to {length:,} tokens", {"sequence_length": length})
        yield _saving(workload, change)
        for other in by_unsloth[-1:]:
            yield Change(f"{other.words}, {change.words}", other.fields | change.fields)


def _offloaded(workload: TrainingWorkload, setup: Setup) -> Iterator[Change]:
    """Yield parameters and states in host memory: of adapters and shards by FSDP (PEFT's guide on
    FSDP: QLoRA on two GPUs of 24 GB), else by ZeRO-3."""
    if workload.offload != "none" or setup.algorithm != "sft" or workload.framework == "megatron":
        return
    if workload.gpus > 1 and (workload.uses_adapters or workload.framework == "fsdp"):
        yield _saving(
            workload,
            Change(
                "shard with FSDP, keep parameters in host memory",
                {"framework": "fsdp", "zero_stage": 3, "offload": "cpu"},
            ),
        )
    if (
        not workload.uses_adapters
        and workload.optimizer == "adamw"
        and workload.framework != "fsdp"
    ):
        yield _saving(
            workload,
            Change(
                "keep parameters and optimizer in host memory (DeepSpeed ZeRO-3)",
                {"framework": "deepspeed", "zero_stage": 3, "offload": "cpu"},
            ),
        )


def _loaded_by_the_host(workload: TrainingWorkload, setup: Setup) -> Iterator[Change]:
    """Yield the release of transformers that does not put a quantized base whole on every GPU
    before it is sharded (engine/training/releases.py, WHOLE_BASE)."""
    if not workload.loads_whole or workload.base_quantization is None or workload.gpus == 1:
        return
    words = f"load the base through host memory (transformers {LAST_BY_THE_HOST})"
    change = Change(words, {"transformers_version": LAST_BY_THE_HOST})
    yield change
    yield _saving(workload, change)
    for offloaded in _offloaded(workload, setup):
        yield Change(f"{words}, {offloaded.words}", change.fields | offloaded.fields)


def _more_gpus(
    workload: TrainingWorkload, count: int, min_gpu_count: int | None
) -> Iterator[Change]:
    """Yield more GPUs: as many as suffice with nothing else changed, else sharding over up to
    128."""
    if min_gpu_count is not None and min_gpu_count > count:
        yield Change(f"use {min_gpu_count} GPUs", {"gpu_count": min_gpu_count})
        return
    for change in _fsdp(workload, count):
        yield change
        yield _saving(workload, change)


def _fsdp(workload: TrainingWorkload, count: int) -> Iterator[Change]:
    """Yield FSDP's shards over as many GPUs, then over more."""
    if workload.tensor_parallel * workload.pipeline_parallel > 1:
        return
    for gpus in sorted({count, *_COUNTS}):
        if gpus > 1 and gpus >= count:
            yield Change(
                f"shard over {gpus} GPUs with FSDP",
                {
                    "gpu_count": gpus,
                    "framework": "fsdp",
                    "zero_stage": 3,
                    "data_parallel": gpus,
                    "data_parallel_replicate": 1,
                    "context_parallel": 1,
                    "expert_parallel": 1,
                },
            )
