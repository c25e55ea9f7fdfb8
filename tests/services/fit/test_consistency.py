"""An answer agrees with itself: asked again as it advises, it keeps its word."""

import random
import re
from collections.abc import Callable, Iterator
from itertools import product
from typing import Any

import pytest

from fitgauge.engine.quantity import GIB
from fitgauge.services.common.fit_schemas import FitAnswer

Check = Callable[..., FitAnswer]

MODELS = (
    "Qwen/Qwen3-8B",
    "Qwen/Qwen3-32B",
    "meta-llama/Llama-3.3-70B-Instruct",
    "openai/gpt-oss-120b",
    "google/gemma-3-27b-it",
    "Qwen/Qwen3-30B-A3B",
    "Qwen/Qwen2.5-VL-7B-Instruct",
    "Qwen/Qwen3.5-27B",
    "BAAI/bge-m3",
    "gpt2",
    "13b",
)
GPUS = (
    "RTX 3060 12GB",
    "RTX 4090",
    "2x RTX 3090",
    "3x L4",
    "T4",
    "A100 40GB",
    "4x RTX 4060 Ti 16GB",
    "8x H100",
    "MI300X",
    "M3 Max 64GB",
)
ENGINES = (None, "llama.cpp", "ollama", "sglang", "tensorrt-llm", "tgi", "transformers")
WORKLOADS: tuple[dict[str, int], ...] = (
    {},
    {"context_length": 1000},
    {"context_length": 32768, "concurrency": 8},
    {"context_length": 4096, "concurrency": 100},
)
MOST_CASES = 48


def sample() -> Iterator[dict[str, Any]]:
    """Yield the same questions at every run."""
    every = list(product(MODELS, GPUS, ENGINES, WORKLOADS))
    for model, gpu, engine, workload in random.Random(20261123).sample(every, MOST_CASES):
        engine_named = {} if engine is None else {"engine": engine}
        yield {"model": model, "gpu": gpu, **engine_named, **workload}


CASES = [
    *sample(),
    {"model": "openai/gpt-oss-20b", "gpu": "4x RTX 4060 Ti 16GB"},  # close to its limits
    {"model": "Qwen/Qwen3-32B", "gpu": "4x RTX 4090", "engine": "sglang"},
]


@pytest.mark.parametrize("question", CASES, ids=str)
def test_verdict_figures_and_command_agree(check_fit: Check, question: dict[str, Any]) -> None:
    answer = check_fit(**question)
    runs = answer.verdict in ("fits", "tight")
    assert (answer.launch is not None) == runs
    if answer.verdict == "unsupported":
        assert answer.fit_probability is None
        assert answer.limits
        assert answer.limits.max_context_length is None
        return
    assert answer.per_gpu
    assert answer.terms is not None
    assert answer.fit_probability is not None
    required = answer.per_gpu.required_bytes.expected
    assert abs(sum(term.bytes for term in answer.terms) - required) <= len(answer.terms)
    printed = re.search(r"needs? ([\d.]+) GiB", answer.summary)
    assert printed
    assert float(printed[1]) == pytest.approx(required / GIB, abs=0.01)
    assert answer.per_gpu.headroom_bytes == answer.per_gpu.budget_bytes - required
    least = {"fits": 0.9, "tight": 0.25, "does_not_fit": 0.0}[answer.verdict]
    most = {"fits": 1.0, "tight": 0.9, "does_not_fit": 0.25}[answer.verdict]
    assert least - 1e-4 <= answer.fit_probability <= most + 1e-4
    if answer.verdict == "fits":
        assert answer.per_gpu.headroom_bytes >= 0


@pytest.mark.parametrize("question", CASES, ids=str)
def test_suggestions_asked_again_are_what_they_say(
    check_fit: Check, question: dict[str, Any]
) -> None:
    for suggestion in check_fit(**question).suggestions:
        again = check_fit(**{**question, **suggestion.request})
        assert again.per_gpu
        assert (again.verdict, again.per_gpu.required_bytes.expected) == (
            suggestion.verdict,
            suggestion.required_bytes,
        )
        assert suggestion.launch == again.launch
        assert suggestion.launch is not None
        assert suggestion.host_memory == again.host_memory
        assert (suggestion.host_memory is not None) == ("cpu_offload_gib" in suggestion.request)


@pytest.mark.parametrize("question", CASES, ids=str)
def test_limits_asked_again_fit(check_fit: Check, question: dict[str, Any]) -> None:
    answer = check_fit(**question)
    limits = answer.limits
    if answer.verdict == "unsupported":
        return
    assert limits
    for field, value in (
        ("context_length", limits.max_context_length),
        ("concurrency", limits.max_concurrency),
    ):
        if value:
            assert check_fit(**{**question, field: value}).verdict == "fits"
        if value is not None and field in question:
            assert (value >= question[field]) == (answer.verdict == "fits")
    fewest = limits.min_gpu_count
    if answer.verdict == "fits":
        assert fewest is not None
    if fewest is None:
        return
    name = re.sub(r"^\d+x ", "", question["gpu"])
    assert check_fit(**{**question, "gpu": name, "gpu_count": fewest}).verdict == "fits"
    for suggestion in answer.suggestions:
        if suggestion.verdict == "fits" and suggestion.request.keys() == {"gpu_count"}:
            assert suggestion.request["gpu_count"] >= fewest


def test_the_sample_has_most_verdicts(check_fit: Check) -> None:
    """Otherwise these tests would hold of nothing."""
    verdicts = {check_fit(**question).verdict for question in CASES}
    assert verdicts >= {"fits", "does_not_fit", "unsupported"}


def test_host_memory_is_told_per_gpu_and_in_all(check_fit: Check) -> None:
    answer = check_fit(model="Qwen/Qwen3-32B", gpu="2x RTX 4090", cpu_offload_gib=14)
    assert answer.host_memory
    assert answer.host_memory.per_gpu_bytes == 14 * GIB
    assert answer.host_memory.total_bytes == 28 * GIB
    assert "14.00 GiB of host memory per GPU" in answer.summary
    assert "28.00 GiB in all" in answer.summary
