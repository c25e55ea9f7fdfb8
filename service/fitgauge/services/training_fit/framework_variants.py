"""Settings that the framework's version decides: the estimate under the other choice too, so that
intervals cover both."""

from collections.abc import Iterator, Sequence

from msgspec.structs import replace

from fitgauge.engine.quantity import Bytes
from fitgauge.engine.training.workload import TrainingWorkload
from fitgauge.services.training_fit.launchers.registry import tool_of
from fitgauge.services.training_fit.launchers.tool import Default
from fitgauge.services.training_fit.schemas import TrainingRequest
from fitgauge.services.training_fit.workload import trainer_steps


def open_settings(
    request: TrainingRequest, workload: TrainingWorkload, moved: Sequence[Default] = ()
) -> tuple[str, ...]:
    """Return the unset fields that the framework's version decides. moved: what other releases of
    the tool take (`moved_defaults`), which a request without a tool does not fill in."""
    of_torch = workload.framework in ("transformers", "fsdp") or (
        workload.framework == "deepspeed" and trainer_steps(request)
    )
    steps = of_torch and workload.optimizer == "adamw"
    shards = (
        workload.framework == "fsdp"
        and workload.uses_adapters
        and workload.context_parallel * workload.tensor_parallel == 1
    )
    settings = (
        ("optimizer_implementation", steps),
        ("fsdp_version", shards),
        ("gradient_dtype", reduces(workload)),
    )
    names = [name for name, matters in settings if matters and getattr(request, name) is None]
    filled = [default.field for default in moved if tool_of(request) is not None]
    return tuple(dict.fromkeys((*names, *filled)))


def reduces(workload: TrainingWorkload) -> bool:
    """Return whether FSDP has two formats to reduce gradients in."""
    return workload.framework == "fsdp" and workload.precision == "mixed_bf16"


def other_choices(
    request: TrainingRequest, workload: TrainingWorkload, moved: Sequence[Default] = ()
) -> Iterator[TrainingWorkload]:
    """Yield the workload with one unset setting each as another version of its framework has it.

    AdamW steps with foreach or, in Trainer with torch 2.8 and newer, fused (transformers
    training_args.py, default_optim). Accelerate shards adapters with FSDP1, or FSDP2 by a
    flag of its launcher. QLoRA in bf16 runs as loaded, or with fp32 norms, embedding and head (peft
    utils/other.py, prepare_model_for_kbit_training), which scripts call or do not. FSDP's
    gradients are reduced in fp32, or by accelerate in the format it computes in
    (utils/dataclasses.py, FullyShardedDataParallelPlugin.set_mixed_precision). moved: what other
    releases of the tool take (`moved_defaults`)."""
    for default in moved:
        if (value := _in_workload(default)) != getattr(workload, default.field):
            yield replace(workload, **{default.field: value})
    opened = open_settings(request, workload)
    if "optimizer_implementation" in opened:
        yield replace(workload, optimizer_implementation="fused")
    if "fsdp_version" in opened:
        yield replace(workload, fsdp_version=2 if workload.fsdp_version == 1 else 1)
    if "gradient_dtype" in opened:
        yield replace(workload, gradient_dtype="bf16")
    tool = tool_of(request)
    if (
        workload.method == "qlora"
        and (tool is None or tool.loads_by_transformers)
        and workload.framework == "transformers"
        and workload.precision == "bf16"
    ):
        yield replace(workload, precision="mixed_bf16")


def _in_workload(default: Default) -> object:
    """Return the value of a default as a workload has it."""
    value = default.value
    return tuple(value) if isinstance(value, list) else value


def widened(own: Bytes, others: Sequence[Bytes]) -> Bytes:
    """Return the size with an interval that covers those of the others."""
    every = (own, *others)
    return Bytes(
        low=min(one.low for one in every),
        expected=own.expected,
        high=max(one.high for one in every),
    )
