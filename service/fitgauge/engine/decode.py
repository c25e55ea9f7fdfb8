"""How fast tokens come out at most: a step reads weights and cache once, and multiplies for every request; the slower sets the pace."""

import msgspec

from fitgauge.engine.architecture import ModelSpec, Part
from fitgauge.engine.cache import cache_bytes
from fitgauge.engine.dtypes import BITS
from fitgauge.engine.prefill import COMPUTE_EFFICIENCY
from fitgauge.engine.weights import Laid, ranks, share_bytes

EFFICIENCY = (0.48, 0.72, 0.82)
"""Share of a card's bandwidth that decoding really gets: low, expected, high.

Calibrated: 10th percentile, median and 90th percentile of 49 published runs of one request (vLLM on A100 and RTX PRO 6000, llama.cpp on 14
NVIDIA cards and two of Apple, 1B to 70B, tests/accuracy/decode_speeds.jsonl); a test holds them to the rows. They differ little by engine:
median 0.72 and 0.71. Tensor parallelism was not among them.
"""


class DecodeSpeed(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """Tokens a second of all requests together, as an interval; each request gets its share."""

    low: float
    expected: float
    high: float


def step_bytes(spec: ModelSpec, laid: Laid, *, concurrency: int, context_length: int, cache_dtype: str, tensor_parallel: int = 1) -> int:
    """Bytes one rank reads for one token of every request, through all pipeline stages.

    = weights + cache of `concurrency` requests of `context_length` tokens. Weights are those of the decoder and the head (the embedding
    where it is tied to it; a look-up else reads one row). Of E routed experts, B tokens that visit k each read
    E x (1 - (1 - k/E)^B) where routing is even. `cache_dtype`: `auto`, and
    ggml's blocks, count as the model's own. Sparse attention reads less than is counted.
    """
    visited = _visited_share(spec, concurrency)
    weights = laid.once(("read", tensor_parallel, visited), lambda: _weights_read(spec, laid, visited, tensor_parallel))
    dtype = cache_dtype if cache_dtype in BITS else spec.dtype
    cache = cache_bytes(spec, context_length, concurrency, dtype=dtype, tensor_parallel=tensor_parallel)
    return int(weights * laid.scale) + cache


def _weights_read(spec: ModelSpec, laid: Laid, visited: float, tensor_parallel: int) -> float:
    """Bytes of weights one rank reads in a step that visits this share of the routed experts."""
    layout, ways = laid.layout, ranks(laid, tensor_parallel, 1, 1)
    parts = (Part.LANGUAGE, Part.HEAD, Part.EMBEDDING) if spec.tied_embeddings else (Part.LANGUAGE, Part.HEAD)
    weights = 0.0
    for share in laid.shares:
        if share.part in parts:
            size = len(share.layers) * share_bytes(share, layout, ways)
            weights += size * visited if share.experts else size
    return weights


def _visited_share(spec: ModelSpec, tokens: int) -> float:
    """Share of the routed experts that `tokens` tokens visit in a layer: 1 - (1 - k/E)^tokens; 1 without experts."""
    sizes = {(mlp.experts_per_token, mlp.experts) for block in spec.blocks if (mlp := block.mlp) is not None and mlp.experts}
    return max((1.0 - (1.0 - min(1.0, visited / experts)) ** tokens for visited, experts in sizes), default=1.0)


def decode_speed(read_bytes: int, concurrency: int, bandwidth_gbps: float | None, multiplying: float = 0.0) -> DecodeSpeed | None:
    """Tokens a second = concurrency / max(bytes of a step / (bandwidth x efficiency), concurrency x multiplying / efficiency); None where
    the bandwidth is unknown.

    `multiplying`: seconds of one token at the peak of the cards that share it, 0 where the peak is unknown. A ceiling: communication and
    scheduling are left out but for what the efficiencies hold of them. Source: Pope et al. 2022 (arXiv 2211.05102), section 2.1.
    """
    if bandwidth_gbps is None or read_bytes <= 0:
        return None
    low, expected, high = (_speed(read_bytes, concurrency, bandwidth_gbps, multiplying, number) for number in range(len(EFFICIENCY)))
    return DecodeSpeed(low=low, expected=expected, high=high)


def expected_speed(read_bytes: int, concurrency: int, bandwidth_gbps: float | None, multiplying: float = 0.0) -> float | None:
    """`decode_speed(...).expected` alone."""
    if bandwidth_gbps is None or read_bytes <= 0:
        return None
    return _speed(read_bytes, concurrency, bandwidth_gbps, multiplying, _EXPECTED)


_EXPECTED = 1


def _speed(read_bytes: int, concurrency: int, bandwidth_gbps: float, multiplying: float, number: int) -> float:
    """At the lowest (0), expected (1) or highest (2) efficiencies."""
    reading, multiplied = read_bytes / (bandwidth_gbps * 1e9), concurrency * multiplying
    return round(concurrency / max(reading / EFFICIENCY[number], multiplied / COMPUTE_EFFICIENCY[number]), 2)
