"""What an unknown name may mean, and what may be sent instead of it."""

import pytest

from fitgauge.catalog.near_names import may_stand_for
from fitgauge.catalog.scope import closed_model_in, closed_size, out_of_scope
from fitgauge.catalog.snapshot import Snapshot
from fitgauge.services.common.model_readings import replacement, size_model

SNAPSHOT = Snapshot()


def sent_instead(text: str) -> object:
    """Return the model to send instead of an unknown name."""
    return replacement(text, SNAPSHOT.near(text)).get("model")


@pytest.mark.parametrize(
    ("text", "model"),
    [
        ("lama 4 scot", "meta-llama/Llama-4-Scout-17B-16E"),
        ("deapseek r1", "deepseek-ai/DeepSeek-R1"),
        ("mixtrel 8x7b", "mistralai/Mixtral-8x7B-v0.1"),
        ("gemma 3 27b's", "google/gemma-3-27b-it"),
    ],
)
def test_a_misspelled_name_is_sent_as_the_right_one(text: str, model: str) -> None:
    assert sent_instead(text) == model


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("galactica 120b", "120b"),
        ("rwkv 6 7b", "7b"),
        ("wizardlm 13b", "13b"),
        ("qwen omni 7b", "7b"),
        ("llama 9 8b", "8b"),
    ],
)
def test_another_family_size_kind_or_generation_is_not_sent(text: str, size: str) -> None:
    assert sent_instead(text) == size


@pytest.mark.parametrize("text", ["mistral large 9", "grok 2", "zzz", "Qwen9-Omni"])
def test_nothing_is_sent_where_neither_a_model_nor_a_size_is_meant(text: str) -> None:
    assert sent_instead(text) is None


def test_names_without_a_common_family_are_no_matches() -> None:
    assert not [name for name in SNAPSHOT.near("jamba 9 large") if "jamba" not in name.lower()]


def test_a_name_may_stand_for_another_of_its_size_only() -> None:
    assert may_stand_for("Qwen/Qwen3-32B", "Qwen3-33B")
    assert not may_stand_for("Qwen/Qwen3-32B", "Qwen3-14B")


@pytest.mark.parametrize(
    ("text", "model"),
    [
        ("通义千问 72b", "Qwen/Qwen-72B"),
        ("百川13b", "baichuan-inc/Baichuan-13B-Chat"),
        ("라마3 70b", "meta-llama/Meta-Llama-3-70B-Instruct"),
    ],
)
def test_families_are_read_in_their_own_script(text: str, model: str) -> None:
    assert SNAPSHOT.find(text) == model
    assert size_model(text) is None


@pytest.mark.parametrize(("text", "is_size"), [("70b 大模型", True), ("某某 70b", False)])
def test_a_size_beside_an_unknown_name_is_no_size(text: str, is_size: bool) -> None:
    assert (size_model(text) is not None) is is_size


@pytest.mark.parametrize(
    ("text", "closed"),
    [("gpt-4", True), ("ChatGPT", True), ("gemini 2.5 pro", True), ("gpt4all 13b", False)],
)
def test_models_without_published_weights_are_out_of_scope(text: str, closed: bool) -> None:
    assert (out_of_scope(text) is not None) is closed


def test_a_closed_model_of_a_published_size_is_answered_by_that() -> None:
    assert closed_size("GPT-3 175B") == "175b"
    assert closed_size("gpt3-6.7b") == "6.7b"
    assert closed_size("gpt-4") is None


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("can I run claude 3.5 sonnet on a 4090?", "claude 3.5 sonnet"),
        ("is GPT-4o better?", "GPT-4o"),
        ("qwen3 8b on a 4090", None),
    ],
)
def test_a_closed_model_is_found_within_a_sentence(text: str, name: str | None) -> None:
    assert closed_model_in(text) == name
