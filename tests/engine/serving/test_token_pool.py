"""A pool of blocks holds whole requests, each with its blocks and its recurrent states."""

import pytest

from bundled_models import model_of
from fitgauge.engine.serving.token_pool import BlockPool, block_pool

POOL = BlockPool(cell=100, block=32, state=1000, context_length=33, formula="100 B")
REQUEST = 64 * 100 + 1000


def test_a_request_takes_whole_blocks_and_its_states():
    assert POOL.pool_bytes(1, 33) == REQUEST
    assert POOL.pool_bytes(3, 33) == 3 * REQUEST


@pytest.mark.parametrize(("free", "requests"), [(REQUEST - 1, 0), (REQUEST, 1), (2 * REQUEST, 2)])
def test_a_pool_holds_whole_requests(free, requests):
    assert POOL.requests(free, 33) == requests


def test_tokens_are_those_of_whole_blocks_besides_one_requests_states():
    assert POOL.tokens(1000 + 2 * 3200) == 64
    assert POOL.tokens(1000 + 2 * 3200 - 1) == 32
    assert POOL.tokens(999) == 0


def test_a_hybrids_pool_has_cells_of_attention_and_states_of_the_others():
    spec = model_of("Qwen/Qwen3-Next-80B-A3B-Instruct").spec
    one, two = (
        block_pool(
            spec, dtype="BF16", tensor_parallel=ranks, block=32, layers=None, context_length=1
        )
        for ranks in (1, 2)
    )
    attention, linear = 12, 36
    assert one.cell == attention * 2 * 2 * 256 * 2  # layers, key and value, heads, width, BF16
    conv, matrix = (2 * 16 * 128 + 32 * 128) * 3 * 2, 32 * 128 * 128 * 2
    assert one.state == linear * (conv + matrix)
    assert (two.cell, two.state) == (one.cell // 2, one.state // 2)
