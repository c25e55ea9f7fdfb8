"""Bytes of parameters on one rank under tensor, pipeline, data and expert parallelism; fast, from
weights that are already sharded."""

from typing import NamedTuple

import msgspec

from fitgauge.engine.model.spec import TOWERS, Part, Split, count_within
from fitgauge.engine.quantity import Basis
from fitgauge.engine.quantization.formats import tensor_bytes
from fitgauge.engine.weights.allocator import rounding_bytes
from fitgauge.engine.weights.sharding import ShardedWeights, ShardingRules, TensorGroup, round_up


class RankWeights(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """The parameters of one rank."""

    bytes: int
    """Their bytes in all."""
    by_part: dict[Part, int]
    """Their bytes by part of the model."""
    basis: Basis
    """How their sizes are known."""
    layered: dict[tuple[Part, int, str], int]
    """Their bytes by part, number of layers and format [bytes]."""


class Ranks(NamedTuple):
    """Number of ranks that divide each kind of tensor."""

    tensor: int
    """Tensors of the language model."""
    tower: int
    """Tensors of vision and audio towers."""
    expert: int
    """Each expert."""
    experts: int
    """Ranks over which whole experts are spread."""


def ranks(
    weights: ShardedWeights, tensor_parallel: int, expert_parallel: int, data_parallel: int
) -> Ranks:
    """Return the Ranks of these degrees."""
    over = tensor_parallel * (data_parallel if weights.layout.experts_over_data else 1)
    tower = tensor_parallel if weights.tower_heads % tensor_parallel == 0 else 1
    return Ranks(tensor_parallel, tower, max(1, over // expert_parallel), expert_parallel)


def rank_weights(
    weights: ShardedWeights,
    *,
    tensor_parallel: int = 1,
    expert_parallel: int = 1,
    data_parallel: int = 1,
    layers: range | None = None,
    first: bool = True,
    last: bool = True,
) -> RankWeights:
    """Return the bytes of parameters on the fullest rank of one pipeline stage.

    `layers`: the stage's layers of the language model, None for all; `first` and `last`: whether it
    holds the embedding and towers, and the final norm and head. `expert_parallel` above 1: experts
    are spread over that many ranks; else they are divided like any other weight."""
    layout, ways = weights.layout, ranks(weights, tensor_parallel, expert_parallel, data_parallel)
    by_part: dict[Part, int] = {}
    layered: dict[tuple[Part, int, str], int] = {}
    for share in weights.shares:
        count = _held(share, layers, first=first, last=last)
        if count:
            size = share_bytes(share, layout, ways)
            by_part[share.part] = by_part.get(share.part, 0) + count * size
            alike = share.part, count, share.form.name if share.form else ""
            layered[alike] = layered.get(alike, 0) + size
    total = sum(by_part.values())
    return RankWeights(
        bytes=total if weights.scale == 1.0 else int(total * weights.scale),
        by_part=by_part,
        basis=weights.basis,
        layered=layered,
    )


def table_bytes(weights: ShardedWeights, ways: Ranks, layers: range | None = None) -> int:
    """Return the bytes of a rank's part of the tables that layers look up by rows, as n-grams are
    [bytes]. layers: of the stage, None for all."""
    size = sum(
        count_within(share.layers, layers) * share_bytes(share, weights.layout, ways)
        for share in weights.shares
        if share.place == "layers" and share.split is Split.VOCABULARY
    )
    return int(size * weights.scale)


def allocator_bytes(
    weights: ShardedWeights,
    ways: Ranks,
    layers: range | None = None,
    *,
    first: bool = True,
    last: bool = True,
) -> int:
    """Return the bytes that PyTorch's allocator adds to the tensors of `rank_weights`; "Model
    loading took" in vLLM's log includes them.

    Exact for tensors that stay where they were created. Tensors that a kernel repacks after loading
    lie in reused blocks, whose rounding is not modelled."""
    total = 0
    for tensor in weights.tensors:
        count = _held(tensor[0], layers, first=first, last=last)
        if count:
            total += count * rounding_bytes(
                sum(share_bytes(share, weights.layout, ways) for share in tensor)
            )
    return total


def _held(share: TensorGroup, layers: range | None, *, first: bool, last: bool) -> int:
    """Return how many layers of the tensor group `share` a stage holds."""
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
    """Return the bytes of a tensor group in one layer on the fullest rank."""
    copies, ways, form = 1, ranks.tensor, share.form
    if share.part in TOWERS and not (layout.tower_by_tensor and share.pieces % ways == 0):
        ways = ranks.tower
    if share.experts:
        copies, ways = -(-share.experts // ranks.experts), ranks.expert
        share = widened(share, layout, ranks.tensor, ways)
    if form is None:
        pieces = share.pieces if share.split is Split.NONE else -(-share.pieces // ways)
        if share.multiple > 1 and share.split is not Split.NONE:
            pieces = round_up(pieces, share.multiple)
        return copies * pieces * share.piece_bytes
    out, inputs = share.out, share.inputs
    if (ways > 1 or share.multiple > 1) and share.split is not Split.NONE:
        if share.split is Split.ROW:
            inputs = _rank_width(inputs, share, ways)
            if form.repeats_scales:
                form = msgspec.structs.replace(form, group=form.group // ways)
        else:
            out = _rank_width(out, share, ways)
    if share.experts and share.split is not Split.NONE:
        width, hidden = (inputs, out) if share.split is Split.ROW else (out // share.fused, inputs)
        form = layout.expert_form(form, width, hidden, ways)
    return copies * tensor_bytes(out, inputs, form, whole=layout.whole_groups and form.rows == 1)


def widened(share: TensorGroup, layout: ShardingRules, tensor: int, ways: int) -> TensorGroup:
    """Return an expert's weight as it is before `ways` ranks divide it: padded to
    `layout.least_expert_width` for each of the `tensor` parallel ranks where they would hold
    less."""
    least = layout.least_expert_width
    if ways == 1 or share.pieces // tensor >= least or share.split is Split.NONE:
        return share
    size = least * tensor
    if share.split is Split.ROW:
        return msgspec.structs.replace(share, pieces=size, inputs=size if share.form else 0)
    return msgspec.structs.replace(share, pieces=size, out=size if share.form else 0)


def _rank_width(size: int, share: TensorGroup, ways: int) -> int:
    pieces = -(-share.pieces // ways)
    rank_width = pieces * (size // share.pieces or 1)
    return round_up(rank_width, share.multiple)


def pipeline_stages(layers: int, pipeline_parallel: int) -> tuple[range, ...]:
    """Return the layers of every pipeline stage: divided evenly; the remainder goes one each to the
    last stages but the final one. Source: vLLM distributed/utils.py, get_pp_indices."""
    each, left = divmod(layers, pipeline_parallel)
    sizes = [each] * pipeline_parallel
    for index in range(2, left + 2):
        sizes[-index] += 1
    starts = [sum(sizes[:index]) for index in range(pipeline_parallel)]
    return tuple(range(start, start + size) for start, size in zip(starts, sizes, strict=True))
