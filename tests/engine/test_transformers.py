"""Masks of sliding windows, which transformers builds for SDPA."""

import pytest

from fitgauge.catalog.models import Snapshot
from fitgauge.engine.architecture import ModelSpec
from fitgauge.engine.families import read_config
from fitgauge.engine.transformers import mask_bytes, scores_terms
from fitgauge.engine.workload import Workload


def spec_of(name: str) -> ModelSpec:
    row = Snapshot().get(name)
    assert row is not None
    return read_config(row.config, row.quantization)


def test_full_attention_makes_no_mask() -> None:
    assert mask_bytes(spec_of("Qwen/Qwen3-8B"), requests=4, length=131072, tensor_parallel=1) == 0


def test_a_prompt_within_the_window_makes_no_mask() -> None:
    assert mask_bytes(spec_of("google/gemma-3-27b-it"), requests=1, length=512, tensor_parallel=1) == 0


def test_a_short_prompt_keeps_a_byte_a_pair_as_the_mlp_hides_its_copy() -> None:
    assert mask_bytes(spec_of("google/gemma-3-27b-it"), requests=2, length=4096, tensor_parallel=1) == 2 * 4096**2


def test_a_long_prompt_pays_for_the_copy_too() -> None:
    length = 131072
    size = mask_bytes(spec_of("google/gemma-3-27b-it"), requests=1, length=length, tensor_parallel=1)
    assert 2.2 * length**2 < size < 3 * length**2


@pytest.mark.parametrize(
    "name, version, scores",
    [
        ("google/gemma-4-31B-it", (5, 5), 13 * 32 * 4096**2),
        ("google/gemma-4-31B-it", (5, 13), 0),
        ("google/gemma-3-27b-it", (5, 5), 0),
    ],
)
def test_wide_heads_that_share_keys_ran_in_the_math_kernel_before_5_13(name: str, version: tuple[int, ...], scores: int) -> None:
    """Gemma 4's heads of 512 numbers are wider than the flash kernel's widest; the windows of both models have masks instead."""
    work = Workload(
        engine="transformers",
        version=version,
        context_length=4096,
        concurrency=1,
        cache_dtype="auto",
        max_batched_tokens=4096,
        max_num_seqs=1,
    )
    spec = spec_of(name)
    assert sum(term.bytes for term in scores_terms(spec, work, range(spec.layers))) == scores
    assert scores_terms(spec, work, range(1)) == ()
