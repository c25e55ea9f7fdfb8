"""How fast the launch of an answer is: measured where a published run is near, else modelled."""

from collections.abc import Callable
from typing import Any

import pytest

from fitgauge.errors import InvalidRequestError
from fitgauge.services.common.fit_schemas import FitAnswer
from fitgauge.services.common.speed_schemas import SpeedAnswer
from fitgauge.services.fit.speed import MODELLED_SPREAD

Check = Callable[..., FitAnswer]

NIM: dict[str, Any] = {
    "model": "meta-llama/Llama-3.3-70B-Instruct",
    "gpu": "2x H100 SXM",
    "engine": "tensorrt-llm",
    "quantization": "fp8",
    "context_length": 5500,
    "prompt_tokens": 5000,
    "output_tokens": 500,
}
"""NVIDIA's own runs of NIM 1.8: 25 requests at 25.8 tokens a second each."""

SMALL: dict[str, Any] = {"model": "Qwen/Qwen3-8B", "gpu": "L40S", "context_length": 4096}


def speed(answer: FitAnswer) -> SpeedAnswer:
    """Return the speed of an answer that has one."""
    assert answer.speed is not None
    return answer.speed


def test_a_published_run_of_the_very_load_is_the_answer(check_fit: Check) -> None:
    answer = speed(check_fit(**NIM, concurrency=25))
    assert (answer.basis, answer.first_token_basis) == ("measured", "measured")
    assert answer.tokens_per_second_per_request.expected == pytest.approx(25.81, abs=0.01)
    assert answer.seconds_to_first_token.expected == pytest.approx(0.6887, abs=1e-4)
    assert answer.tokens_per_second.expected == pytest.approx(623.4, rel=0.06)
    assert answer.runs[0].source.startswith("docs.nvidia.com")
    assert answer.runs[0].load.concurrency == 25


def test_a_load_between_published_runs_is_met_by_scaling_the_nearest(check_fit: Check) -> None:
    """35 requests: between 25 at 25.8 tokens a second and 50 at 16.7."""
    each = speed(check_fit(**NIM, concurrency=35)).tokens_per_second_per_request
    assert 16.7 < each.expected < 25.8


def test_another_engine_is_modelled_and_shows_the_run(check_fit: Check) -> None:
    answer = speed(check_fit(**{**NIM, "engine": "vllm"}, concurrency=25))
    assert answer.basis == answer.first_token_basis == "modelled"
    assert answer.runs[0].engine == "tensorrt-llm"


def test_what_is_modelled_has_the_interval_of_published_runs(check_fit: Check) -> None:
    each = speed(check_fit(**SMALL)).tokens_per_second_per_request
    assert each.low <= each.expected * MODELLED_SPREAD[0] + 0.01
    assert each.high >= each.expected * MODELLED_SPREAD[1] - 0.01


def test_one_request_alone_is_held_to_runs_of_one_request(check_fit: Check) -> None:
    """llama.cpp's own benchmark at 512 tokens: 127.74 a second; 8,192 tokens of cache slow it."""
    answer = speed(
        check_fit(model="meta-llama/Llama-3.1-8B-Instruct", gpu="RTX 4090", engine="llama.cpp")
    )
    assert (answer.basis, answer.first_token_basis) == ("measured", "modelled")
    assert 90 < answer.tokens_per_second_per_request.expected < 127


def test_prompt_and_answer_fill_the_context_where_they_are_not_sent(check_fit: Check) -> None:
    load = speed(check_fit(**SMALL)).load
    assert (load.prompt_tokens, load.output_tokens) == (4096 - 512, 512)
    load = speed(check_fit(**SMALL, prompt_tokens=4000)).load
    assert (load.prompt_tokens, load.output_tokens) == (4000, 96)


def test_a_context_of_one_token_has_a_load(check_fit: Check) -> None:
    load = speed(check_fit(**{**SMALL, "context_length": 1})).load
    assert (load.prompt_tokens, load.output_tokens) == (1, 1)


def test_more_than_the_context_holds_is_refused_with_what_to_send(check_fit: Check) -> None:
    with pytest.raises(InvalidRequestError) as refused:
        check_fit(**SMALL, prompt_tokens=4000, output_tokens=200)
    assert refused.value.field == "prompt_tokens"
    assert refused.value.send == {"context_length": 4200}


def test_a_prefix_in_the_cache_shortens_the_first_token_and_every_other(check_fit: Check) -> None:
    plain = speed(check_fit(**SMALL, concurrency=8))
    cached = speed(check_fit(**SMALL, concurrency=8, prefix_cache_hit_rate=0.8))
    assert cached.seconds_to_first_token.expected < 0.5 * plain.seconds_to_first_token.expected
    assert (
        cached.tokens_per_second_per_request.expected > plain.tokens_per_second_per_request.expected
    )


def test_replicas_share_the_requests_and_add_up(check_fit: Check) -> None:
    one = speed(check_fit(**SMALL, concurrency=4))
    two = speed(
        check_fit(**{**SMALL, "gpu": "2x L40S"}, concurrency=8, data_parallel=2, tensor_parallel=1)
    )
    assert two.tokens_per_second_per_request == one.tokens_per_second_per_request
    assert two.tokens_per_second.expected == pytest.approx(
        2 * one.tokens_per_second.expected, abs=0.02
    )
    assert two.load.concurrency == 8


@pytest.mark.parametrize(
    "least,longest,reached",
    [
        (1.0, 1000.0, ("yes", "yes")),
        (1e6, 1e-3, ("no", "no")),
        (None, 1000.0, ("yes",)),
        (1.0, None, ("yes",)),
    ],
)
def test_targets_are_reached_or_not(
    check_fit: Check, least: float | None, longest: float | None, reached: tuple[str, ...]
) -> None:
    answer = check_fit(
        **SMALL, min_tokens_per_second_per_request=least, max_seconds_to_first_token=longest
    )
    assert tuple(one.reached for one in speed(answer).targets) == reached
    first = answer.summary.partition(" needs ")[0]
    assert [word for word in ("yes", "no") if f": {word}" in first] == [reached[0]]
    assert first.count(f": {reached[0]}") == len(reached)


def test_a_target_within_the_interval_is_likely_or_unlikely(check_fit: Check) -> None:
    each = speed(check_fit(**SMALL)).tokens_per_second_per_request
    for least, reached in ((each.expected * 0.9, "likely"), (each.expected * 1.1, "unlikely")):
        answer = check_fit(**SMALL, min_tokens_per_second_per_request=least)
        assert [one.reached for one in speed(answer).targets] == [reached]


def test_a_million_tokens_cost_the_rent_over_the_speed(check_fit: Check) -> None:
    answer = speed(check_fit(**SMALL))
    cost = answer.usd_per_million_output_tokens
    assert cost is not None
    assert cost.low < cost.expected < cost.high
    twice = speed(check_fit(**SMALL, concurrency=2)).usd_per_million_output_tokens
    assert twice is not None
    assert twice.expected < cost.expected


def test_detail_full_shows_more_runs(check_fit: Check) -> None:
    assert len(speed(check_fit(**NIM, concurrency=25)).runs) == 1
    assert len(speed(check_fit(**NIM, concurrency=25, detail="full")).runs) == 5


@pytest.mark.parametrize(
    "fields",
    [
        {"model": "Qwen/Qwen3-32B", "gpu": "RTX 4090", "quantization": "bf16"},
        {
            "model": "Qwen/Qwen3-8B",
            "gpu": "L40S",
            "engine": "llama.cpp",
            "cpu_offload_gib": 4,
            "concurrency": 2,
        },
        {"model": "Qwen/Qwen3-30B-A3B", "gpu": "2x H100", "expert_parallel": 2},
        {"model": "BAAI/bge-m3", "gpu": "L4"},
        {"model": "Qwen/Qwen3-8B", "gpu": "3090 + 4090", "engine": "llama.cpp"},
    ],
)
def test_what_no_formula_covers_has_no_speed(check_fit: Check, fields: dict[str, Any]) -> None:
    assert check_fit(**fields).speed is None


def test_the_load_is_echoed_where_it_was_sent(check_fit: Check) -> None:
    sent = {
        "prompt_tokens": 1000,
        "output_tokens": 100,
        "prefix_cache_hit_rate": 0.5,
        "min_tokens_per_second_per_request": 20.0,
        "max_seconds_to_first_token": 0.5,
    }
    understood = check_fit(**SMALL, **sent).understood_as
    assert {name: understood[name] for name in sent} == sent
    assert not sent.keys() & check_fit(**SMALL).understood_as.keys()


@pytest.mark.parametrize("gpu", ["M3 Ultra 256GB", "GB10"])
def test_without_arithmetic_one_request_is_as_fast_as_it_is_read(
    check_fit: Check, gpu: str
) -> None:
    asked = {"model": "Qwen/Qwen3-8B", "gpu": gpu, "quantization": "q4_k_m"}
    alone = speed(check_fit(**asked))
    rate = alone.tokens_per_second_per_request
    assert 0 < rate.low < rate.expected < rate.high
    assert alone.tokens_per_second is None
    assert alone.seconds_to_first_token is None
    assert check_fit(**asked, concurrency=4).speed is None


@pytest.mark.parametrize("gpu", ["P40", "MI50", "Arc A770 16GB"])
def test_kinds_of_gpus_without_runs_and_arithmetic_have_no_speed(
    check_fit: Check, gpu: str
) -> None:
    assert check_fit(model="Qwen/Qwen3-8B", gpu=gpu, quantization="q4_k_m").speed is None
