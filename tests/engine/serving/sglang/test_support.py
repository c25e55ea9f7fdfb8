"""What SGLang refuses to load or to keep on a GPU."""

from typing import Any

import msgspec
import pytest

from bundled_models import spec_of
from fitgauge.catalog.catalog import bundled
from fitgauge.engine.serving.sglang.support import refusal
from workloads import workload_of

MXFP4 = {
    "quant_method": "compressed-tensors",
    "format": "mxfp4-pack-quantized",
    "config_groups": {
        "group_0": {
            "targets": ["Linear"],
            "weights": {"num_bits": 4, "type": "float", "strategy": "group", "group_size": 32},
        }
    },
}


W4A8 = {
    "quant_method": "compressed-tensors",
    "format": "pack-quantized",
    "config_groups": {
        "group_0": {
            "targets": ["Linear"],
            "weights": {"num_bits": 4, "type": "int", "group_size": 128},
            "input_activations": {"num_bits": 8, "type": "int"},
        }
    },
}


@pytest.mark.parametrize(
    ("model", "settings", "gpu", "cache", "refused"),
    [
        ("Qwen/Qwen3-8B", {"quant_algo": "FP8"}, "A100 80GB", "auto", True),
        ("Qwen/Qwen3-8B", {"quantization": {"quant_algo": "FP8"}}, "A100 80GB", "auto", True),
        ("Qwen/Qwen3-8B", {"quant_algo": "FP8"}, "L40S", "auto", False),
        ("Qwen/Qwen3-8B", {"quant_algo": "MIXED_PRECISION"}, "A100 80GB", "auto", False),
        ("Qwen/Qwen3-8B", {"quant_method": "awq", "bits": 4}, "T4", "auto", True),
        ("Qwen/Qwen3-8B", {"quant_method": "awq", "bits": 4}, "A100 80GB", "auto", False),
        ("bigcode/starcoder", {"quant_method": "gptq", "bits": 4}, "A100 80GB", "auto", True),
        ("bigcode/starcoder", {"quant_method": "awq", "bits": 4}, "A100 80GB", "auto", False),
        ("Qwen/Qwen3-8B", {"quant_method": "gptq", "bits": 4}, "A100 80GB", "auto", False),
        ("deepseek-ai/DeepSeek-V3", None, "B200", "F8_E5M2", True),
        ("deepseek-ai/DeepSeek-V3", None, "H100", "F8_E5M2", False),
        ("deepseek-ai/DeepSeek-V2-Lite-Chat", None, "B200", "F8_E5M2", False),
        ("deepseek-ai/DeepSeek-V3.2", None, "H100", "F8_E5M2", True),
        ("deepseek-ai/DeepSeek-V3.2", None, "H100", "F8_E4M3", False),
        ("deepseek-ai/DeepSeek-V4-Flash", None, "H100", "F8_E5M2", True),
        ("nvidia/DeepSeek-V4-Flash-NVFP4", None, "H100", "auto", True),
        ("nvidia/DeepSeek-V4-Flash-NVFP4", None, "B200", "auto", False),
        ("Qwen/Qwen3-VL-235B-A22B-Instruct", {"quant_method": "awq"}, "B200", "auto", True),
        ("Qwen/Qwen3-VL-235B-A22B-Instruct", {"quant_method": "awq"}, "H100", "auto", False),
        ("Qwen/Qwen3-8B", {"quant_method": "awq"}, "B200", "auto", False),
        ("Qwen/Qwen3-30B-A3B", {"quant_method": "gptq"}, "B200", "auto", True),
        ("Qwen/Qwen3-8B", MXFP4, "H100", "auto", True),
        ("moonshotai/Kimi-K3", None, "H100", "auto", False),  # its experts alone
        ("Qwen/Qwen3-8B", {"quant_method": "auto-round", "bits": 4}, "H100", "auto", False),
        ("Qwen/Qwen3-8B", {"quant_method": "hqq", "bits": 4}, "H100", "auto", True),
        ("Qwen/Qwen3-8B", {"quant_method": "w4afp8"}, "H100", "auto", False),
        ("Qwen/Qwen3-8B", {"quant_method": "gptq", "sym": False}, "H100", "auto", True),
        (
            "Qwen/Qwen3-8B",
            {"quant_method": "modelopt", "quant_algo": "FP8_PB_WO"},
            "H100",
            "auto",
            True,
        ),
        ("Qwen/Qwen3-8B", W4A8, "H100", "auto", True),
        ("THUDM/chatglm-6b", None, "H100", "auto", True),
        ("THUDM/chatglm2-6b", None, "H100", "auto", False),
    ],
)
def test_formats_and_caches_without_kernels(
    model: str, settings: dict[str, Any] | None, gpu: str, cache: str, *, refused: bool
) -> None:
    spec = spec_of(model)
    if settings:
        spec = msgspec.structs.replace(spec, quantization=settings)
    workload = workload_of(
        "sglang", (0, 5, 23), context_length=4096, kv_cache_dtype=cache, gpu_memory_utilization=0.8
    )
    reason = refusal(spec, workload, bundled().find(gpu).accelerator)
    assert (reason is not None) == refused
