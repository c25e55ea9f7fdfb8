"""Speed at a load, on numbers a reader can check, and its two constants derived again."""

from math import log
from statistics import mean

import pytest
from hypothesis import given
from hypothesis import strategies as st

from accuracy import report_speeds
from bundled_models import spec_of
from fitgauge.engine.performance import load as loads
from fitgauge.engine.performance.decode import SPREAD
from fitgauge.engine.performance.load import (
    AT_ONCE,
    SERVER_SECONDS,
    Load,
    StepSeconds,
    computed_flops,
    speed_of,
)
from fitgauge.engine.performance.prefill import COMPUTE_EFFICIENCY, Seconds, prompt_flops

STEP = StepSeconds(reading=0.018, multiplying=0.00096, waiting=0.0)
PROMPT = Seconds(low=0.35, expected=0.4, high=0.5)


def speed(concurrency, step=STEP, prompt=PROMPT, output=500):
    asked = Load(concurrency=concurrency, prompt_tokens=5000, output_tokens=output)
    return speed_of(step, prompt, asked, COMPUTE_EFFICIENCY)


def test_one_request_waits_for_no_prompt_of_others():
    """18 ms of reading and 0.96 / 0.48 = 2 ms of multiplying are 50 tokens a second."""
    assert speed(1).tokens_per_second_per_request.expected == 50.0


def test_a_token_waits_for_its_share_of_the_prompts_of_others():
    """Of 26 requests 25 others bring a prompt of 0.4 s every 500 tokens: 20 ms on top of 20."""
    assert speed(26).tokens_per_second_per_request.expected == 25.0


def test_all_requests_together_pay_for_their_prompts():
    """One request: 500 tokens in 10 s and 0.4 s of its prompt, and what the server takes."""
    whole = 500 * 0.02 + 0.4 + SERVER_SECONDS
    assert speed(1).tokens_per_second.expected == pytest.approx(500 / whole, abs=0.01)


def test_a_first_token_comes_between_one_by_one_and_all_at_once():
    """Half of the time is spent on prompts, so a queue waits for half a prompt, and for half a
    step; all at once, 25 others are waited for by half."""
    one_by_one = 0.4 + 0.4 * 0.5 / (2 * 0.5) + 0.01
    at_once = 0.4 * (1 + 25 / 2)
    first = speed(26).seconds_to_first_token
    assert first.expected == pytest.approx(
        one_by_one ** (1 - AT_ONCE) * at_once**AT_ONCE + SERVER_SECONDS, abs=1e-4
    )
    assert first.low == PROMPT.low
    assert first.high == pytest.approx(0.5 * (1 + 25 / 2) + 2 * SERVER_SECONDS, abs=1e-4)


def test_no_request_waits_for_more_prompts_than_others_bring():
    """Prompts of a minute before answers of a few tokens: three others bring three."""
    long = Seconds(low=30, expected=60, high=90)
    first = speed(4, prompt=long, output=50).seconds_to_first_token
    assert first.expected == pytest.approx(4 * 60, rel=0.01)
    assert first.high == pytest.approx(4 * 90, rel=0.01)


@given(
    st.integers(1, 500),
    st.integers(1, 4000),
    st.floats(1e-5, 0.2),
    st.floats(0, 0.2),
    st.floats(0, 0.05),
    st.floats(1e-4, 5),
)
def test_intervals_hold_what_is_expected_and_more_requests_are_no_faster_each(
    concurrency, output, reading, multiplying, waiting, seconds
):
    step = StepSeconds(reading, multiplying, waiting)
    prompt = Seconds(low=seconds * 0.8, expected=seconds, high=seconds * 1.3)
    one, more = (speed(count, step, prompt, output) for count in (concurrency, concurrency + 1))
    for interval in one:
        assert interval.low <= interval.expected <= interval.high
    each, less = one.tokens_per_second_per_request, more.tokens_per_second_per_request
    assert less.expected <= each.expected
    assert more.seconds_to_first_token.high >= one.seconds_to_first_token.high
    assert each.low == pytest.approx(each.expected * SPREAD[0], rel=0.6, abs=0.01)


def test_a_cached_prefix_leaves_the_rest_of_the_prompt_to_compute():
    """Of 4,000 tokens 3,000 are read from the cache: what is left is the whole less its
    beginning, more than a prompt of 1,000, since each token attends to all before it."""
    spec = spec_of("meta-llama/Llama-3.1-8B-Instruct")
    rest = computed_flops(
        spec, Load(concurrency=1, prompt_tokens=4000, output_tokens=1, prefix_cache_hit_rate=0.75)
    )
    assert rest == prompt_flops(spec, 4000) - prompt_flops(spec, 3000)
    assert prompt_flops(spec, 1000) < rest < 1.2 * prompt_flops(spec, 1000)


def test_the_last_token_of_a_prompt_is_always_computed():
    whole = Load(concurrency=1, prompt_tokens=4000, output_tokens=1, prefix_cache_hit_rate=1.0)
    assert whole.computed_tokens == 1


def error(runs, at_once, server):
    """Mean absolute logarithm of modelled over published first tokens, every source alike."""
    by_source = {}
    for source, measured, one_by_one, together in runs:
        expected = one_by_one ** (1 - at_once) * together**at_once + server
        by_source.setdefault(source, []).append(abs(log(expected / measured)))
    return mean(map(mean, by_source.values()))


def test_the_constants_of_the_first_token_are_the_pair_with_the_least_error(monkeypatch):
    runs, arrivals, plain = [], [], loads._arrivals
    monkeypatch.setattr(
        loads, "_arrivals", lambda *parts: arrivals.append(plain(*parts)) or arrivals[-1]
    )
    for one in report_speeds.held():
        arrivals.clear()
        report_speeds.modelled_run(one.run)
        runs.append((one.run.source, one.run.seconds_to_first_token, *arrivals[1]))
    pairs = [(tenth / 10, step / 200) for tenth in range(11) for step in range(21)]
    best = min(pairs, key=lambda pair: error(runs, *pair))
    assert best == pytest.approx((AT_ONCE, SERVER_SECONDS))
    assert error(runs, *best) == pytest.approx(0.57, abs=0.01)
    assert error(runs, 0.5, 0.0) > 0.8
