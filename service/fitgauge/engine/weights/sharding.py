"""A model's parameters grouped by how an engine divides them: the slow part, computed once for a
model, a scheme and an engine's rules."""

import math
import re
from collections.abc import Callable, Hashable, Iterable, Iterator
from functools import lru_cache
from math import gcd
from typing import Literal, TypeVar

import msgspec

from fitgauge.engine.memo import Memo, MixedMemo
from fitgauge.engine.model.dtypes import BITS, size_of
from fitgauge.engine.model.model import Stored
from fitgauge.engine.model.spec import TOWERS, Block, Kind, ModelSpec, Part, Split, Tensor
from fitgauge.engine.quantity import Basis
from fitgauge.engine.quantization.formats import Format, tensor_bytes
from fitgauge.engine.quantization.scheme import RuleIndex, Scheme, is_nominal

Place = Literal["layers", "first", "last", "tied", "every"]


def _no_parts(spec: ModelSpec) -> frozenset[Part]:
    """Return no part of any model."""
    return frozenset()


def _unchanged(form: Format, width: int, hidden: int, ways: int) -> Format:
    """Return the format as it is."""
    return form


class ShardingRules(msgspec.Struct, frozen=True, kw_only=True):
    """What an engine does to tensors when it divides them."""

    vocabulary_multiple: int = 1
    """What the vocabulary is padded to a multiple of."""
    expert_multiples: dict[str, int] = {}
    """By format name, what an expert's width on a rank is padded to a multiple of."""
    expert_multiple: int = 1
    """The same for experts of any format."""
    least_expert_width: int = 0
    """What an expert's width on a rank is padded to where tensor parallelism leaves less."""
    expert_form: Callable[[Format, int, int, int], Format] = _unchanged
    """Returns the format of an expert's weight on a rank, from its format, the expert's width on
    this rank, its hidden side and the number of ranks that divide it."""
    whole_groups: bool = False
    """Whether a quantization group that ends short has no scale."""
    experts_over_data: bool = False
    """Whether experts, without expert parallelism, are divided over tensor x data parallel ranks.
    """
    wide_dtype: str = "F32"
    """The dtype that F32 weights are loaded in."""
    fused: tuple[str, ...] = ()
    """Modules whose weights become one tensor, as alternatives of a regular expression."""
    on_every_stage: Callable[[ModelSpec], frozenset[Part]] = _no_parts
    """The parts of a model outside its layers that every pipeline stage holds."""
    tower_by_tensor: bool = False
    """Whether of a tower whose heads do not divide only what is divided by heads is whole."""
    shared_experts_in_blocks: frozenset[str] = frozenset()
    """Model types whose shared experts are padded to whole quantization blocks a rank."""


class TensorGroup(msgspec.Struct, frozen=True, gc=False):
    """Tensors of each of `layers` that are divided alike.

    Unquantized: a number of pieces, each whole on a rank. Quantized: one weight of shape (out,
    inputs)."""

    part: Part
    """The part of the model they belong to."""
    place: Place
    """The pipeline stages that hold them."""
    layers: tuple[int, ...]
    """Numbers of the layers."""
    split: Split
    """How tensor parallelism divides them."""
    experts: int
    """Experts that a layer routes to; 0 for a tensor of no expert."""
    multiple: int
    """The pieces of a rank are padded to a multiple of this."""
    pieces: int
    """Indivisible pieces of an unquantized tensor."""
    piece_bytes: int
    """Bytes of a piece."""
    out: int = 0
    """Rows of a quantized weight."""
    inputs: int = 0
    """Columns of a quantized weight."""
    form: Format | None = None
    """The format of a quantized weight; None: unquantized."""
    fused: int = 1
    """Number of matrices of the expert's width fused along `out` (gate and up: 2)."""


Where = tuple[Part, Place, tuple[int, ...], Split, int, int]
"""The first fields of a TensorGroup: tensors that agree in them are divided alike."""

_Allocation = tuple[str, str, tuple[int, ...]]
"""Prefix and name of the tensor that an engine allocates, and the layers that have it."""


Derived = TypeVar("Derived")


class ShardedWeights(msgspec.Struct, frozen=True, kw_only=True):
    """A model's parameters by how they are divided, in one scheme, under one engine's rules."""

    shares: tuple[TensorGroup, ...]
    """Groups to sum over: unquantized tensors that are divided alike are one."""
    tensors: tuple[tuple[TensorGroup, ...], ...]
    """Tensors as the engine allocates them: each of the groups fused into it."""
    layout: ShardingRules
    """How the engine divides tensors."""
    scheme: Scheme
    """How the model is stored."""
    basis: Basis
    """How the sizes are known."""
    scale: float = 1.0
    """Stored bytes of the repository, divided by those of the table."""
    is_guess: bool = False
    """Whether no reader knows the architecture, and no stored count says how large it is."""
    tower_heads: int = 0
    """Heads of the vision and audio towers. Where tensor parallelism does not divide them, every
    rank holds the whole tower, but for `ShardingRules.tower_by_tensor`. 0: no towers."""
    memo: MixedMemo = msgspec.field(default_factory=Memo)
    """Values derived from it."""

    def once(self, key: Hashable, derive: Callable[[], Derived]) -> Derived:
        """Return the result of `derive`, computed once for every `key`."""
        derived: Derived = self.memo.get_or_compute(key, derive)
        return derived


def divided(size: int, ways: int) -> int:
    """Return the pieces of the fullest rank where `ways` ranks divide `size` pieces: at least one,
    as pieces fewer than the ranks are replicated."""
    return -(-size // ways)


def round_up(size: int, multiple: int) -> int:
    """Return `size` rounded up to a multiple of `multiple`."""
    return -(-size // multiple) * multiple


def tensor_dtype(tensor: Tensor, spec: ModelSpec, scheme: Scheme, layout: ShardingRules) -> str:
    """Return the canonical format of an unquantized tensor: its own, the scheme's, or the
    model's as the engine loads it."""
    if tensor.dtype is not None:
        return tensor.dtype
    if scheme.dtype is not None:
        return scheme.dtype
    return layout.wide_dtype if spec.dtype == "F32" else spec.dtype


def shard_weights(
    spec: ModelSpec,
    scheme: Scheme,
    layout: ShardingRules = ShardingRules(),
    stored: Stored | None = None,
) -> ShardedWeights:
    """Return how `spec` in `scheme` is divided by an engine with this `layout`.

    MTP heads are left out: engines load them only to speculate. Where `basis` is `assumed` and the
    repository's size is published, the table is scaled to it."""
    plain: dict[tuple[Where, int], int] = {}
    shares: list[TensorGroup] = []
    tensors: dict[_Allocation, tuple[TensorGroup, ...]] = {}
    for allocation, share in _groups(spec, scheme, layout):
        if share.form is None:
            where = (
                share.part, share.place, share.layers, share.split, share.experts, share.multiple,
            )  # fmt: skip
            plain[where, share.pieces] = plain.get((where, share.pieces), 0) + share.piece_bytes
        else:
            shares.append(share)
        tensors[allocation] = (*tensors.get(allocation, ()), share)
    shares += [TensorGroup(*where, pieces, size) for (where, pieces), size in plain.items()]
    scale = 1.0
    is_stored = stored is not None and bool(stored.elements)
    if spec.basis == "assumed" and stored is not None and is_stored:
        scale = summary_bytes(stored) / max(1, stored_bytes(spec, scheme))
    basis: Basis = "assumed" if "assumed" in (spec.basis, scheme.basis) else "computed"
    return ShardedWeights(
        shares=tuple(shares),
        tensors=tuple(tensors.values()),
        layout=layout,
        scheme=scheme,
        basis=basis,
        scale=scale,
        is_guess=not is_stored and any(note.code == "architecture-unknown" for note in spec.notes),
        tower_heads=_tower_heads(spec),
    )


def _groups(
    spec: ModelSpec, scheme: Scheme, layout: ShardingRules
) -> Iterator[tuple[_Allocation, TensorGroup]]:
    """Yield every tensor as it is divided, with what it is allocated in."""
    rules = RuleIndex(scheme.rules, scheme.placed)
    in_blocks = spec.model_type in layout.shared_experts_in_blocks
    for block in spec.blocks:
        if block.part is Part.MTP:
            continue
        place = _place(spec, block, layout)
        for tensor, form, layers in formats(spec, block, rules):
            shared = in_blocks and form is not None and "shared_experts." in tensor.name
            multiple = form.rows if form and shared else _multiple(block, tensor, scheme, layout)
            share = _share(
                tensor,
                form,
                (block.part, place, layers, multiple),
                tensor_dtype(tensor, spec, scheme, layout),
                layout,
                _matrices(block, tensor),
            )
            yield (block.prefix, _fused(tensor.name, layout.fused), layers), share


def formats(
    spec: ModelSpec, block: Block, rules: RuleIndex
) -> Iterable[tuple[Tensor, Format | None, tuple[int, ...]]]:
    """Yield every tensor of a block with its format and the layers that hold it so."""
    classes = _layer_classes(block, rules)
    for tensor in block.tensors:
        if (runs := rules.runs(block, tensor)) is not None:
            yield from ((tensor, form, layers) for form, layers in runs)
            continue
        if len(tensor.shape) < 2 or not rules.by_name:
            yield tensor, _nominal(spec, rules.format_of("", tensor, block.part)), block.layers
            continue
        by_class: dict[Hashable, Format | None] = {}
        layers_by_form: dict[Format | None, list[int]] = {}
        for layer, alike in zip(block.layers, classes, strict=True):
            if alike not in by_class:
                module = (block.prefix.replace("{}", str(layer)) + tensor.name).replace("*", "0")
                by_class[alike] = rules.format_of(module, tensor, block.part)
            layers_by_form.setdefault(by_class[alike], []).append(layer)
        for form, layers in layers_by_form.items():
            yield tensor, _nominal(spec, form), tuple(layers)


def _layer_classes(block: Block, rules: RuleIndex) -> list[Hashable]:
    """Return the same for layers of a block that no rule by name tells apart; [] without one."""
    if not rules.by_name:
        return []
    numbered = ".{}." in block.prefix
    return [rules.layer_class(layer) if numbered else layer for layer in block.layers]


def _nominal(spec: ModelSpec, form: Format | None) -> Format | None:
    """Return the format without its scales where the spec is a bare count of parameters."""
    return Format(name=form.name, bits=form.bits) if form and is_nominal(spec) else form


def _share(
    tensor: Tensor,
    form: Format | None,
    where: tuple[Part, Place, tuple[int, ...], int],
    dtype: str,
    layout: ShardingRules,
    fused: int,
) -> TensorGroup:
    part, place, layers, multiple = where
    experts, pieces = tensor.count if _routed(tensor) else 0, _pieces(tensor, layout)
    if form is not None:
        out, inputs = matrix(tensor)
        return TensorGroup(
            part, place, layers, tensor.split, experts, multiple, pieces, 0,
            out, inputs, form, fused,
        )  # fmt: skip
    bits = tensor.elements // (experts or 1) * BITS[dtype]
    if tensor.split is Split.VOCABULARY:
        bits = bits // tensor.shape[0] * pieces
    return TensorGroup(
        part, place, layers, tensor.split, experts, multiple, pieces, bits // (8 * pieces)
    )


def _tower_heads(spec: ModelSpec) -> int:
    units = [
        tensor.units
        for block in spec.blocks
        if block.part in TOWERS
        for tensor in block.tensors
        if tensor.split is Split.COLUMN
    ]
    return gcd(*(count for count in units if count))


@lru_cache(maxsize=4096)
def _fused(name: str, fused: tuple[str, ...]) -> str:
    """Return the name of the tensor that an engine loads `name` into, see `ShardingRules.fused`."""
    for index, names in enumerate(fused):
        name = re.sub(rf"(^|\.)({names})(?=\.)", rf"\g<1>fused{index}", name)
    return name


def matrix(tensor: Tensor) -> tuple[int, int]:
    """Return a tensor's shape as (out, in), trailing dimensions multiplied."""
    return tensor.shape[0], math.prod(tensor.shape[1:])


def _routed(tensor: Tensor) -> bool:
    return tensor.kind is Kind.EXPERT or tensor.count > 1


def _place(spec: ModelSpec, block: Block, layout: ShardingRules) -> Place:
    everywhere = layout.on_every_stage(spec)
    if block.part in everywhere:
        return "every"
    if block.part is Part.LANGUAGE:
        if "{}" in block.prefix:
            return "layers"
        if any(tensor.kind is Kind.EMBEDDING for tensor in block.tensors):
            return "first"
        return "every" if Part.EMBEDDING in everywhere else "last"
    if block.part is Part.HEAD:
        return "last"
    return "tied" if block.part is Part.EMBEDDING and spec.tied_embeddings else "first"


def _matrices(block: Block, tensor: Tensor) -> int:
    """Return how many matrices of an expert's width are one tensor: two for gate and up."""
    if not _routed(tensor) or not block.mlp or not block.mlp.intermediate_size:
        return 1
    size = matrix(tensor)[1] if tensor.split is Split.ROW else tensor.shape[0]
    return max(1, size // block.mlp.intermediate_size)


def _multiple(block: Block, tensor: Tensor, scheme: Scheme, layout: ShardingRules) -> int:
    """Return the multiple to which a rank's part of an expert's weight or bias is padded: doubled
    where gate and up are one tensor."""
    if not _routed(tensor) or (scheme.form is None and layout.expert_multiple == 1):
        return 1
    multiple = layout.expert_multiples.get(scheme.form.name, 1) if scheme.form else 1
    return max(multiple, layout.expert_multiple) * _matrices(block, tensor)


def _pieces(tensor: Tensor, layout: ShardingRules) -> int:
    if tensor.split is Split.NONE:
        return 1
    if tensor.split is Split.VOCABULARY:
        return round_up(tensor.shape[0], layout.vocabulary_multiple)
    if tensor.units and (tensor.split is Split.KV or layout.tower_by_tensor):
        return tensor.units
    return matrix(tensor)[1] if tensor.split is Split.ROW else tensor.shape[0]


def stored_bytes(spec: ModelSpec, scheme: Scheme) -> int:
    """Return the bytes on disk of the whole repository by the table, MTP heads included."""
    total, rules = 0, RuleIndex(scheme.rules, scheme.placed)
    for block in spec.blocks:
        for tensor, form, layers in formats(spec, block, rules):
            if form is None:
                size = size_of(tensor.elements, tensor_dtype(tensor, spec, scheme, ShardingRules()))
            else:
                size = tensor.count * tensor_bytes(*matrix(tensor), form)
            total += len(layers) * size
    return total


def summary_bytes(stored: Stored) -> int:
    """Return the bytes that the repository reports: the file's size, or its elements by dtype."""
    return stored.file_bytes or sum(
        size_of(count, name) for name, count in stored.elements.items() if name in BITS
    )
