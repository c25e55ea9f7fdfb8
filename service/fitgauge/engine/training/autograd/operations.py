"""Operations of a model's forward pass, as the modelling code calls them, and what autograd saves
of each. Rules of saving: pytorch tools/autograd/derivatives.yaml."""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import msgspec

from fitgauge.engine.memo import Memo, MixedMemo

FLOAT = 4
"""Bytes of a number in fp32."""
UNCOUNTED = -1


class Value(NamedTuple):
    """A tensor."""

    number: int
    """Its number on the tape."""
    name: str
    """Its name, as the list of saved tensors prints it."""
    elements: int
    """How many numbers it has."""
    width: int
    """Bytes of a number."""
    grad: bool
    """Whether it gets a gradient."""
    storage: int
    """Number of its storage, which views share."""
    leaf: bool = False
    """Whether it is a parameter."""

    @property
    def bytes(self) -> int:
        """elements x width."""
        return self.elements * self.width

    @property
    def counted(self) -> bool:
        """Whether its bytes count in its segment: parameters and constants count elsewhere."""
        return self.storage != UNCOUNTED


class Operation(NamedTuple):
    """One differentiable operation."""

    name: str
    """What it computes."""
    inputs: tuple[Value, ...]
    """Values it reads."""
    outputs: tuple[Value, ...]
    """Values it returns."""
    saved: tuple[Value, ...]
    """Values that its backward reads."""
    scratch: int
    """Bytes held only while its forward runs."""
    back_scratch: int
    """Bytes held only while its backward runs."""
    passes: bool
    """Whether its backward returns the gradient unchanged (addition, views)."""
    product: bool = False
    """Whether it is a matrix product or attention."""
    grouped: bool = False
    """Whether it is a product of all experts."""
    restored: int = 0
    """Bytes of dropped tensors that are recomputed before its backward."""
    restoring: int = 0
    """Peak of recomputing them [bytes]."""


class Saved(msgspec.Struct, frozen=True, gc=False):
    """A tensor that autograd saves for the backward pass."""

    name: str
    """The value's name."""
    by: str
    """The operation that saves it."""
    elements: int
    """How many numbers it has."""
    width: int
    """Bytes of a number."""

    @property
    def bytes(self) -> int:
        """elements x width."""
        return self.elements * self.width


class Recorder:
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
        self._retained: list[int] = []
        self._forgotten: set[int] = set()
        self._memo: MixedMemo = Memo()
        self.stops_early = True
        """Whether a checkpoint's recomputation ends after the last operation that saves a
        tensor."""

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
        """Return a weight. Its bytes count with the parameters; its gradient counts here."""
        if name not in self._leaves:
            self._leaves[name] = self._value(name, elements, width, trained, UNCOUNTED, leaf=True)
        return self._leaves[name]

    def constant(self, name: str, elements: int, width: int, *, grad: bool = False) -> Value:
        """Return a tensor that lives before and after the segment (rotary tables, masks, an
        encoder's output); its bytes count elsewhere."""
        return self._value(name, elements, width, grad, UNCOUNTED)

    def keep(self, value: Value) -> Value:
        """Retain this tensor until the segment ends."""
        self._retained.append(value.storage)
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
        """Record an operation and return its output, which gets a gradient if any input does.

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
        """Return the same tensor with requires_grad set: it gets a gradient from here on
        (Tensor.requires_grad_)."""
        asking = value._replace(grad=True)
        return self.operation(
            name, (asking,), value.elements, value.width, saves=(asking,), passes=True, view=True
        )

    def hold(self, value: Value) -> None:
        """Keep this tensor alive up to here: a variable of the calling code still refers to it."""
        self.operations.append(Operation(f"{value.name}.held", (value,), (), (), 0, 0, False))

    # --- elementary operations

    def to(self, value: Value, width: int, name: str = "") -> Value:
        """Return a copy in another format; the same tensor where it has that format already."""
        if value.width == width:
            return value
        return self.operation(name or f"{value.name}.to", (value,), value.elements, width)

    def cast(self, value: Value, by: str) -> Value:
        """Return autocast's copy in the compute format: a new one at every use, but of a trained
        weight one that is cached until the region ends. Source: pytorch
        aten/src/ATen/autocast_mode.cpp, cached_cast (leaves that require grad)."""
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
        """Return a matrix product. Each side is saved where the other gets a gradient. scratch:
        bytes of a dequantized weight, in either pass."""
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
        """Return an elementwise product in the wider format. Each side is saved where the other
        gets a gradient. A side that was broadcast gets its gradient at full size before it is
        summed."""
        saves = [value for value, other in ((left, right), (right, left)) if other.grad]
        elements, width = max(left.elements, right.elements), max(left.width, right.width)
        summed = 0
        if any(value.grad and value.elements < elements for value in (left, right)):
            summed = elements * width
        return self.operation(
            name, (left, right), elements, width, saves=saves, back_scratch=summed
        )

    def add(self, name: str, left: Value, right: Value) -> Value:
        """Return a sum in the wider format. Nothing is saved; both sides get the same gradient."""
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
        """Return a view of a part, or a repeated view of the whole; its gradient is as large as the
        whole."""
        return self.operation(name, (value,), elements, value.width, view=True)

    def split(self, name: str, value: Value, *parts: int) -> tuple[Value, ...]:
        """Return views of the parts; they share one backward, which concatenates their
        gradients."""
        outputs = tuple(
            self._value(name, elements, value.width, value.grad, value.storage)
            for elements in parts
        )
        self.operations.append(Operation(name, (value,), outputs, (), 0, 0, False))
        return outputs
