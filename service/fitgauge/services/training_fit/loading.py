"""What a quantized base takes while it is loaded, in words."""

from collections.abc import Iterator, Sequence

from msgspec.structs import replace

from fitgauge.engine.accelerator import Accelerator
from fitgauge.engine.model.spec import ModelSpec
from fitgauge.engine.note import Note
from fitgauge.engine.quantity import gib
from fitgauge.engine.training.loading import loads_whole
from fitgauge.engine.training.phases import stages
from fitgauge.engine.training.releases import LAST_BY_THE_HOST, loads_base_whole
from fitgauge.engine.training.workload import TrainingWorkload
from fitgauge.services.training_fit.result import TrainingEstimate


def notes(trained: TrainingEstimate, spec: ModelSpec, accelerator: Accelerator) -> Iterator[Note]:
    """Yield that the base lies whole on every GPU before it is sharded, where that is more than a
    step takes; where no tool is named, that it would under those that load by transformers and is
    not counted, where the GPU does not hold it."""
    workload = replace(trained.workload, loads_whole=True)
    if not loads_base_whole(workload.transformers_version) or not loads_whole(spec, workload):
        return
    host = f"transformers {LAST_BY_THE_HOST} loads it through host memory: send that"
    if trained.workload.loads_whole:
        sizes = dict(trained.fullest.phases)
        size = sizes.pop("loading")
        if size > max(sizes.values()):
            yield Note(
                "base-loaded-whole",
                "transformers_version",
                "transformers 5 puts a bitsandbytes base whole on every GPU before it is sharded:"
                f" {gib(size)}, more than any moment of a step. {host} transformers_version.",
            )
    elif trained.tool is None:
        yield from uncounted(spec, workload, accelerator)


def uncounted(
    spec: ModelSpec, workload: TrainingWorkload, accelerator: Accelerator
) -> Iterator[Note]:
    """Yield, of a workload without a tool, that a base which is loaded whole fits on no GPU."""
    size = loaded_bytes(spec, workload)
    if size > accelerator.usable.expected:
        yield Note(
            "base-loaded-whole",
            "trainer",
            "Counted as sharded from the start. A trainer on transformers 5 (TRL, axolotl,"
            " LLaMA-Factory, ms-swift) first puts the bitsandbytes base whole on every GPU,"
            f" {gib(size)}, and fails here; transformers {LAST_BY_THE_HOST} loads"
            " it through host memory.",
        )


def release_in_words(notes: Sequence[Note]) -> str:
    """Return the release of transformers without which what is judged does not start, of the
    warnings of an answer without a tool, as a sentence with a space before it; empty for none."""
    if not any(note.code == "base-loaded-whole" and note.field == "trainer" for note in notes):
        return ""
    return (
        f" Load it with transformers {LAST_BY_THE_HOST}: under 5 most trainers put the base whole"
        " on every GPU, which fails."
    )


def of_no_count(
    spec: ModelSpec, workload: TrainingWorkload, accelerator: Accelerator
) -> Iterator[Note]:
    """Yield, of a workload that is sharded over the most GPUs, that more of them do not help, since
    none holds the base that is loaded whole."""
    size = loaded_bytes(spec, workload) if workload.loads_whole else 0
    if size > accelerator.usable.expected:
        yield Note(
            "base-loaded-whole",
            "framework",
            "transformers 5 puts a bitsandbytes base whole on every GPU before it is sharded:"
            f" {gib(size)}, which no number of these GPUs holds. transformers {LAST_BY_THE_HOST}"
            " loads it through host memory: training-fit takes that as transformers_version.",
        )


def loaded_bytes(spec: ModelSpec, workload: TrainingWorkload) -> int:
    """Return what lies on every GPU while a base is loaded whole to be sharded [bytes]; 0 where
    none is."""
    workload = replace(workload, loads_whole=True)
    if not loads_base_whole(workload.transformers_version) or not loads_whole(spec, workload):
        return 0
    return next(
        phase.total for phase in stages(spec, workload)[0].phases if phase.name == "loading"
    )
