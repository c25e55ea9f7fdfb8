"""Published runs with weights in host memory: what a row says, and what constants rest on."""

from accuracy.host_runs import host_runs
from bundled_models import spec_of
from fitgauge.catalog import accelerators


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
