"""How fast texts are read, on numbers a reader can check."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bundled_models import spec_of
from fitgauge.catalog import accelerators
from fitgauge.engine.performance.decode import LAYER_SECONDS
from fitgauge.engine.performance.prefill import COMPUTE_EFFICIENCY, peak, prompt_flops
from fitgauge.engine.performance.texts import TextLoad, text_speed
from fitgauge.engine.quantization.requested import requested_scheme

BGE = spec_of("BAAI/bge-large-en-v1.5")
FP16 = requested_scheme("fp16", BGE)


def speed(texts, tokens, *, name="a100-40gb-sxm", passes_of=10**9, ranks=1):
    return text_speed(
        BGE,
        FP16,
        accelerators.load().get(name),
        TextLoad(texts=texts, tokens=tokens),
        weight_bytes=2 * BGE.parameters,
        max_batched_tokens=passes_of,
        tensor_parallel=ranks,
    )


def test_a_batch_takes_its_operations_over_the_peak_and_waits_for_its_layers_once():
    """A100: 312 x 10^12 operations a second; 24 layers."""
    seconds = 64 * prompt_flops(BGE, 384) / (312e12 * COMPUTE_EFFICIENCY[1]) + 24 * LAYER_SECONDS
    batch = speed(64, 384)
    assert batch.seconds_per_batch.expected == pytest.approx(seconds, abs=6e-5)
    assert batch.texts_per_second.expected == pytest.approx(64 / seconds, rel=2e-3)


def test_a_batch_of_several_passes_waits_for_its_layers_in_each():
    """Of 2,048 tokens a pass holds five texts of 384: 64 are 13 passes."""
    more = speed(64, 384, passes_of=2048).seconds_per_batch.expected
    assert more - speed(64, 384).seconds_per_batch.expected == pytest.approx(
        12 * 24 * LAYER_SECONDS, abs=2e-5
    )


def test_a_text_longer_than_a_pass_is_one_pass():
    assert speed(1, 512, passes_of=256) == speed(1, 512)


@given(st.integers(1, 500), st.integers(1, 8192), st.integers(256, 65536))
def test_more_texts_take_longer_and_the_interval_holds_what_is_expected(texts, tokens, passes_of):
    one, more = (speed(count, tokens, passes_of=passes_of) for count in (texts, texts + 1))
    assert more.seconds_per_batch.expected >= one.seconds_per_batch.expected
    for interval in (*one, *more):
        assert interval.low <= interval.expected <= interval.high


def test_a_gpu_of_unknown_arithmetic_gives_no_speed():
    unknown = next(gpu for gpu in accelerators.load().all() if peak(FP16, gpu) is None)
    assert speed(1, 128, name=unknown.id) is None
