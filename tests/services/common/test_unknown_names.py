"""Names that no model has: what the error says, and what it sends instead."""

import asyncio

import pytest

from fitgauge.catalog.snapshot import Snapshot
from fitgauge.errors import UnknownModelError
from fitgauge.hub import Hub
from fitgauge.hub.settings import HubSettings
from fitgauge.services.common.model_resolver import ModelResolver


def refusal(text: str) -> UnknownModelError:
    """Return the error of a name, without the Hub."""
    hub = Hub(HubSettings(offline=True, cache_dir=None, token=False))
    with pytest.raises(UnknownModelError) as refused:
        asyncio.run(ModelResolver(hub, Snapshot()).find(text))
    return refused.value


@pytest.mark.parametrize("text", ["RWKV v5 7b", "RWKV-5-7B", "某某 7b"])
def test_a_name_that_is_no_hub_id_is_an_unknown_model_too(text: str) -> None:
    error = refusal(text)
    assert (error.code, error.send) == ("unknown-model", {"model": "7b"})


def test_several_models_are_no_name() -> None:
    error = refusal("qwen3 8b or gemma 3 12b")
    assert error.matches == ("Qwen/Qwen3-8B", "google/gemma-3-12b-it")
    assert error.send == {"model": "Qwen/Qwen3-8B"}


def test_a_closed_model_is_out_of_scope_and_sends_its_size() -> None:
    error = refusal("GPT-3")
    assert (error.code, error.send) == ("out-of-scope", {"model": "175b"})


def test_a_nickname_of_a_model_that_is_not_bundled_names_its_repository() -> None:
    error = refusal("jamba mini 1.7")
    assert "is ai21labs/AI21-Jamba-Mini-1.7, which is not bundled" in error.detail
