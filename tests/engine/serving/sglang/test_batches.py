"""What SGLang captures in CUDA graphs and takes off the pool for images, against values that
sglang 0.5.23's own server arguments settle on."""

from typing import Any

import pytest

from bundled_models import spec_of
from fitgauge.catalog.accelerators import load
from fitgauge.engine.accelerator import Accelerator
from fitgauge.engine.quantity import GIB, MIB
from fitgauge.engine.serving.sglang.mem_fraction import (
    default_batch,
    mem_fraction_static,
    running_requests,
    vision_factor,
)
from fitgauge.engine.serving.sglang.multimodal import feature_bytes
from fitgauge.engine.serving.workload import Workload
from workloads import workload_of

_VERSION = (0, 5, 23)
PREFILL, DECODE = {"disaggregation": "prefill"}, {"disaggregation": "decode"}


def gpu(name: str) -> Accelerator:
    return load().get(name)


def workload(model: str, accelerator: Accelerator, ranks: int, **fields: Any) -> Workload:
    """Return the defaults of so many ranks."""
    requests, tokens = default_batch(accelerator, 8192, _VERSION, spec_of(model), ranks)
    usual = {
        "tensor_parallel": ranks, "max_num_seqs": requests, "max_batched_tokens": tokens,
        "gpu_memory_utilization": 0.0,
    }  # fmt: skip
    return workload_of("sglang", _VERSION, **usual | fields)


@pytest.mark.parametrize(
    ("model", "card", "ranks", "fields", "share"),
    [
        ("Qwen/Qwen3-32B", "h100-sxm-80gb", 2, {}, 0.828),
        ("Qwen/Qwen3-32B", "h100-sxm-80gb", 4, {}, 0.819),
        ("Qwen/Qwen3-32B", "h100-sxm-80gb", 8, {}, 0.812),
        ("Qwen/Qwen3-32B", "h100-sxm-80gb", 4, {"max_batched_tokens": 32_768}, 0.362),
        ("Qwen/Qwen3-32B", "h100-sxm-80gb", 4, {"max_num_seqs": 1024}, 0.819),
        ("meta-llama/Llama-3.1-8B-Instruct", "l40s-48gb", 4, {}, 0.829),
        ("meta-llama/Llama-3.1-8B-Instruct", "l40s-48gb", 4, {"max_num_seqs": 1024}, 0.829),
        ("deepseek-ai/DeepSeek-R1", "h200-sxm-141gb", 8, {}, 0.886),
        ("meta-llama/Llama-4-Maverick-17B-128E-Instruct", "h200-sxm-141gb", 8, {}, 0.893),
        ("Qwen/Qwen3-VL-32B-Instruct", "h100-sxm-80gb", 2, {}, 0.77125),
        ("Qwen/Qwen3-VL-32B-Instruct", "h100-sxm-80gb", 8, {}, 0.75646),
        ("Qwen/Qwen3.5-35B-A3B", "h100-sxm-80gb", 2, {}, 0.76571),
        ("Qwen/Qwen3.5-35B-A3B", "h100-sxm-80gb", 8, {}, 0.75091),
        ("openai/whisper-base", "rtx-5090-32gb", 2, {}, 0.785),
        ("meta-llama/Llama-3.1-8B-Instruct", "l40s-48gb", 1, PREFILL, 0.844),
        ("meta-llama/Llama-3.1-8B-Instruct", "l40s-48gb", 1, DECODE, 0.918),
        ("Qwen/Qwen3-32B", "h100-sxm-80gb", 2, PREFILL, 0.834),
        ("Qwen/Qwen3-32B", "h100-sxm-80gb", 2, {**DECODE, "max_num_seqs": 512}, 0.874),
        ("Qwen/Qwen3-VL-32B-Instruct", "h100-sxm-80gb", 2, PREFILL, 0.7768),
        ("Qwen/Qwen3-VL-32B-Instruct", "h100-sxm-80gb", 2, DECODE, 0.874),
        ("deepseek-ai/DeepSeek-R1", "h200-sxm-141gb", 8, PREFILL, 0.893),
        ("deepseek-ai/DeepSeek-R1", "h200-sxm-141gb", 8, DECODE, 0.929),
    ],
)
def test_the_share_that_server_arguments_settle_on(
    model: str, card: str, ranks: int, fields: dict[str, Any], share: float
) -> None:
    work = workload(model, gpu(card), ranks, **fields)
    assert mem_fraction_static(spec_of(model), work, gpu(card)) == pytest.approx(share, abs=6e-6)


def test_pipeline_stages_capture_no_prefills() -> None:
    """81559 MiB: 512 + 1.5 x 8192 + 2 x 128 + 2 x 256 = 13568 MiB are kept back."""
    work = workload("Qwen/Qwen3-32B", gpu("h100-sxm-80gb"), 1, pipeline_parallel=2)
    share = mem_fraction_static(spec_of("Qwen/Qwen3-32B"), work, gpu("h100-sxm-80gb"))
    assert share == round((81_559 - 13_568) / 81_559, 3)


def test_graphs_of_fewer_requests_raise_the_share() -> None:
    card = gpu("l40s-48gb")
    shares = [
        mem_fraction_static(
            spec_of("Qwen/Qwen3-8B"),
            workload("Qwen/Qwen3-8B", card, 1, max_num_seqs=requests),
            card,
        )
        for requests in (8, 32, 64)
    ]
    assert shares[0] > shares[1] == shares[2]


def test_the_factor_of_a_tower_by_the_names_that_its_config_has() -> None:
    """Gemma 3 serves text alone by default; the depth of Qwen3-VL counts as 24 layers."""
    assert vision_factor(spec_of("Qwen/Qwen3-32B"), _VERSION) == 1.0
    assert vision_factor(spec_of("google/gemma-3-12b-it"), _VERSION) == 1.0
    tower = spec_of("Qwen/Qwen3-VL-32B-Instruct")
    factor = 0.95 * (1 - 0.1 * ((1152 / 1024) ** 2 - 1))
    assert vision_factor(tower, _VERSION) == pytest.approx(factor)
    assert [vision_factor(tower, version) for version in ((0, 4, 4), (0, 4, 8))] == [0.95, 0.90]


def test_a_tower_whose_config_stays_a_dict_counts_as_the_usual_one() -> None:
    """SGLang 0.5.23 resolves a share of 0.8968 for it on a B200: 0.944 x 0.95, where the 32 layers
    of 1280 in the config would have left 0.8."""
    assert vision_factor(spec_of("nvidia/MiniMax-M3-NVFP4"), _VERSION) == 0.95


@pytest.mark.parametrize(
    ("model", "card", "requests", "size"),
    [
        ("Qwen/Qwen3-32B", "h100-sxm-80gb", None, 0),
        ("google/gemma-3-12b-it", "h100-sxm-80gb", None, 0),
        ("Qwen/Qwen3.5-35B-A3B", "h100-sxm-80gb", None, 100 * MIB),
        ("Qwen/Qwen3-VL-32B-Instruct", "l40s-48gb", None, 100 * MIB),
        ("Qwen/Qwen3-VL-32B-Instruct", "b200-192gb", None, 100 * MIB),
        ("Qwen/Qwen3-VL-32B-Instruct", "h100-sxm-80gb", None, GIB),
        ("Qwen/Qwen3-VL-32B-Instruct", "h100-sxm-80gb", 399, GIB),
        ("Qwen/Qwen3-VL-32B-Instruct", "h100-sxm-80gb", 400, 3 * GIB),
    ],
)
def test_bytes_taken_off_the_pool_for_images(
    model: str, card: str, requests: int | None, size: int
) -> None:
    assert feature_bytes(spec_of(model), gpu(card), requests) == size


def test_requests_left_to_the_default_are_not_set() -> None:
    model, card = "Qwen/Qwen3-VL-32B-Instruct", gpu("h100-sxm-80gb")
    requests = [
        running_requests(spec_of(model), workload(model, card, 4, **fields), card)
        for fields in ({}, {"max_num_seqs": 64})
    ]
    assert requests == [None, 64]
