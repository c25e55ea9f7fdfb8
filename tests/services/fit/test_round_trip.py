"""What an answer says of the question can be sent back, and what it says of the settings is
true."""

from collections.abc import Callable
from typing import Any

import pytest

from fitgauge.engine.quantity import GIB
from fitgauge.engine.serving.registry import ENGINES
from fitgauge.engine.serving.workload import EngineName
from fitgauge.services.common.fit_schemas import FitAnswer
from notes import codes

Check = Callable[..., FitAnswer]
SETTINGS: dict[str, Any] = {
    "gpu_memory_utilization": 0.5, "max_batched_tokens": 1000, "max_num_seqs": 3000,
    "enforce_eager": True, "cpu_offload_gib": 2.0,
    "kv_cache_memory_gib": 4.0, "other_memory_gib": 2.0, "lora_slots": 2,
}  # fmt: skip
"""`max_num_seqs` is more than any engine's default: fewer rows of logits than a pass of prompts
takes do not show."""


def card(engine: EngineName) -> str:
    return "M2 Max 64GB" if engine == "mlx" else "A100 80GB"


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"cpu_offload_gib": 2.0},
        {"kv_cache_memory_gib": 4.0},
        {"other_memory_gib": 3.0},
        {"quantization": "as published"},
    ],
)
def test_understood_as_sent_back_gives_the_same_answer(
    check_fit: Check, engine: EngineName, fields: dict[str, Any]
) -> None:
    first = check_fit(model="google/gemma-2-9b-it", gpu=card(engine), engine=engine, **fields)
    again = check_fit(**first.understood_as)
    assert (again.verdict, again.per_gpu, again.limits, again.launch) == (
        first.verdict,
        first.per_gpu,
        first.limits,
        first.launch,
    )
    assert again.understood_as == first.understood_as


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("name", SETTINGS)
def test_a_setting_changes_the_answer_or_is_said_to_change_nothing(
    check_fit: Check, engine: EngineName, name: str
) -> None:
    """Of a model with windows, states of none and a vocabulary large enough for every setting to
    show."""
    asked = {"model": "google/gemma-2-9b-it", "gpu": card(engine), "engine": engine}
    plain, answer = check_fit(**asked), check_fit(**asked, **{name: SETTINGS[name]})
    unchanged = (plain.per_gpu, plain.limits, plain.terms) == (
        answer.per_gpu,
        answer.limits,
        answer.terms,
    )
    assert unchanged == (name in ENGINES[engine].ignored)
    assert unchanged == (("engine-ignores-field", name) in codes(answer.warnings))


@pytest.mark.parametrize("engine", ["vllm", "sglang"])
def test_weights_in_host_memory_are_not_on_the_gpu(check_fit: Check, engine: str) -> None:
    def weights(**fields: Any) -> int:
        answer = check_fit(
            model="meta-llama/Llama-3.1-8B-Instruct", gpu="H100", engine=engine, **fields
        )
        return next(term.bytes for term in answer.terms if term.name == "weights")

    assert weights(cpu_offload_gib=4) == weights() - 4 * GIB
    assert weights(cpu_offload_gib=500) > 2 * 128_256 * 4096 * 2  # embeddings and head stay


def test_a_model_that_does_not_start_holds_no_request(check_fit: Check) -> None:
    """Every one of 1024 sequences takes a state block: too many for this card, whatever one
    request needs."""
    answer = check_fit(model="Qwen/Qwen3.5-35B-A3B", gpu="RTX PRO 6000")
    assert answer.verdict == "does_not_fit"
    assert answer.limits.max_concurrency == 0


def test_what_is_unsupported_has_the_memory_it_would_need_and_no_command(check_fit: Check) -> None:
    answer = check_fit(model="meta-llama/Llama-3.1-8B-Instruct", gpu="M3 Max 64GB", engine="vllm")
    assert answer.verdict == "unsupported"
    assert (answer.fit_probability, answer.launch) == (None, None)
    assert sum(term.bytes for term in answer.terms) == pytest.approx(
        answer.per_gpu.required_bytes.expected, abs=len(answer.terms)
    )


def test_no_suggestion_asks_for_more_than_another_that_fits(check_fit: Check) -> None:
    for gpu in ("T4", "RTX 4090", "2x H100"):
        fitting = [
            s.request
            for s in check_fit(model="meta-llama/Llama-3.3-70B-Instruct", gpu=gpu).suggestions
            if s.verdict == "fits"
        ]
        for number, request in enumerate(fitting):
            assert not any(other.items() <= request.items() for other in fitting[:number])


@pytest.mark.parametrize(
    "fields",
    [
        {"quantization": "gptq"},
        {"quantization": "w8a8"},
        {"engine": "llama.cpp", "quantization": "q8_0"},
        {"engine": "mlx", "quantization": "int4", "gpu": "M2 Max 64GB"},
    ],
)
def test_a_command_whose_checkpoint_is_unknown_has_a_placeholder(
    check_fit: Check, fields: dict[str, Any]
) -> None:
    launch = check_fit(**{"model": "Qwen/Qwen3-8B", "gpu": "H100", **fields}).launch
    assert launch.placeholder is not None
    assert "Qwen/Qwen3-8B" in launch.placeholder
    assert f"'{launch.placeholder}'" in launch.command


@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"quantization": "fp8"},
        {"quantization": "bf16"},
        {"engine": "transformers", "quantization": "nf4"},
    ],
)
def test_a_command_that_loads_what_was_asked_has_no_placeholder(
    check_fit: Check, fields: dict[str, Any]
) -> None:
    launch = check_fit(model="Qwen/Qwen3-8B", gpu="H100", **fields).launch
    assert launch.placeholder is None
    assert "Qwen/Qwen3-8B" in launch.command


@pytest.mark.parametrize(
    ("engine", "quantization", "flag"),
    [
        ("tgi", "nf4", "--quantize bitsandbytes-nf4"),
        ("tgi", "int8", "--quantize bitsandbytes"),
        ("transformers", "load_in_4bit", "BitsAndBytesConfig"),
        ("transformers", "int8", "load_in_8bit=True"),
    ],
)
def test_what_an_engine_quantizes_while_loading_is_in_its_command(
    check_fit: Check, engine: str, quantization: str, flag: str
) -> None:
    assert (
        flag
        in check_fit(
            model="Qwen/Qwen3-8B", gpu="H100", engine=engine, quantization=quantization
        ).launch.command
    )


def test_an_answer_of_a_hub_that_was_not_asked_says_so(check_fit: Check) -> None:
    answer = check_fit(model="Qwen/Qwen3-8B", gpu="H100")
    assert ("answered-from-snapshot", "model") in codes(answer.warnings)


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"gpu": "H100"}, "1 request of 8,192 tokens needs"),
        ({"gpu": "H100", "concurrency": 2}, "2 requests of 8,192 tokens need "),
        ({"gpu": "RTX 4090", "concurrency": 64}, "The KV cache alone takes"),
    ],
)
def test_summaries_are_grammatical(check_fit: Check, fields: dict[str, Any], said: str) -> None:
    assert said in check_fit(model="Qwen/Qwen3-8B", **fields).summary
