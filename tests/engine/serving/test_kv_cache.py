"""What every kind of mixer keeps, without paging."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fitgauge.engine.model.mixers import (
    Attention,
    CompressedAttention,
    CrossAttention,
    Indexer,
    LatentAttention,
    Mixer,
    Recurrent,
    State,
)
from fitgauge.engine.model.spec import Block, ModelSpec, Part
from fitgauge.engine.serving.kv_cache import (
    cache_bytes,
    cross_bytes,
    request_bytes,
    state_bytes,
    token_bytes,
)


def _attention(**fields: Any) -> Attention:
    return Attention(
        **{"query_heads": 32, "kv_heads": 8, "head_dim": 128, "value_dim": 128, **fields}
    )


_INDEXER = Indexer(heads=64, dim=128, top_k=2048)
_LATENT = LatentAttention(query_heads=128, latent_dim=512, rope_dim=64, nope_dim=128, value_dim=128)
_GATED_DELTA = Recurrent(
    kind="gated_delta", states=(State("conv", 16, 384), State("ssm", 48, 128 * 128, "F32"))
)
_CROSS = CrossAttention(query_heads=20, kv_heads=20, head_dim=64, source_tokens=1500)


def _model(*stacks: tuple[tuple[int, ...], Mixer], part: Part = Part.LANGUAGE) -> ModelSpec:
    return ModelSpec(
        model_type="made_up", architecture="MadeUp", hidden_size=64, vocabulary_size=1000,
        max_context_length=8192, tied_embeddings=True,
        blocks=tuple(Block(part=part, prefix="", tensors=(), layers=layers,
            mixers=(mixer,)) for layers, mixer in stacks),
    )  # fmt: skip


def test_grouped_attention_keeps_keys_and_values_of_its_kv_heads():
    assert token_bytes(_attention(), "BF16", 1) == 2 * 8 * 128 * 2


def test_kv_heads_are_divided_and_then_replicated():
    assert [token_bytes(_attention(), "BF16", ranks) for ranks in (1, 2, 8, 16)] == [
        4096,
        2048,
        512,
        512,
    ]


def test_latents_are_the_same_on_every_rank_and_an_indexer_adds_its_key():
    sparse = LatentAttention(
        query_heads=128, latent_dim=512, rope_dim=64, nope_dim=128, value_dim=128, indexer=_INDEXER
    )
    assert token_bytes(_LATENT, "BF16", 1) == token_bytes(_LATENT, "BF16", 8) == 1152
    assert token_bytes(sparse, "BF16", 8) == 1152 + 256


def test_encoders_and_layers_that_read_anothers_cache_keep_nothing():
    assert (
        token_bytes(_attention(causal=False), "BF16", 1),
        token_bytes(_attention(shares_cache=True), "BF16", 1),
    ) == (0, 0)


def test_a_state_has_its_own_dtype_and_one_size_for_any_context():
    assert state_bytes(_GATED_DELTA, "BF16", 1) == 16 * 384 * 2 + 48 * 128 * 128 * 4
    assert state_bytes(_GATED_DELTA, "BF16", 2) == state_bytes(_GATED_DELTA, "BF16", 1) // 2
    assert request_bytes(_GATED_DELTA, 1, "F8_E4M3", 1, "BF16") == request_bytes(
        _GATED_DELTA, 100_000, "F8_E4M3", 1, "BF16"
    )


def test_groups_fewer_than_ranks_are_replicated():
    assert (
        state_bytes(Recurrent(kind="mamba2", states=(State("conv_groups", 1, 768),)), "BF16", 8)
        == 768 * 2
    )


def test_cross_attention_is_held_once_whatever_the_context():
    assert cross_bytes(_CROSS, "F16", 1) == 1500 * 2 * 20 * 64 * 2
    assert request_bytes(_CROSS, 448, "F16", 1, "F16") == cross_bytes(_CROSS, "F16", 1)


@pytest.mark.parametrize(
    "mixer, held",
    [(_attention(window=4096), 4096), (_attention(chunk=8192), 8192), (_attention(), 20_000)],
)
def test_windows_and_chunks_hold_no_more_than_their_tokens(mixer, held):
    assert request_bytes(mixer, 20_000, "BF16", 1, "BF16") == held * 4096


def test_compressed_attention_keeps_a_window_and_an_entry_for_every_ratio_tokens():
    mixer = CompressedAttention(
        query_heads=64, head_dim=512, rope_dim=64, window=128, ratio=4, indexer=_INDEXER
    )
    assert request_bytes(mixer, 8192, "BF16", 1, "BF16") == (128 * 512 + 2048 * (512 + 128)) * 2


def test_llama_3_8b_keeps_128_kib_a_token():
    spec = _model((tuple(range(32)), _attention()))
    assert cache_bytes(spec, 8192, 1, dtype="BF16") == 2**30
    assert cache_bytes(spec, 8192, 4, dtype="F8_E4M3", tensor_parallel=2) == 2**30


def test_stages_keep_their_own_layers():
    spec = _model(
        (tuple(range(0, 24, 2)), _attention(window=128)), (tuple(range(1, 24, 2)), _attention())
    )
    halves = [
        cache_bytes(spec, 4096, 2, dtype="BF16", layers=stage)
        for stage in (range(12), range(12, 24))
    ]
    assert sum(halves) == cache_bytes(spec, 4096, 2, dtype="BF16")


def test_drafting_heads_keep_nothing_until_they_are_asked_for():
    assert cache_bytes(_model(((0,), _attention()), part=Part.MTP), 4096, 1, dtype="BF16") == 0


mixers = st.sampled_from(
    [_attention(), _attention(window=128), _attention(chunk=2048), _LATENT, _GATED_DELTA, _CROSS]
)


@given(mixers, st.integers(1, 100_000), st.integers(1, 100_000))
def test_a_longer_context_never_keeps_less(mixer, one, other):
    short, long = sorted((one, other))
    assert request_bytes(mixer, short, "BF16", 1, "BF16") <= request_bytes(
        mixer, long, "BF16", 1, "BF16"
    )


@given(mixers, st.integers(1, 100_000), st.sampled_from([1, 2, 4, 8]))
def test_more_ranks_never_keep_more_each(mixer, tokens, ranks):
    assert request_bytes(mixer, tokens, "BF16", 2 * ranks, "BF16") <= request_bytes(
        mixer, tokens, "BF16", ranks, "BF16"
    )
