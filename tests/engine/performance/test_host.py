"""Weights in host memory: the rates are those of published runs, and what is read is arithmetic."""

from collections import defaultdict
from math import log
from statistics import mean

import pytest

from accuracy.report_host import HostScored, by_cpu, link_shares, scored
from accuracy.report_speeds import tenths
from bundled_models import spec_of
from fitgauge.catalog import accelerators
from fitgauge.engine.performance.decode import step_bytes
from fitgauge.engine.performance.host import (
    CPU_GBPS,
    LINK_SPREAD,
    Machine,
    link_rates,
    multiplied_by_cpu,
    read_over_link,
)
from fitgauge.engine.performance.prefill import LINK_EFFICIENCY, PCIE_GBPS
from fitgauge.engine.quantization.requested import requested_scheme
from fitgauge.engine.serving.engine_facts import Offload
from fitgauge.engine.serving.llamacpp.offload import shard_weights

MACHINES: list[Machine] = ["desktop", "server"]
GPU = accelerators.load().get("rtx-4090-24gb")


def runs_in(machine: Machine) -> list[HostScored]:
    return [one for one in by_cpu(scored()) if one.run.machine == machine]


def error(runs: list[HostScored], gbps: float) -> float:
    by_source = defaultdict(list)
    for one in runs:
        step = one.seconds_elsewhere + one.host.read_bytes / (gbps * 1e9)
        by_source[one.source].append(abs(log(step * one.run.tokens_per_second)))
    return mean(map(mean, by_source.values()))


@pytest.mark.parametrize("machine", MACHINES)
def test_the_expected_rate_has_the_least_error_over_the_runs_it_is_fitted_to(
    machine: Machine,
) -> None:
    fitted = [one for one in runs_in(machine) if one.run.part == "fit"]
    assert len({one.source for one in fitted}) >= 2
    best = min(range(5, 500), key=lambda gbps: error(fitted, gbps))
    assert best == CPU_GBPS[machine].expected
    assert error(fitted, best) < 0.14


@pytest.mark.parametrize("machine", MACHINES)
def test_the_interval_of_the_rate_is_that_of_all_runs(machine: Machine) -> None:
    low, _, high = tenths([one.host_gbps for one in runs_in(machine)])
    assert (low, high) == pytest.approx((CPU_GBPS[machine].low, CPU_GBPS[machine].high), abs=0.6)


def test_most_runs_that_were_kept_aside_lie_in_their_interval() -> None:
    aside = [one for one in scored() if one.run.part == "check"]
    assert len(aside) >= 20
    assert mean(one.is_within for one in aside) > 0.8


def test_the_interval_of_the_link_spans_published_prompts() -> None:
    low, middle, _ = tenths(link_shares())
    assert len(link_shares()) >= 12
    assert low == pytest.approx(LINK_SPREAD[0], abs=0.02)
    assert middle == pytest.approx(LINK_SPREAD[1], abs=0.1)


def test_a_link_is_that_of_its_generation() -> None:
    rates = {
        name: link_rates(accelerators.load().get(name)).expected / LINK_EFFICIENCY
        for name in (
            "rtx-2080-8gb",
            "rtx-4090-24gb",
            "rtx-5090-32gb",
            "rx-7900-xtx-24gb",
            "gh200-96gb",
        )
    }
    assert list(rates.values()) == pytest.approx(
        [PCIE_GBPS / 2, PCIE_GBPS, 2 * PCIE_GBPS, PCIE_GBPS, 450]
    )


@pytest.mark.parametrize("name", ["Qwen/Qwen3-32B", "Qwen/Qwen3-30B-A3B", "openai/gpt-oss-120b"])
def test_a_step_reads_no_more_there_than_in_all_and_only_visited_experts(name: str) -> None:
    spec = spec_of(name)
    weights = shard_weights(spec, requested_scheme("q8_0", spec))
    whole = step_bytes(spec, weights, concurrency=1, context_length=1, kv_cache_dtype="auto")
    parts = [
        multiplied_by_cpu(
            spec,
            weights,
            Offload(0, layers) if spec.has_experts else Offload(layers, 0),
            "desktop",
            GPU,
            cache_bytes=0,
            chunk_tokens=512,
        )
        for layers in (0, spec.layers // 2, spec.layers)
    ]
    none, half, every = parts
    assert none.read_bytes == none.held_bytes == 0
    assert half.held_bytes == pytest.approx(every.held_bytes / 2)
    assert every.read_bytes < whole
    mlp = spec.blocks[-1].mlp or next(block.mlp for block in spec.blocks if block.mlp)
    share = mlp.experts_per_token / mlp.experts if spec.has_experts else 1.0
    assert every.read_bytes == pytest.approx(share * every.held_bytes)
    over_link = read_over_link(
        spec, weights, 10**13, GPU, concurrency=1, tensor_parallel=1, chunk_tokens=512
    )
    assert every.read_bytes <= over_link.read_bytes < whole


def test_a_prompt_reads_what_lies_there_once_a_chunk() -> None:
    spec = spec_of("Qwen/Qwen3-32B")
    weights = shard_weights(spec, requested_scheme("q8_0", spec))
    part = read_over_link(
        spec, weights, 10**10, GPU, concurrency=1, tensor_parallel=1, chunk_tokens=512
    )
    assert part.held_bytes == 10**10
    once, again = part.seconds_of_prompt(512), part.seconds_of_prompt(513)
    assert once[1] == pytest.approx(10 / (LINK_EFFICIENCY * PCIE_GBPS))
    assert again == pytest.approx([2 * one for one in once])
    assert once[0] > once[1] > once[2]
