"""Ollama before 0.30 has engines of its own; from then on it starts llama-server."""

import pytest

from fitgauge.engine.quantity import GIB

GEMMA = {"model": "google/gemma-3-12b-it", "gpu": "RTX 4090", "engine": "ollama"}
MIXTURE = {
    "model": "openai/gpt-oss-120b", "gpu": "RTX 4090", "cpu_offload_gib": 45, "detail": "full",
}  # fmt: skip


def terms(answer):
    return {term.name: term for term in answer.terms}


def test_what_llama_server_leaves_free_is_kept_back_since_it_runs(check_fit):
    today, before = check_fit(**GEMMA), check_fit(**GEMMA, engine_version="0.20.2")
    assert terms(today)["reserve"].bytes == GIB
    assert "reserve" not in terms(before)


@pytest.mark.parametrize(("version", "verdict"), [("0.20.2", "unsupported"), ("0.32.1", "fits")])
def test_types_of_the_cache_are_those_of_what_runs(check_fit, version, verdict):
    for dtype in ("bf16", "q5_1"):
        assert check_fit(**GEMMA, kv_cache_dtype=dtype, engine_version=version).verdict == verdict
    command = check_fit(**GEMMA, kv_cache_dtype="q8_0", engine_version=version).launch.command
    assert "OLLAMA_KV_CACHE_TYPE=q8_0" in command


def test_whole_layers_stayed_on_the_host_before_and_experts_do_since(check_fit):
    today = check_fit(**MIXTURE, engine="ollama")
    before = check_fit(**MIXTURE, engine="ollama", engine_version="0.20.2")
    assert "experts of the first" in terms(today)["weights"].formula
    assert "layers too" in terms(before)["weights"].formula
    assert "experts" not in terms(before)["weights"].formula


def test_slots_of_llama_server_share_the_judged_buffer(check_fit):
    """A number of slots divides it otherwise (common/arg.cpp, kv_unified)."""
    asked = GEMMA | {"engine": "llama.cpp", "concurrency": 16, "context_length": 4096}
    assert "--parallel 16 --kv-unified" in check_fit(**asked).launch.command
    assert "--kv-unified" not in check_fit(**asked | {"concurrency": 2}).launch.command


def test_models_that_ollama_runs_with_one_slot_hold_one_request(check_fit):
    asked = {"model": "Qwen/Qwen3.5-9B", "gpu": "RTX 4090", "concurrency": 4}
    queued = check_fit(**asked, engine="ollama")
    assert queued.limits.max_concurrency == 1
    assert "(one request at a time: ollama queues the others)" in queued.summary
    assert any(note.code == "one-request-at-a-time" for note in queued.warnings)
    at_once = check_fit(**asked, engine="llama.cpp")
    assert at_once.limits.max_concurrency >= 4
    assert "queues" not in at_once.summary
