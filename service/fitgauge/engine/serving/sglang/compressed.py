"""The pools of compressed attention (DeepSeek V4): compressed entries for every token, rows of the
window and states of the compressor for a tenth of the tokens, and a ring of states a request.

Source: sglang 0.5.23, srt/model_executor/pool_configurator.py (DSV4PoolConfigurator),
srt/mem_cache/deepseek_v4_memory_pool.py. Numbers are those without speculation."""

from collections.abc import Sequence
from typing import NamedTuple

from fitgauge.engine.model.mixers import CompressedAttention, Mixer
from fitgauge.engine.weights.sharding import round_up

WINDOW_SHARE = 0.1
"""DSV4_DEFAULT_SWA_FULL_TOKENS_RATIO: tokens in windows for every token."""
REQUESTS = 256
"""Requests at once where --max-running-requests is not set."""

_PAGE = 256
_PAGE_MULTIPLE = 576
"""Tokens of a page, and what its bytes are padded to."""
_SCALES = 8
"""Bytes of a row's scales."""
_RINGS = {4: 8, 128: 128}
"""States that a ring of the compressor holds, by ratio."""
_STATE = 4
"""Bytes of a number of a state."""
_INDEX_SCALE = 4


class CompressedPools(NamedTuple):
    """Bytes of one rank's layers."""

    full: float
    """A token's compressed entries."""
    windowed: float
    """A row of the window, with the compressor's states that go with it."""
    fixed: int
    """States of all requests."""


def compressed_pools(layers: Sequence[tuple[Mixer, int]], requests: int | None) -> CompressedPools:
    """Return the pools of `layers`. requests: --max-running-requests, None where it is not set.

    A row has the latent without rotation in fp8, the rotated part in 16 bit and 8 bytes of scales;
    a page of 256 tokens / ratio is padded to a multiple of 576 bytes."""
    full = windowed = 0.0
    fixed = 0
    for mixer, count in layers:
        if not isinstance(mixer, CompressedAttention):
            continue
        row = mixer.head_dim + mixer.rope_dim + _SCALES
        index = mixer.indexer.dim if mixer.indexer else 0
        windowed += count * _padded(row, _PAGE)
        if mixer.ratio not in _RINGS:
            continue
        full += count * _padded(row, _PAGE // mixer.ratio) / mixer.ratio
        if index:
            full += count * (index + index // 128 * _INDEX_SCALE) / mixer.ratio
            states = 4 * (mixer.head_dim + index) * _STATE
            windowed += count * _RINGS[mixer.ratio] / _PAGE * states
        else:
            ring = _RINGS[mixer.ratio]
            rows = round_up(((requests or REQUESTS) + 2) * ring + 1, mixer.ratio)
            fixed += count * rows * 2 * mixer.head_dim * _STATE
    return CompressedPools(full, windowed, fixed)


def _padded(row: int, tokens: int) -> float:
    """Return the bytes of a row in a padded page of `tokens` rows."""
    return round_up(row * tokens, _PAGE_MULTIPLE) / tokens
