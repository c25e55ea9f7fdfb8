"""Bytes of parameters on one rank, under tensor, pipeline, data and expert parallelism:
microseconds, once a model is laid out."""

from math import gcd
from typing import NamedTuple

import msgspec

from fitgauge.engine.model.spec import ModelSpec, Part, Split, count_within
from fitgauge.engine.quantity import Basis, Term, exact_term, gib
from fitgauge.engine.quantization.formats import Format, tensor_bytes
from fitgauge.engine.serving.allocator import rounding_bytes
from fitgauge.engine.serving.workload import SUPPORTS_CPU_OFFLOAD, Workload
from fitgauge.engine.weights.sharding import (
    TOWERS,
    ShardedWeights,
    ShardingRules,
    TensorGroup,
    round_up,
)


class RankWeights(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """Bytes of parameters on one rank, in all and by part of the model."""

    bytes: int
    by_part: dict[Part, int]
    basis: Basis


class Ranks(NamedTuple):
    """Over how many ranks each kind of tensor is divided: `tensor`, `tower`, each `expert`; and
    over how many whole `experts` go."""

    tensor: int
    tower: int
    expert: int
    experts: int


def ranks(
    laid: ShardedWeights, tensor_parallel: int, expert_parallel: int, data_parallel: int
) -> Ranks:
    """Return the Ranks of these degrees."""
    over = tensor_parallel * (data_parallel if laid.layout.experts_over_data else 1)
    tower = tensor_parallel if laid.tower_heads % tensor_parallel == 0 else 1
    return Ranks(tensor_parallel, tower, max(1, over // expert_parallel), expert_parallel)


def ranks_of(laid: ShardedWeights, workload: Workload) -> Ranks:
    """Return the Ranks of a deployment."""
    return ranks(laid, workload.tensor_parallel, workload.expert_parallel, workload.data_parallel)


def rank_weights(
    laid: ShardedWeights,
    *,
    tensor_parallel: int = 1,
    expert_parallel: int = 1,
    data_parallel: int = 1,
    layers: range | None = None,
    first: bool = True,
    last: bool = True,
) -> RankWeights:
    """Return the bytes of parameters on the fullest rank of one pipeline stage.

    `layers`: the stage's layers of the language model, None for all; `first` and `last`: whether
    it holds the embedding and towers, and the final norm and head. With expert_parallel above 1
    the experts are divided over that many ranks, else like any other weight."""
    layout, ways = laid.layout, ranks(laid, tensor_parallel, expert_parallel, data_parallel)
    by_part: dict[Part, int] = {}
    for share in laid.shares:
        count = _held(share, layers, first=first, last=last)
        if count:
            by_part[share.part] = by_part.get(share.part, 0) + count * share_bytes(
                share, layout, ways
            )
    total = sum(by_part.values())
    return RankWeights(
        bytes=total if laid.scale == 1.0 else int(total * laid.scale),
        by_part=by_part,
        basis=laid.basis,
    )


def allocator_bytes(
    laid: ShardedWeights,
    ways: Ranks,
    layers: range | None = None,
    *,
    first: bool = True,
    last: bool = True,
) -> int:
    """Return the bytes that PyTorch's allocator adds to the tensors of `rank_weights`, which "Model
    loading took" in vLLM's log includes.

    Exact for tensors that are filled where they were made; what a kernel repacks after loading
    lands in blocks of another history."""
    total = 0
    for tensor in laid.tensors:
        count = _held(tensor[0], layers, first=first, last=last)
        if count:
            total += count * rounding_bytes(
                sum(share_bytes(share, laid.layout, ways) for share in tensor)
            )
    return total


def _held(share: TensorGroup, layers: range | None, *, first: bool, last: bool) -> int:
    """Return how many layers of `share` a stage holds."""
    if share.place == "layers":
        return count_within(share.layers, layers)
    here = (
        first
        if share.place == "first"
        else last
        if share.place == "last"
        else share.place == "every" or first or last
    )
    return len(share.layers) if here else 0


def share_bytes(share: TensorGroup, layout: ShardingRules, ranks: Ranks) -> int:
    """Return the bytes of one layer's share on the fullest rank."""
    copies, ways, form = 1, ranks.tower if share.part in TOWERS else ranks.tensor, share.form
    if share.experts:
        copies, ways = -(-share.experts // ranks.experts), ranks.expert
    if form is None:
        pieces = share.pieces if share.split is Split.NONE else -(-share.pieces // ways)
        if share.multiple > 1 and share.split is not Split.NONE:
            pieces = round_up(pieces, share.multiple)
        return copies * pieces * share.piece_bytes
    out, inputs = share.out, share.inputs
    if (ways > 1 or share.multiple > 1) and share.split is not Split.NONE:
        if share.split is Split.ROW:
            inputs = _cut(inputs, share, ways)
        else:
            out = _cut(out, share, ways)
        if share.experts and layout.refines_blocks:
            form = refined(
                form,
                inputs if share.split is Split.ROW else out,
                out if share.split is Split.ROW else inputs,
            )
    return copies * tensor_bytes(
        out, inputs, form, whole=bool(share.experts) and layout.whole_groups and form.rows == 1
    )


def _cut(size: int, share: TensorGroup, ways: int) -> int:
    pieces = -(-share.pieces // ways)
    cut = pieces * (size // share.pieces or 1)
    return round_up(cut, share.multiple) if share.experts else cut


def refined(form: Format, width: int, hidden: int) -> Format:
    """`form` with blocks that divide an expert's `width` on this rank: the greatest common
    divisor, as the engine repeats its scales."""
    block = form.group
    if form.rows < 2 or width % block == 0:
        return form
    size = gcd(form.rows, block, width, hidden)
    return msgspec.structs.replace(form, rows=size, group=size)


def pipeline_stages(layers: int, pipeline_parallel: int) -> tuple[range, ...]:
    """Return the layers of every pipeline stage: as even as can be, what is left over going to the
    stages before the last, from behind.

    Source: vLLM distributed/utils.py, get_pp_indices.
    """
    each, left = divmod(layers, pipeline_parallel)
    sizes = [each] * pipeline_parallel
    for number in range(2, left + 2):
        sizes[-number] += 1
    starts = [sum(sizes[:number]) for number in range(pipeline_parallel)]
    return tuple(range(start, start + size) for start, size in zip(starts, sizes, strict=True))


class Stage(NamedTuple):
    """One pipeline stage: its layers of the language model; `first`: it holds the embedding and
    towers; `last`: final norm and head."""

    layers: range
    first: bool = True
    last: bool = True

    @property
    def span(self) -> range | None:
        """Its layers, None where it is the only stage and holds all there are."""
        return None if self.first and self.last else self.layers


def stages_of(spec: ModelSpec, workload: Workload) -> tuple[Stage, ...]:
    """Return the stages of a deployment."""
    ranges = pipeline_stages(spec.layers, workload.pipeline_parallel)
    final = len(ranges) - 1
    return tuple(
        Stage(layers, number == 0, number == final) for number, layers in enumerate(ranges)
    )


def loading_degrees(workload: Workload) -> tuple[int, ...]:
    """Return what `weights_term` depends on besides the model: over how many ranks it is divided,
    and how much of it the host keeps."""
    degrees = (
        workload.tensor_parallel,
        workload.pipeline_parallel,
        workload.data_parallel,
        workload.expert_parallel,
    )
    return *degrees, workload.cpu_offload_bytes


def weights_term(laid: ShardedWeights, workload: Workload, stage: Stage) -> Term:
    """Return the term `weights`: parameters on the fullest rank of one pipeline stage, less what
    HOST_WEIGHTS keep of its layers on the host.

    Of the layers, parameter by parameter, until cpu_offload_bytes are reached, and so up to the
    largest of them more; embeddings, head and towers stay. What a step copies back is not
    counted: vLLM reads host memory in place. Source: vllm/model_executor/offloader/ uva.py,
    _maybe_offload_to_cpu; sglang srt/utils/offloader.py."""
    degrees = {
        "tensor_parallel": workload.tensor_parallel,
        "expert_parallel": workload.expert_parallel,
        "data_parallel": workload.data_parallel,
    }
    rank = rank_weights(laid, **degrees, layers=stage.span, first=stage.first, last=stage.last)
    sharding = f"tensor parallel {workload.tensor_parallel}"
    if workload.pipeline_parallel > 1:
        sharding += f", layers {stage.layers.start} to {stage.layers.stop - 1}"
    if workload.expert_parallel > 1:
        sharding += f", expert parallel {workload.expert_parallel}"
    formula = f"{laid.scheme.name} weights, {sharding}: " + " + ".join(
        f"{part} {gib(size)}" for part, size in rank.by_part.items()
    )
    size, beyond = rank.bytes, 0
    if workload.cpu_offload_bytes and workload.engine in SUPPORTS_CPU_OFFLOAD:
        in_layers = rank_weights(
            laid, **degrees, layers=stage.layers, first=False, last=False
        ).bytes
        on_host = min(workload.cpu_offload_bytes, in_layers)
        beyond = min(in_layers - on_host, largest_parameter(laid, ranks_of(laid, workload)))
        size -= on_host
        formula += (
            f", less {gib(on_host)} of the layers in host memory, and up to one parameter of"
            f" {gib(beyond)}"
        )
    term = exact_term(
        "weights",
        size,
        rank.basis,
        formula,
        "every tensor of the architecture, laid out as the engine does",
    )
    return msgspec.structs.replace(term, low=size - beyond) if beyond else term


def largest_parameter(laid: ShardedWeights, ways: Ranks) -> int:
    """Return the bytes of the largest parameter of any layer on one rank."""
    layered = (tensor for tensor in laid.tensors if tensor[0].place == "layers")
    return max(
        (sum(share_bytes(share, laid.layout, ways) for share in tensor) for tensor in layered),
        default=0,
    )


def allocator_term(laid: ShardedWeights, workload: Workload, stage: Stage) -> Term:
    """Return the term `fragmentation`: what PyTorch's allocator adds to the weights of one
    pipeline stage."""
    size = allocator_bytes(
        laid, ranks_of(laid, workload), stage.span, first=stage.first, last=stage.last
    )
    formula = "tensors of 10 MiB and more, rounded up to 2 MiB where up to 1 MiB is left over"
    return exact_term(
        "fragmentation", size, "computed", formula, "pytorch c10/cuda/CUDACachingAllocator.cpp"
    )
