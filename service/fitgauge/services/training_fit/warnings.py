"""Warnings of a training answer: what the framework adds, and contradictions in the request."""

from collections.abc import Iterator

from fitgauge.catalog.gpu_match import GpuMatch
from fitgauge.engine.accelerator import USUAL_NODE, Accelerator
from fitgauge.engine.model.model import Model
from fitgauge.engine.note import Note
from fitgauge.services.common.assumptions import model_notes
from fitgauge.services.common.display_memory import desktop_note, drives_screens
from fitgauge.services.common.gpu_count import count_conflict
from fitgauge.services.training_fit import loading, megatron, quantized_checkpoints, rl_setup
from fitgauge.services.training_fit.activation_warnings import recipe_notes
from fitgauge.services.training_fit.degree_candidates import degrees_in_words
from fitgauge.services.training_fit.launchers.command import unsupported_settings
from fitgauge.services.training_fit.result import TrainingEstimate
from fitgauge.services.training_fit.schemas import TrainingRequest

NO_SUGGESTION = Note("no-change-fits", None, "No change of settings makes it fit on these GPUs.")


_OF_ADAPTERS = ("lora_rank", "lora_targets", "lora_dropout", "merge")


def warnings(
    request: TrainingRequest, model: Model, match: GpuMatch, trained: TrainingEstimate
) -> Iterator[Note]:
    """Yield the warnings about model, GPU and contradictions."""
    workload, spec = trained.workload, model.spec
    # a source is as long as sequence_length here, which recipe_notes say
    yield from (note for note in model_notes(model) if note.code != "source-length-assumed")
    yield from match.warnings
    yield from recipe_notes(spec, workload)
    yield from quantized_checkpoints.notes(model, workload)
    if not workload.uses_adapters:
        for name in _OF_ADAPTERS:
            if getattr(request, name) not in (None, False):
                yield Note(
                    "field-ignored",
                    name,
                    f"`{name}` is ignored by full training, which has no adapters.",
                )
    if (tool := trained.tool) is not None and (named := trained.request.trainer_version):
        yield Note(
            "command-of-another-release",
            "trainer_version",
            f"Defaults are those of {tool.title} {named}; the command is of {tool.version}.",
        )
    if workload.precision == "fp8":
        yield Note(
            "fp8-activations-uncounted",
            "precision",
            "fp8: Transformer Engine's copies of the weights are counted, its savings on"
            " activations are not.",
        )
    if match.accelerator.vendor not in ("NVIDIA", "AMD", "custom"):
        yield Note(
            "overheads-from-cuda",
            "gpu",
            "Allocator and process overheads were measured under CUDA:"
            f" {match.accelerator.vendor}'s may differ.",
        )
    yield from count_conflict(request.gpu_count, match.count)
    yield from _framework_warnings(trained)
    yield from loading.notes(trained, spec, match.accelerator)
    yield from rl_setup.warnings(request, trained.setup, workload, trained.probability)
    yield from unsupported_settings(model, workload, trained.setup, trained.tool)
    yield from megatron.notes(request, workload, spec)
    if workload.tensor_parallel > USUAL_NODE:
        yield Note(
            "tensor-parallel-across-nodes",
            "tensor_parallel",
            f"tensor_parallel {workload.tensor_parallel} spans several nodes of"
            f" {USUAL_NODE} GPUs: its communication leaves the fast link.",
        )
    if workload.gpus < trained.count:
        yield Note(
            "gpus-idle",
            "gpu_count",
            f"{trained.count - workload.gpus} of {trained.count} GPUs are idle: the degrees"
            f" make {workload.gpus} ranks.",
        )


def _framework_warnings(trained: TrainingEstimate) -> Iterator[Note]:
    workload = trained.workload
    if workload.framework != rl_setup.asked_framework(trained.request):
        yield Note(
            "sharded-not-replicated",
            "framework",
            "A copy on every GPU (DDP) does not surely fit: FSDP shards the parameters.",
        )
    if trained.laid_out:
        yield Note(
            "sharded-not-replicated",
            "tensor_parallel",
            "A copy on every GPU (DDP) does not fit: the fastest layout that does is"
            f" {degrees_in_words(workload)}.",
        )
    if workload.framework == "deepspeed" and workload.offload == "cpu" and workload.zero_stage < 3:
        yield Note(
            "offload-optimizer-only",
            "zero_stage",
            f"ZeRO-{workload.zero_stage} offloads the optimizer only: send zero_stage 3 to"
            " offload the parameters too.",
        )
    if rl_setup.hands_over(trained.request):
        yield Note(
            "framework-implied",
            "framework",
            "transformers runs ZeRO and offload by DeepSpeed: framework is deepspeed.",
        )
    if rl_setup.cuts_sequences(trained.request):
        yield Note(
            "framework-implied",
            "framework",
            "transformers runs context parallelism by FSDP2: framework is fsdp.",
        )


def display_warnings(
    request: TrainingRequest, accelerator: Accelerator, trained: TrainingEstimate
) -> list[Note]:
    """Return a warning where a screen's share of the GPU would change the verdict."""
    if (
        request.other_memory_gib is not None
        or trained.verdict == "does_not_fit"
        or not drives_screens(accelerator)
    ):
        return []
    note = desktop_note(accelerator.usable.expected - trained.fullest.need.expected)
    return [note] if note else []
