"""What every engine's room must hold to, and the posted figures of TensorRT-LLM, TGI and MLX
that are arithmetic."""

import pytest

from bundled_models import spec_of
from fitgauge.catalog.engines import load_engines
from fitgauge.engine.accelerator import custom
from fitgauge.engine.quantity import GIB
from fitgauge.engine.serving.registry import ENGINES
from fitgauge.engine.serving.tgi.memory import block_tokens, default_batch, free_share, scores_terms
from fitgauge.engine.serving.token_pool import block_pool
from workloads import workload_of


def test_every_engine_has_a_room_and_a_profile() -> None:
    for name, row in ENGINES.items():
        assert row.name == name
    for engine in ENGINES:
        assert load_engines().profile(engine, None).engine == engine


def test_posted_blocks_of_tensorrt_llm() -> None:
    """0.19, RTX 5090: fp8 cache of Llama-3.1-8B, 0.9 of 17.83 GiB free: 8219 blocks of 32
    tokens, 263008 tokens."""
    spec = spec_of("meta-llama/Llama-3.1-8B-Instruct")
    pool = block_pool(
        spec, dtype="F8_E4M3", tensor_parallel=1, block=32, layers=None, context_length=2048
    )
    assert pool.tokens(int(0.9 * 17.83 * GIB)) == pytest.approx(263_008, abs=32 * 3)
    assert 263_008 * pool.cell / GIB == pytest.approx(16.05, abs=0.01)


def test_posted_tokens_of_a_second_engine_on_an_l4() -> None:
    """Qwen2.5-0.5B: 190656 tokens in 2.18 GiB, 0.25 of 8.73 GiB free."""
    pool = block_pool(
        spec_of("Qwen/Qwen2.5-0.5B"),
        dtype="F16",
        tensor_parallel=1,
        block=32,
        layers=None,
        context_length=2048,
    )
    assert 190_656 * pool.cell / GIB == pytest.approx(2.18, abs=0.01)


def test_tgi_changes_its_wiggle_room_by_release_and_takes_smaller_blocks() -> None:
    assert [free_share(version) for version in ((2, 3), (2, 4), (3,), (3, 2, 1), (3, 3))] == [
        0.95,
        0.90,
        0.95,
        0.93,
        0.90,
    ]
    assert (block_tokens((2, 0)), block_tokens((3,))) == (16, 1)


@pytest.mark.parametrize("version, scores", [((3, 2, 1), 13 * 8 * 31_000**2), ((3, 3), 0)])
def test_tgi_masked_every_pair_of_gemma_3_until_3_3(version: tuple[int, ...], scores: int) -> None:
    """32 heads over four ranks and 31,000 tokens: 93 GiB, which made an A100 refuse them (issue
    3130)."""
    work = workload_of(
        "tgi",
        version,
        context_length=32_000,
        tensor_parallel=4,
        max_batched_tokens=31_000,
        max_num_seqs=128,
    )
    assert (
        sum(term.bytes for term in scores_terms(spec_of("google/gemma-3-27b-it"), work)) == scores
    )


def test_tgi_reads_more_at_once_of_models_that_see_images() -> None:
    card = custom(80 * GIB, "80GiB")
    batches = [
        default_batch(card, 8192, (3, 2), spec_of(name))
        for name in ("google/gemma-3-27b-it", "Qwen/Qwen3-8B")
    ]
    assert batches == [(128, 8000), (128, 4096)]
