"""The tape of Megatron-Core: gradients of weights are added where they are kept, parts of
a layer run again in the backward pass."""

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
        """Nothing: the layers of Megatron-Core say themselves what they hold."""

    def gradient_size(self, value: Value) -> int:
        """None for a weight: products add to main_grad (--gradient-accumulation-fusion, which is
        on where nothing is said)."""
        return 0 if value.leaf else value.bytes

    @contextmanager
    def recomputed(self, enabled: bool, *, discards: bool = False) -> Iterator[None]:
        """Provide what is written inside runs again before its backward pass, where that is
        `enabled`: of it only what comes from outside is saved.

        `discards`: what later operations save of it goes as well, and comes back before the
        backward pass of the operation after which `restore` is called. Recomputed, an output is
        there until its own backward pass has ended. Source: megatron/core/tensor_parallel/
        random.py, checkpoint and CheckpointWithoutOutput."""
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
        """Recompute what was discarded last in the backward pass of the operation written last,
        each output twice over: where its readers look for it, and as what ran again left it."""
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
        """Before its backward pass operation `at` makes again what anything saves of a span, and
        `copies` [bytes] until the span's ends."""
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
        """Return the forward pass, after which what modules keep is left as well; a second run
        puts it in the place of the first's."""
        done = super().forward(output, saving=saving, early_stop=early_stop)
        more = 0 if early_stop else self._lasting_unsaved if saving else self._lasting
        return Pass(peak=max(done.peak, done.end + more), end=done.end + more)
