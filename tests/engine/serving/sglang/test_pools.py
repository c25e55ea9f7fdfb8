"""Pools of models whose layers keep more than keys and values, as sglang 0.5.23's
pool_configurator.py prices them."""

import pytest

from bundled_models import spec_of
from fitgauge.engine.serving.sglang.pools import SglangPools, radix_pool
from workloads import workload_of


def pool_of(model: str, *, tensor: int = 1, requests: int | None = None) -> SglangPools:
    workload = workload_of(
        "sglang", (0, 5, 23), context_length=448, gpu_memory_utilization=0.8, tensor_parallel=tensor
    )
    return radix_pool(spec_of(model), workload, None, requests=requests)


def test_an_indexer_that_compresses_adds_a_part_of_its_key_to_a_token() -> None:
    """Cell of 13,056 B and slot of 28,864,512 B, 5 slots a request, printed by SGLang 0.5.23's own
    configurator for Qwen3.8-Flash-Next over 4 ranks of a fake H200."""
    pool = pool_of("Qwen/Qwen3.8-Flash-Next", tensor=4)
    assert pool.full == 13_056
    assert pool.slot == 28_864_512
    assert pool.slots_per_request == 5


def test_compressed_attention_has_padded_rows_and_states_in_windows() -> None:
    pool = pool_of("deepseek-ai/DeepSeek-V4-Flash")
    assert pool.windowed == 31_875.0
    assert pool.cell == pytest.approx(7_086.75)
    """States of 256 requests, one of padding and a ring, in rows of 128."""
    assert pool.fixed == 20 * 33_152 * 2 * 512 * 4
    assert pool_of("deepseek-ai/DeepSeek-V4-Flash", requests=16).fixed < pool.fixed / 10
    assert pool.tokens(pool.pool_bytes(1, 448)) >= 448


@pytest.mark.parametrize(
    ("model", "tensor", "cell"),
    [
        ("openai/whisper-large-v3-turbo", 1, 204_800),  # encoder, decoder and across: 40 layers
        ("meta-llama/Llama-3.2-11B-Vision-Instruct", 2, 81_920),  # layers across images too
        ("Snowflake/snowflake-arctic-embed-m", 2, 18_432),  # encoders have a pool
    ],
)
def test_layers_across_and_encoders_have_a_part_in_a_token(
    model: str, tensor: int, cell: int
) -> None:
    pool = pool_of(model, tensor=tensor)
    assert pool.cell == cell
    assert pool.slot == 0


def test_images_lie_in_the_pool_of_tokens() -> None:
    pool = pool_of("meta-llama/Llama-3.2-11B-Vision-Instruct")
    assert pool.source > 0
    assert pool.requests(pool.pool_bytes(3, 448), 448) == 3


def test_a_model_of_states_alone_has_the_tokens_of_a_context() -> None:
    pool = pool_of("tiiuae/falcon-mamba-7b-instruct")
    assert pool.tokens(10 * pool.slot) == 448
    assert pool.tokens(pool.slot) == 0
