"""Published runs with their speed: each has a source, and its model's own number of parameters."""

from itertools import chain

import pytest

from bundled_models import spec_of
from fitgauge.catalog import accelerators
from fitgauge.catalog.speeds import SpeedRun, host_runs, load, text_runs

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


def test_a_run_with_weights_in_host_memory_says_what_lies_there_and_where_it_is_published() -> None:
    assert len(host_runs()) == 42
    for run in host_runs():
        spec = spec_of(run.model)
        assert run.source.partition(": ")[2]
        assert run.parameters == spec.parameters
        assert accelerators.load().get(run.accelerator)
        assert sum(map(bool, (run.host_layers, run.host_experts, run.host_gib))) == 1
        assert max(run.host_layers, run.host_experts) <= spec.layers
        assert run.host_experts == 0 or spec.has_experts
        prompt = (run.prompt_tokens, run.chunk_tokens, run.prompt_tokens_per_second)
        assert all(prompt) or not any(prompt)


def test_a_source_is_fitted_to_or_kept_aside_as_a_whole() -> None:
    parts = {(run.source.partition(":")[0], run.part) for run in host_runs()}
    assert len(parts) == len({source for source, _ in parts})
