"""What to change where memory ran out and no estimate of the launch is at hand, in the order to
try it."""

from collections.abc import Collection, Iterator

from fitgauge.engine.serving.registry import ENGINES
from fitgauge.engine.serving.workload import EngineName
from fitgauge.services.explain_log.schemas import LogFix

_EXPANDABLE = LogFix(
    change="Give back what PyTorch's allocator reserves and does not use",
    command="PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True",
)
_OTHERS = LogFix(change="See what else uses the GPU, and end it", command="nvidia-smi")

_CHECKPOINTING = LogFix(change="Checkpoint activations", command="--gradient_checkpointing true")
_SMALLER_BATCH = LogFix(
    change="Train one sequence at a time, and accumulate gradients over several",
    command="--per_device_train_batch_size 1 --gradient_accumulation_steps 16",
)
_SHORTER = LogFix(change="Train shorter sequences", command="--max_length 1024")
_FUSED_LOSS = LogFix(
    change="Fuse the loss with the head (Liger)", command="--use_liger_kernel true"
)
_STATES = (
    LogFix(
        change="Train an adapter on a 4-bit base instead of all weights (QLoRA)",
        command="--use_peft true --load_in_4bit true --lora_target_modules all-linear",
    ),
    LogFix(change="Take an 8-bit optimizer", command="--optim adamw_8bit"),
    LogFix(
        change="Divide weights, gradients and optimizer states over GPUs (ZeRO-3, FSDP)",
        command="accelerate launch --use_deepspeed --zero_stage 3 --num_processes 8 SCRIPT",
    ),
)
_TRAINING = (_CHECKPOINTING, _SMALLER_BATCH, _SHORTER, _FUSED_LOSS, *_STATES, _EXPANDABLE)
_IN_LOSS = (_FUSED_LOSS, _SMALLER_BATCH, _SHORTER, _CHECKPOINTING, *_STATES, _EXPANDABLE)
"""Where the loss asked for the memory: its logits are whole."""
_IN_STEP = (
    *_STATES,
    LogFix(
        change="Keep optimizer states in host memory (ZeRO offload)",
        command="accelerate launch --use_deepspeed --zero_stage 3 --offload_optimizer_device cpu"
        " SCRIPT",
    ),
    _EXPANDABLE,
)
"""Where the optimizer's step did: the activations are gone by then."""
_CONTEXT = 8192
"""Tokens that are suggested where a log names no context that fits."""

_ANY = (
    _OTHERS,
    LogFix(
        change="Hold less at once: a shorter context or sequence, a smaller batch, fewer requests"
    ),
    LogFix(change="Load smaller weights: an 8-bit or 4-bit checkpoint"),
    LogFix(
        change="When training: checkpoint activations, and train an adapter, not all weights",
        command="--gradient_checkpointing true --use_peft true --load_in_4bit true",
    ),
    LogFix(change="Find GPUs that hold the model", command="fitgauge recommend MODEL"),
    _EXPANDABLE,
)
_HOST = (
    LogFix(change="See how much host memory is free, and what holds it", command="free -h"),
    LogFix(change="Raise the memory limit of the container and its shared memory"),
    LogFix(change="Offload less to host memory: weights, KV cache, optimizer states"),
    LogFix(change="Take a smaller model or a 4-bit checkpoint, so that less is loaded at once"),
)


def general_fixes(
    engine: EngineName | None,
    remarks: Collection[str],
    *,
    kv_cache: bool,
    alone: bool = False,
    cached: bool = False,
    longest: float | None = None,
) -> list[LogFix]:
    """Return the changes. engine: None where nothing says which one ran; remarks: the log's, of
    what ran out and where; kv_cache: weights were loaded, and the cache is too small; alone: the
    process held the GPU by itself; cached: it held its cache already, so that its share of the GPU
    leaves too little; longest: the context that fits by the log itself [tokens]."""
    if "host_memory" in remarks:
        return [*_HOST]
    if "optimizer_step" in remarks:
        return [*_IN_STEP]
    if "training" in remarks:
        fixes = _IN_LOSS if "loss" in remarks else _TRAINING
        done = {_CHECKPOINTING.change} if "checkpointed" in remarks else set()
        return [fix for fix in fixes if fix.change not in done]
    every: tuple[LogFix, ...] = _ANY
    if engine is not None:
        every = (_OTHERS, *_of_engine(engine, kv_cache, cached, round(longest or _CONTEXT)))
    return [fix for fix in every if fix is not _OTHERS or not (kv_cache or alone or cached)]


def _of_engine(engine: EngineName, kv_cache: bool, cached: bool, context: int) -> Iterator[LogFix]:
    flags = ENGINES[engine].memory_flags
    for flag in sorted(flags, key=lambda flag: not (cached and flag.device_alone)):
        if not (flag.device_alone if kv_cache else flag.kv_cache_alone):
            yield LogFix(change=flag.change, command=flag.flags.format(context=context))


def first_of_all(*, fragmented: bool, shared: bool) -> list[LogFix]:
    """Return what the log itself calls for. fragmented: much is reserved and unused; shared: other
    processes hold much of the GPU."""
    return [*([_OTHERS] if shared else []), *([_EXPANDABLE] if fragmented else [])]
