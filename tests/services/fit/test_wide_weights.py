"""Weights that stay wide, or make what is computed wide: float32 and LLM.int8()."""

from collections.abc import Callable

import pytest

from fitgauge.catalog.snapshot import Snapshot
from fitgauge.engine.performance.decode import step_bytes
from fitgauge.engine.quantization.requested import requested_scheme
from fitgauge.engine.weights.sharding import shard_weights
from fitgauge.services.common.fit_schemas import FitAnswer

LLAMA = "meta-llama/Llama-3.1-8B-Instruct"
Check = Callable[..., FitAnswer]
SNAPSHOT = Snapshot()


def term_bytes(answer: FitAnswer, name: str) -> int:
    return next(term.bytes for term in answer.terms or () if term.name == name)


@pytest.mark.parametrize(
    ("model", "quantization", "halves"),
    [
        (LLAMA, "fp32", 2),
        (LLAMA, None, 1),
        ("openai-community/gpt2", None, 2),
        ("openai-community/gpt2", "bf16", 1),
    ],
)
def test_a_cache_of_transformers_has_the_dtype_of_the_weights(
    check_fit: Check, model: str, quantization: str | None, halves: int
) -> None:
    question = {"model": model, "gpu": "H100", "engine": "transformers", "context_length": 512}
    cache = term_bytes(check_fit(**question, quantization=quantization), "kv_cache")
    half = term_bytes(check_fit(**question, quantization="bf16"), "kv_cache")
    assert cache == halves * half


@pytest.mark.parametrize("quantization", ["int8", "nf4"])
def test_t5_keeps_the_outputs_of_its_mlps_in_float32(check_fit: Check, quantization: str) -> None:
    answer = check_fit(
        model="google-t5/t5-3b",
        gpu="H100",
        engine="transformers",
        quantization=quantization,
        context_length=512,
    )
    layers, width, hidden = 2 * 24, 16384, 1024
    assert term_bytes(answer, "weights") > layers * width * hidden * 4


def test_llm_int8_is_slower_than_16_bits() -> None:
    spec = SNAPSHOT.model("mistralai/Mistral-7B-Instruct-v0.3").spec
    read = {
        name: step_bytes(
            spec,
            shard_weights(spec, requested_scheme(name, spec)),
            concurrency=1,
            context_length=1,
            kv_cache_dtype="auto",
        )
        for name in ("int8", "bf16", "w8a8", "nf4")
    }
    assert 1.2 < read["int8"] / read["bf16"] < 3.7
    assert read["nf4"] < read["w8a8"] < read["bf16"]
