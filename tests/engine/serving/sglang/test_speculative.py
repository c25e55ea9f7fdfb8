"""Drafts beside a model in SGLang: what is loaded of them, and what they add to a token and to the
states of a request, as sglang 0.5.23's own code has it."""

from typing import Any

import pytest

from bundled_models import spec_of
from engine.model.families.test_eagle import HEAD, LATENT_HEAD
from engine.serving.vllm.test_speculative import DFLASH
from fitgauge.engine.model.families import read_config
from fitgauge.engine.model.spec import ModelSpec
from fitgauge.engine.quantization.published import published
from fitgauge.engine.quantization.scheme import Scheme
from fitgauge.engine.serving.sglang.pools import SglangPools, radix_pool
from fitgauge.engine.serving.sglang.speculative import algorithm, draft_term
from fitgauge.engine.serving.vllm.speculative import with_draft
from fitgauge.engine.serving.workload import Workload
from workloads import workload_of

TARGET = spec_of("meta-llama/Llama-3.1-8B-Instruct")
NAME = "yuhuili/EAGLE3-LLaMA3.1-Instruct-8B"
EAGLE_3 = with_draft(TARGET, read_config(HEAD), NAME)
GIB = 2**30


def workload(**changes: Any) -> Workload:
    given = {"gpu_memory_utilization": 0.8, "speculative_tokens": 3} | changes
    return workload_of("sglang", (0, 5, 23), **given)


def pool(spec: ModelSpec, **changes: Any) -> SglangPools:
    return radix_pool(spec, workload(**changes), None)


def loaded(spec: ModelSpec, **changes: Any) -> int:
    scheme = published(spec) or Scheme(name="unquantized")
    return draft_term(spec, scheme, workload(**changes), "hopper").bytes


def test_a_head_is_loaded_with_its_embedding() -> None:
    """SGLang's own parameters and buffers for this head: 1,901,297,664 B."""
    assert loaded(EAGLE_3) == pytest.approx(1_901_297_664, rel=1e-4)


def test_a_heads_layer_makes_a_token_larger_by_one_of_the_models() -> None:
    """`cell_size` 135168."""
    assert (pool(TARGET, speculative_tokens=0).cell, pool(EAGLE_3).cell) == (131_072, 135_168)


@pytest.mark.parametrize(("ranks", "size"), [(1, 6_098_382_848), (4, 1_620_439_040)])
def test_ranks_divide_a_head_of_latent_attention_and_what_joins_it(ranks: int, size: int) -> None:
    """SGLang's own parameters and buffers."""
    spec = with_draft(spec_of("moonshotai/Kimi-K2.5"), read_config(LATENT_HEAD), "acme/head")
    assert loaded(spec, tensor_parallel=ranks) == pytest.approx(size, rel=1e-4)
    assert algorithm(spec) == "EAGLE3"


def test_own_heads_are_loaded_with_copies_of_embedding_and_head() -> None:
    spec = spec_of("deepseek-ai/DeepSeek-V3")
    ends = 2 * 2 * 129_280 * 7168
    assert loaded(spec) > ends
    assert loaded(spec, tensor_parallel=8) < loaded(spec) / 7


def test_states_of_the_checked_tokens_are_apart() -> None:
    """Four tokens of every running request, 48 at most, beside a third of the slots each."""
    spec = spec_of("Qwen/Qwen3.5-35B-A3B")
    plain, drafting = pool(spec, speculative_tokens=0), pool(spec)
    assert drafting.cell == plain.cell
    assert drafting.slots(40 * GIB) < plain.slots(40 * GIB)
    least = drafting.pool_bytes(4, 8192)
    assert drafting.requests(least, 8192) >= 4
    assert drafting.requests(least - drafting.slot, 8192) < 5


@pytest.mark.parametrize(
    "spec, name",
    [
        (EAGLE_3, "EAGLE3"),
        (spec_of("deepseek-ai/DeepSeek-V3"), "EAGLE"),
        (
            with_draft(TARGET, spec_of("meta-llama/Llama-3.2-1B-Instruct"), "Llama-3.2-1B"),
            "STANDALONE",
        ),
    ],
)
def test_the_algorithm_follows_the_draft(spec: ModelSpec, name: str) -> None:
    assert algorithm(spec) == name


def test_a_dflash_head_borrows_embedding_and_head_and_its_layers_are_priced_as_they_are() -> None:
    """SGLang's own: 2,097,252,864 B, `cell_size` 167936."""
    target = spec_of("Qwen/Qwen3-8B")
    drafted = with_draft(target, read_config(DFLASH), "z-lab/Qwen3-8B-DFlash-b16")
    assert loaded(drafted) == pytest.approx(2_097_252_864, rel=2e-2)
    assert pool(drafted, speculative_tokens=15).cell == 167_936
    assert algorithm(drafted) == "DFLASH"
