"""DeepSeek V4's pages in one block, by release, held to what logs and refusals print."""

import pytest

from bundled_models import spec_of
from fitgauge.engine.quantity import GIB
from kv_layouts import NEWEST, kv_layout

FLASH = spec_of("deepseek-ai/DeepSeek-V4-Flash")


def test_a_pool_of_0_25_holds_the_tokens_that_it_logs() -> None:
    """v116 of the truth: 7.75 GiB, 8,008 blocks, 301,529 tokens, printed to 0.01 GiB."""
    cache = kv_layout(
        FLASH,
        max_model_len=131072,
        max_batched_tokens=8192,
        version=(0, 25, 0),
        tensor_parallel=2,
        kv_cache_dtype="fp8",
    )
    assert cache.blocks_per_request == 3481
    assert 8008 * cache.block_bytes == pytest.approx(7.75 * GIB, abs=0.005 * GIB)
    assert cache.tokens(8008 * cache.block_bytes) == 301_529


def test_two_batches_in_flight_of_0_26_hold_half() -> None:
    """v176 of the truth: 7.7 GiB, some 150,000 tokens of 121,344."""
    cache = kv_layout(
        FLASH,
        max_model_len=121344,
        max_batched_tokens=8192,
        version=(0, 26, 0),
        tensor_parallel=2,
        kv_cache_dtype="fp8_ds_mla",
    )
    assert cache.tokens(int(7.7 * GIB)) == pytest.approx(150_000, rel=0.01)


def test_0_22_asks_for_whole_repeats_in_every_block() -> None:
    """v003 of the truth: "6.66 GiB KV cache is needed" for 30,000 tokens; 5.44 GiB hold 13,528."""
    cache = kv_layout(
        FLASH,
        max_model_len=30000,
        max_batched_tokens=16384,
        version=(0, 22, 0),
        tensor_parallel=2,
        kv_cache_dtype="fp8",
    )
    assert cache.block_bytes == 22 * (8640 + 37440 + 1728)
    assert cache.pool_bytes(1, 30000) == pytest.approx(6.66 * GIB, abs=0.005 * GIB)
    assert cache.pool_bytes(1, 13528) == pytest.approx(5.44 * GIB, abs=0.01 * GIB)


@pytest.mark.parametrize(
    ("version", "block_bytes"),
    [
        ((0, 22, 1), 1_051_776),
        ((0, 23, 0), 1_039_680),
        ((0, 26, 0), 1_039_680),
        ((0, 27, 0), 1_002_240),
        ((0, 28, 0), 1_002_240),
        (NEWEST, 1_002_240),
    ],
)
def test_a_block_shrinks_from_release_to_release(
    version: tuple[int, ...], block_bytes: int
) -> None:
    cache = kv_layout(
        FLASH,
        max_model_len=8192,
        max_batched_tokens=2048,
        version=version,
        tensor_parallel=1,
        kv_cache_dtype="fp8",
    )
    assert cache.block_bytes == block_bytes
    asked = cache.pool_bytes(1, 8192)
    blocks = cache.request_blocks(8192)
    assert asked == (
        blocks * 1_051_776 if (0, 22, 1) < version < (0, 29) else (blocks + 1) * block_bytes
    )
    assert cache.pool_bytes(4, 8192) == (4 * blocks + 1) * block_bytes
