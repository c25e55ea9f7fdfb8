"""Which models and formats a release of an engine runs, and how releases are named."""

from collections.abc import Callable

import pytest

from fitgauge.services.common.fit_schemas import FitAnswer
from fitgauge.services.common.parsing import version
from notes import codes

Check = Callable[..., FitAnswer]
LLAMA = "meta-llama/Llama-3.1-8B-Instruct"


@pytest.mark.parametrize(
    ("model", "gpu", "said"),
    [
        ("google/flan-t5-xxl", "A100", "T5ForConditionalGeneration"),
        ("facebook/bart-large-cnn", "T4", "bart-plugin"),
        ("deepseek-ai/DeepSeek-V3.2", "8x A100 80GB", "sparse latent attention"),
    ],
)
def test_what_vllm_has_no_model_or_kernel_for_is_unsupported(
    check_fit: Check, model: str, gpu: str, said: str
) -> None:
    answer = check_fit(model=model, gpu=gpu)
    assert answer.verdict == "unsupported"
    assert said in answer.summary


@pytest.mark.parametrize(
    "model", ["openai/whisper-large-v3", "deepseek-ai/DeepSeek-V3.2", "deepseek-ai/DeepSeek-V3"]
)
def test_what_vllm_runs_is_not_refused(check_fit: Check, model: str) -> None:
    assert check_fit(model=model, gpu="8x H200").verdict == "fits"


@pytest.mark.parametrize(
    ("model", "named"),
    [
        ("openai/whisper-large-v3", "AutoModelForSpeechSeq2Seq"),
        ("google/flan-t5-base", "AutoModelForSeq2SeqLM"),
        ("BAAI/bge-m3", "AutoModel "),
        ("Qwen/Qwen2.5-VL-7B-Instruct", "AutoModelForImageTextToText"),
        ("gpt2", "AutoModelForCausalLM"),
    ],
)
def test_transformers_loads_a_model_with_the_class_of_its_task(
    check_fit: Check, model: str, named: str
) -> None:
    assert named in check_fit(model=model, gpu="H100", engine="transformers").launch.command


def test_a_version_from_the_future_is_answered_with_a_warning(check_fit: Check) -> None:
    answer = check_fit(model=LLAMA, gpu="H100", engine_version="99.0")
    assert ("engine-version-unknown", "engine_version") in codes(answer.warnings)


@pytest.mark.parametrize(
    ("written", "taken"),
    [
        ("v0.31.0", (0, 31, 0)), ("0.33.post1", (0, 33)), ("0.10.1.1", (0, 10, 1, 1)),
        ("0.29.1rc1.dev187+gaf1c014", (0, 29, 1)), ("0.8.5.post1", (0, 8, 5, 1)),
        ("0.11.0+gfx906.update1", (0, 11, 0)),
    ],
)  # fmt: skip
def test_releases_are_understood_as_they_are_named(
    check_fit: Check, written: str, taken: tuple[int, ...]
) -> None:
    assert version(written) == taken
    answer = check_fit(model=LLAMA, gpu="H100", engine_version=written)
    assert ("engine-version-unknown", "engine_version") not in codes(answer.warnings)
    echoed = str(answer.understood_as["engine_version"])
    assert version(echoed) == taken
    assert written.removeprefix("v").startswith(echoed)


def test_a_release_without_the_class_is_unsupported_and_a_build_between_releases_is_not(
    check_fit: Check,
) -> None:
    asked = {"model": "google/gemma-3-4b-it", "gpu": "H100"}
    refused = check_fit(**asked, engine_version="0.7.3")
    assert refused.verdict == "unsupported"
    assert "vllm has no Gemma3ForConditionalGeneration before 0.8.0." in refused.summary
    for other in ("0.8.0", "0.7.4.dev120+g1234abc"):
        assert check_fit(**asked, engine_version=other).verdict == "fits"
