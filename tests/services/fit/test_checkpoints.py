"""What is loaded in a requested format, and what is served where none is requested."""

from collections.abc import Callable
from typing import Any

import pytest

from bundled_models import model_of, offline_models
from fitgauge.engine.quantization.same_format import holds_format
from fitgauge.services.common.fit_schemas import FitAnswer
from fitgauge.services.fit.checkpoints import Checkpoints, default_format
from fitgauge.services.fit.launch import source_of

Check = Callable[..., FitAnswer]

LLAMA = "meta-llama/Llama-2-7b-chat-hf"


@pytest.mark.parametrize(
    ("model", "requested", "holds"),
    [
        ("Qwen/Qwen3-32B-AWQ", "awq", True),
        ("Qwen/Qwen3-32B-AWQ", "4bit", True),
        ("Qwen/Qwen3-32B-AWQ", "gptq", False),
        ("Qwen/Qwen2.5-7B-Instruct-GPTQ-Int8", "gptq", False),
        ("Qwen/Qwen2.5-7B-Instruct-GPTQ-Int8", "gptq_int8", True),
        ("Qwen/Qwen3-32B-FP8", "fp8", True),
        ("Qwen/Qwen3-32B-FP8", "fp8_channel", False),
        ("nvidia/Qwen3.6-27B-NVFP4", "fp8", False),  # a mixture of formats
        ("nvidia/DeepSeek-V4-Flash-NVFP4", "fp8", False),
        ("openai/gpt-oss-20b", "mxfp4", True),
        ("Qwen/Qwen3-8B", "awq", False),
        ("Qwen/Qwen3-8B", "bf16", True),
    ],
)
def test_a_checkpoint_holds_a_format_as_a_whole_or_not(
    model: str, requested: str, holds: bool
) -> None:
    assert holds_format(model_of(model).spec, requested) is holds


@pytest.mark.parametrize(
    ("model", "quantization", "loaded"),
    [
        (LLAMA, "AWQ", "TheBloke/Llama-2-7B-Chat-AWQ"),
        ("Qwen/Qwen3-32B", "awq", "Qwen/Qwen3-32B-AWQ"),
        ("Qwen/Qwen3-32B", "fp8", "Qwen/Qwen3-32B-FP8"),
        ("Qwen/Qwen2.5-7B-Instruct", "gptq", "Qwen/Qwen2.5-7B-Instruct-GPTQ-Int4"),
        ("Qwen/Qwen2.5-7B-Instruct", "gptq-8bit", "Qwen/Qwen2.5-7B-Instruct-GPTQ-Int8"),
        ("Qwen/Qwen3-32B", "gptq", "Qwen/Qwen3-32B"),  # none is bundled
        ("deepseek-ai/DeepSeek-R1", "fp8", "deepseek-ai/DeepSeek-R1"),  # published so
    ],
)
def test_a_published_checkpoint_in_the_requested_format_is_loaded(
    model: str, quantization: str, loaded: str
) -> None:
    choice = Checkpoints(offline_models()).choose(model_of(model), quantization, "vllm")
    assert choice.model.id == loaded
    assert (choice.derived is None) == holds_format(choice.model.spec, quantization)


def test_a_checkpoint_named_for_the_requested_format_is_loaded_itself(check_fit: Check) -> None:
    model = "nvidia/Qwen3.6-35B-A3B-NVFP4"  # some of its layers are FP8
    published = check_fit(model=model, gpu="2x H100")
    named = check_fit(model=model, gpu="2x H100", quantization="nvfp4")
    assert named.launch.command == published.launch.command
    assert named.terms == published.terms


@pytest.mark.parametrize("model", [LLAMA, "Qwen/Qwen3-32B", "Qwen/Qwen2.5-72B-Instruct"])
def test_what_is_judged_is_the_checkpoint_that_the_command_loads(
    check_fit: Check, model: str
) -> None:
    asked = {"gpu": "A100 80GB", "context_length": 2048}
    derived = check_fit(model=model, quantization="awq", **asked)
    loaded = derived.launch.command.split()[2]
    assert "AWQ" in loaded
    published = check_fit(model=loaded, **asked)
    assert (derived.per_gpu, derived.terms) == (published.per_gpu, published.terms)
    assert derived.model.id == model


def test_no_engine_quantizes_what_is_quantized_already() -> None:
    source = source_of(model_of("Qwen/Qwen3-32B-AWQ"), "fp8", "vllm")
    assert source.quantization is None
    assert source.placeholder == "<an FP8 checkpoint of Qwen/Qwen3-32B-AWQ>"


@pytest.mark.parametrize(
    ("model", "engine", "form"),
    [
        ("Qwen/Qwen3-32B", "ollama", "q4_k_m"),
        ("Qwen/Qwen3-32B", "llama.cpp", "q4_k_m"),
        ("deepseek-ai/DeepSeek-R1", "llama.cpp", "q4_k_m"),
        ("openai/gpt-oss-20b", "ollama", None),  # the library has it as published
        ("BAAI/bge-m3", "ollama", None),
        ("Qwen/Qwen3-32B-AWQ", "llama.cpp", None),  # made for other engines
        ("Qwen/Qwen3-32B", "vllm", None),
    ],
)
def test_the_default_format_of_an_engine(model: str, engine: Any, form: str | None) -> None:
    assert default_format(model_of(model), engine) == form


def test_the_published_format_can_be_requested_instead_of_the_default(check_fit: Check) -> None:
    asked = {"model": "Qwen/Qwen3-32B", "gpu": "A100 80GB", "engine": "ollama"}
    usual, wide = check_fit(**asked), check_fit(**asked, quantization="as published")
    assert usual.understood_as["quantization"] == "q4_k_m"
    assert wide.understood_as["quantization"] == "as published"
    assert wide.terms[0].bytes > 3 * usual.terms[0].bytes


@pytest.mark.parametrize(
    ("model", "engine", "quantization", "repository"),
    [
        ("Qwen/Qwen3-32B", "ollama", None, "qwen3:32b"),
        ("Qwen/Qwen3-32B", "llama.cpp", "q4_k_m", "bartowski/Qwen_Qwen3-32B-GGUF:Q4_K_M"),
        ("Qwen/Qwen3-VL-8B-Instruct", "ollama", "q4_k_m",
         "hf.co/Qwen/Qwen3-VL-8B-Instruct-GGUF:Q4_K_M"),
        ("openai/gpt-oss-20b", "ollama", None, "gpt-oss:20b"),
        ("openai/gpt-oss-20b", "llama.cpp", None, "ggml-org/gpt-oss-20b-GGUF"),
        ("Qwen/Qwen3-30B-A3B", "mlx", "int4", "mlx-community/Qwen3-30B-A3B-4bit"),
        ("Qwen/Qwen3-32B", "llama.cpp", "q2_k", "<a Q2_K GGUF of Qwen/Qwen3-32B>"),
    ],
)  # fmt: skip
def test_a_command_names_the_model(
    model: str, engine: Any, quantization: str | None, repository: str
) -> None:
    settled = quantization or default_format(model_of(model), engine)
    assert source_of(model_of(model), settled, engine).repository == repository


def test_another_engine_is_taken_only_with_the_published_weights(check_fit: Check) -> None:
    """vLLM runs on an A100, and only not this model: a GGUF of it would be another format."""
    answer = check_fit(model="deepseek-ai/DeepSeek-V3.2", gpu="8x A100 80GB")
    assert answer.verdict == "unsupported"
    mac = check_fit(model="deepseek-ai/DeepSeek-R1", gpu="M3 Ultra 512GB")
    assert mac.understood_as["engine"] == "llama.cpp"
    assert mac.understood_as["quantization"] == "q4_k_m"


@pytest.mark.parametrize(("label", "kind"), [("UD-Q4_K_XL", "q4_k_m"), ("Q2_K_XL", "q2_k")])
def test_the_label_of_a_gguf_file_means_its_type(check_fit, label, kind):
    asked = {"model": "Qwen/Qwen3-32B", "gpu": "RTX 5090", "engine": "llama.cpp"}
    labelled, typed = (check_fit(**asked, quantization=name) for name in (label, kind))
    assert labelled.per_gpu.required_bytes == typed.per_gpu.required_bytes
