"""The counters of vLLM's second model runner, inside or outside of the engine's share."""

from collections.abc import Callable

import pytest

from fitgauge.services.common.fit_schemas import FitAnswer

Check = Callable[..., FitAnswer]

WORDS = 128256 + 128256 // 32


@pytest.mark.parametrize(
    ("version", "model", "states"),
    [
        ("0.24.0", "meta-llama/Llama-3.1-8B-Instruct", 0),
        ("0.26.0", "meta-llama/Llama-3.1-8B-Instruct", 0),
        ("0.27.0", "meta-llama/Llama-3.1-8B-Instruct", 1024 * WORDS * 4),
        ("0.33.0", "meta-llama/Llama-3.1-8B-Instruct", 1024 * WORDS * 4),
        ("0.28.0", "Qwen/Qwen3-30B-A3B", 0),
        ("0.29.0", "Qwen/Qwen3-30B-A3B", 1024 * (151936 + 151936 // 32) * 4),
        ("0.33.0", "BAAI/bge-m3", 0),
    ],
)
def test_each_request_has_a_counter_for_every_word(
    check_fit: Check, version: str, model: str, states: int
) -> None:
    answer = check_fit(
        model=model,
        gpu="H100",
        engine="vllm",
        engine_version=version,
        settings="defaults",
        detail="full",
        context_length=4096,
    )
    assert sum(term.bytes for term in answer.terms if term.name == "sampler_states") == states


def test_only_the_last_stage_holds_them(check_fit: Check) -> None:
    answer = check_fit(
        model="meta-llama/Llama-3.1-8B-Instruct",
        gpu="2x H100",
        pipeline_parallel=2,
        settings="defaults",
        detail="full",
        context_length=4096,
    )
    names = [{term.name for term in rank.terms or ()} for rank in answer.ranks or ()]
    assert ["sampler_states" in of_rank for of_rank in names] == [False, True]


def test_before_0_27_they_lie_outside_the_share(check_fit: Check) -> None:
    """0.26 takes them off nothing: with a share of all but 1 GiB they no longer fit."""
    one, many = (
        check_fit(
            model="meta-llama/Llama-3.1-8B-Instruct",
            gpu="L4",
            engine="vllm",
            engine_version="0.26.0",
            gpu_memory_utilization=0.95,
            max_num_seqs=sequences,
            max_batched_tokens=2048,
            enforce_eager=True,
            settings="defaults",
            context_length=4096,
        )
        for sequences in (1, 2048)
    )
    assert one.verdict == "fits"
    assert many.verdict == "does_not_fit"
    assert many.per_gpu.limited_by == "device"


@pytest.mark.parametrize(
    ("version", "sequences", "fits"),
    [("0.31.0", 1024, False), ("0.31.0", 128, True), ("0.33.0", 1024, True)],
)
def test_a_warm_up_that_the_pass_did_not_see_lies_outside_the_share(
    check_fit: Check, version: str, sequences: int, fits: bool
) -> None:
    """3.5 copies of 1,024 x 128,256 logits are 1.7 GiB, of which a pass of 2,048 tokens left 0.3;
    outside of the share lie 2.8 GiB, 1.2 of them the context's."""
    answer = check_fit(
        model="meta-llama/Llama-3.1-8B-Instruct",
        gpu="H100",
        engine="vllm",
        engine_version=version,
        gpu_memory_utilization=0.965,
        max_num_seqs=sequences,
        max_batched_tokens=2048,
        settings="defaults",
        context_length=4096,
    )
    assert (answer.verdict == "fits") == fits
