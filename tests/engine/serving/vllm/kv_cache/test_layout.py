"""vLLM's plan of its KV cache, held against its own laws."""

import itertools
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bundled_models import spec_of
from fitgauge.engine.model.mixers import (
    Attention,
    CrossAttention,
    Indexer,
    LatentAttention,
    Mixer,
    Recurrent,
    State,
)
from fitgauge.engine.model.spec import Block, ModelSpec, Part
from fitgauge.engine.quantity import GIB
from fitgauge.engine.serving.vllm.kv_cache.dtypes import checkpoint_format
from fitgauge.engine.serving.vllm.kv_cache.layout import KvCacheConfig
from fitgauge.engine.unsupported import UnsupportedError
from kv_layouts import HOPPER, NEWEST, kv_layout


def _model(*stacks: tuple[int, Mixer], task: str = "generate", **fields: Any) -> ModelSpec:
    """Return a model of `count` layers of each mixer, one stack after the other."""
    blocks, first = [], 0
    for count, mixer in stacks:
        blocks.append(
            Block(
                part=Part.LANGUAGE,
                prefix="",
                tensors=(),
                layers=tuple(range(first, first + count)),
                mixers=(mixer,),
            )
        )
        first += count
    base = ModelSpec(
        model_type="made_up", architecture="MadeUp", task=task, hidden_size=64,
        vocabulary_size=1000,
        max_context_length=1 << 20, tied_embeddings=True, blocks=tuple(blocks),
    )  # fmt: skip
    return msgspec.structs.replace(base, **fields)


def _layout(spec: ModelSpec, **changes: Any) -> KvCacheConfig:
    asked: dict[str, Any] = {
        "tensor_parallel": 1, "kv_cache_dtype": "auto", "max_model_len": 8192,
        "max_batched_tokens": 2048, "compute_capability": HOPPER,
    }  # fmt: skip
    return kv_layout(spec, **{**asked, **changes})


def _attention(heads: int = 8, dim: int = 128, **fields: Any) -> Attention:
    return Attention(query_heads=64, kv_heads=heads, head_dim=dim, value_dim=dim, **fields)


_GATED_DELTA = Recurrent(
    kind="gated_delta", states=(State("conv", 16, 384), State("ssm", 32, 128 * 128, "F32"))
)
_LATENT = LatentAttention(query_heads=64, latent_dim=512, rope_dim=64, nope_dim=128, value_dim=128)

mixers = st.one_of(
    st.builds(_attention, st.sampled_from([1, 2, 4, 8]), st.sampled_from([64, 128, 256])),
    st.builds(lambda window: _attention(window=window), st.sampled_from([128, 1024, 4096])),
    st.builds(lambda chunk: _attention(chunk=chunk), st.sampled_from([2048, 8192])),
    st.just(_GATED_DELTA),
)
specs = st.lists(st.tuples(st.integers(1, 40), mixers), min_size=1, max_size=3).map(
    lambda stacks: _model(*stacks)
)
pools = st.integers(0, 200 * GIB)


@given(specs, pools, pools)
def test_a_larger_pool_never_holds_fewer_tokens(spec, one, other):
    layout = _layout(spec)
    assert layout.tokens(min(one, other)) <= layout.tokens(max(one, other))


@given(specs, st.sampled_from([1, 2, 4, 8]), st.integers(1, 64), st.integers(1, 8192))
def test_more_tensor_parallel_ranks_never_need_more_bytes_each_but_for_whole_blocks(
    spec, ranks, requests, tokens
):
    few, many = _layout(spec, tensor_parallel=ranks), _layout(spec, tensor_parallel=2 * ranks)
    rounded = requests * len(many.groups) * many.block_bytes
    assert many.pool_bytes(requests, tokens) <= few.pool_bytes(requests, tokens) + rounded


@given(specs, st.integers(1, 64), st.integers(1, 8192), st.sampled_from([(0, 15), (0, 25), NEWEST]))
def test_the_pool_for_some_requests_holds_them_beside_the_null_block_and_a_block_less_does_not(
    spec, requests, tokens, version
):
    layout = _layout(spec, version=version)
    pool = layout.pool_bytes(requests, tokens)
    assert layout.requests(pool, tokens) >= requests
    assert layout.requests(pool - layout.block_bytes, tokens) < requests


@given(specs, st.integers(2, 4))
@settings(max_examples=50)
def test_stages_share_out_every_layer_of_every_group(spec, stages):
    whole, last = _layout(spec), max(number for block in spec.blocks for number in block.layers) + 1
    cuts = [last * stage // stages for stage in range(stages + 1)]
    parts = [_layout(spec, layers=range(low, high)) for low, high in itertools.pairwise(cuts)]
    assert [group.layers for group in whole.groups] == [
        sum(part.groups[n].layers for part in parts) for n in range(len(whole.groups))
    ]
    assert [group.page_bytes for group in whole.groups] == [
        sum(p.groups[n].page_bytes for p in parts) for n in range(len(whole.groups))
    ]


# --- single rules


def test_max_batched_tokens_changes_the_memory_of_a_sliding_window():
    spec = _model((24, _attention(window=128)))
    narrow, wide = _layout(spec, max_batched_tokens=512), _layout(spec, max_batched_tokens=2048)
    assert (narrow.blocks_per_request, wide.blocks_per_request) == (
        (127 + 2 * 512 + 15) // 16 + 1,
        (127 + 2 * 2048 + 15) // 16 + 1,
    )


def test_windows_reserve_for_one_batch_before_0_26():
    spec = _model((24, _attention(window=128)))
    assert (
        _layout(spec, version=(0, 25, 0), max_batched_tokens=512).blocks_per_request
        == (127 + 512 + 15) // 16 + 1
    )


def test_pipeline_stages_have_a_batch_each_in_flight():
    assert _layout(_model((24, _attention(window=128))), pipeline_parallel=4).in_flight == 5 * 2048


def test_latents_are_the_same_on_every_rank():
    spec = _model((61, _LATENT))
    assert (
        _layout(spec, tensor_parallel=8).block_bytes
        == _layout(spec).block_bytes
        == 61 * 16 * 576 * 2
    )


@pytest.mark.parametrize(
    "card, dtype, block",
    [
        ((9, 0), "auto", 16),
        ((9, 0), "fp8", 64),
        ((10, 0), "auto", 32),
        ((8, 0), "auto", 16),
        (None, "fp8", 16),
    ],
)
def test_the_block_of_latents_follows_the_kernel_of_the_card(card, dtype, block):
    assert (
        _layout(_model((61, _LATENT)), compute_capability=card, kv_cache_dtype=dtype)
        .groups[0]
        .block
        == block
    )


@pytest.mark.parametrize(
    "card, dtype, row",
    [
        ((9, 0), "auto", 1152),
        ((9, 0), "fp8", 656),
        ((9, 0), "fp8_e4m3", 576),
        ((10, 0), "fp8", 576),
        ((12, 0), "auto", 656),
        (None, "fp8", 576),
    ],
)
def test_a_row_of_sparse_latents_follows_the_kernel_of_the_card(card, dtype, row):
    sparse = msgspec.structs.replace(_LATENT, indexer=Indexer(heads=64, dim=128, top_k=2048))
    layout = _layout(_model((61, sparse)), compute_capability=card, kv_cache_dtype=dtype)
    assert layout.block_bytes == 61 * (64 if card else 16) * (row + 132)


def test_a_hybrid_raises_its_block_until_a_page_holds_a_state():
    layout = _layout(_model((30, _GATED_DELTA), (10, _attention(2, 256))))
    state = 16 * 384 * 2 + 32 * 128 * 128 * 4
    assert {group.block for group in layout.groups} == {1088}
    assert 1088 * 2048 >= state > (1088 - 64) * 2048
    assert [group.layers for group in layout.groups] == [10, 10, 10, 10]


@pytest.mark.parametrize(
    "version, card, states",
    [((0, 26, 0), HOPPER, 1), ((0, 27, 1), HOPPER, 2), (NEWEST, (8, 6), 2), (NEWEST, HOPPER, 3)],
)
def test_states_a_request_holds_follow_the_version_and_the_card(version, card, states):
    layout = _layout(
        _model((30, _GATED_DELTA), (10, _attention(2, 256))),
        version=version,
        compute_capability=card,
    )
    assert layout.blocks_per_request == -(-8192 // layout.groups[-1].block) + 3 * states


def test_more_sequences_than_state_blocks_are_refused_where_graphs_are_captured():
    layout = _layout(_model((30, _GATED_DELTA), (10, _attention(2, 256))), max_num_seqs=1024)
    assert layout.pool_bytes(1, 100) == 1024 * layout.block_bytes


def test_windows_beside_latents_are_kept_whole_where_pages_cannot_be_made_equal():
    layout = _layout(_model((4, _LATENT), (4, _attention(window=128))))
    assert [(group.layers, group.block) for group in layout.groups] == [(8, 16)]
    assert layout.request_blocks(8192) == 512


def test_what_vllm_cannot_lay_out_is_refused():
    with pytest.raises(UnsupportedError):
        _layout(_model((4, _LATENT), (4, _attention(chunk=2048))))


def test_encoders_and_layers_that_read_anothers_cache_keep_nothing():
    layout = _layout(_model((12, _attention(causal=False)), (12, _attention(shares_cache=True))))
    assert (layout.groups, layout.keeps, layout.pool_bytes(8, 8192)) == ((), False, 0)


def test_cross_attention_is_held_once_a_request_for_as_many_tokens_as_a_batch():
    """vLLM's CrossAttentionSpec: the encoder's budget is max_num_batched_tokens, whatever the
    source holds."""
    layout = _layout(
        _model(
            (4, _attention()),
            (4, CrossAttention(query_heads=64, kv_heads=8, head_dim=128, source_tokens=1500)),
        )
    )
    assert layout.request_blocks(160) == 10 + 2048 // 16


def test_a_stage_without_attention_limits_nothing():
    layout = _layout(_model((8, _attention())), layers=range(8, 16))
    assert (layout.keeps, layout.pool_bytes(8, 8192)) == (False, 0)


@pytest.mark.parametrize(
    "quantization, expected",
    [
        (None, "auto"),
        ({"quant_method": "fp8"}, "auto"),
        (
            {
                "quant_method": "modelopt",
                "kv_cache_scheme": {"dynamic": False, "num_bits": 8, "type": "float"},
            },
            "fp8_e4m3",
        ),
        (
            {
                "quant_method": "modelopt",
                "kv_cache_scheme": {"dynamic": False, "num_bits": 4, "type": "float"},
            },
            "nvfp4",
        ),
        ({"quant_method": "modelopt", "kv_cache_scheme": {"num_bits": 8, "type": "int"}}, "auto"),
        (
            {
                "producer": {"name": "modelopt"},
                "quantization": {"quant_algo": "FP8", "kv_cache_quant_algo": "FP8"},
            },
            "fp8_e4m3",
        ),
        ({"producer": {"name": "modelopt"}, "quant_algo": "FP8", "kv_cache_scheme": "FP8"}, "auto"),
        ({"quant_method": "compressed-tensors", "kv_cache_scheme": {"num_bits": 8}}, "fp8"),
        ({"quant_method": "compressed-tensors", "kv_cache_scheme": None}, "auto"),
    ],
)
def test_a_checkpoint_may_ask_for_its_cache_format(quantization, expected):
    assert checkpoint_format(quantization) == expected


@pytest.mark.parametrize(
    "dtype, page",
    [("nvfp4", 8 * 2 * 72), ("int8_per_token_head", 8 * 264), ("BF16", 8 * 512), ("fp16", 8 * 512)],
)
def test_packed_formats_count_their_scales(dtype, page):
    assert _layout(_model((1, _attention())), kv_cache_dtype=dtype).block_bytes == 16 * page


@pytest.mark.parametrize("dtype", ["q8_0", "F32", "int8", ""])
def test_a_dtype_vllm_has_not_is_refused_with_a_hint(dtype):
    with pytest.raises(UnsupportedError) as refused:
        _layout(_model((1, _attention())), kv_cache_dtype=dtype)
    assert "fp8" in refused.value.alternatives[0]["kv_cache_dtype"]


def test_falcons_cache_stays_in_the_models_dtype() -> None:
    spec = spec_of("tiiuae/falcon-7b")
    plain, fp8 = (
        kv_layout(
            spec, tensor_parallel=1, kv_cache_dtype=dtype, max_model_len=2048,
            max_batched_tokens=2048, max_num_seqs=256, compute_capability=HOPPER,
        ).block_bytes
        for dtype in ("auto", "fp8")
    )  # fmt: skip
    assert plain == fp8
