"""How fast tokens come out: a step reads weights and cache once, multiplies for every request,
and waits for its layers and the links."""

from typing import Annotated

import msgspec

from fitgauge.engine.accelerator import SERVER_GENERATIONS, Accelerator
from fitgauge.engine.model.dtypes import BITS
from fitgauge.engine.model.spec import ModelSpec, Part, Split
from fitgauge.engine.performance.prefill import (
    COMPUTE_EFFICIENCY,
    LINK_EFFICIENCY,
    PCIE_GBPS,
    exchanged_bytes,
)
from fitgauge.engine.quantization.formats import LLM_INT8
from fitgauge.engine.serving.kv_cache import cache_bytes
from fitgauge.engine.weights.rank_bytes import ranks, share_bytes
from fitgauge.engine.weights.sharding import ShardedWeights, TensorGroup
from fitgauge.field_docs import doc

EFFICIENCY = 0.91
"""Share of a GPU's bandwidth that reading gets in a step, the latency of its layers aside.

Calibrated with LAYER_SECONDS: of all hundredths and 10 us the pair with the least mean error (of
logarithms, 0.16; 0.46 with none) over 83 published runs of one request on one GPU (llama.cpp,
vLLM, SGLang, MLC LLM and gpt-fast; 0.5B to 72B; NVIDIA and Apple), in
catalog/data/decode_speeds.jsonl; a test derives them again from the rows. The 132 runs of
llmfit's community there are kept aside: five machines, medians of published over expected 0.84 to
1.08 with llama.cpp's own layer time, which is fitted to them too."""

LAYER_SECONDS = 120e-6
"""What a layer takes on top of reading [s], on however many GPUs: kernels that start one after
another and are too small to fill a GPU. The runs leave it by layers, not by steps: 2.5 ms of 24
layers, 3.6 of 36. Engines whose own runs of one request leave another time have it in their row
(`layer_seconds`)."""

SPREAD = (0.75, 1.0, 1.37)
"""Speed of such runs over the expected one: 10th percentile, median, 90th percentile. MLC LLM's
compiled kernels are among the fast ones, large models on an H20 among the slow ones."""

NVLINK_SECONDS = 6e-6
"""One all-reduce of a few kB between GPUs of one node [s] where they are joined by NVLink or its
like.

Measured: 6 us, two H100 in CUDA graphs (NVIDIA/nccl#1259); 17 us, eight GPUs
(pytorch/pytorch#131739). Of 10 published runs on 2 to 8 GPUs what their engine waits for its
layers on one GPU leaves -4 to 17 us, median 2."""

PCIE_SECONDS = 74e-6
"""The same over PCIe, as engines have it from NCCL. Calibrated: median of what 17 runs of MLC
LLM on 2 to 8 GPUs leave; 10th and 90th percentile 50 and 92 us."""

NVLINK_GBPS = 300.0
"""10^9 bytes a second, one direction, of such links where the catalog does not say: the slowest
that it knows, A100's."""


LLM_INT8_READS = 4
"""How often a step reads a weight of LLM.int8(), as if it were twice 16 bits: outlier columns are
split off, quantized and multiplied apart.

Assumed: published runs take 1.2 times as long as in 16 bits (BLOOM-176B) to 2.5 (0.5B) and 3.7
(T5-11B). Source: Hugging Face's blog, hf-bitsandbytes-integration; earino.github.io
applied-deep-learning, 11_int8_is_slower."""


class DecodeSpeed(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """Tokens a second of all requests together, as an interval; each request gets its share."""

    low: Annotated[float, doc("Lower end of the interval [tokens/s].")]
    expected: Annotated[float, doc("Expected speed [tokens/s].")]
    high: Annotated[float, doc("Upper end of the interval [tokens/s].")]


def step_bytes(
    spec: ModelSpec,
    sharded: ShardedWeights,
    *,
    concurrency: int,
    context_length: int,
    kv_cache_dtype: str,
    tensor_parallel: int = 1,
) -> int:
    """Return the bytes one rank reads for one token of every request, through all pipeline stages.

    = weights + cache of `concurrency` requests of `context_length` tokens. Weights are those of
    the decoder and the head (the embedding where it is tied to it; a look-up else reads one
    row, of further tables too), those of LLM.int8() LLM_INT8_READS times. Of E routed experts, B
    tokens that visit k each read E x (1 - (1 - k/E)^B) where routing is even. `kv_cache_dtype`:
    `auto`, and ggml's blocks, count as the model's own. Sparse attention reads less than is
    counted."""
    weights = step_weights(spec, sharded, concurrency=concurrency, tensor_parallel=tensor_parallel)
    return weights + step_cache(
        spec,
        concurrency=concurrency,
        context_length=context_length,
        kv_cache_dtype=kv_cache_dtype,
        tensor_parallel=tensor_parallel,
    )


def step_weights(
    spec: ModelSpec, sharded: ShardedWeights, *, concurrency: int, tensor_parallel: int
) -> int:
    """Return the weights of `step_bytes`."""
    visited = visited_share(spec, concurrency)
    read = sharded.once(
        ("read", tensor_parallel, visited),
        lambda: _weights_read(spec, sharded, visited, tensor_parallel),
    )
    return int(read * sharded.scale)


def step_cache(
    spec: ModelSpec,
    *,
    concurrency: int,
    context_length: int,
    kv_cache_dtype: str,
    tensor_parallel: int,
) -> int:
    """Return the cache of `step_bytes`, the same for every format of the weights."""
    dtype = kv_cache_dtype if kv_cache_dtype in BITS else spec.dtype
    return cache_bytes(
        spec, context_length, concurrency, dtype=dtype, tensor_parallel=tensor_parallel
    )


def _weights_read(
    spec: ModelSpec, sharded: ShardedWeights, visited: float, tensor_parallel: int
) -> float:
    """Return the bytes of weights one rank reads in a step that visits this share of the routed
    experts."""
    layout, ways = sharded.layout, ranks(sharded, tensor_parallel, 1, 1)
    parts = (
        (Part.LANGUAGE, Part.HEAD, Part.EMBEDDING)
        if spec.tied_embeddings
        else (Part.LANGUAGE, Part.HEAD)
    )
    groups = [share for share in sharded.shares if share.part in parts and not is_looked_up(share)]
    if spec.tied_embeddings:
        groups += _words(sharded)
    weights = 0.0
    for share in groups:
        size = len(share.layers) * share_bytes(share, layout, ways)
        size *= LLM_INT8_READS if share.form == LLM_INT8 else 1
        weights += size * visited if share.experts else size
    return weights


def is_looked_up(share: TensorGroup) -> bool:
    """Return whether a step reads single rows of these tensors: of embeddings, of tables of every
    layer (Gemma 3n, 4 E) and of n-grams (Qwen3.8 Flash Next)."""
    return share.split is Split.VOCABULARY and share.part is not Part.HEAD


def _words(sharded: ShardedWeights) -> tuple[TensorGroup, ...]:
    """Return the token embedding, the first table of a model, apart from tables divided alike."""
    return next(
        (
            tensor
            for tensor in sharded.tensors
            if tensor[0].part is Part.EMBEDDING and is_looked_up(tensor[0])
        ),
        (),
    )


def visited_share(spec: ModelSpec, tokens: int) -> float:
    """Return the share of the routed experts that `tokens` tokens visit in a layer:
    1 - (1 - k/E)^tokens; 1 without experts."""
    sizes = {
        (mlp.experts_per_token, mlp.experts)
        for block in spec.blocks
        if (mlp := block.mlp) is not None and mlp.experts
    }
    return max(
        (1.0 - (1.0 - min(1.0, visited / experts)) ** tokens for visited, experts in sizes),
        default=1.0,
    )


def waiting_seconds(
    spec: ModelSpec,
    concurrency: int,
    tensor_parallel: int,
    accelerator: Accelerator,
    layer_seconds: float = LAYER_SECONDS,
) -> float:
    """Return what a step takes on top of reading and multiplying [s] = layers x layer_seconds, of
    several requests and on servers' chips LAYER_SECONDS, + all-reduces.

    Those are two a layer of `concurrency` hidden states where tensor parallel ranks divide it, each
    a latency and its bytes over the link.

    Pipeline stages follow each other, so all layers count; a hop between them was not seen in
    runs over 2 to 8 GPUs and is left out. Source: exchanged_bytes; Megatron-LM, arXiv
    1909.08053, section 3."""
    layers = spec.layers * seconds_of_layer(accelerator, concurrency, layer_seconds)
    if tensor_parallel == 1:
        return layers
    latency, default_rate = (
        (NVLINK_SECONDS, NVLINK_GBPS) if joined(accelerator) else (PCIE_SECONDS, PCIE_GBPS)
    )
    rate = (accelerator.interconnect_gbps or default_rate) * 1e9 * LINK_EFFICIENCY
    return (
        layers
        + 2 * spec.layers * latency
        + exchanged_bytes(spec, concurrency, tensor_parallel) / rate
    )


def seconds_of_layer(accelerator: Accelerator, concurrency: int, layer_seconds: float) -> float:
    """Return what a layer takes of `waiting_seconds` [s]. layer_seconds: the engine's own."""
    alone = concurrency == 1 and is_desktop_chip(accelerator)
    return layer_seconds if alone else LAYER_SECONDS


def is_desktop_chip(accelerator: Accelerator) -> bool:
    """Return whether it is of the chips that desktops and laptops have, whose runs an engine's own
    time of a layer is of. On an A100 a layer of llama.cpp took 143 to 306 us (three runs in
    catalog/data/decode_speeds.jsonl)."""
    major, minor = accelerator.compute_capability or (0, 0)
    return (
        accelerator.vendor == "Apple"
        or (accelerator.gfx or "").startswith(_RDNA)
        or (major in _CHIPS_OF_BOTH and minor > 0)
        or major == _BLACKWELL_DESKTOPS
    )


_RDNA = "gfx1"
"""Targets of Radeons begin so from RDNA on."""
_CHIPS_OF_BOTH = (7, 8)
"""NVIDIA's generations whose chip x.0 (V100, A100) is the servers'."""
_BLACKWELL_DESKTOPS = 12
"""RTX 50, RTX PRO and GB10."""


def joined(accelerator: Accelerator) -> bool:
    """Return whether GPUs of a node exchange over links of their own.

    Where the catalog does not say: those that are sold by the node, and SERVER_GENERATIONS.
    """
    if accelerator.nvlink is not None:
        return accelerator.nvlink
    major = (accelerator.compute_capability or (0, 0))[0]
    return accelerator.node_size is not None or (
        major in SERVER_GENERATIONS and not accelerator.unified_memory
    )


def reads_alone(accelerator: Accelerator, concurrency: int) -> bool:
    """Return whether a step is as long as it reads, so that its speed is known where no source
    states how fast the GPU multiplies: of one request, on the kinds of GPUs whose runs are among
    the published ones: Apple's, and NVIDIA's from Turing on. Others may be slower than their
    bandwidth lets expect: 39 runs of a GTX 1050 Ti took twice as long (AlexsJones/llmfit@3f44fd3,
    llmfit-core/data/community)."""
    if accelerator.vendor != "NVIDIA":
        return concurrency == 1 and accelerator.vendor == "Apple"
    return concurrency == 1 and (accelerator.compute_capability or (0, 0)) >= (7, 5)


def decode_speed(
    read_bytes: int,
    concurrency: int,
    bandwidth_gbps: float | None,
    multiplying: float = 0.0,
    waiting: float = 0.0,
) -> DecodeSpeed | None:
    """Return the tokens a second; None where the bandwidth is unknown. Arguments: as
    `expected_speed`. Low and high are SPREAD of reading and waiting."""
    low, expected, high = (
        expected_speed(read_bytes, concurrency, bandwidth_gbps, multiplying, waiting, place)
        for place in range(len(SPREAD))
    )
    if low is None or expected is None or high is None:
        return None
    return DecodeSpeed(low=low, expected=expected, high=high)


_EXPECTED = 1
"""Place among the lowest, expected and highest of what was seen."""


def expected_speed(
    read_bytes: int,
    concurrency: int,
    bandwidth_gbps: float | None,
    multiplying: float = 0.0,
    waiting: float = 0.0,
    place: int = _EXPECTED,
) -> float | None:
    """Return the tokens a second = concurrency / (max(bytes of a step / (bandwidth x efficiency),
    concurrency x multiplying / efficiency) + waiting); None where the bandwidth is unknown.

    `multiplying`: seconds of one token at the peak of the GPUs that share it, 0 where the peak
    is unknown and `reads_alone`. `waiting`: waiting_seconds. `place`: in SPREAD.
    Source: Pope et al. 2022 (arXiv 2211.05102), section 2.1."""
    if bandwidth_gbps is None or read_bytes <= 0:
        return None
    reading = read_bytes / (bandwidth_gbps * 1e9 * EFFICIENCY)
    multiplied = concurrency * multiplying
    paced = max(reading / SPREAD[place], multiplied / COMPUTE_EFFICIENCY[place])
    return round(concurrency / (paced + waiting / SPREAD[place]), 2)
