"""Prefill and decode on servers of their own: each half is a launch."""

import msgspec
import pytest

from fitgauge.engine.serving.registry import ENGINES
from fitgauge.engine.serving.start_log.lines import clean_lines
from fitgauge.services.common.launch_fields import launch_fields
from fitgauge.services.common.schemas import FitRequest
from fitgauge.services.fit.speed import load_of

QUESTION = {"model": "Qwen/Qwen3-8B", "gpu": "L40S", "context_length": 8192, "concurrency": 4}
HALVES = ("prefill", "decode")


def terms(answer):
    return {term.name: term.bytes for term in answer.terms}


def transfer(answer):
    (found,) = (one for one in answer.warnings if one.code == "kv-transfer")
    return found.message


@pytest.mark.parametrize("half", HALVES)
def test_a_half_under_vllm_takes_what_a_server_takes_and_has_a_connector(check_fit, half):
    whole = check_fit(**QUESTION, engine="vllm")
    answer = check_fit(**QUESTION, engine="vllm", disaggregation=half, detail="full")
    assert terms(answer) == terms(whole)
    assert "NixlConnector" in answer.launch.command
    assert "NixlConnector" not in whole.launch.command
    assert f"name: qwen3-8b-{half}\n" in answer.launch.kubernetes
    assert "VLLM_NIXL_SIDE_CHANNEL_HOST" in answer.launch.kubernetes
    assert answer.launch.helm_values is None


@pytest.mark.parametrize("half", HALVES)
def test_a_half_under_sglang_captures_its_own_graphs_alone(check_fit, half):
    whole = check_fit(**QUESTION, engine="sglang", settings="defaults")
    answer = check_fit(**QUESTION, engine="sglang", settings="defaults", disaggregation=half)
    assert f"--disaggregation-mode {half}" in answer.launch.command
    assert ("cuda_graphs" in terms(answer)) == (half == "decode")
    assert "cuda_graphs" in terms(whole)


def test_the_cache_of_a_prompt_is_handed_over(check_fit):
    """36 layers x 8 heads x 2 x 128 numbers of 2 bytes x 7,680 tokens of a prompt."""
    size = 36 * 8 * 2 * 128 * 2 * 7680 / 2**30
    for half in HALVES:
        answer = check_fit(**QUESTION, disaggregation=half)
        assert "a prompt of 7,680 tokens" in transfer(answer)
        assert f"{size:.2f} GiB" in transfer(answer)


def test_a_half_has_its_own_speed_and_leaves_the_other_promise_out(check_fit):
    promises = {"min_tokens_per_second_per_request": 10, "max_seconds_to_first_token": 5}
    prefill, decode = (check_fit(**QUESTION, **promises, disaggregation=half) for half in HALVES)
    assert [one.field for one in prefill.speed.targets] == ["max_seconds_to_first_token"]
    assert [one.field for one in decode.speed.targets] == ["min_tokens_per_second_per_request"]
    assert "First token after" in prefill.summary
    assert "tokens a second" not in prefill.summary
    assert "first token after" not in decode.summary
    whole = check_fit(**QUESTION)
    ahead = decode.speed.tokens_per_second_per_request.expected
    assert ahead > whole.speed.tokens_per_second_per_request.expected


def test_prefill_writes_one_token_and_decode_computes_none_of_a_prompt():
    request = FitRequest(model="a/b", gpu="L4", prompt_tokens=1000, output_tokens=100)
    loads = {half: load_of(request, 2048, 8, half) for half in HALVES}
    assert (loads["prefill"].output_tokens, loads["prefill"].computed_tokens) == (1, 1000)
    assert (loads["decode"].output_tokens, loads["decode"].computed_tokens) == (100, 1)


def test_models_with_windows_are_refused_where_vllm_keeps_all_of_them(check_fit):
    question = {"model": "openai/gpt-oss-20b", "gpu": "H100", "engine": "vllm"}
    old = check_fit(**question, engine_version="0.19", disaggregation="decode")
    assert old.verdict == "unsupported"
    assert check_fit(**question, disaggregation="decode").verdict == "fits"


@pytest.mark.parametrize("engine", ["tensorrt-llm", "tgi", "llama.cpp"])
def test_other_engines_are_refused_with_those_that_serve_halves(check_fit, engine):
    answer = check_fit(**QUESTION, engine=engine, disaggregation="prefill")
    assert (answer.verdict, answer.launch) == ("unsupported", None)
    assert f"not estimated for {engine}" in answer.summary
    engines = [one.request["engine"] for one in answer.suggestions if "engine" in one.request]
    assert engines[:1] == ["vllm"]
    assert check_fit(**QUESTION, engine=engine).verdict != "unsupported"


def test_an_unknown_half_is_refused():
    with pytest.raises(msgspec.ValidationError):
        msgspec.convert({"model": "a/b", "disaggregation": "both"}, FitRequest)


@pytest.mark.parametrize(
    "engine, command, half",
    [
        ("sglang", "python -m sglang.launch_server --disaggregation-mode decode", "decode"),
        ("sglang", "python -m sglang.launch_server --disaggregation-mode null", None),
        ("vllm", """vllm serve a/b --kv-transfer-config '{"kv_role":"kv_producer"}'""", "prefill"),
        ("vllm", """vllm serve a/b --kv-transfer-config '{"kv_role":"kv_both"}'""", None),
    ],
)
def test_a_command_that_names_a_half_is_read(engine, command, half):
    log = ENGINES[engine].log_parser.read(clean_lines(command))
    assert launch_fields(log).get("disaggregation") == half
