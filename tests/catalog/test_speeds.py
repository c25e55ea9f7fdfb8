"""Published runs with their speed: each has a source, and its model's own number of parameters."""

from itertools import chain

import pytest

from bundled_models import spec_of
from fitgauge.catalog import accelerators
from fitgauge.catalog.speeds import SpeedRun, load, text_runs

RUNS: list[SpeedRun] = list(chain.from_iterable(load().values()))


def test_there_are_runs_of_every_kind() -> None:
    at_load = [run for run in RUNS if run.seconds_to_first_token is not None]
    assert len(RUNS) > 600
    assert {"vllm", "sglang", "tensorrt-llm"} <= {run.engine for run in at_load}
    assert max(run.concurrency for run in at_load) >= 200


@pytest.mark.parametrize("name", sorted({run.model for run in RUNS}))
def test_a_run_has_the_parameters_of_its_model(name: str) -> None:
    assert {run.parameters for run in RUNS if run.model == name} == {spec_of(name).parameters}


def test_a_run_has_a_source_a_known_gpu_and_a_speed() -> None:
    for run in RUNS:
        assert run.source
        assert accelerators.load().get(run.accelerator)
        assert run.speed > 0
        assert run.load.prompt_tokens > 0
        assert run.load.output_tokens > 0


def test_a_batch_of_texts_has_a_source_and_the_parameters_of_its_shape() -> None:
    assert len(text_runs()) == 120
    for run in text_runs():
        assert run.source
        assert run.parameters == spec_of(run.model).parameters
        assert accelerators.load().get(run.accelerator)
