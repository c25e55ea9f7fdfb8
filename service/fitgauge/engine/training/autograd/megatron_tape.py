"""The tape of Megatron-Core: gradients of weights are added to its own buffers, and parts of a
layer run again in the backward pass."""

from collections.abc import Iterator
from contextlib import contextmanager

import msgspec

from fitgauge.engine.training.autograd.operations import Value
from fitgauge.engine.training.autograd.tape import Pass, Tape


class _Span(msgspec.Struct, frozen=True):
    """A run of operations and the storages that they made."""

    first: int
    """Its first operation."""
    last: int
    """Its last operation."""
    first_storage: int
    """The first storage that they made."""
    end: int
    """The storage after the last one."""


class MegatronTape(Tape):
    """Operations of one segment of a Megatron model. Its checkpoints run to their end before
    their backward pass begins."""

    def __init__(self, compute: int = 0) -> None:
        super().__init__(compute)
        self.stops_early = False
        self._lasting = self._lasting_unsaved = 0
        self._discarded: list[_Span] = []

    def hold(self, value: Value) -> None:
        """Do nothing: what the caller of an operation holds is written by the layers of
        Megatron-Core themselves."""

    def gradient_size(self, value: Value) -> int:
        """Return no bytes for a weight: products add to main_grad (--gradient-accumulation-fusion,
        on by default)."""
        return 0 if value.leaf else value.bytes

    @contextmanager
    def recomputed(self, enabled: bool, *, discards: bool = False) -> Iterator[None]:
        """Run what is written inside again before its backward pass, where `enabled`: of it only
        inputs from outside are saved.

        `discards`: what later operations save of it is freed too, and made again before the
        backward pass of the operation after which `restore` is called. Without it the output of the
        second run lives until its own backward pass ends. Source:
        megatron/core/tensor_parallel/random.py, checkpoint and CheckpointWithoutOutput."""
        first, first_storage = len(self.operations), len(self._sizes)
        yield
        if not enabled or len(self.operations) == first:
            return
        span = _Span(first, len(self.operations) - 1, first_storage, len(self._sizes))
        output = self.operations[span.last].outputs[0]
        for number, operation in enumerate(self.operations[first:], first):
            self.operations[number] = operation._replace(
                saved=tuple(v for v in operation.saved if v.storage != output.storage)
            )
        inputs = {
            v.storage: v
            for operation in self.operations[first:]
            for v in operation.inputs
            if 0 <= v.storage < first_storage
        }
        begins = self.operations[first]
        self.operations[first] = begins._replace(saved=(*begins.saved, *inputs.values()))
        if discards:
            self._discarded.append(span)
            self._forgotten.update(range(span.first_storage, span.end))
        else:
            self._forgotten.update(set(range(span.first_storage, span.end)) - {output.storage})
            self._make_again(span, span.last, output.bytes)

    def restore(self) -> None:
        """Recompute what was discarded last before the backward pass of the newest operation. Each
        output is there twice: in the storage that its readers use, and as the second run returned
        it."""
        span = self._discarded.pop()
        later = {
            v.storage: v.bytes
            for operation in self.operations[span.last + 1 :]
            for v in operation.saved
            if v.storage >= span.first_storage
        }
        copies = sum(self._sizes[storage] for storage in later if storage < span.end)
        self._make_again(span, len(self.operations) - 1, copies)

    def _make_again(self, span: _Span, at: int, copies: int) -> None:
        """Let operation `at` recompute, before its backward pass, whatever is saved of a span, and
        hold `copies` [bytes] until the span's backward pass ends."""
        copy = self._value("again", copies, 1, grad=False)
        self._forgotten.add(copy.storage)
        begins = self.operations[span.first]
        self.operations[span.first] = begins._replace(
            outputs=(*begins.outputs, copy), saved=(*begins.saved, copy)
        )
        saved = {v.storage for operation in self.operations[span.first :] for v in operation.saved}
        restored = (
            sum(
                self._sizes[storage]
                for storage in saved
                if span.first_storage <= storage < span.end
            )
            + copies
        )
        part = Tape(self.compute)
        part.operations, part._sizes = self.operations[span.first : span.last + 1], self._sizes
        making = part.forward(part.operations[-1].outputs[0]).peak
        last = self.operations[at]
        self.operations[at] = last._replace(
            restored=last.restored + restored, restoring=last.restoring + max(making, restored)
        )

    def lasts(self, elements: int, width: int, *, saved: bool = False) -> None:
        """Retain a tensor of these sizes in a module until its next forward pass; `saved`: the
        backward pass retains it too."""
        self._lasting += elements * width
        self._lasting_unsaved += 0 if saved else elements * width

    def forward(self, output: Value, *, saving: bool = True, early_stop: bool = False) -> Pass:
        """Return the forward pass, at whose end memory holds what modules retain. A second run
        replaces what the first retained."""
        done = super().forward(output, saving=saving, early_stop=early_stop)
        more = 0 if early_stop else self._lasting_unsaved if saving else self._lasting
        return Pass(peak=max(done.peak, done.end + more), end=done.end + more)
