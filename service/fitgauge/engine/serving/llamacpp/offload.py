"""Where llama.cpp puts weights: embeddings on the host, layers over the GPUs, what is asked for in
host memory.

Source: src/llama-model.cpp, load_tensors (dev_input, get_layer_buft_list, tensor_split by free
memory); tied embeddings are loaded twice, as output on the GPU (TENSOR_DUPLICATED).
`--n-cpu-moe N` keeps the experts of the first N layers on the host."""

from collections.abc import Sequence
from functools import lru_cache
from itertools import accumulate, pairwise
from typing import NamedTuple

import msgspec

from fitgauge.engine.model.model import Stored
from fitgauge.engine.model.spec import TOWERS, Block, ModelSpec, Part
from fitgauge.engine.quantization.gguf import mxfp4_scheme
from fitgauge.engine.quantization.scheme import Scheme
from fitgauge.engine.serving.engine_facts import Offload
from fitgauge.engine.serving.workload import Workload
from fitgauge.engine.weights import sharding
from fitgauge.engine.weights.rank_bytes import Ranks, share_bytes
from fitgauge.engine.weights.sharding import (
    ShardedWeights,
    ShardingRules,
    TensorGroup,
    stored_bytes,
)

_WHOLE = Ranks(1, 1, 1, 1)
_HALF = 2


def shard_published(
    spec: ModelSpec, scheme: Scheme, stored: Stored | None = None
) -> ShardedWeights:
    """Return `shard_weights` of what -hf names where a model is published in MXFP4: a file that
    keeps the experts, and the rest in 8 bits."""
    named = scheme.name == "mxfp4" and spec.has_experts
    return shard_weights(spec, mxfp4_scheme(spec) if named else scheme, stored)


def shard_weights(spec: ModelSpec, scheme: Scheme, stored: Stored | None = None) -> ShardedWeights:
    """Return the language model; with a GGUF file at hand scaled to the file's size, which is
    exact. Towers come from a file of their own."""
    in_gpus = msgspec.structs.replace(
        spec, blocks=tuple(block for block in spec.blocks if not only_looked_up(spec, block))
    )
    sharded = sharding.shard_weights(in_gpus, scheme, ShardingRules(), stored)
    shares = tuple(share for share in sharded.shares if share.part not in (*TOWERS, Part.PROJECTOR))
    if stored is not None and stored.file_bytes:
        return msgspec.structs.replace(
            sharded,
            shares=shares,
            scale=stored.file_bytes / max(1, stored_bytes(spec, scheme)),
            basis="computed" if stored.is_estimated else "exact",
        )
    return msgspec.structs.replace(sharded, shares=shares)


def only_looked_up(spec: ModelSpec, block: Block) -> bool:
    """Return whether a block is a table that is never multiplied with: embeddings of another
    width than the model (Gemma's per-layer ones)."""
    return block.part is Part.EMBEDDING and all(
        tensor.shape[-1] != spec.hidden_size for tensor in block.tensors
    )


def looked_up_bytes(spec: ModelSpec, sharded: ShardedWeights) -> int:
    """Return the bytes of tables that no GPU multiplies with: token embeddings that are not the
    output, and those of every layer."""
    tables = tuple(block for block in spec.blocks if only_looked_up(spec, block))
    of_layers = stored_bytes(msgspec.structs.replace(spec, blocks=tables), sharded.scheme)
    of_tokens = sum(
        len(share.layers) * _whole(share, sharded)
        for share in sharded.shares
        if share.place == "first" and share.part is not Part.ENCODER
    )
    return int((of_layers + of_tokens) * sharded.scale)


class LayerPrefixSums(NamedTuple):
    """Bytes of unsharded weights, summed up layer by layer."""

    plain: tuple[int, ...]
    """Of all layers before each number, but for their experts [bytes]."""
    experts: tuple[int, ...]
    """Of the experts of all layers before each number [bytes]."""
    encoder: int
    """Of the encoder [bytes]."""
    output: int
    """Of the output layer, after the layers [bytes]."""


def prefix_sums(sharded: ShardedWeights) -> LayerPrefixSums:
    """Return the weights summed up layer by layer, so that those of a run of layers are a
    difference."""
    numbers = max(
        (
            share.layers[-1] + 1
            for share in sharded.shares
            if share.place == "layers" and share.layers
        ),
        default=0,
    )
    plain, experts = [0] * numbers, [0] * numbers
    encoder = output = 0
    for share in sharded.shares:
        size = _whole(share, sharded)
        if share.place == "layers":
            each = experts if share.experts else plain
            for number in share.layers:
                each[number] += size
        elif share.place != "first":
            output += len(share.layers) * size
        elif share.part is Part.ENCODER:
            encoder += len(share.layers) * size
    return LayerPrefixSums(
        tuple(accumulate(plain, initial=0)), tuple(accumulate(experts, initial=0)), encoder, output
    )


def gpu_bytes(
    sharded: ShardedWeights, layers: range, *, first: bool, last: bool, offload: Offload
) -> int:
    """Return the bytes of weights on a GPU that holds `layers`: no token embeddings, the output
    on the last."""
    sums = sharded.once(LayerPrefixSums, lambda: prefix_sums(sharded))
    stop = min(layers.stop, len(sums.plain) - 1)
    total = sums.plain[stop] - sums.plain[min(layers.start, stop)]
    total += sums.experts[stop] - sums.experts[min(max(layers.start, offload.experts), stop)]
    total += (sums.encoder if first else 0) + (sums.output if last else 0)
    return int(total * sharded.scale)


class LayerSplit(NamedTuple):
    """How layers go over GPUs."""

    ranges: tuple[range, ...]
    """The layers of every GPU."""
    output: int
    """The number of the GPU that has the output layer; -1 where it stays on the host."""

    @property
    def counts(self) -> tuple[int, ...]:
        """Layers of every GPU, the output counting as one more: as `--tensor-split` these
        numbers divide the layers in the same way."""
        return tuple(len(one) + (gpu == self.output) for gpu, one in enumerate(self.ranges))


def layer_split(
    layers: int, gpu_count: int, start: int = 0, free: Sequence[int] = ()
) -> LayerSplit:
    """Return the split of layers start..layers, the output counting as one more: layer i of n goes
    to the first GPU whose free memory, added up over the GPUs before it, is a larger share than
    i / n.

    free: the free memory of every GPU [bytes]; empty for GPUs with as much each. Source:
    src/llama-model.cpp, load_tensors (splits, get_layer_buft_list)."""
    return _layer_split(layers, gpu_count, start, tuple(free))


@lru_cache(maxsize=512)
def _layer_split(layers: int, gpu_count: int, start: int, free: tuple[int, ...]) -> LayerSplit:
    active = max(0, layers + 1 - start)
    ends = tuple(accumulate(free or (1,) * gpu_count))
    firsts = [start + -(-end * active // ends[-1]) for end in (0, *ends)]
    edges = [min(layers, first) for first in firsts]
    output = max((gpu for gpu in range(gpu_count) if firsts[gpu] <= layers), default=-1)
    return LayerSplit(tuple(range(*pair) for pair in pairwise(edges)), output)


def states_layers(workload: Workload) -> bool:
    """Return whether a workload says which layers stay on the host, and not how much."""
    return workload.n_gpu_layers is not None or workload.n_cpu_moe > 0


def cpu_layers(
    spec: ModelSpec, sharded: ShardedWeights, workload: Workload, *, experts_first: bool = True
) -> Offload:
    """Return the layers that a workload states; else the fewest layers, of a mixture the experts of
    the fewest layers, that hold what it offloads of all GPUs together. experts_first: else whole
    layers of a mixture too.

    Source: src/llama-model.cpp, load_tensors (i_gpu_start); common/arg.cpp, --n-cpu-moe."""
    if states_layers(workload):
        on_gpus = spec.layers + 1 if workload.n_gpu_layers is None else workload.n_gpu_layers
        return Offload(max(0, spec.layers + 1 - on_gpus), min(workload.n_cpu_moe, spec.layers))
    wanted = workload.cpu_offload_bytes * workload.pipeline_parallel
    mixture = experts_first and any(share.experts for share in sharded.shares)
    count = saved = 0
    while count < spec.layers and saved < wanted:
        saved += int(_layer_bytes(sharded, count, experts=mixture) * sharded.scale)
        count += 1
    return Offload(0, count) if mixture else Offload(count, 0)


def offloaded_split(
    spec: ModelSpec, sharded: ShardedWeights, workload: Workload, offload: Offload
) -> LayerSplit:
    """Return the layers of every GPU of a launch that offloads.

    Experts of the first layers on the host leave the first GPUs with little, so the layers are
    divided by the bytes that stay on GPUs: --tensor-split. A GPU takes the layers up to its equal
    share of them. Where the layers are stated, the command is another's, and has none."""
    gpus, free = workload.pipeline_parallel, workload.free_bytes
    if free or gpus == 1 or not offload.experts or states_layers(workload):
        return layer_split(spec.layers, gpus, offload.layers, free)
    held = [
        gpu_bytes(sharded, range(layer + 1), first=True, last=False, offload=offload)
        for layer in range(spec.layers)
    ]
    whole = gpu_bytes(sharded, range(spec.layers), first=True, last=True, offload=offload)
    inner = [sum(size <= whole * gpu / gpus for size in held) for gpu in range(1, gpus)]
    edges = (0, *inner, spec.layers)
    return LayerSplit(tuple(range(*pair) for pair in pairwise(edges)), gpus - 1)


def largest_bytes(sharded: ShardedWeights) -> int:
    """Return the bytes of the largest weight of a layer, all experts of one projection together:
    files keep gate and up apart."""
    sizes = (
        _whole(group, sharded) // group.fused
        for tensor in sharded.tensors
        for group in tensor
        if group.place == "layers"
    )
    return int(max(sizes, default=0) * sharded.scale)


def _whole(share: TensorGroup, sharded: ShardedWeights) -> int:
    return share_bytes(share, sharded.layout, _WHOLE)


def _layer_bytes(sharded: ShardedWeights, layer: int, *, experts: bool) -> int:
    return sum(
        _whole(share, sharded)
        for share in sharded.shares
        if layer in share.layers and share.place == "layers" and (share.experts > 0 or not experts)
    )


def projector_bytes(spec: ModelSpec) -> int:
    """Return the vision or audio tower and its projector, from a mmproj file in 16 bit."""
    parts = (*TOWERS, Part.PROJECTOR)
    return _HALF * sum(block.elements for block in spec.blocks if block.part in parts)
