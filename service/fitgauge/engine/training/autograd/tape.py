"""A tape of sizes: simulates a forward and a backward pass as autograd runs them, in bytes alone.

A layer model (layers/) records operations as the modelling code calls them; each operation knows
what autograd saves of it. In the forward pass a tensor lives until its last use or, if it is
saved, until the backward pass of the operation that saved it. In the backward pass gradients live
until they are consumed, and those of parameters stay."""

from collections.abc import Iterable, Sequence

import msgspec

from fitgauge.engine.training.autograd.operations import (
    UNCOUNTED,
    Operation,
    Recorder,
    Saved,
    Value,
)


class Pass(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """Change of live memory over a segment, against the moment before it begins."""

    peak: int
    """Peak [bytes]."""
    end: int
    """Live bytes at its end."""
    lead: int = 0
    """Of a backward pass: gradients alive when it first reads a saved tensor [bytes]."""
    parameter_gradients: int = 0
    """Of a backward pass: gradients of parameters alive at its peak [bytes]."""


class Tape(Recorder):
    """Recorded operations with their forward and backward pass."""

    def saved(self) -> list[Saved]:
        """Return every tensor that the backward pass reads, each storage once; parameters and
        constants left out."""
        saved: list[Saved] = self._memo.get_or_compute(("saved", len(self.operations)), self._saved)
        return saved

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
                    UNCOUNTED,
                    *self._forgotten,
                ):
                    whole = self._sizes[value.storage] // value.width
                    saved_by_storage[value.storage] = Saved(
                        makers.get(value.storage, value.name), operation.name, whole, value.width
                    )
        return list(saved_by_storage.values())

    def forward(self, output: Value, *, saving: bool = True, early_stop: bool = False) -> Pass:
        """Return the forward pass. Its inputs live before it and are freed unless saved; `output`,
        retained and saved tensors are left.

        `saving` False: the forward pass of a checkpoint, which saves its inputs alone.
        `early_stop`: the recomputation of a checkpoint, which saves them too and ends after the
        last operation that saves a tensor, before it runs where it saves its inputs alone (saved
        variables are packed first); inputs of later operations live until then. Results are
        cached by arguments and number of operations."""
        key = ("forward", output.number, saving, early_stop, len(self.operations))
        forward: Pass = self._memo.get_or_compute(
            key, lambda: self._forward(output, saving=saving, early_stop=early_stop)
        )
        return forward

    def _forward(self, output: Value, *, saving: bool, early_stop: bool) -> Pass:
        operations, stops, sizes = self.operations, early_stop and self.stops_early, self._sizes
        if stops:
            last = max(
                (number for number, operation in enumerate(operations) if operation.saved),
                default=-1,
            )
            operations = operations[: last + 1]
            if operations and not _saves_output(operations[-1]):
                operations[-1] = operations[-1]._replace(outputs=(), scratch=0)
        end, inputs = len(operations), [value.storage for value in self.inputs]
        until = dict.fromkeys(inputs, -1)
        for number, operation in enumerate(operations):
            for value in operation.inputs:
                until[value.storage] = number
            for value in operation.outputs:
                until[value.storage] = number
        stays = {
            *self._retained,
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
        dropped = waiting - stays - {UNCOUNTED}
        retained, freed = stays | waiting | {UNCOUNTED}, [0] * (end + 1)
        for storage, number in until.items():
            if storage not in retained:
                freed[number] += sizes[storage]  # an input without a reader has the number -1
        live = peak = 0
        allocated = {UNCOUNTED, *inputs}
        for operation, bytes_freed in zip(operations, freed, strict=False):
            for value in operation.outputs:
                if value.storage not in allocated:
                    allocated.add(value.storage)
                    live += sizes[value.storage]
            peak = max(peak, live + operation.scratch)
            live -= bytes_freed
        return Pass(peak=peak, end=live - sum(sizes[storage] for storage in dropped))

    def retained_bytes(self, *, saving: bool) -> int:
        """Return the bytes of casts and other retained tensors that are freed when the region
        around the segment ends; with `saving`, of those that no operation saves."""
        if saving:
            saved = {value.storage for operation in self.operations for value in operation.saved}
        else:
            saved = set()
        return sum(self._sizes[storage] for storage in set(self._retained) - saved)

    def partial(self, value: Value) -> bool:
        """Return whether a tensor is a view of a part of another, or a repeated view of it."""
        return value.storage != UNCOUNTED and self._sizes[value.storage] != value.bytes

    def saves(self, value: Value) -> bool:
        """Return whether the backward pass reads this tensor."""
        return any(
            saved_value.storage == value.storage
            for operation in self.operations
            for saved_value in operation.saved
        )

    def sized(self, storages: Iterable[int]) -> int:
        """Return the bytes of storages."""
        return sum(self._sizes[storage] for storage in storages)

    def gradient_bytes(self) -> int:
        """Return the bytes of this rank's gradients of parameters after the backward pass."""
        return sum(self.gradient_size(leaf) for leaf in self._leaves.values() if leaf.grad)

    def gradient_size(self, value: Value) -> int:
        """Return the bytes of the gradient that the backward pass makes for a value."""
        return value.bytes

    def backward(self, output: Value) -> Pass:
        """Return the backward pass. Saved tensors and the gradient of `output` live before it,
        gradients of inputs and parameters after it. Cached as `forward` is."""
        backward: Pass = self._memo.get_or_compute(
            ("backward", output.number, len(self.operations)), lambda: self._backward(output)
        )
        return backward

    def _backward(self, output: Value) -> Pass:
        return _BackwardPass(self, self._sizes, output).run()


def _saves_output(operation: Operation) -> bool:
    outputs = {value.storage for value in operation.outputs}
    return any(value.storage in outputs for value in operation.saved)


def _released(gradient: list[int]) -> int:
    """Return the bytes that dropping a gradient frees: its size once no other reference holds
    it."""
    gradient[1] -= 1
    return 0 if gradient[1] else gradient[0]


class _BackwardPass:
    """What is alive as a tape's operations run backward, from the last to the first [bytes]."""

    def __init__(self, tape: Tape, sizes: Sequence[int], output: Value) -> None:
        self._operations, self._gradient_size, self._sizes = (
            tape.operations,
            tape.gradient_size,
            sizes,
        )
        self._readers: dict[int, int] = {}
        """Operations left that read a saved storage."""
        for operation in tape.operations:
            for value in operation.saved:
                self._readers[value.storage] = self._readers.get(value.storage, 0) + 1
        self._readers.pop(UNCOUNTED, None)
        self._pending: dict[int, list[int]] = {output.number: [output.bytes, 1]}
        """By value: the size of its gradient, and the references to it."""
        self._live = self._peak = self._of_parameters = self._parameters_at_peak = 0
        self._lead: int | None = None

    def run(self) -> Pass:
        """Return the pass."""
        for operation in reversed(self._operations):
            gradients = [
                self._pending.pop(value.number)
                for value in operation.outputs
                if value.number in self._pending
            ]
            if gradients:
                self._differentiate(operation, gradients)
        return Pass(
            peak=self._peak,
            end=self._live,
            lead=self._lead or 0,
            parameter_gradients=self._parameters_at_peak,
        )

    def _differentiate(self, operation: Operation, gradients: list[list[int]]) -> None:
        """Make the gradients of an operation's inputs, then let go what only it read.

        gradients: of its outputs."""
        if self._lead is None and operation.saved:
            self._lead = self._live
        self._live += operation.restored
        self._mark(operation.restoring - operation.restored)
        new = self._gradients_of_inputs(operation, gradients[0])
        self._of_parameters += sum(self._gradient_size(value) for value, _ in new if value.leaf)
        self._mark(operation.back_scratch)
        self._free_saved(operation)
        for gradient in gradients:
            self._live -= _released(gradient)
        for value, gradient in new:
            self._accumulate(value, gradient)

    def _mark(self, more: int = 0) -> None:
        """Take this moment for the peak where it and `more` are higher."""
        if self._live + more > self._peak:
            self._peak, self._parameters_at_peak = self._live + more, self._of_parameters

    def _gradients_of_inputs(
        self, operation: Operation, passed: list[int]
    ) -> list[tuple[Value, list[int]]]:
        """Return the gradients that an operation makes. passed: that of its output, which inputs
        of its shape share where it passes gradients on."""
        whole, gradients = operation.outputs[0], list[tuple[Value, list[int]]]()
        for value in operation.inputs:
            if not value.grad:
                continue
            alike = (value.elements, value.width) == (whole.elements, whole.width)
            if value.storage == UNCOUNTED and not value.leaf:
                # added to a gradient that is counted where the tensor is
                self._peak = max(self._peak, self._live + value.bytes)
            elif operation.passes and not value.leaf and alike:
                passed[1] += 1
                gradients.append((value, passed))
            else:
                size = self._gradient_size(value)
                self._live += size
                gradients.append((value, [size, 1]))
        return gradients

    def _free_saved(self, operation: Operation) -> None:
        """Free what no other operation will read."""
        for value in operation.saved:
            if value.storage in self._readers:
                self._readers[value.storage] -= 1
                if not self._readers[value.storage]:
                    self._live -= self._sizes[value.storage]

    def _accumulate(self, value: Value, gradient: list[int]) -> None:
        """Keep a gradient, or add it to the one that another operation made: both are alive until
        their sum is there."""
        before = self._pending.get(value.number)
        if before is None:
            self._pending[value.number] = gradient
            return
        size = self._gradient_size(value)
        self._live += size
        if value.leaf:
            self._of_parameters -= size
        self._mark()
        self._live -= _released(before) + _released(gradient)
        self._pending[value.number] = [size, 1]
