"""Masks of sliding windows, which transformers builds for SDPA; and where layers go on several
cards."""

import pytest

from bundled_models import spec_of
from fitgauge.engine.model.spec import Part
from fitgauge.engine.quantity import GIB
from fitgauge.engine.quantization.requested import requested_scheme
from fitgauge.engine.quantization.scheme import Scheme
from fitgauge.engine.serving.transformers.device_map import device_map
from fitgauge.engine.serving.transformers.memory import mask_bytes, scores_terms
from fitgauge.engine.weights.sharding import shard_weights
from workloads import workload_of


def test_full_attention_makes_no_mask() -> None:
    assert mask_bytes(spec_of("Qwen/Qwen3-8B"), requests=4, length=131072, tensor_parallel=1) == 0


def test_a_prompt_within_the_window_makes_no_mask() -> None:
    assert (
        mask_bytes(spec_of("google/gemma-3-27b-it"), requests=1, length=512, tensor_parallel=1) == 0
    )


def test_a_short_prompt_keeps_a_byte_a_pair_as_the_mlp_hides_its_copy() -> None:
    assert (
        mask_bytes(spec_of("google/gemma-3-27b-it"), requests=2, length=4096, tensor_parallel=1)
        == 2 * 4096**2
    )


def test_a_long_prompt_pays_for_the_copy_too() -> None:
    length = 131072
    size = mask_bytes(
        spec_of("google/gemma-3-27b-it"), requests=1, length=length, tensor_parallel=1
    )
    assert 2.2 * length**2 < size < 3 * length**2


@pytest.mark.parametrize(
    "name, version, scores",
    [
        ("google/gemma-4-31B-it", (5, 5), 13 * 32 * 4096**2),
        ("google/gemma-4-31B-it", (5, 13), 0),
        ("google/gemma-3-27b-it", (5, 5), 0),
    ],
)
def test_wide_heads_that_share_keys_ran_in_the_math_kernel_before_5_13(
    name: str, version: tuple[int, ...], scores: int
) -> None:
    """Gemma 4's heads of 512 numbers are wider than the flash kernel's widest; the windows of
    both models have masks instead."""
    work = workload_of(
        "transformers", version, context_length=4096, max_batched_tokens=4096, max_num_seqs=1
    )
    spec = spec_of(name)
    assert sum(term.bytes for term in scores_terms(spec, work, range(spec.layers))) == scores
    assert scores_terms(spec, work, range(1)) == ()


@pytest.mark.parametrize(
    ("model", "cards", "gib", "layers"),
    [
        ("meta-llama/Llama-3.1-70B-Instruct", 4, (32.24, 35.06, 35.06, 29.05), (19, 22, 22, 17)),
        ("meta-llama/Llama-3.1-70B-Instruct", 8, (16.30, *[17.53] * 6, 9.93), (9, *[11] * 6, 5)),
    ],
)
def test_layers_go_where_device_map_auto_puts_them(
    model: str, cards: int, gib: tuple[float, ...], layers: tuple[int, ...]
) -> None:
    """Asked of transformers 5.23's get_balanced_memory and infer_auto_device_map, on the meta
    device, bf16, cards of 75 GiB."""
    spec = spec_of(model)
    placed = device_map(shard_weights(spec, Scheme(name="unquantized")), spec.layers, cards)
    assert [round(card.bytes / GIB, 2) for card in placed] == list(gib)
    assert [len(card.layers) for card in placed] == list(layers)


def test_an_encoder_goes_over_several_cards_too() -> None:
    """flan-t5-xxl over four: transformers itself ends its first card at the encoder's 13th of 24
    layers and begins the decoder on the second, with 4.92, 5.41, 5.33 and 4.84 GiB."""
    spec = spec_of("google/flan-t5-xxl")
    placed = device_map(shard_weights(spec, requested_scheme("bf16", spec)), spec.layers, 4)
    assert [len(card.layers) for card in placed] == pytest.approx([0, 3, 11, 10], abs=1)
    assert set(placed[1].by_part) == {Part.ENCODER, Part.LANGUAGE}
    assert max(card.bytes for card in placed) / GIB == pytest.approx(5.41, rel=0.03)
