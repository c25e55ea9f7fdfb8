"""Formats of a KV cache are refused where vLLM's own choice of an attention backend leaves none.

data/attention_kernels.jsonl: vLLM 0.33's CudaPlatform.get_valid_backends, asked for every format,
kind of attention, head size and compute capability behind a fake GPU; the first backend that is
left, by the head sizes that it takes ("" for none)."""

import json
from pathlib import Path

import msgspec
import pytest

from bundled_models import spec_of
from fitgauge.catalog.catalog import bundled
from fitgauge.engine.model.mixers import Attention
from fitgauge.engine.serving.vllm.support import refusal
from workloads import workload_of

ROWS = [
    json.loads(line) for line in (Path(__file__).parents[1] / "data/attention_kernels.jsonl").open()
]
GPUS = {
    "7.5": "T4", "8.0": "A100 80GB SXM", "8.6": "RTX 3090", "8.9": "RTX 4090", "9.0": "H100 SXM",
    "10.0": "B200", "12.0": "RTX 5090",
}  # fmt: skip
MODELS = {
    "heads": "Qwen/Qwen3-8B",
    "latent": "deepseek-ai/DeepSeek-V2-Lite",
    "sparse": "deepseek-ai/DeepSeek-V3.2",
}


def spec_with(row, head_dim):
    """Return a model with such attention."""
    spec = spec_of("openai/gpt-oss-20b" if row["sinks"] else MODELS[row["attention"]])
    if row["attention"] == "heads":
        blocks = [
            msgspec.structs.replace(
                block,
                mixers=tuple(
                    msgspec.structs.replace(one, head_dim=head_dim)
                    if isinstance(one, Attention)
                    else one
                    for one in block.mixers
                ),
            )
            for block in spec.blocks
        ]
        spec = msgspec.structs.replace(spec, blocks=tuple(blocks))
    return msgspec.structs.replace(spec, image_prefix=row["image_prefix"])


def is_read(row, backend):
    """Return whether a kernel of the backend reads the format: vLLM takes Triton's for fp8 before
    8.9 too, where they do not compile."""
    before_ada = tuple(map(int, row["compute_capability"].split("."))) < (8, 9)
    fp8_in_triton = row["cache"].startswith("fp8") and backend.startswith("TRITON")
    return bool(backend) and not (before_ada and fp8_in_triton)


def windowless(row):
    """Return whether the model's windows do not decide: TurboQuant has none, gpt-oss has some."""
    return not (row["cache"].startswith("turboquant") and row["sinks"])


@pytest.mark.parametrize("capability", GPUS)
def test_a_format_is_refused_where_no_backend_is_left(capability):
    gpu = bundled().find(GPUS[capability]).accelerator
    wrong, rows = [], [row for row in ROWS if row["compute_capability"] == capability]
    for row in filter(windowless, rows):
        for backend, head_dims in row["heads_by_backend"].items():
            for head_dim in head_dims:
                why = refusal(
                    spec_with(row, head_dim), workload_of(kv_cache_dtype=row["cache"]), gpu
                )
                if (why is None) != is_read(row, backend):
                    wrong.append((row["cache"], row["attention"], row["sinks"],
                        row["image_prefix"], head_dim, backend, why and why.reason))  # fmt: skip
    assert rows
    assert wrong == []


@pytest.mark.parametrize("gpu", ["MI300X", "Gaudi 3"])
def test_nvfp4_is_read_on_nvidia_alone(gpu):
    accelerator = bundled().find(gpu).accelerator
    why = refusal(spec_of("Qwen/Qwen3-8B"), workload_of(kv_cache_dtype="nvfp4"), accelerator)
    assert "nvfp4 on NVIDIA GPUs alone" in why.reason


@pytest.mark.parametrize(
    ("model", "is_refused"),
    [("Qwen/Qwen3-8B-FP8", True), ("Qwen/Qwen3-8B-AWQ", False), ("Qwen/Qwen3-8B", False)],
)
def test_a_checkpoint_in_fp8_has_no_e5m2_cache(model, is_refused):
    gpu = bundled().find("RTX 4090").accelerator
    why = refusal(spec_of(model), workload_of(kv_cache_dtype="fp8_e5m2"), gpu)
    assert (why is not None) == is_refused


@pytest.mark.parametrize(
    ("model", "cache", "gpu", "is_refused"),
    [
        ("deepseek-ai/DeepSeek-V2-Lite", "fp8_e5m2", "MI300X", False),
        ("deepseek-ai/DeepSeek-V2-Lite", "fp8_e5m2", "H100 SXM", True),
        ("deepseek-ai/DeepSeek-V2-Lite", "nvfp4_4over6", "B200", True),
        ("Qwen/Qwen3-8B", "nvfp4_4over6", "B200", False),
        ("Qwen/Qwen3-8B", "nvfp4_4over6", "RTX 5090", True),
        ("Qwen/Qwen3-8B", "nvfp4_4over6", "MI300X", True),
    ],
)
def test_what_the_backends_list_apart_is_read_where_they_do(model, cache, gpu, is_refused):
    """v1/attention/backends/flashinfer.py (supports_kv_cache_dtype), mla/rocm_aiter_mla.py."""
    accelerator = bundled().find(gpu).accelerator
    why = refusal(spec_of(model), workload_of(kv_cache_dtype=cache), accelerator)
    assert (why is not None) == is_refused
