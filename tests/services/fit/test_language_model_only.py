"""language_model_only: a model that also reads images or sound, served for text alone."""

from collections.abc import Callable
from typing import Any

import pytest

from fitgauge.engine.serving.registry import ENGINES
from fitgauge.engine.serving.start_log.lines import clean_lines
from fitgauge.services.common.fit_schemas import FitAnswer
from notes import codes

Check = Callable[..., FitAnswer]

BUILT = [
    ("LGAI-EXAONE/EXAONE-4.5-33B", 2, 32_595_291_136, 32_672),
    ("Qwen/Qwen2-Audio-7B-Instruct", 1, 15_511_855_616, 8_192),
    ("Qwen/Qwen2.5-VL-32B-Instruct", 2, 32_895_609_856, 32_768),
    ("Qwen/Qwen3-VL-2B-Instruct", 1, 3_508_259_264, 37_440),
    ("Qwen/Qwen3.5-0.8B", 2, 786_003_392, 292_261),
    ("Qwen/Qwen3.5-122B-A10B", 2, 122_183_288_768, 61_440),
    ("google/gemma-3-12b-it", 1, 24_136_048_898, 10_887),
    ("google/gemma-4-26B-A4B", 2, 25_661_727_322, 37_994),
    ("llava-hf/llava-1.5-13b-hf", 1, 26_034_088_576, 5_232),
    ("mistralai/Ministral-3-3B-Instruct-2512", 1, 6_925_121_952, 40_320),
    ("moonshotai/Kimi-K2.5", 2, 298_259_641_296, 61_104),
    ("nvidia/MiniMax-M3-NVFP4", 2, 124_426_410_944, 56_448),
    ("zai-org/GLM-4.5V", 2, 106_956_983_520, 45_584),
]
"""(model, tensor parallel, bytes of parameters and buffers, tokens of a pool of 4 GiB) of vLLM
0.33's own classes and planner with --language-model-only, built on PyTorch's meta device."""


def of(answer: FitAnswer, name: str) -> int:
    """Return the bytes of a term; 0 where there is none."""
    return sum(term.bytes for term in answer.terms or () if term.name == name)


@pytest.mark.parametrize(("model", "ranks", "built", "tokens"), BUILT)
def test_vllm_builds_as_much(
    check_fit: Check, model: str, ranks: int, built: int, tokens: int
) -> None:
    answer = check_fit(
        model=model, gpu="H200", gpu_count=ranks, context_length=4096, kv_cache_memory_gib=4,
        engine_version="0.33.0", language_model_only=True,
    )  # fmt: skip
    assert of(answer, "weights") == pytest.approx(built, rel=2e-4)
    assert of(answer, "encoder") == 0
    assert answer.limits is not None
    assert answer.limits.kv_cache_tokens == tokens


@pytest.mark.parametrize(
    ("version", "flags"),
    [
        ("0.33.0", "--language-model-only"),
        ("0.16.0", """--limit-mm-per-prompt '{"image":0,"video":0,"audio":0}'"""),
    ],
)
def test_the_command_says_so_as_the_release_does_and_is_read_back(
    check_fit: Check, version: str, flags: str
) -> None:
    answer = check_fit(
        model="google/gemma-3-27b-it", gpu="H100", language_model_only=True, engine_version=version
    )
    assert answer.launch is not None
    assert flags in answer.launch.command
    parser = ENGINES["vllm"].log_parser
    assert parser is not None
    assert parser.read(clean_lines(answer.launch.command)).flags["language_model_only"] is True


def test_llama_cpp_starts_without_the_projector(check_fit: Check) -> None:
    asked: dict[str, Any] = {
        "model": "google/gemma-3-27b-it", "gpu": "RTX 3090", "engine": "llama.cpp",
    }  # fmt: skip
    answer = check_fit(**asked, language_model_only=True)
    assert of(check_fit(**asked), "projector") > 0
    assert of(answer, "projector") == 0
    assert answer.launch is not None
    assert "--no-mmproj" in answer.launch.command
    parser = ENGINES["llama.cpp"].log_parser
    assert parser is not None
    assert parser.read(clean_lines(answer.launch.command)).flags["language_model_only"] is True
    on_the_host = answer.launch.command.replace("--no-mmproj", "--no-mmproj-offload")
    assert "language_model_only" not in parser.read(clean_lines(on_the_host)).flags


def test_a_limit_for_images_alone_leaves_the_tower_that_also_reads_videos() -> None:
    parser = ENGINES["vllm"].log_parser
    assert parser is not None
    command = """vllm serve Qwen/Qwen3.6-27B --limit-mm-per-prompt '{"image": 0, "video": 1}'"""
    assert "language_model_only" not in parser.read(clean_lines(command)).flags


def test_releases_before_it_are_refused_and_other_engines_ignore_it(check_fit: Check) -> None:
    asked: dict[str, Any] = {
        "model": "google/gemma-3-27b-it", "gpu": "H100", "language_model_only": True
    }  # fmt: skip
    assert check_fit(**asked, engine_version="0.14.0").verdict == "unsupported"
    ignored = codes(check_fit(**asked, engine="sglang").warnings)
    assert ("engine-ignores-field", "language_model_only") in ignored


def test_a_model_of_text_alone_has_nothing_to_leave_out(check_fit: Check) -> None:
    asked: dict[str, Any] = {"model": "Qwen/Qwen3-8B", "gpu": "H100"}
    answer = check_fit(**asked, language_model_only=True)
    assert ("field-ignored", "language_model_only") in codes(answer.warnings)
    assert answer.per_gpu == check_fit(**asked).per_gpu


def test_it_is_offered_where_it_makes_a_model_fit_that_is_not_made_to_see(check_fit: Check) -> None:
    asked: dict[str, Any] = {"gpu": "A100 40GB", "context_length": 8192, "settings": "auto"}
    general = check_fit(model="Qwen/Qwen3.6-35B-A3B-FP8", **asked)
    assert general.verdict == "tight"
    assert "To be sure, serve text alone" in general.summary
    assert general.suggestions[0].request == {"language_model_only": True}
    made_to_see = check_fit(model="Qwen/Qwen3-VL-32B-Instruct-FP8", **asked)
    assert made_to_see.suggestions
    assert all("language_model_only" not in one.request for one in made_to_see.suggestions)


def test_fp8_repositories_of_models_that_see_keep_their_towers_in_16_bit(check_fit: Check) -> None:
    """Their configs list every module by its whole name. 0.46e9 parameters, in 2 bytes."""
    asked: dict[str, Any] = {"model": "Qwen/Qwen3.6-27B-FP8", "gpu": "H100"}
    tower = of(check_fit(**asked), "weights") - of(
        check_fit(**asked, language_model_only=True), "weights"
    )
    assert tower == pytest.approx(2 * 0.4607e9, rel=0.01)


def test_vllm_logs_as_much_of_such_a_repository(check_fit: Check) -> None:
    """28.51 GiB after loading, with vLLM 0.19: notes of a competition's run, public file
    60434605882."""
    answer = check_fit(model="Qwen/Qwen3.8-27B-FP8", gpu="RTX PRO 6000", engine_version="0.19.0")
    loaded = of(answer, "weights") + of(answer, "fragmentation")
    assert loaded / 2**30 == pytest.approx(28.51, rel=2e-3)


def test_sglang_serves_fp8_repositories_whose_gates_are_no_whole_blocks(check_fit: Check) -> None:
    """48 gates of a layer of linear attention: in 16 bit."""
    assert check_fit(model="Qwen/Qwen3.6-27B-FP8", gpu="H100", engine="sglang").verdict == "fits"
