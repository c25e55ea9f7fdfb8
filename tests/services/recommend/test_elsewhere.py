"""Where no change helps on the GPUs that were named, other GPUs are suggested."""

import asyncio
import json
from importlib.resources import files
from itertools import starmap

import pytest

from fitgauge.services.common.host_memory import _LARGEST_HOST_GIB, exceeds_host
from fitgauge.services.common.host_schemas import HostMemory
from fitgauge.services.common.need_schemas import SmallestGpus
from fitgauge.services.recommend.elsewhere import worth_naming
from fitgauge.services.training_fit.schemas import TrainingRequest

GIB = 2**30


@pytest.mark.parametrize(
    "asked",
    [
        {"model": "meta-llama/Llama-3.1-405B-Instruct", "gpu": "RTX 4090"},
        {"model": "deepseek-ai/DeepSeek-V3", "gpu": "8x A100 40GB", "tensor_parallel": 8},
        {"model": "deepseek-ai/DeepSeek-V3", "gpu": "M3 Ultra 256GB"},
        {"model": "deepseek-ai/DeepSeek-V4-Flash", "gpu": "8x RTX 2080 Ti 22GB"},
        {"model": "meta-llama/Llama-3.1-405B-Instruct", "gpu": "RTX 4090 + RTX 3060 12GB",
         "engine": "llama.cpp"},
    ],
    ids=lambda asked: asked["gpu"],
)  # fmt: skip
def test_where_no_change_helps_other_gpus_do(check_fit, asked):
    answer = check_fit(settings="auto", **asked)
    others = [one for one in answer.suggestions if "gpu" in one.request]
    assert answer.verdict in ("does_not_fit", "unsupported")
    assert others
    for other in others:
        assert other.change.startswith("take ")
        again = check_fit(settings="auto", **{**asked, **other.request})
        assert (again.verdict, again.launch.command) == ("fits", other.launch.command)


@pytest.mark.parametrize(
    "asked",
    [
        {"model": "Qwen/Qwen3-32B", "gpu": "RTX 4090"},  # AWQ does
        {"model": "Qwen/Qwen3-8B", "gpu": "RTX 4090"},
    ],
    ids=lambda asked: asked["model"],
)
def test_where_a_change_helps_no_purchase_is_suggested(check_fit, asked):
    suggestions = check_fit(**asked).suggestions
    assert not any("gpu" in one.request for one in suggestions)


def test_training_elsewhere_keeps_no_more_on_the_hosts_than_they_have(questions):
    """Eight GPUs hold what is not offloaded of it, and no machine holds the rest."""
    asked = {
        "model": "meta-llama/Llama-3.1-405B-Instruct", "method": "full", "framework": "deepspeed",
        "zero_stage": 3, "offload": "optimizer",
    }  # fmt: skip

    def train(**gpu):
        return asyncio.run(questions.check_training_fit(TrainingRequest(**asked, **gpu)))[1]

    others = train(gpu="RTX 4090").suggestions
    assert others
    for one in others:
        assert not exceeds_host(one.host_memory, None)
        assert train(**one.request).verdict == "fits"


def test_of_a_model_that_no_engine_runs_no_gpu_is_suggested(check_fit):
    answer = check_fit(model="openai/whisper-large-v3", gpu="RTX 4090", engine="mlx")
    assert answer.verdict == "unsupported"
    assert not any("gpu" in one.request for one in answer.suggestions)


def _gpus(name, count, *reasons):
    return SmallestGpus(
        reasons=list(reasons), name="bf16", gpu=name, gpu_count=count, required_bytes=GIB,
        usd_per_hour=1.0, request={}, command="",
    )  # fmt: skip


@pytest.mark.parametrize(
    ("found", "named"),
    [
        ([], []),
        ([("a", 1, "fewest", "cheapest")], ["a"]),
        ([("a", 1, "fewest"), ("b", 8, "cheapest"), ("c", 1, "fastest")], ["a", "b"]),
        ([("a", 1, "fewest"), ("b", 16, "cheapest")], ["a"]),
        ([("a", 32, "fewest"), ("b", 32, "cheapest"), ("c", 64, "cheapest")], ["a", "b"]),
    ],
)
def test_the_fewest_are_named_and_the_cheapest_unless_it_takes_a_cluster(found, named):
    assert [one.gpu for one in worth_naming(list(starmap(_gpus, found)))] == named


def test_no_machine_that_is_rented_holds_more_than_suggestions_may_offload():
    rows = (files("fitgauge.catalog") / "data" / "instances.jsonl").read_text().splitlines()
    largest = max(json.loads(row).get("memory_gib", 0) for row in rows)
    assert largest == _LARGEST_HOST_GIB


@pytest.mark.parametrize(
    ("per_gpu", "total", "sent", "exceeds"),
    [
        (8192, 8192, None, True),
        (512, 4096, None, False),
        (512, 16384, None, False),  # four machines
        (513, 16416, None, True),
        (100, 100, 64.0, True),
        (100, 100, 105.0, True),  # no room for the system
        (100, 100, 106.0, False),
    ],
)
def test_what_is_offloaded_is_held_to_the_machine(per_gpu, total, sent, exceeds):
    host = HostMemory(per_gpu_bytes=per_gpu * GIB, total_bytes=total * GIB)
    assert exceeds_host(host, sent) is exceeds
