"""The truth about training, as questions: steps measured byte for byte, ranks of FSDP2 by PyTorch's
tracker, runs that people published.

`training.jsonl`, `training_own.jsonl` and `training_masks.jsonl` (steps), `training_fsdp.jsonl`
(ranks), `training_gpu.jsonl` and `training_found.jsonl` (runs): see README.md."""

import json
from functools import cache
from typing import Any, NamedTuple

import msgspec

from accuracy.truth import HERE, model
from fitgauge.catalog.catalog import bundled
from fitgauge.catalog.engines import load_engines
from fitgauge.catalog.snapshot import Snapshot
from fitgauge.catalog.training import load_training
from fitgauge.engine.model.families import read_config
from fitgauge.engine.model.model import Model
from fitgauge.engine.model.spec import ModelSpec
from fitgauge.engine.training.autograd.layers.traits import is_supported
from fitgauge.engine.training.autograd.vision.styles import tower_of
from fitgauge.engine.training.estimate import TrainingStage, training_stages
from fitgauge.engine.training.workload import TrainingWorkload
from fitgauge.services.training_fit.result import TrainingEstimate
from fitgauge.services.training_fit.schemas import TrainingRequest
from fitgauge.services.training_fit.service import TrainingFitService

Row = dict[str, Any]

PRECISIONS = {
    "bf16": "bf16", "amp": "mixed_bf16", "amp16": "mixed_fp16", "fp32": "fp32",
    "mixed_bf16": "mixed_bf16", "half_base": "mixed_bf16",
}  # fmt: skip
PROFILE = load_training()
TRAINING = TrainingFitService(PROFILE, load_engines())
_SNAPSHOT = Snapshot()


class Step(NamedTuple):
    """One measured step of one process, and its estimate."""

    row: Row
    spec: ModelSpec
    workload: TrainingWorkload
    stage: TrainingStage

    @property
    def error(self) -> float:
        """Of the most that the step allocates."""
        measured = self.row["bytes"].get("steady_peak") or self.row["bytes"]["total"]
        return self.stage.allocated.expected / measured - 1

    @property
    def verified(self) -> bool:
        """Whether the family's recipe was derived from its modelling code."""
        return is_supported(self.spec)


def rows(name: str) -> list[Row]:
    """Return the rows of a file beside this one."""
    return [json.loads(line) for line in (HERE / f"{name}.jsonl").read_text().splitlines()]


@cache
def specs() -> dict[str, ModelSpec]:
    """Return the models of training.jsonl and training_fsdp.jsonl."""
    return {
        name: read_config(config)
        for name, config in json.loads((HERE / "training_models.json").read_text()).items()
    }


@cache
def own_model(name: str, layers: int | None) -> ModelSpec:
    """Return a bundled model, of its first `layers` layers where a row says so."""
    if layers is None:
        resolved = model(name)
        assert resolved is not None, name
        return resolved.spec
    entry = _SNAPSHOT.get(name)
    assert entry is not None, name
    return read_config(
        entry.config
        | {key: layers for key in ("num_hidden_layers", "n_layer") if key in entry.config}
    )


def step_workload(row: Row) -> TrainingWorkload:
    """Return the question of a measured step."""
    return TrainingWorkload(
        method=row["method"],
        precision=PRECISIONS[row["regime"]],  # type: ignore[arg-type]
        base_precision="half" if row["regime"] == "half_base" else "fp32",
        kernels=row.get("kernels", "none"),
        optimizer={"sgd": "sgd_momentum"}.get(row["optimizer"], row["optimizer"]),
        optimizer_implementation=row.get("implementation", "for_loop"),
        sequence_length=row["seq"],
        micro_batch_size=row["batch"],
        activation_checkpointing=row["checkpointing"],
        attention=row["attn"],
        lora_rank=row["rank"] or 16,
        images=row.get("images", 0),
        image_tokens=row.get("image_tokens", 0),
        train_vision_tower=row.get("train_vision_tower", True),
        padded=row.get("padded", False),
        lora_dropout=row.get("lora_dropout", 0.0),
    )


def rank_workload(row: Row) -> TrainingWorkload:
    """Return the question of one rank under FSDP2."""
    return TrainingWorkload(
        framework="fsdp",
        precision=row["regime"],
        gradient_dtype="fp32" if row["regime"] == "mixed_bf16" else None,
        optimizer_implementation="for_loop",
        zero_stage=3 if row["reshard"] else 2,
        data_parallel=row["world_size"],
        data_parallel_replicate=row["replicas"],
        sequence_length=row["seq"],
        micro_batch_size=row["batch"],
        activation_checkpointing=row["checkpointing"],
        attention=row["attn"],
        images=row.get("images", 0),
        image_tokens=row.get("image_tokens", 0),
    )


def step_of(row: Row, spec: ModelSpec, workload: TrainingWorkload) -> Step:
    (stage,) = training_stages(spec, workload, PROFILE)
    return Step(row, spec, workload, stage)


@cache
def provided() -> tuple[Step, ...]:
    """Return the first set of steps."""
    return tuple(
        step_of(row, specs()[row["model"]], step_workload(row)) for row in rows("training")
    )


@cache
def output_kept() -> tuple[tuple[Step, int], ...]:
    """Return the first set of steps in a loop that names the model's output through the backward
    pass, with what each then holds at most [bytes]."""
    return tuple(
        (
            step_of(step.row, step.spec, msgspec.structs.replace(step.workload, keeps_output=True)),
            step.row["bytes_output_kept"],
        )
        for step in provided()
    )


@cache
def own() -> tuple[Step, ...]:
    """Return the steps of our own measuring."""
    measured = (*rows("training_own"), *rows("training_masks"))
    return tuple(map(own_step, measured))


def own_step(row: Row) -> Step:
    """Return a step of our own measuring."""
    return step_of(row, _own_spec(row), step_workload(row))


def _own_spec(row: Row) -> ModelSpec:
    """Return the model of a row: a bundled one, or a small one whose configuration it holds."""
    if "config" in row:
        return read_config(row["config"])
    return own_model(row["model"], row.get("layers"))


@cache
def untaught() -> tuple[Step, ...]:
    """Return every step of a taught family once more, played as a family that nobody taught
    would be; without images, which such a family is told to leave out, and without towers, of
    which nothing is known then."""
    return tuple(
        step_of(step.row, msgspec.structs.replace(step.spec, model_type="untaught"), step.workload)
        for step in (*provided(), *own())
        if step.verified and not step.workload.images and tower_of(step.spec) is None
    )


@cache
def ranks() -> tuple[Step, ...]:
    """Return one rank of FSDP2 each."""
    return tuple(
        step_of(
            row,
            read_config(row["config"]) if "config" in row else specs()[row["model"]],
            rank_workload(row),
        )
        for row in rows("training_fsdp")
    )


# --- published runs

COUNTERS = (
    ("peak_allocated_gib", "allocated"),
    ("peak_active_gib", "allocated"),
    ("peak_reserved_gib", "reserved"),
    ("nvidia_smi_gib", "shown"),
)
"""A source's counter and the estimate it is held to; of several the first."""
UNSTATED: Row = {"method": "full"}
"""What a run does whose question names no method."""


class Published(NamedTuple):
    """One published run and its estimate."""

    row: Row
    request: TrainingRequest
    model: Model
    trained: TrainingEstimate


class PublishedRuns(NamedTuple):
    """The runs of a file that say enough (those with a `question`), with their estimates; and
    the models whose config is not at hand."""

    runs: tuple[Published, ...]
    unknown: tuple[str, ...]


def _published(name: str) -> PublishedRuns:
    """Return the runs of one file. Raises FitgaugeError where a run that happened is refused."""
    judged, unknown = [], set()
    for row in rows(name):
        question = row.get("question")
        if question is None:
            continue
        resolved = model(question["model"])
        if resolved is None:
            unknown.add(question["model"])
            continue
        request = msgspec.convert(UNSTATED | question, TrainingRequest)
        accelerator = bundled().find(request.gpu).accelerator
        judged.append(
            Published(
                row,
                request,
                resolved,
                TRAINING.check(request, resolved, accelerator, request.gpu_count or 1),
            )
        )
    return PublishedRuns(tuple(judged), tuple(sorted(unknown)))


@cache
def published() -> PublishedRuns:
    """Return the first set of published runs, part of which was fitted to."""
    return _published("training_gpu")


@cache
def literature() -> PublishedRuns:
    """Return published runs collected after calibration: nothing is fitted to them."""
    return _published("training_found")
