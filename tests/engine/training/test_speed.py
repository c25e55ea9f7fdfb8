"""How long a step takes; tests/accuracy/test_training_speeds.py holds it to published runs."""

import pytest

from bundled_models import spec_of
from fitgauge.catalog import accelerators
from fitgauge.engine.training.speed import Sequences, step_time
from fitgauge.engine.training.workload import TrainingWorkload

A100 = accelerators.load().get("a100-80gb-sxm")
LLAMA = spec_of("meta-llama/Llama-3.1-8B")


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


def test_offloading_is_not_measured():
    workload = TrainingWorkload(sequence_length=2048, framework="deepspeed", offload="cpu")
    assert step_time(LLAMA, workload, A100, Sequences(2048, 2048)).basis == "assumed"
