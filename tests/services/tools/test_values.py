"""Values as agents write them."""

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fitgauge.errors import InvalidRequestError
from fitgauge.services.common.schemas import FitRequest
from fitgauge.services.compare.schemas import CompareRequest
from fitgauge.services.recommend.schemas import RecommendRequest
from fitgauge.services.tools.values import fields_of, is_not_set, read
from fitgauge.services.training_fit.schemas import TrainingRequest

FIELDS = {
    **fields_of(RecommendRequest),
    **fields_of(CompareRequest),
    **fields_of(TrainingRequest),
    **fields_of(FitRequest),
}


@pytest.mark.parametrize(
    ("name", "sent", "value"),
    [
        ("context_length", "32k", 32768),
        ("context_length", "128K tokens", 131072),
        ("context_length", "32,768", 32768),
        ("context_length", "100 000", 100_000),
        ("context_length", "1M", 1048576),
        ("context_length", "~8k tokens per request", 8192),
        ("context_length", 4096.0, 4096),
        ("context_length", "200 thousand", 200_000),
        ("sequence_length", "4k", 4096),
        ("token_budget", "10B tokens", 10_000_000_000),
        ("token_budget", "1.5 billion", 1_500_000_000),
        ("concurrency", "8 users", 8),
        ("max_seconds_to_first_token", "500 ms", 0.5),
        ("max_seconds_to_first_token", "2 s", 2.0),
        ("prefix_cache_hit_rate", "80%", 0.8),
        ("min_tokens_per_second_per_request", "20 tok/s", 20.0),
        ("concurrency", "1k", 1000),
        ("gpu_count", "two", 2),
        ("gpu_count", "x4", 4),
        ("gpu_count", "2x8", 16),
        ("zero_stage", "ZeRO-3", 3),
        ("zero_stage", "stage 2", 2),
        ("gpu_memory_utilization", "95%", 0.95),
        ("gpu_memory_utilization", 90, 0.9),
        ("gpu_memory_utilization", 0.85, 0.85),
        ("cpu_offload_gib", "16GB", 16.0),
        ("cpu_offload_gib", "512 MiB", 0.5),
        ("max_usd_per_hour", "$5", 5.0),
        ("max_usd_per_hour", "2.50 USD/hour", 2.5),
        ("context_lengths", "4096, 32k", [4096, 32768]),
        ("context_lengths", [4096, "8k"], [4096, 8192]),
        ("context_lengths", 4096, [4096]),
        ("enforce_eager", "Yes", True),
        ("enforce_eager", 0, False),
        ("activation_checkpointing", True, "full"),
        ("activation_checkpointing", "Selective", "selective"),
        ("attention", "flash_attention_2", "flash"),
        ("offload", "CPU", "cpu"),
        ("gpu", 24, "24GB"),
        ("gpu", "4090", "4090"),
        ("gpus", ["H100", "2x L40S"], "H100, 2x L40S"),
        ("quantization", 4, "4bit"),
        ("quantization", "Q4_K_M", "Q4_K_M"),
    ],
)
def test_a_value_is_read(name, sent, value):
    assert read(FIELDS[name], sent) == {name: value}


@pytest.mark.parametrize(
    ("name", "sent", "send"),
    [
        ("context_length", "long", {}),
        ("context_length", "8k-32k", {"context_length": 32768}),
        ("concurrency", "2.5", {"concurrency": 2}),
        ("concurrency", True, {}),
        ("enforce_eager", "perhaps", {"enforce_eager": True}),
        ("context_length", "9" * 400, {}),
        ("gpu_count", float("inf"), {}),
    ],
)
def test_a_value_that_cannot_be_read_says_what_to_send(name, sent, send):
    with pytest.raises(InvalidRequestError) as raised:
        read(FIELDS[name], sent)
    assert (raised.value.field, raised.value.send) == (name, send)


@pytest.mark.parametrize("sent", [None, "", "null", "None", "auto", "default", "N/A", [], {}])
def test_nothing_leaves_the_default(sent):
    assert is_not_set(FIELDS["context_length"], sent)
    assert is_not_set(FIELDS["engine"], sent)


@pytest.mark.parametrize(
    ("name", "sent"),
    [("gpu_count", 0), ("context_length", "0"), ("context_length", 1), ("max_usd_per_hour", 0.0)],
)
def test_fillers_leave_the_default(name, sent):
    assert is_not_set(FIELDS[name], sent)


@pytest.mark.parametrize(
    ("name", "sent"),
    [
        ("zero_stage", 0),
        ("gpu_count", 1),
        ("offload", "none"),
        ("settings", "defaults"),
        ("settings", "auto"),
        ("reference", "none"),
        ("enforce_eager", False),
    ],
)
def test_a_value_that_means_something_is_taken(name, sent):
    assert not is_not_set(FIELDS[name], sent)


@given(st.sampled_from(sorted(FIELDS)), st.text() | st.floats() | st.integers() | st.booleans())
def test_any_value_is_read_or_refused_as_an_invalid_request(name, sent):
    fields = set()
    with suppress(InvalidRequestError):
        fields = set(read(FIELDS[name], sent))
    assert not fields or name in fields or fields <= set(FIELDS)


@pytest.mark.parametrize("sent", ["-5", " -8k", "−1"])
def test_a_negative_number_stays_one_for_the_request_to_refuse(sent):
    assert read(FIELDS["context_length"], sent)["context_length"] < 0
