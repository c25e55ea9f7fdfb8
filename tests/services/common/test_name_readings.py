"""What was guessed of the names in a request is said, and a name that means nothing is refused
with the question to send."""

import asyncio
from collections.abc import Callable

import pytest

from fitgauge.errors import FitgaugeError, UnknownAcceleratorError, UnknownModelError
from fitgauge.services.common.fit_schemas import FitAnswer
from fitgauge.services.common.parsing import engine_format
from fitgauge.services.compare.schemas import CompareRequest
from fitgauge.services.facade import Services
from fitgauge.services.training_fit.schemas import TrainingRequest

Check = Callable[..., FitAnswer]


@pytest.mark.parametrize(
    ("model", "taken", "quantization"),
    [
        ("Qwen2.5-14B GPTQ int8", "Qwen/Qwen2.5-14B-Instruct-GPTQ-Int8", None),
        ("Mixtral-8x7B-Instruct-AWQ", "mistralai/Mixtral-8x7B-Instruct-v0.1", "awq"),
        ("gemma2:9b", "google/gemma-2-9b-it", "q4_0"),
        ("qwen3:8b", "Qwen/Qwen3-8B", "q4_k_m"),
        ("mistral:7b-instruct-q5_K_M", "mistralai/Mistral-7B-Instruct-v0.3", "q5_k_m"),
        ("14B 8bit", "14b", "int8"),
        ("3", "3b", None),
    ],
)
def test_the_format_in_a_name_is_the_one_that_is_judged(
    check_fit: Check, model: str, taken: str, quantization: str | None
) -> None:
    answer = check_fit(model=model, gpu="H100")
    assert answer.model.id == taken
    if quantization is not None:
        assert answer.understood_as["quantization"] == quantization
        (reading,) = [one for one in answer.read_as if one.field == "model"]
        assert reading.sent == model
        assert quantization in reading.taken


@pytest.mark.parametrize("tag", ["gemma2:9b", "mistral:7b-instruct-q5_K_M"])
def test_a_tag_of_ollama_is_run_by_ollama(check_fit: Check, tag: str) -> None:
    answer = check_fit(model=tag, gpu="RTX 3090")
    assert answer.understood_as["engine"] == "ollama"
    assert any(one.field == "engine" and one.value == "ollama" for one in answer.assumed)
    assert answer.launch is not None
    assert answer.launch.command.endswith(f"ollama run {tag}")
    assert answer.launch.placeholder is None


def test_a_tag_runs_on_the_engine_that_is_named(check_fit: Check) -> None:
    answer = check_fit(model="qwen3:8b", gpu="RTX 3090", engine="llama.cpp")
    assert answer.understood_as["engine"] == "llama.cpp"
    assert not [one for one in answer.assumed if one.field == "engine"]


@pytest.mark.parametrize(
    ("model", "base", "engine"),
    [
        ("somebody/Falcon3-7B-Instruct-GPTQ-Int4", "tiiuae/Falcon3-7B-Instruct", "vllm"),
        ("somebody/gemma-2-9b-it-GGUF:Q5_K_M", "google/gemma-2-9b-it", "llama.cpp"),
        ("somebody/Qwen2.5-7B-Instruct-AWQ", "Qwen/Qwen2.5-7B-Instruct", "vllm"),
        ("Qwen/Qwen3-8B-FP8", "Qwen/Qwen3-8B", "vllm"),
    ],
)
def test_a_repository_with_the_shapes_of_another_is_said(
    check_fit: Check, model: str, base: str, engine: str
) -> None:
    """What is judged is the repository itself, smaller than its base, and loaded by its name."""
    answer = check_fit(model=model, gpu="H100", engine=engine)
    assert answer.model.id == model.partition(":")[0]
    (reading,) = [one for one in answer.read_as if one.field == "model"]
    assert (reading.sent, reading.taken) == (answer.model.id, base)
    assert reading.rule
    whole = check_fit(model=base, gpu="H100", engine=engine, quantization="bf16")
    weights = [
        next(term.bytes for term in one.terms if term.name == "weights") for one in (answer, whole)
    ]
    assert weights[0] < 0.8 * weights[1]


def test_a_gguf_file_is_judged_on_an_engine_that_reads_it(check_fit: Check) -> None:
    answer = check_fit(model="somebody/Qwen3-14B-GGUF:Q5_K_M", gpu="RTX 4090")
    assert answer.understood_as["engine"] == "llama.cpp"
    assert "engine" in [one.field for one in answer.assumed]
    assert answer.verdict == "fits"


def test_a_format_that_is_sent_wins_over_the_one_in_the_name(check_fit: Check) -> None:
    answer = check_fit(model="gemma2:9b", gpu="H100", quantization="fp8")
    assert answer.understood_as["quantization"] == "fp8"


def test_a_model_of_four_bits_is_not_quantized_again_by_a_default(check_fit: Check) -> None:
    answer = check_fit(model="gpt-oss:20b", gpu="RTX 4090", engine="ollama")
    assert answer.understood_as["quantization"] == "as published"


def test_other_readings_are_told_with_their_verdicts(check_fit: Check) -> None:
    answer = check_fit(model="llama 3", gpu="RTX 4090")
    (reading,) = answer.read_as
    assert reading.field == "model"
    assert reading.taken == answer.model.id
    assert reading.others
    for other in reading.others:
        assert check_fit(model=other, gpu="RTX 4090").verdict == reading.verdicts[other]
    assert reading.changes_verdict is (set(reading.verdicts.values()) != {answer.verdict})
    assert reading.changes_verdict


def test_memory_sizes_of_one_name_are_other_readings(check_fit: Check) -> None:
    answer = check_fit(model="Qwen/Qwen3-14B", gpu="A100")
    (reading,) = answer.read_as
    assert (reading.field, reading.sent) == ("gpu", "A100")
    assert "A100 40GB SXM" in reading.others
    assert reading.changes_verdict is False


def test_a_certain_name_is_no_guess(check_fit: Check) -> None:
    assert check_fit(model="Qwen/Qwen3-8B", gpu="RTX 4090").read_as == []


def test_readings_stand_in_training_answers(questions: Services) -> None:
    _, answer = asyncio.run(
        questions.check_training_fit(TrainingRequest(model="llama 3", gpu="T4 in Colab"))
    )
    assert [one.field for one in answer.read_as] == ["model", "gpu"]


def test_a_table_judges_the_format_of_each_name(questions: Services) -> None:
    request = CompareRequest(models="gemma2:9b, Qwen/Qwen3-8B", gpus="RTX 4090")

    async def rows() -> list[str]:
        table = await questions.compare_fit(request)
        return [row.quantization async for some in questions.rows(table) for row in some]

    assert asyncio.run(rows()) == ["q4_0", "as published"]


def refusal(check_fit: Check, kind: type[FitgaugeError], model: str, gpu: str) -> FitgaugeError:
    """Return the error of a question."""
    with pytest.raises(kind) as refused:
        check_fit(model=model, gpu=gpu)
    return refused.value


def test_swapped_fields_are_refused_with_both_swapped(check_fit: Check) -> None:
    error = refusal(check_fit, UnknownAcceleratorError, "RTX 4090", "Qwen/Qwen3-8B")
    assert error.send == {"model": "Qwen/Qwen3-8B", "gpu": "RTX 4090"}
    assert check_fit(**error.send).model.id == "Qwen/Qwen3-8B"


@pytest.mark.parametrize("model", ["Lama 3.1 8B Instuct", "mxtral"])
def test_an_unknown_name_is_refused_with_the_nearest_one_to_send(
    check_fit: Check, model: str
) -> None:
    error = refusal(check_fit, UnknownModelError, model, "H100")
    assert error.code == "unknown-model"
    assert error.send == {"model": error.matches[0]}
    check_fit(gpu="H100", **error.send)


def test_an_unknown_family_is_refused_with_its_size_to_send(check_fit: Check) -> None:
    error = refusal(check_fit, UnknownModelError, "zzyzx 13b", "H100")
    assert error.send == {"model": "13b"}


@pytest.mark.parametrize(
    "model", ["FLUX.1-dev", "flux", "somebody/stable-diffusion-xl", "Wan2.2 14B", "MusicGen large"]
)
def test_generators_of_images_and_sound_are_out_of_scope(check_fit: Check, model: str) -> None:
    assert refusal(check_fit, UnknownModelError, model, "H100").code == "out-of-scope"


def test_models_that_read_images_or_speech_are_in_scope(check_fit: Check) -> None:
    assert check_fit(model="whisper large v3", gpu="T4", engine="transformers").verdict == "fits"


@pytest.mark.parametrize(
    ("sent", "engine", "stored"),
    [
        ("4bit", "llama.cpp", "q4_k_m"),
        ("4-bit", "ollama", "q4_k_m"),
        ("int8", "llama.cpp", "q8_0"),
        ("4bit", "vllm", "4bit"),
        ("awq", "llama.cpp", "awq"),
        (None, "ollama", None),
    ],
)
def test_bits_are_the_usual_format_of_the_engine(
    sent: str | None, engine: str, stored: str | None
) -> None:
    assert engine_format(sent, engine) == stored


@pytest.mark.parametrize(
    ("sent", "file"), [("Q4", "q4_k_m"), ("q5", "q5_k_m"), ("Q6", "q6_k"), ("Q8", "q8_0")]
)
def test_short_names_of_gguf_files_are_understood(check_fit: Check, sent: str, file: str) -> None:
    short, full = [
        check_fit(model="Qwen/Qwen3-8B", gpu="RTX 4090", engine="ollama", quantization=one)
        for one in (sent, file)
    ]
    assert short.per_gpu == full.per_gpu
