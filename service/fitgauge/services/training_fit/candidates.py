"""Changes worth trying where training does not fit, cheapest first. Each is re-estimated before it
is returned."""

from collections.abc import Iterator

from fitgauge.engine.training.algorithms.setup import Setup
from fitgauge.engine.training.workload import TrainingWorkload

_SHORTEST = 512
"""Tokens below which a shorter sequence is no suggestion."""

Fields = dict[str, str | int | float | bool]
_SAVING: Fields = {"activation_checkpointing": "full", "loss": "fused", "micro_batch_size": 1}
"""Saves memory together with other changes."""


def candidates(
    workload: TrainingWorkload, setup: Setup, count: int, *, mixture: bool
) -> Iterator[tuple[str, Fields]]:
    """Yield (the change in words, the fields to send), cheapest first.
    `mixture`: the model has routed experts."""
    settings = [*_of_algorithm(workload, setup), *_settings(workload)]
    yield from settings
    if len(settings) > 1:
        combined: Fields = {}
        for _, fields in settings:
            combined |= fields
        changes = [words for words, fields in settings if fields.items() <= combined.items()]
        yield ", ".join(changes), combined
    yield from _room_for_rollout(workload, setup)
    yield from _divided(workload)
    yield from _methods(workload, setup)
    if mixture and not workload.quantize_experts and workload.framework == "transformers":
        yield from _quantized_experts(workload)
    yield from _shorter(workload, setup)
    yield from _more_cards(workload, count)


def _settings(workload: TrainingWorkload) -> Iterator[tuple[str, Fields]]:
    """Yield what costs a little speed and no quality."""
    if workload.attention == "eager":
        yield "use SDPA or FlashAttention instead of eager attention", {"attention": "sdpa"}
    if workload.loss in ("full", "in_place"):
        yield "fuse the loss with the head (Liger)", {"loss": "fused"}
    if workload.micro_batch_size > 1:
        yield "take micro-batches of 1 and accumulate gradients", {"micro_batch_size": 1}
    if workload.activation_checkpointing != "full":
        yield "checkpoint activations", {"activation_checkpointing": "full"}
    if (
        workload.optimizer == "adamw"
        and workload.optimizer_implementation == "foreach"
        and workload.framework == "transformers"
    ):
        yield "use the fused optimizer", {"optimizer_implementation": "fused"}


def _of_algorithm(workload: TrainingWorkload, setup: Setup) -> Iterator[tuple[str, Fields]]:
    """Yield savings of the models other than the policy."""
    rollout = setup.rollout
    if rollout is not None and rollout.serves:
        if rollout.sleep == "off":
            yield (
                "let the rollout engine sleep while the policy is trained",
                {"rollout_sleep": "level_2"},
            )
        less = next(
            (share for share in (0.5, 0.3, 0.2) if share < rollout.memory_utilization), None
        )
        if less is not None:
            yield (
                f"give the rollout engine {less:.0%} of the GPU",
                {"rollout_memory_utilization": less},
            )
    if setup.trainer == "verl" and setup.rests != "all":
        yield (
            "offload parameters and optimizer states while completions are sampled",
            {"offload": "cpu"},
        )
    if setup.reference == "resident":
        yield "keep the reference in host memory", {"reference": "offloaded"}
        if setup.algorithm in ("dpo", "kto"):
            yield "compute the reference's log-probabilities beforehand", {"reference": "none"}


def _room_for_rollout(workload: TrainingWorkload, setup: Setup) -> Iterator[tuple[str, Fields]]:
    """Yield changes that let an engine start whose share of the GPU does not hold its model."""
    rollout = setup.rollout
    if rollout is None or not rollout.serves:
        return
    for ranks in (2, 4, 8):
        if ranks > rollout.tensor_parallel and workload.gpus % ranks == 0:
            yield (
                f"share a copy of the rollout engine among {ranks} GPUs",
                {"rollout_tensor_parallel": ranks},
            )
    more = next((share for share in (0.5, 0.7, 0.85) if share > rollout.memory_utilization), None)
    if more is not None:
        yield (
            f"give the rollout engine {more:.0%} of the GPU",
            {"rollout_memory_utilization": more},
        )


def _divided(workload: TrainingWorkload) -> Iterator[tuple[str, Fields]]:
    """Yield more sharding over the same GPUs, which costs communication."""
    if (
        workload.gpus == 1
        or workload.pipeline_parallel > 1
        or workload.framework == "megatron"
        or workload.zero_stage == 3
    ):
        return
    divided: Fields = {"zero_stage": 3}
    if workload.framework == "transformers":
        divided = {"framework": "fsdp", "zero_stage": 3}
    how = "FSDP" if divided.get("framework", workload.framework) == "fsdp" else "ZeRO-3"
    yield f"shard parameters too ({how})", divided
    yield f"shard parameters too ({how}), checkpoint activations", {**_SAVING, **divided}


def _methods(workload: TrainingWorkload, setup: Setup) -> Iterator[tuple[str, Fields]]:
    """Yield changes that affect the result a little: smaller states, then adapters."""
    if not workload.activation_offload and workload.framework in ("transformers", "fsdp"):
        yield (
            "checkpoint activations and offload them to host memory",
            {**_SAVING, "activation_offload": True},
        )
    if workload.optimizer == "adamw" and workload.framework == "transformers":
        yield (
            "keep optimizer states in 8 bit, checkpoint activations",
            {**_SAVING, "optimizer": "adamw_8bit"},
        )
        if workload.method == "full" and workload.precision == "mixed_bf16":
            change = "train in bf16 alone with optimizer states in 8 bit, checkpoint activations"
            yield change, {**_SAVING, "precision": "bf16", "optimizer": "adamw_8bit"}
    shared: Fields = (
        {"reference": "adapter"} if setup.reference in ("resident", "offloaded") else {}
    )
    half, base = (
        ("mixed_fp16", "an fp32") if workload.precision == "mixed_fp16" else ("bf16", "a bf16")
    )
    if workload.method == "full":
        yield (
            f"train adapters (LoRA) on {base} base, checkpoint activations",
            {**_SAVING, "method": "lora", "precision": half, **shared},
        )
    if workload.method in ("full", "lora", "dora"):
        yield (
            "train adapters on a 4-bit base (QLoRA), checkpoint activations",
            {**_SAVING, "method": "qlora", "precision": half, **shared},
        )
    yield from _offloaded(workload, setup)


def _quantized_experts(workload: TrainingWorkload) -> Iterator[tuple[str, Fields]]:
    """Yield experts in 4 bit too, which bitsandbytes does not quantize under transformers 5 and
    Unsloth does on one GPU."""
    if workload.gpus > 1:
        return
    change = (
        "train adapters on a 4-bit base with its experts in 4 bit too (Unsloth), checkpoint"
        " activations"
    )
    yield (
        change,
        {
            **_SAVING,
            "framework": "unsloth",
            "method": "qlora",
            "precision": "mixed_bf16",
            "quantize_experts": True,
        },
    )


def _shorter(workload: TrainingWorkload, setup: Setup) -> Iterator[tuple[str, Fields]]:
    """Yield sequences of half, a quarter ... of their length, with every memory saving."""
    length = workload.sequence_length
    while not setup.sampled and length > _SHORTEST:
        length = max(_SHORTEST, length // 2)
        yield (
            f"cut sequences to {length:,} tokens, checkpoint activations",
            {**_SAVING, "sequence_length": length},
        )


def _offloaded(workload: TrainingWorkload, setup: Setup) -> Iterator[tuple[str, Fields]]:
    """Yield parameters and states in host memory: of adapters under FSDP (PEFT's guide on FSDP:
    QLoRA on two cards of 24 GB), else by ZeRO-3."""
    if workload.offload != "none" or setup.algorithm != "sft" or workload.framework == "megatron":
        return
    if workload.uses_adapters and workload.gpus > 1:
        yield (
            "shard with FSDP, keep parameters in host memory, checkpoint activations",
            {**_SAVING, "framework": "fsdp", "zero_stage": 3, "offload": "cpu"},
        )
    if (
        not workload.uses_adapters
        and workload.optimizer == "adamw"
        and workload.framework != "fsdp"
    ):
        yield (
            (
                "keep parameters and optimizer in host memory (DeepSpeed ZeRO-3), checkpoint"
                " activations"
            ),
            {**_SAVING, "framework": "deepspeed", "zero_stage": 3, "offload": "cpu"},
        )


def more_cards(fields: Fields, count: int) -> bool:
    """Return whether a change needs more GPUs than there are."""
    gpus = fields.get("gpu_count")
    return isinstance(gpus, int) and gpus > count


def _more_cards(workload: TrainingWorkload, count: int) -> Iterator[tuple[str, Fields]]:
    """Yield sharding over up to 64 GPUs."""
    for more in (2, 4, 8, 16, 32, 64):
        if more > count and workload.tensor_parallel * workload.pipeline_parallel == 1:
            yield (
                f"shard over {more} GPUs with FSDP, checkpoint activations",
                {
                    "gpu_count": more,
                    "framework": "fsdp",
                    "zero_stage": 3,
                    "activation_checkpointing": "full",
                    "micro_batch_size": 1,
                    "data_parallel": more,
                    "data_parallel_replicate": 1,
                    "context_parallel": 1,
                    "expert_parallel": 1,
                },
            )
