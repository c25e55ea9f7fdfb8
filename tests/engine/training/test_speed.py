"""How long a step takes: the figures follow from published runs."""

import json
from math import log
from pathlib import Path
from statistics import mean
from typing import NamedTuple

import pytest

from bundled_models import spec_of
from fitgauge.catalog import accelerators
from fitgauge.engine.training import speed
from fitgauge.engine.training.parallel.validate import experts
from fitgauge.engine.training.speed import Sequences, step_time
from fitgauge.engine.training.workload import TrainingWorkload

ROWS = Path(__file__).parents[3] / "tools" / "accuracy" / "training_speeds.jsonl"
A100 = accelerators.load().get("a100-80gb-sxm")
LLAMA = spec_of("meta-llama/Llama-3.1-8B")


class Run(NamedTuple):
    """A published run: its workload and the seconds of a micro-batch."""

    spec: object
    workload: TrainingWorkload
    accelerator: object
    sequences: Sequences
    took: float

    @property
    def linked(self):
        return (
            self.workload.gpus == 1
            or (self.accelerator.interconnect_gbps or 0) >= speed.FAST_LINK_GBPS
        )


@pytest.fixture(scope="module")
def runs():
    result = []
    for line in ROWS.read_text("utf-8").splitlines():
        row = json.loads(line)
        length, batch = row["sequence_length"], row["micro_batch_size"]
        workload = TrainingWorkload(
            method=row["method"],
            precision=row["precision"],
            sequence_length=length,
            micro_batch_size=batch,
            activation_checkpointing=row["activation_checkpointing"],
            data_parallel=row["gpu_count"],
        )
        result.append(
            Run(
                spec_of(row["model"]),
                workload,
                accelerators.load().get(row["accelerator"]),
                Sequences(length, length),
                batch * length / row["tokens_per_second_per_gpu"],
            )
        )
    return result


def shares(runs):
    """Measured over expected time of each run, the median of the interval left out."""
    return [
        run.took / (expected(run) / speed._spread(run.spec, run.workload, run.accelerator)[0][1])
        for run in runs
    ]


def expected(run):
    return step_time(run.spec, run.workload, run.accelerator, run.sequences).expected


def error(runs):
    return mean(abs(log(share)) for share in shares(runs))


STEPS = (
    ("full", 0.01), ("lora", 0.01), ("qlora", 0.01), ("SERVER_EFFICIENCY", 0.01),
    ("MIXTURE_EFFICIENCY", 0.01), ("LAYER_SECONDS", 1e-4), ("DEQUANTIZING_READS", 1),
)  # fmt: skip


@pytest.mark.parametrize(("figure", "step"), STEPS)
def test_no_step_of_a_figure_lowers_the_error(runs, monkeypatch, figure, step):
    linked = [run for run in runs if run.linked]
    assert len(linked) == 198
    least = error(linked)
    assert least == pytest.approx(0.111, abs=0.001)
    for change in (step, -step):
        with monkeypatch.context() as patch:
            if figure in speed.EFFICIENCY:
                changed = {figure: speed.EFFICIENCY[figure] + change}
                patch.setattr(speed, "EFFICIENCY", {**speed.EFFICIENCY, **changed})
            else:
                patch.setattr(speed, figure, getattr(speed, figure) + change)
            assert error(linked) >= least


def test_the_intervals_hold_nine_runs_of_ten(runs):
    groups = {
        "dense": [run for run in runs if run.linked and not experts(run.spec)],
        "mixtures": [run for run in runs if run.linked and experts(run.spec)],
        "slow links": [run for run in runs if not run.linked],
    }
    held = {}
    for name, group in groups.items():
        times = [step_time(run.spec, run.workload, run.accelerator, run.sequences) for run in group]
        inside = [time.low <= run.took <= time.high for run, time in zip(group, times, strict=True)]
        held[name] = (len(group), sum(inside) / len(group))
    assert {name: count for name, (count, _) in held.items()} == {
        "dense": 173, "mixtures": 25, "slow links": 18,
    }  # fmt: skip
    assert all(share >= 0.9 for _, share in held.values()), held


def test_a_step_of_full_training_is_its_operations_at_the_share_of_the_peak():
    """8 sequences of 2,048 tokens: 6 N and attention, recomputed: 8 N, at 0.69 of 312 TFLOPS, and
    32 layers of 2.5 ms."""
    workload = TrainingWorkload(
        sequence_length=2048, micro_batch_size=8, activation_checkpointing="full"
    )
    forward = 2 * 7_504_658_432 + 32 * 4 * 2048 * 4096
    seconds = 8 * 2048 * 4 * forward / (312e12 * 0.69) + 32 * 2.5e-3
    time = step_time(LLAMA, workload, A100, Sequences(2048, 2048))
    assert time.expected == pytest.approx(seconds)
    assert time.basis == "calibrated"


def test_a_gpu_without_a_stated_peak_has_no_time():
    gpu = accelerators.load().get("a100-80gb-sxm")
    workload = TrainingWorkload(sequence_length=2048, precision="fp32")
    assert step_time(LLAMA, workload, gpu, Sequences(2048, 2048)) is None


def test_several_micro_batches_take_as_many_times_as_long_and_a_pipeline_waits():
    one = TrainingWorkload(sequence_length=2048)
    four = TrainingWorkload(sequence_length=2048, micro_batches=4)
    times = [step_time(LLAMA, each, A100, Sequences(2048, 2048)).expected for each in (one, four)]
    assert times[1] == pytest.approx(4 * times[0])
    staged = TrainingWorkload(sequence_length=2048, micro_batches=4, pipeline_parallel=4)
    time = step_time(LLAMA, staged, A100, Sequences(2048, 2048)).expected
    assert time == pytest.approx(times[1] / 4 * (1 + 3 / 4))


def test_gpus_without_published_runs_have_an_assumed_interval():
    gpu = accelerators.load().get("mi300x-192gb")
    time = step_time(LLAMA, TrainingWorkload(sequence_length=2048), gpu, Sequences(2048, 2048))
    assert time.basis == "assumed"
    assert time.high / time.low == pytest.approx(6)
