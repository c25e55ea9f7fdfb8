"""The part of docs/ACCURACY.md on the time of a training step: the formula against published runs,
and against those of a source when its figures are fitted without it."""

import json
from collections.abc import Mapping, Sequence
from functools import cache
from math import log
from pathlib import Path
from statistics import mean, median
from typing import NamedTuple

from accuracy.table import table
from fitgauge.catalog import accelerators
from fitgauge.catalog.snapshot import Snapshot
from fitgauge.engine.accelerator import Accelerator
from fitgauge.engine.model.spec import ModelSpec
from fitgauge.engine.performance.flops import token_flops
from fitgauge.engine.training import speed
from fitgauge.engine.training.speed import Sequences, StepTime, peak_flops, step_time
from fitgauge.engine.training.workload import TrainingWorkload

ROWS = Path(__file__).with_name("training_speeds.jsonl")
_SNAPSHOT = Snapshot()
Figures = dict[str, float]
STEPS: Mapping[str, float] = {
    "full": 0.01, "lora": 0.01, "qlora": 0.01, "server": 0.01, "mixture": 0.01,
    "layer_seconds": 1e-4, "reads": 1.0,
}  # fmt: skip
"""By how much a figure is moved at a time."""

PREFACE = """### Time of a training step

{runs} published runs (`tools/accuracy/training_speeds.jsonl`) that print tokens a second, against
`engine/training/speed.py`. *Ratio* is measured over expected time. *Left out*: the seven figures
fitted without the source; its runs then, which is what a tool or a GPU that is not among them
can expect of the estimate. Slow links are GPUs over PCIe."""


class SpeedRun(NamedTuple):
    """A published run."""

    source: str
    """The repository that publishes it."""
    spec: ModelSpec
    workload: TrainingWorkload
    accelerator: Accelerator
    took: float
    """Seconds of a micro-batch."""

    @property
    def linked(self) -> bool:
        """Whether it is on one GPU, or on GPUs of fast links."""
        return (
            self.workload.gpus == 1
            or (self.accelerator.interconnect_gbps or 0) >= speed.FAST_LINK_GBPS
        )

    @property
    def time(self) -> StepTime:
        """What the formula says."""
        length = self.workload.sequence_length
        time = step_time(self.spec, self.workload, self.accelerator, Sequences(length, length))
        if time is None:
            raise LookupError(self.accelerator.id)
        return time

    def seconds(self, figures: Figures) -> float:
        """Return the expected time with other figures."""
        workload = self.workload
        peak, bandwidth = peak_flops(workload, self.accelerator), self.accelerator.bandwidth_gbps
        if peak is None or bandwidth is None:
            raise LookupError(self.accelerator.id)
        flops = token_flops(
            self.spec,
            workload.sequence_length,
            checkpointing=workload.activation_checkpointing,
            frozen_base=workload.uses_adapters,
        )
        capability = self.accelerator.compute_capability
        share = figures[workload.method]
        share *= figures["server"] if capability and capability[0] in (9, 10) else 1.0
        share *= figures["mixture"] if self.spec.routed_experts else 1.0
        tokens = workload.micro_batch_size * workload.sequence_length
        base = 2 * self.spec.parameters if workload.base_quantization else 0
        return (
            tokens * flops.hardware / (peak * share)
            + self.spec.layers * figures["layer_seconds"]
            + figures["reads"] * base / (bandwidth * 1e9)
        )


def engine_figures() -> Figures:
    """Return the figures of the engine."""
    return {
        **{method: speed.EFFICIENCY[method] for method in ("full", "lora", "qlora")},
        "server": speed.SERVER_EFFICIENCY,
        "mixture": speed.MIXTURE_EFFICIENCY,
        "layer_seconds": speed.LAYER_SECONDS,
        "reads": speed.DEQUANTIZING_READS,
    }


@cache
def runs() -> tuple[SpeedRun, ...]:
    """Return every published run."""
    return tuple(_run(json.loads(line)) for line in ROWS.read_text("utf-8").splitlines())


@cache
def _spec(name: str) -> ModelSpec:
    bundled = _SNAPSHOT.model(name)
    if bundled is None:
        raise LookupError(name)
    return bundled.spec


def _run(row: Mapping[str, object]) -> SpeedRun:
    fields = ("method", "precision", "sequence_length", "micro_batch_size")
    workload = TrainingWorkload(
        **{name: row[name] for name in (*fields, "activation_checkpointing")},
        data_parallel=row["gpu_count"],
    )
    tokens = workload.micro_batch_size * workload.sequence_length
    rate = row["tokens_per_second_per_gpu"]
    return SpeedRun(
        str(row["source"]).split(" ", 1)[0],
        _spec(str(row["model"])),
        workload,
        accelerators.load().get(str(row["accelerator"])),
        tokens / float(str(rate)),
    )


def error(scored: Sequence[SpeedRun], figures: Figures) -> float:
    """Return the mean error of the expected times, in logarithms."""
    return mean(abs(log(run.seconds(figures) / run.took)) for run in scored)


def fitted(scored: Sequence[SpeedRun], start: Figures) -> Figures:
    """Return figures of which no step of one lowers the error, from `start`."""
    best, least, moved = start, error(scored, start), True
    while moved:
        moved = False
        for name, step in STEPS.items():
            for change in (step, -step):
                tried = {**best, name: best[name] + change}
                moved_to = error(scored, tried) if tried[name] > 0 else least
                if moved_to < least - 1e-9:
                    best, least, moved = tried, moved_to, True
    return best


def document() -> str:
    """Return the section."""
    linked = [run for run in runs() if run.linked]
    sources = list(dict.fromkeys(run.source for run in linked))
    rows = [_row("all, fast links", linked, None)]
    for source in sources:
        rest = [run for run in linked if run.source != source]
        rows.append(
            _row(
                source,
                [run for run in linked if run.source == source],
                fitted(rest, engine_figures()),
            )
        )
    rows.append(_row("all, slow links", [run for run in runs() if not run.linked], None))
    head = ("runs of", "runs", "ratio", "10th", "90th", "within, %", "left out: ratio", "within, %")
    return PREFACE.format(runs=len(runs())) + "\n\n" + table(head, rows)


def _row(name: str, scored: Sequence[SpeedRun], left_out: Figures | None) -> tuple[object, ...]:
    ratios = sorted(run.took / run.time.expected for run in scored)
    held = mean(run.time.low <= run.took <= run.time.high for run in scored)
    row = (
        name,
        len(scored),
        round(median(ratios), 2),
        round(ratios[int(0.1 * (len(ratios) - 1))], 2),
        round(ratios[round(0.9 * (len(ratios) - 1))], 2),
        round(100 * held),
    )
    if left_out is None:
        return (*row, "", "")
    without = [(run, run.seconds(left_out)) for run in scored]
    inside = mean(
        run.time.low / run.time.expected <= run.took / expected <= run.time.high / run.time.expected
        for run, expected in without
    )
    return (
        *row,
        round(median(run.took / expected for run, expected in without), 2),
        round(100 * inside),
    )
