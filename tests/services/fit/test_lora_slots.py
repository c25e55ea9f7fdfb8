"""LoRA slots and drafted tokens in a serving question: on, off, refused, and in the command."""

import shlex
from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from fitgauge.errors import FitgaugeError, InvalidRequestError
from fitgauge.services.common.fit_schemas import FitAnswer
from notes import codes

Check = Callable[..., FitAnswer]


def terms(answer: FitAnswer) -> dict[str, int]:
    return {term.name: term.bytes for term in answer.terms}


def test_slots_are_a_term_of_their_own_and_nothing_else_changes(check_fit: Check) -> None:
    """97,280,000 bytes is what vLLM allocates for one slot of rank 16."""
    plain = check_fit(model="Qwen/Qwen3-8B", gpu="H100")
    answer = check_fit(model="Qwen/Qwen3-8B", gpu="H100", lora_slots=1)
    assert terms(answer) == terms(plain) | {"lora_slots": 97_280_000}
    assert answer.limits.kv_cache_tokens < plain.limits.kv_cache_tokens


def test_a_draft_is_a_term_of_its_own_and_its_cache_is_in_the_pool(check_fit: Check) -> None:
    asked: dict[str, Any] = {"model": "Qwen/Qwen3.5-27B", "gpu": "H100", "max_num_seqs": 64}
    plain, answer = check_fit(**asked), check_fit(**asked, speculative_tokens=1)
    assert terms(answer)["draft_weights"] == 849_398_800
    assert terms(answer)["kv_cache"] > terms(plain)["kv_cache"]
    assert set(terms(answer)) - set(terms(plain)) == {"draft_weights"}


def test_more_drafted_tokens_hold_more_states_and_load_nothing_more(check_fit: Check) -> None:
    asked: dict[str, Any] = {"model": "Qwen/Qwen3.5-27B", "gpu": "H200"}
    one, three = (check_fit(**asked, speculative_tokens=number) for number in (1, 3))
    assert terms(one)["draft_weights"] == terms(three)["draft_weights"]
    assert three.limits.kv_cache_tokens < one.limits.kv_cache_tokens


@pytest.mark.parametrize(
    "fields",
    [
        {"lora_slots": 0},
        {"speculative_tokens": 0},
        {"lora_slots": None, "speculative_tokens": None},
    ],
)
def test_off_is_as_if_nothing_was_said(check_fit: Check, fields: dict[str, Any]) -> None:
    plain = check_fit(model="Qwen/Qwen3-8B", gpu="H100")
    answer = check_fit(model="Qwen/Qwen3-8B", gpu="H100", **fields)
    # the question differs, and with it its link
    same = msgspec.structs.replace(answer, answer_id=plain.answer_id)
    assert msgspec.to_builtins(same) == msgspec.to_builtins(plain)


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({"model": "Qwen/Qwen3-8B", "speculative_tokens": 1}, "speculative_tokens"),
        ({"model": "Qwen/Qwen3-8B", "lora_slots": 1, "lora_rank": 24}, "lora_rank"),
        ({"model": "tiiuae/falcon-7b", "lora_slots": 1}, "lora_slots"),
    ],
)
def test_what_vllm_refuses_is_refused_with_what_to_send(
    check_fit: Check, fields: dict[str, Any], field: str
) -> None:
    with pytest.raises(InvalidRequestError) as refused:
        check_fit(gpu="H100", **fields)
    assert refused.value.field == field
    assert refused.value.hint


def test_the_command_and_what_is_understood_say_both(check_fit: Check) -> None:
    answer = check_fit(
        model="Qwen/Qwen3.5-27B", gpu="H200", lora_slots=4, lora_rank=64, speculative_tokens=2
    )
    words = shlex.split(answer.launch.command)
    assert words[words.index("--max-loras") + 1] == "4"
    assert words[words.index("--max-lora-rank") + 1] == "64"
    assert "--enable-lora" in words
    said = msgspec.json.decode(words[words.index("--speculative-config") + 1])
    assert said == {"method": "mtp", "num_speculative_tokens": 2}
    asked = {"lora_slots": 4, "lora_rank": 64, "speculative_tokens": 2}
    assert asked.items() <= answer.understood_as.items()
    assert check_fit(**answer.understood_as).per_gpu == answer.per_gpu


def test_stages_of_a_pipeline_share_the_slots_and_the_last_drafts(check_fit: Check) -> None:
    asked: dict[str, Any] = {
        "model": "Qwen/Qwen3.5-27B",
        "gpu": "2x H100",
        "pipeline_parallel": 2,
        "tensor_parallel": 1,
        "detail": "full",
    }
    ranks = check_fit(**asked, lora_slots=1, speculative_tokens=1).ranks
    assert isinstance(ranks, list)
    held = [{term.name for term in rank.terms} for rank in ranks]
    assert ["draft_weights" in names for names in held] == [False, True]
    assert all("lora_slots" in names for names in held)


@pytest.mark.parametrize("engine", ["tgi", "transformers", "llama.cpp"])
def test_another_engine_says_that_it_changed_nothing(check_fit: Check, engine: str) -> None:
    answer = check_fit(
        model="Qwen/Qwen3-8B", gpu="H100", engine=engine, lora_slots=2, speculative_tokens=1
    )
    ignored = {field for code, field in codes(answer.warnings) if code == "engine-ignores-field"}
    assert ignored == {"lora_slots", "speculative_tokens"}
    assert not {"lora_slots", "draft_weights"} & terms(answer).keys()


def test_a_rank_without_slots_is_said_to_change_nothing(check_fit: Check) -> None:
    answer = check_fit(model="Qwen/Qwen3-8B", gpu="H100", lora_rank=64)
    assert ("field-ignored", "lora_rank") in codes(answer.warnings)


DRAFTED: dict[str, Any] = {
    "model": "meta-llama/Llama-3.1-8B-Instruct",
    "gpu": "H100",
    "draft_model": "meta-llama/Llama-3.2-1B-Instruct",
}


def test_a_smaller_model_that_drafts_is_loaded_beside_and_has_a_cache(check_fit: Check) -> None:
    answer = check_fit(**DRAFTED, speculative_tokens=3)
    plain = check_fit(model=DRAFTED["model"], gpu="H100")
    alone = check_fit(model=DRAFTED["draft_model"], gpu="H100")
    assert terms(answer)["draft_weights"] == terms(alone)["weights"]
    assert terms(answer)["kv_cache"] == pytest.approx(
        terms(plain)["kv_cache"] + terms(alone)["kv_cache"], rel=0.01
    )
    assert answer.model.id == DRAFTED["model"]


def test_a_draft_is_in_the_command_and_in_what_is_understood(check_fit: Check) -> None:
    answer = check_fit(**DRAFTED, speculative_tokens=3)
    words = shlex.split(answer.launch.command)
    said = msgspec.json.decode(words[words.index("--speculative-config") + 1])
    assert said == {
        "model": DRAFTED["draft_model"],
        "method": "draft_model",
        "num_speculative_tokens": 3,
    }
    assert answer.understood_as["draft_model"] == DRAFTED["draft_model"]
    assert check_fit(**answer.understood_as).per_gpu == answer.per_gpu


@pytest.mark.parametrize(
    "fields, field",
    [
        ({}, "speculative_tokens"),
        ({"speculative_tokens": 3, "draft_model": "Qwen/Qwen3-0.6B"}, "draft_model"),
        ({"speculative_tokens": 3, "draft_model": "acme/no-such-draft"}, "draft_model"),
    ],
)
def test_a_draft_that_cannot_be_is_refused_by_its_own_field(
    check_fit: Check, fields: dict[str, Any], field: str
) -> None:
    with pytest.raises(FitgaugeError) as refused:
        check_fit(**DRAFTED | fields)
    assert refused.value.field == field


def test_a_draft_changes_nothing_of_another_engine_and_that_is_said(check_fit: Check) -> None:
    answer = check_fit(**DRAFTED, speculative_tokens=3, engine="tgi")
    assert ("engine-ignores-field", "draft_model") in codes(answer.warnings)


def test_a_checkpoint_in_the_asked_format_drafts_with_the_same_model(check_fit: Check) -> None:
    question = {"model": "Qwen/Qwen3-32B", "quantization": "awq", "gpu": "A100 80GB"}
    answer = check_fit(**question, draft_model="qwen3 0.6b", speculative_tokens=3)
    assert "draft_weights" in terms(answer)
    assert answer.launch.command.startswith("vllm serve Qwen/Qwen3-32B-AWQ ")
    assert '"model":"Qwen/Qwen3-0.6B"' in answer.launch.command
