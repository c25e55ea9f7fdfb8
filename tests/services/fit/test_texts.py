"""Embedding and reranking models: what they hold, and how fast they read texts."""

from collections.abc import Callable

import pytest

from fitgauge.engine.quantity import GIB
from fitgauge.services.common.fit_schemas import FitAnswer
from notes import codes

Check = Callable[..., FitAnswer]


def term(answer: FitAnswer, name: str) -> int:
    """Return the bytes of a term; 0 where there is none."""
    assert answer.terms is not None
    return sum(one.bytes for one in answer.terms if one.name == name)


def test_an_encoder_reads_a_batch_of_texts_and_keeps_none_of_them(check_fit: Check) -> None:
    answer = check_fit(model="BAAI/bge-large-en-v1.5", gpu="T4", context_length=384, concurrency=32)
    assert term(answer, "kv_cache") == 0
    assert answer.speed is None
    assert answer.texts is not None
    assert (answer.texts.load.texts, answer.texts.load.tokens) == (32, 384)
    rate = answer.texts.texts_per_second
    assert rate.low < 32 / 0.37087 < rate.high  # TensorRT on the same GPU
    assert answer.texts.runs[0].texts_per_second == pytest.approx(32 / 0.37087, abs=0.01)
    assert answer.texts.usd_per_million_texts is not None


def test_pairs_of_a_reranker_are_a_batch(check_fit: Check) -> None:
    answer = check_fit(
        model="BAAI/bge-reranker-v2-m3", gpu="L4", concurrency=100, context_length=512,
        prompt_tokens=256,
    )  # fmt: skip
    assert answer.texts is not None
    assert (answer.texts.load.texts, answer.texts.load.tokens) == (100, 256)
    assert answer.texts.basis == "modelled"


def test_a_generating_model_that_embeds_is_loaded_without_its_head(check_fit: Check) -> None:
    """Qwen3-Embedding-8B: a head of 151,665 x 4,096 that its repository leaves out."""
    fields = {"model": "Qwen/Qwen3-Embedding-8B", "gpu": "L40S", "context_length": 512}
    plain, pooled = check_fit(**fields), check_fit(**fields, pooling=True)
    assert term(plain, "weights") - term(pooled, "weights") == pytest.approx(
        151_665 * 4096 * 2, rel=0.005
    )
    assert term(pooled, "weights") / GIB == pytest.approx(14.1, abs=0.05)
    assert term(pooled, "logits") == 0 < term(plain, "logits")
    assert pooled.launch is not None
    assert "--runner pooling" in pooled.launch.command
    assert pooled.speed is None
    assert pooled.texts is not None
    assert pooled.understood_as["pooling"] is True
    assert ("pooling-unset", "pooling") in codes(plain.warnings)
    assert ("pooling-unset", "pooling") not in codes(pooled.warnings)


def test_the_cache_of_pooled_texts_is_that_of_one_pass(check_fit: Check) -> None:
    fields = {"model": "Qwen/Qwen3-Embedding-8B", "gpu": "L40S", "context_length": 512}
    few, many = (
        check_fit(**fields, pooling=True, concurrency=texts, max_batched_tokens=2048)
        for texts in (4, 400)
    )
    assert term(few, "kv_cache") == term(many, "kv_cache") > 0
    assert many.limits is not None
    assert many.limits.max_concurrency is None
    generating = check_fit(**fields, concurrency=8, max_batched_tokens=2048)
    assert term(generating, "kv_cache") > term(many, "kv_cache")


def test_other_engines_say_that_they_ignore_it(check_fit: Check) -> None:
    answer = check_fit(model="Qwen/Qwen3-8B", gpu="L40S", engine="sglang", pooling=True)
    assert ("engine-ignores-field", "pooling") in codes(answer.warnings)


def test_a_model_that_generates_has_no_texts(check_fit: Check) -> None:
    assert check_fit(model="Qwen/Qwen3-8B", gpu="L40S").texts is None
