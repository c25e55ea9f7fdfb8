"""A tape of sizes: plays a forward and a backward pass as autograd does, in bytes alone.

A recipe (recipes/) writes operations on the tape as the modelling code calls them; each
operation knows what autograd saves of it. Played forward, a tensor lives until its last use, or,
if it is saved, until the backward of what saved it. Played backward, gradients live until they
are consumed, and those of parameters stay. Rules of saving: pytorch
tools/autograd/derivatives.yaml."""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import msgspec

from fitgauge.engine.memo import Memo

FLOAT = 4
"""Bytes of a number in fp32."""
_UNCOUNTED = -1


class Value(NamedTuple):
    """A tensor: `elements` numbers of `width` bytes in `storage` (views share one); `grad`: it
    gets a gradient; `leaf`: a parameter."""

    number: int
    name: str
    elements: int
    width: int
    grad: bool
    storage: int
    leaf: bool = False

    @property
    def bytes(self) -> int:
        """elements x width."""
        return self.elements * self.width

    @property
    def counted(self) -> bool:
        """Whether its bytes are its segment's: no parameter's and no constant's."""
        return self.storage != _UNCOUNTED


class Operation(NamedTuple):
    """One differentiable operation. `saved`: values its backward reads. `scratch`, `back_scratch`:
    bytes held only while it runs.

    `passes`: gradients are handed on as they are (addition, views). `product`: a matrix product
    or attention; `grouped`: of all experts. `restored`: bytes of forgotten tensors that are made
    again before its backward, `restoring`: the most that making them takes."""

    name: str
    inputs: tuple[Value, ...]
    outputs: tuple[Value, ...]
    saved: tuple[Value, ...]
    scratch: int
    back_scratch: int
    passes: bool
    product: bool = False
    grouped: bool = False
    restored: int = 0
    restoring: int = 0


class Saved(msgspec.Struct, frozen=True, gc=False):
    """A tensor that is kept for the backward pass: what made and what saves it, how many
    numbers, bytes of one."""

    name: str
    by: str
    elements: int
    width: int

    @property
    def bytes(self) -> int:
        """elements x width."""
        return self.elements * self.width


class Pass(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """What a segment does to live memory [bytes], against the moment before it begins: the most,
    and what is left at its end.

    `lead`: of a backward pass, gradients that are there when it first reads what was saved.
    """

    peak: int
    end: int
    lead: int = 0


class Tape:
    """Operations in the order they run. `compute`: bytes of a number in products under autocast,
    0 without autocast."""

    def __init__(self, compute: int = 0) -> None:
        self.compute = compute
        self.operations: list[Operation] = []
        self.inputs: list[Value] = []
        self._sizes: list[int] = []
        self._values = 0
        self._leaves: dict[str, Value] = {}
        self._casts: dict[str, Value] = {}
        self._kept: list[int] = []
        self._forgotten: set[int] = set()
        self._played = Memo()
        self.stops_early = True
        """Whether a checkpoint's recomputation ends where nothing more is saved."""

    def _value(
        self,
        name: str,
        elements: int,
        width: int,
        grad: bool,
        storage: int | None = None,
        *,
        leaf: bool = False,
    ) -> Value:
        if storage is None:
            storage = len(self._sizes)
            self._sizes.append(elements * width)
        self._values += 1
        return Value(self._values, name, elements, width, grad, storage, leaf)

    def input(self, name: str, elements: int, width: int, *, grad: bool) -> Value:
        """Return a tensor that an earlier segment made."""
        self.inputs.append(self._value(name, elements, width, grad))
        return self.inputs[-1]

    def parameter(self, name: str, elements: int, width: int, *, trained: bool) -> Value:
        """Return a weight: not counted, but its gradient is."""
        if name not in self._leaves:
            self._leaves[name] = self._value(name, elements, width, trained, _UNCOUNTED, leaf=True)
        return self._leaves[name]

    def constant(self, name: str, elements: int, width: int, *, grad: bool = False) -> Value:
        """Return a tensor that is there before and after (rotary tables, masks, an encoder's
        output): not counted."""
        return self._value(name, elements, width, grad, _UNCOUNTED)

    def keep(self, value: Value) -> Value:
        """Somebody holds this tensor when the segment ends."""
        self._kept.append(value.storage)
        return value

    def operation(
        self,
        name: str,
        inputs: Sequence[Value],
        elements: int,
        width: int,
        *,
        saves: Iterable[Value] = (),
        saves_output: bool = False,
        scratch: int = 0,
        back_scratch: int = 0,
        passes: bool = False,
        view: bool = False,
        extra: Iterable[tuple[str, int, int]] = (),
        product: bool = False,
        grouped: bool = False,
    ) -> Value:
        """Record an operation and gives its output, which gets a gradient if any input does.

        `view`: it shares the first input's storage. `extra`: (name, elements, width) of further
        outputs that only its backward reads."""
        grad = any(value.grad for value in inputs)
        output = self._value(name, elements, width, grad, inputs[0].storage if view else None)
        outputs: tuple[Value, ...] = (output,)
        saved_values = (*saves, *((output,) if saves_output else ()))
        for other in extra:
            second = self._value(*other, False)
            outputs, saved_values = (*outputs, second), (*saved_values, second)
        saved = saved_values if grad else ()
        self.operations.append(
            Operation(
                name,
                tuple(inputs),
                outputs,
                saved,
                scratch,
                back_scratch,
                passes,
                product or grouped,
                grouped,
            )
        )
        return output

    def leaf(self, name: str, value: Value) -> Value:
        """Return the same tensor asking for a gradient from here on; what follows keeps it
        (Tensor.requires_grad_)."""
        asking = value._replace(grad=True)
        return self.operation(
            name, (asking,), value.elements, value.width, saves=(asking,), passes=True, view=True
        )

    def hold(self, value: Value) -> None:
        """The caller of what was just written still names this tensor: it is there up to here."""
        self.operations.append(Operation(f"{value.name}.held", (value,), (), (), 0, 0, False))

    # --- elementary operations

    def to(self, value: Value, width: int, name: str = "") -> Value:
        """Return a copy in another format; the same tensor where it has that format already."""
        return (
            value
            if value.width == width
            else self.operation(name or f"{value.name}.to", (value,), value.elements, width)
        )

    def cast(self, value: Value, by: str) -> Value:
        """Autocast: a copy in the compute format for every use; of a trained weight one copy until
        the region ends.

        Source: pytorch aten/src/ATen/autocast_mode.cpp, cached_cast (leaves that require grad).
        """
        if not self.compute or value.width == self.compute:
            return value
        if not (value.leaf and value.grad):
            return self.to(value, self.compute, f"{by}.cast")
        if value.name not in self._casts:
            self._casts[value.name] = self.keep(self.to(value, self.compute, f"{value.name}.cast"))
        return self._casts[value.name]

    def matmul(
        self, name: str, left: Value, right: Value, elements: int, *, scratch: int = 0
    ) -> Value:
        """Return a product; each side is saved where the other gets a gradient. scratch: a
        dequantized weight, in either pass."""
        a, b = self.cast(left, name), self.cast(right, name)
        saves = [value for value, other in ((a, b), (b, a)) if other.grad]
        return self.operation(
            name,
            (a, b),
            elements,
            a.width,
            saves=saves,
            scratch=scratch,
            back_scratch=scratch,
            product=True,
        )

    def multiply(self, name: str, left: Value, right: Value) -> Value:
        """Return an elementwise product in the wider format; each side is saved where the other
        gets a gradient.

        The gradient of a narrower side is made whole before it is summed.
        """
        saves = [value for value, other in ((left, right), (right, left)) if other.grad]
        elements, width = max(left.elements, right.elements), max(left.width, right.width)
        summed = (
            elements * width
            if any(value.grad and value.elements < elements for value in (left, right))
            else 0
        )
        return self.operation(
            name, (left, right), elements, width, saves=saves, back_scratch=summed
        )

    def add(self, name: str, left: Value, right: Value) -> Value:
        """Return a sum in the wider format: nothing is saved, the gradient goes on to both."""
        elements, width = max(left.elements, right.elements), max(left.width, right.width)
        return self.operation(name, (left, right), elements, width, passes=True)

    def copy(self, name: str, value: Value, elements: int | None = None) -> Value:
        """Return a new tensor that saves nothing: a product with a number, a mean, a repetition,
        a contiguous copy."""
        return self.operation(
            name, (value,), value.elements if elements is None else elements, value.width
        )

    def pointwise(self, name: str, value: Value, *, of_output: bool = False) -> Value:
        """Return a function of each number that saves its input (silu, gelu, pow), or its output
        (tanh, relu, rsqrt)."""
        return self.operation(
            name,
            (value,),
            value.elements,
            value.width,
            saves=() if of_output else (value,),
            saves_output=of_output,
        )

    def slice(self, name: str, value: Value, elements: int) -> Value:
        """Return a view of a part, or of one thing many times; its gradient is made as large as
        the whole."""
        return self.operation(name, (value,), elements, value.width, view=True)

    def split(self, name: str, value: Value, *parts: int) -> tuple[Value, ...]:
        """Return the views of parts that share one backward, which puts their gradients
        together."""
        outputs = tuple(
            self._value(name, elements, value.width, value.grad, value.storage)
            for elements in parts
        )
        self.operations.append(Operation(name, (value,), outputs, (), 0, 0, False))
        return outputs

    # --- playing

    def saved(self) -> list[Saved]:
        """Return every tensor that the backward pass reads, each storage once; parameters and
        constants left out."""
        return self._played.of(("saved", len(self.operations)), self._saved)

    def _saved(self) -> list[Saved]:
        makers = {
            output.storage: output.name
            for operation in reversed(self.operations)
            for output in reversed(operation.outputs)
        }
        saved_by_storage: dict[int, Saved] = {}
        for operation in self.operations:
            for value in operation.saved:
                if value.storage not in saved_by_storage and value.storage not in (
                    _UNCOUNTED,
                    *self._forgotten,
                ):
                    whole = self._sizes[value.storage] // value.width
                    saved_by_storage[value.storage] = Saved(
                        makers.get(value.storage, value.name), operation.name, whole, value.width
                    )
        return list(saved_by_storage.values())

    def forward(self, output: Value, *, saving: bool = True, early_stop: bool = False) -> Pass:
        """Return the forward pass: its inputs are there before it, and go unless they are saved;
        `output`, what is kept and what is saved stay.

        `saving` False: a checkpoint's, which keeps its inputs instead. `early_stop`: a
        checkpoint's recomputation, which keeps them too and ends after the last operation that
        saves anything; what later operations would have read is there until that moment. Played
        once for all that ask the same of as many operations."""
        key = ("forward", output.number, saving, early_stop, len(self.operations))
        return self._played.of(
            key, lambda: self._forward(output, saving=saving, early_stop=early_stop)
        )

    def _forward(self, output: Value, *, saving: bool, early_stop: bool) -> Pass:
        operations, stops, sizes = self.operations, early_stop and self.stops_early, self._sizes
        if stops:
            last = max(
                (number for number, operation in enumerate(operations) if operation.saved),
                default=-1,
            )
            operations = operations[: last + 1]
        end, inputs = len(operations), [value.storage for value in self.inputs]
        until = dict.fromkeys(inputs, -1)
        for number, operation in enumerate(operations):
            for value in operation.inputs:
                until[value.storage] = number
            for value in operation.outputs:
                until[value.storage] = number
        stays = {
            *self._kept,
            *(() if stops else (output.storage,)),
            *(inputs if early_stop or not saving else ()),
        }
        if saving:
            stays.update(
                {value.storage for operation in operations for value in operation.saved}
                - self._forgotten
            )
        waiting = {
            value.storage for operation in self.operations[end:] for value in operation.inputs
        } & until.keys()
        dropped = waiting - stays - {_UNCOUNTED}
        kept, freed = stays | waiting | {_UNCOUNTED}, [0] * (end + 1)
        for storage, number in until.items():
            if storage not in kept:
                freed[number] += sizes[storage]  # an input without a reader has the number -1
        live = peak = 0
        made = {_UNCOUNTED, *inputs}
        for operation, bytes_freed in zip(operations, freed, strict=False):
            for value in operation.outputs:
                if value.storage not in made:
                    made.add(value.storage)
                    live += sizes[value.storage]
            peak = max(peak, live + operation.scratch)
            live -= bytes_freed
        return Pass(peak=peak, end=live - sum(sizes[storage] for storage in dropped))

    def kept_bytes(self, *, saving: bool) -> int:
        """Return the bytes of casts and other kept tensors that go when the region around the
        segment ends: with `saving`, those nothing saves."""
        saved = (
            {value.storage for operation in self.operations for value in operation.saved}
            if saving
            else set()
        )
        return sum(self._sizes[storage] for storage in set(self._kept) - saved)

    def partial(self, value: Value) -> bool:
        """Return whether a tensor is a view of a part of another, or of another many times."""
        return value.storage != _UNCOUNTED and self._sizes[value.storage] != value.bytes

    def saves(self, value: Value) -> bool:
        """Return whether the backward pass reads this tensor."""
        return any(
            kept.storage == value.storage
            for operation in self.operations
            for kept in operation.saved
        )

    def sized(self, storages: Iterable[int]) -> int:
        """Return the bytes of storages."""
        return sum(self._sizes[storage] for storage in storages)

    @property
    def kept(self) -> set[int]:
        """Storages that somebody holds when the segment ends."""
        return set(self._kept)

    def gradient_bytes(self) -> int:
        """Return the bytes of the gradients that the backward pass leaves in parameters, as this
        rank holds them."""
        return sum(self.gradient_size(leaf) for leaf in self._leaves.values() if leaf.grad)

    def gradient_size(self, value: Value) -> int:
        """Return the bytes that the backward pass makes for the gradient of a value."""
        return value.bytes

    def backward(self, output: Value, *, seed: int | None = None) -> Pass:
        """Return the backward pass: what is saved and the gradient of `output` are there before it;
        gradients of inputs and parameters after it.

        `seed`: bytes of that gradient where it is not as large as the output. Played once, as
        `forward` is."""
        return self._played.of(
            ("backward", output.number, seed, len(self.operations)),
            lambda: self._backward(output, seed),
        )

    def _backward(self, output: Value, seed: int | None) -> Pass:
        readers: dict[int, int] = {}
        for operation in self.operations:
            for value in operation.saved:
                readers[value.storage] = readers.get(value.storage, 0) + 1
        readers.pop(_UNCOUNTED, None)
        pending: dict[int, list[int]] = {output.number: [output.bytes if seed is None else seed, 1]}
        live = peak = 0
        lead: int | None = None
        for operation in reversed(self.operations):
            gradients = [
                pending.pop(value.number) for value in operation.outputs if value.number in pending
            ]
            if not gradients:
                continue
            if lead is None and operation.saved:
                lead = live
            live += operation.restored
            peak = max(peak, live + operation.restoring - operation.restored)
            made = []
            for value in operation.inputs:
                if not value.grad:
                    continue
                whole = operation.outputs[0]
                if (
                    value.storage == _UNCOUNTED and not value.leaf
                ):  # added to a gradient that is counted where the tensor is
                    peak = max(peak, live + value.bytes)
                    continue
                if (
                    operation.passes
                    and not value.leaf
                    and (value.elements, value.width) == (whole.elements, whole.width)
                ):
                    gradients[0][1] += 1
                    made.append((value, gradients[0]))
                else:
                    live += self.gradient_size(value)
                    made.append((value, [self.gradient_size(value), 1]))
            peak = max(peak, live + operation.back_scratch)
            for value in operation.saved:
                if value.storage in readers:
                    readers[value.storage] -= 1
                    if not readers[value.storage]:
                        live -= self._sizes[value.storage]
            for gradient in gradients:
                live -= _released(gradient)
            for value, new in made:
                before = pending.get(value.number)
                if before is None:
                    pending[value.number] = new
                    continue
                live += self.gradient_size(value)
                peak = max(peak, live)
                live -= _released(before) + _released(new)
                pending[value.number] = [self.gradient_size(value), 1]
        return Pass(peak=peak, end=live, lead=lead or 0)


def _released(gradient: list[int]) -> int:
    """Return the bytes that letting go of a gradient frees: its size once nothing else holds it."""
    gradient[1] -= 1
    return 0 if gradient[1] else gradient[0]
