"""Warnings of a training answer: defaults, what the framework adds, and contradictions in the
request."""

from collections.abc import Mapping

from fitgauge.catalog.lookup import GpuMatch
from fitgauge.engine.accelerator import USUAL_NODE, Accelerator
from fitgauge.engine.model.spec import Model
from fitgauge.engine.training.workload import TrainingWorkload
from fitgauge.services.common.display_memory import desktop_note, drives_screens
from fitgauge.services.training_fit import megatron, rl_setup
from fitgauge.services.training_fit.activation_warnings import recipe_notes
from fitgauge.services.training_fit.launchers.command import unsupported_settings
from fitgauge.services.training_fit.launchers.registry import defaults_message
from fitgauge.services.training_fit.result import TrainingEstimate
from fitgauge.services.training_fit.schemas import TrainingRequest

Value = str | int | float | bool

NO_SUGGESTION = (
    "No change of settings makes it fit. POST /v1/recommend with task training to find GPUs that"
    " hold it."
)


def warnings(
    request: TrainingRequest,
    model: Model,
    match: GpuMatch,
    trained: TrainingEstimate,
    understood: Mapping[str, Value],
) -> list[str]:
    """Return the warnings about model, GPU, defaults and contradictions. `understood`: the request
    with every default filled in."""
    workload, spec = trained.workload, model.spec
    messages = [*model.warnings, *spec.notes, *([match.note] if match.note else [])]
    messages += recipe_notes(spec, workload)
    messages += _precision_warnings(request, match.accelerator, workload)
    if match.accelerator.vendor not in ("NVIDIA", "AMD", "custom"):
        messages.append(
            "Allocator and process overheads were measured under CUDA:"
            f" {match.accelerator.vendor}'s may differ."
        )
    if (message := defaults_message(request, trained.asked, understood)) is not None:
        messages.append(message)
    if request.gpu_count is not None and match.count not in (1, request.gpu_count):
        messages.append(
            f"`gpu` says {match.count}, `gpu_count` says {request.gpu_count}: using"
            f" {request.gpu_count}."
        )
    messages += _framework_warnings(trained)
    lengths = (request.sequence_length, request.prompt_length, request.completion_length)
    if lengths == (None, None, None):
        messages.append(f"`sequence_length` not set: assuming {workload.sequence_length:,} tokens.")
    messages += rl_setup.warnings(request, trained.setup, workload, trained.probability)
    messages += unsupported_settings(model, workload, trained.setup, trained.tool)
    messages += megatron.notes(request, workload, spec)
    if workload.tensor_parallel > USUAL_NODE:
        messages.append(
            f"tensor_parallel {workload.tensor_parallel} spans several nodes of {USUAL_NODE} GPUs:"
            " its communication leaves the fast link."
        )
    if workload.gpus < trained.count:
        messages.append(
            f"{trained.count - workload.gpus} of {trained.count} GPUs are idle: the degrees make"
            f" {workload.gpus} ranks."
        )
    return messages


def _precision_warnings(
    request: TrainingRequest, accelerator: Accelerator, workload: TrainingWorkload
) -> list[str]:
    messages: list[str] = []
    if workload.precision == "fp8":
        messages.append(
            "fp8: Transformer Engine's copies of the weights are counted, its savings on"
            " activations are not."
        )
    if request.precision is None and workload.precision == "mixed_fp16":
        messages.append(f"{accelerator.name} has no bf16 arithmetic: using precision mixed_fp16.")
    return messages


def _framework_warnings(trained: TrainingEstimate) -> list[str]:
    workload, messages = trained.workload, list[str]()
    if workload.framework != rl_setup.asked_framework(trained.asked):
        messages.append("A copy on every GPU (DDP) does not fit: FSDP shards the parameters.")
    if workload.framework == "deepspeed" and workload.offload == "cpu" and workload.zero_stage < 3:
        messages.append(
            f"ZeRO-{workload.zero_stage} offloads the optimizer only: send zero_stage 3 to offload"
            " the parameters too."
        )
    if rl_setup.hands_over(trained.asked):
        messages.append("transformers runs ZeRO and offload by DeepSpeed: framework is deepspeed.")
    if rl_setup.cuts_sequences(trained.asked):
        messages.append("transformers runs context parallelism by FSDP2: framework is fsdp.")
    return messages


def display_warnings(
    request: TrainingRequest, accelerator: Accelerator, trained: TrainingEstimate
) -> list[str]:
    """Return a warning where a screen's share of the GPU would change the verdict."""
    if (
        request.other_memory_gib is not None
        or trained.verdict == "does_not_fit"
        or not drives_screens(accelerator)
    ):
        return []
    note = desktop_note(accelerator.usable.expected - trained.fullest.need.expected)
    return [note] if note else []
