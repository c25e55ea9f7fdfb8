"""What runs where: every refusal names the reason and something that works."""

from collections.abc import Callable
from typing import Any

import pytest
from msgspec import structs

from fitgauge.services.common.fit_schemas import FitAnswer
from notes import codes

Check = Callable[..., FitAnswer]


@pytest.mark.parametrize(
    ("engine", "model", "gpu", "quantization", "said"),
    [
        ("transformers", "Qwen/Qwen3-8B", "T4", "fp8", "8.9"),
        ("sglang", "Qwen/Qwen3-8B", "T4", "fp8", "8.0"),
        ("tensorrt-llm", "Qwen/Qwen3-8B", "A100 80GB", "fp8", "8.9"),
        ("tensorrt-llm", "Qwen/Qwen3-8B", "H100", "q4_k_m", "reads no Q4_K_M"),
        ("tensorrt-llm", "Qwen/Qwen3-8B", "V100", None, "8.0"),
        ("tensorrt-llm", "Qwen/Qwen3-8B", "MI300X", None, "no kernels"),
        ("tgi", "openai/gpt-oss-20b", "H100", None, "reads no mxfp4"),
        ("mlx", "Qwen/Qwen3-8B", "H100", None, "unified memory"),
        ("vllm", "Qwen/Qwen3-8B", "M3 Max 64GB", None, "Apple silicon"),
        ("sglang", "Qwen/Qwen3-8B", "M3 Max 64GB", None, "Apple silicon"),
        ("vllm", "openai/gpt-oss-20b", "T4", None, "8.0"),
        ("vllm", "Qwen/Qwen3-8B", "P100", None, "7."),
        ("vllm", "Qwen/Qwen3-8B", "H100", "q4_k_m", "reads no Q4_K_M"),
        ("vllm", "Qwen/Qwen3-8B", "H100", "bnb-int8", "reads no llm_int8 weights from 0.33 on"),
        ("tensorrt-llm", "Qwen/Qwen3-8B", "H100", "LLM.int8()", "reads no llm_int8"),
        ("llama.cpp", "Qwen/Qwen3-8B", "RTX 4090", "load_in_8bit", "reads no llm_int8"),
        ("llama.cpp", "Qwen/Qwen3-8B", "RTX 4090", "awq", "reads no awq"),
        ("ollama", "Qwen/Qwen3-8B", "RTX 4090", "nvfp4", "reads no nvfp4"),
        ("vllm", "Qwen/Qwen3-8B", "MI250X", "fp8", "no fp8 matrix units"),
        ("vllm", "Qwen/Qwen3-8B", "RX 6900 XT", None, "gfx1030"),
        ("sglang", "Qwen/Qwen3-8B", "MI250X", None, "gfx90a"),
        ("sglang", "Qwen/Qwen3-8B", "Ascend 910B 64GB", "fp8", "reads no fp8"),
        ("vllm", "Qwen/Qwen3-8B", "TPU v6e", "gptq", "reads no gptq"),
        ("vllm", "Qwen/Qwen3-8B", "Arc Pro B60", "nvfp4", "reads no nvfp4"),
        ("vllm", "Qwen/Qwen3-8B", "Inferentia 2", "awq", "reads no awq"),
        ("llama.cpp", "Qwen/Qwen3-8B", "TPU v6e", "q4_k_m", "no kernels"),
        ("ollama", "Qwen/Qwen3-8B", "Gaudi 3", "q4_k_m", "no kernels"),
        ("tensorrt-llm", "Qwen/Qwen3-8B", "Trainium 2", None, "no kernels"),
        (
            "tgi",
            "Qwen/Qwen3-Next-80B-A3B-Instruct",
            "H200",
            None,
            "tgi has no Qwen3NextForCausalLM. Send engine vllm or sglang.",
        ),
        ("llama.cpp", "facebook/opt-125m", "RTX 4090", None, "llama.cpp has no OPTForCausalLM"),
    ],
)
def test_what_does_not_run_is_unsupported_with_reason_and_remedy(
    check_fit: Check, engine: str, model: str, gpu: str, quantization: str | None, said: str
) -> None:
    answer = check_fit(model=model, gpu=gpu, engine=engine, quantization=quantization)
    assert answer.verdict == "unsupported"
    assert answer.fit_probability is None
    assert said in answer.summary
    assert "Send " in answer.summary or "To run it, " in answer.summary


@pytest.mark.parametrize(
    ("engine", "model", "gpu", "quantization"),
    [
        ("vllm", "Qwen/Qwen3-8B", "T4", "fp8"),  # Marlin kernels: capability 7.5 in 0.33
        ("sglang", "openai/gpt-oss-20b", "H100", None),
        ("llama.cpp", "openai/gpt-oss-20b", "RTX 4090", None),
        ("ollama", "Qwen/Qwen3-8B", "MI300X", "q4_k_m"),
        ("mlx", "Qwen/Qwen3-8B", "M3 Max 64GB", "int4"),
        ("llama.cpp", "Qwen/Qwen3-8B", "M3 Max 64GB", "q8_0"),
        ("tensorrt-llm", "Qwen/Qwen3-8B", "H100", "fp8"),
        ("vllm", "Qwen/Qwen3-8B", "MI250X", "fp8_block"),  # Triton's kernels
        ("vllm", "Qwen/Qwen3-8B", "MI300X", "fp8"),
        ("vllm", "Qwen/Qwen3-8B", "Arc Pro B60", "awq"),
        ("llama.cpp", "Qwen/Qwen3-8B", "RX 6900 XT", "q4_k_m"),
        ("vllm", "Qwen/Qwen3-8B", "48GB", "awq"),  # a card of which nothing but its size is known
    ],
)
def test_what_runs_is_answered(
    check_fit: Check, engine: str, model: str, gpu: str, quantization: str | None
) -> None:
    assert (
        check_fit(model=model, gpu=gpu, engine=engine, quantization=quantization).verdict
        != "unsupported"
    )


def test_vllm_read_gguf_and_bitsandbytes_until_0_33(check_fit: Check) -> None:
    """Source: model_executor/layers/quantization/__init__.py, QUANTIZATION_METHODS of 0.33."""
    asked = {"model": "Qwen/Qwen3-8B", "gpu": "RTX 4090", "engine": "vllm", "quantization": "nf4"}
    assert check_fit(**asked, engine_version="0.32.0").verdict == "fits"
    assert check_fit(**asked, engine_version="0.33.0").verdict == "unsupported"


def test_flash_attention_is_missed_on_volta_only_by_engines_that_use_it(check_fit: Check) -> None:
    asked = {"model": "Qwen/Qwen3-0.6B", "gpu": "V100 32GB"}
    missing = ("flash-attention-unsupported", "gpu")
    assert missing in codes(check_fit(**asked, engine="vllm").warnings)
    own_kernels = check_fit(**asked, engine="llama.cpp", quantization="q8_0")
    assert missing not in codes(own_kernels.warnings)


def test_no_refusal_sends_the_engine_that_was_refused(check_fit: Check) -> None:
    for gpu in (
        "TPU v6e",
        "Trainium 2",
        "Gaudi 3",
        "Ascend 910B 64GB",
        "MI300X",
        "Arc Pro B60",
        "M3 Max 64GB",
        "H100",
    ):
        for engine in ("vllm", "sglang", "tensorrt-llm", "llama.cpp", "ollama", "tgi", "mlx"):
            said = check_fit(model="Qwen/Qwen3-8B", gpu=gpu, engine=engine).summary
            assert f"Send engine {engine} " not in said
            assert f"or {engine}." not in said


def test_a_plugin_is_named_and_what_was_never_measured_there_is_said(check_fit: Check) -> None:
    warnings = check_fit(model="Qwen/Qwen3-8B", gpu="TPU v6e", engine="vllm").warnings
    (plugin,) = [warning for warning in warnings if warning.code == "engine-plugin"]
    assert plugin.field == "engine"
    assert "tpu-inference" in plugin.message


def test_wheels_that_leave_volta_out_are_told_of_versions_that_have_them(check_fit: Check) -> None:
    asked = {"model": "Qwen/Qwen3-0.6B", "gpu": "V100 32GB", "engine": "vllm"}
    newer = ("wheels-for-newer-gpus", "engine_version")
    answer = check_fit(**asked)
    assert newer in codes(answer.warnings)
    assert "fits on one V100 32GB (vllm before 0.24): " in answer.summary
    older = check_fit(**asked, engine_version="0.14.0")
    assert newer not in codes(older.warnings)
    assert "before" not in older.summary


@pytest.mark.parametrize(
    "asked, engine",
    [
        ({"model": "Qwen/Qwen3-8B", "gpu": "M3 Max 64GB"}, "mlx"),
        ({"model": "Qwen/Qwen3-8B", "gpu": "GTX 1080 Ti"}, "llama.cpp"),
        ({"model": "openai/gpt-oss-20b", "gpu": "T4"}, "llama.cpp"),
        ({"model": "Qwen/Qwen3-8B", "gpu": "RTX 4090", "quantization": "q4_k_m"}, "llama.cpp"),
    ],
)
def test_where_no_engine_is_named_the_first_that_runs_it_is_taken_and_told(
    check_fit: Check, asked: dict[str, Any], engine: str
) -> None:
    answer = check_fit(**asked)
    assert answer.understood_as["engine"] == engine
    assert answer.verdict != "unsupported"
    assert (answer.assumed[0].field, answer.assumed[0].value) == ("engine", engine)
    assert "because vllm " in answer.assumed[0].message
    named = check_fit(**asked, engine=engine)
    assert answer.answer_id != named.answer_id
    same = structs.replace(answer, assumed=answer.assumed[1:], answer_id=named.answer_id)
    assert same == named


def test_an_engine_that_takes_transformers_classes_is_warned_of(check_fit: Check) -> None:
    answer = check_fit(model="EleutherAI/pythia-1b", gpu="H100", engine="sglang")
    assert answer.verdict != "unsupported"
    assert ("architecture-unlisted", "engine") in codes(answer.warnings)


@pytest.mark.parametrize(
    ("engine", "model", "gpu", "fields"),
    [
        ("vllm", "Qwen/Qwen3-8B", "T4", {"kv_cache_dtype": "fp8"}),
        ("vllm", "Qwen/Qwen3-8B", "RTX 2080 Ti", {"kv_cache_dtype": "fp8_e5m2"}),
        ("vllm", "google/gemma-3-12b-it", "A100 80GB", {"kv_cache_dtype": "fp8"}),
        ("vllm", "deepseek-ai/DeepSeek-V4-Flash", "8x RTX 2080 Ti", {}),
        ("vllm", "deepseek-ai/DeepSeek-V4-Flash", "8x A100 80GB", {}),
        ("vllm", "deepseek-ai/DeepSeek-V4-Flash", "8x RTX 4090", {}),
        ("sglang", "deepseek-ai/DeepSeek-V4-Flash", "8x A100 80GB", {}),
        ("sglang", "deepseek-ai/DeepSeek-V3.2", "8x A100 80GB", {}),
        ("mlx", "nvidia/Gemma-4-31B-IT-NVFP4", "M3 Ultra 512GB", {}),
    ],
)
def test_what_has_no_kernel_on_a_gpu_is_unsupported(
    check_fit: Check, engine: str, model: str, gpu: str, fields: dict[str, Any]
) -> None:
    assert check_fit(model=model, gpu=gpu, engine=engine, **fields).verdict == "unsupported"


@pytest.mark.parametrize(
    ("model", "gpu", "fields"),
    [
        ("Qwen/Qwen3-8B", "T4", {}),
        ("Qwen/Qwen3-8B", "T4", {"kv_cache_dtype": "fp8", "engine_version": "0.23"}),  # FlashInfer
        ("Qwen/Qwen3-8B", "A100 80GB", {"kv_cache_dtype": "fp8"}),
        ("Qwen/Qwen3-8B", "RTX 4090", {"kv_cache_dtype": "fp8"}),
        ("deepseek-ai/DeepSeek-V4-Flash", "8x H200", {}),
        ("nvidia/Gemma-4-31B-IT-NVFP4", "B200", {}),
    ],
)
def test_what_has_a_kernel_is_answered(
    check_fit: Check, model: str, gpu: str, fields: dict[str, Any]
) -> None:
    assert check_fit(model=model, gpu=gpu, engine="vllm", **fields).verdict != "unsupported"


@pytest.mark.parametrize("gpu", ["T4", "RTX 2080 Ti"])
def test_no_cache_is_suggested_that_the_gpu_cannot_read(check_fit: Check, gpu: str) -> None:
    for model in ("google/gemma-3-12b-it", "Qwen/Qwen3-14B"):
        answer = check_fit(model=model, gpu=gpu, context_length=32768)
        assert not any("kv_cache_dtype" in one.request for one in answer.suggestions)


@pytest.mark.parametrize("quantization", ["nf4", "q4_k_m"])
def test_a_format_that_left_an_engine_names_the_last_release_that_reads_it(
    check_fit: Check, quantization: str
) -> None:
    asked = {"model": "Qwen/Qwen3-8B", "gpu": "H100", "quantization": quantization}
    newest = check_fit(**asked, engine="vllm")
    assert newest.verdict == "unsupported"
    assert "engine_version 0.32" in newest.summary
    assert check_fit(**asked, engine="vllm", engine_version="0.32").verdict == "fits"


def test_where_the_engine_that_is_named_instead_does_not_run_it_either_what_does_is_said(check_fit):
    """Whisper on a GTX 1060: llama.cpp runs there, and reads no Whisper."""
    answer = check_fit(model="openai/whisper-large-v3", gpu="GTX 1060 6GB", engine="vllm")
    assert answer.summary.endswith("has 6.1. To run it, serve it with transformers.")
    assert answer.suggestions[0].request == {"engine": "transformers"}


@pytest.mark.parametrize("bits", [2, 3, 5, 6])
def test_integers_of_unusual_width_are_read_by_mlx_and_as_files_alone(check_fit, bits):
    asked = {"model": "Qwen/Qwen3-14B", "quantization": f"{bits}bit", "settings": "defaults"}
    for engine in ("vllm", "sglang", "tensorrt-llm"):
        assert check_fit(**asked, gpu="H100", engine=engine).verdict == "unsupported"
    assert check_fit(**asked, gpu="M4 Max 64GB", engine="mlx").verdict == "fits"
    assert check_fit(**asked, gpu="H100", engine="llama.cpp").verdict == "fits"
