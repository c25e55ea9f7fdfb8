"""The formula of each training state in words: numbers, format, and over how many ranks."""

from collections.abc import Sequence
from typing import NamedTuple

from fitgauge.engine.model.dtypes import BITS
from fitgauge.engine.quantity import described, exactly
from fitgauge.engine.training.states.sharding import ModelState, RankUnit, is_sharded
from fitgauge.engine.training.workload import TrainingWorkload, precision_policy


class StateFormula(NamedTuple):
    """The formula of one state of a rank, and what it adds up to [bytes]; None where the text is
    words alone."""

    text: str
    """Numbers, bytes of a number, and over how many ranks."""
    bytes: int | None
    """The product of these; None where it has none."""

    def of(self, size: int) -> str:
        """Return the formula of `size` bytes of it: what is not there, or there in addition, is
        named."""
        if self.bytes is None:
            return described(self.text, size)
        more = size - self.bytes
        if abs(more) <= 1:
            return self.text
        if more > 0:
            return f"{self.text} + {exactly(more)} of padding and of what stays whole"
        return f"{self.text} - {exactly(-more)} that are not there at this moment"


def state_formulas(
    workload: TrainingWorkload, slices: Sequence[tuple[RankUnit, int]]
) -> dict[str, StateFormula]:
    """Return how each state is counted: numbers, bytes of a number, and over how many ranks."""
    form = precision_policy(workload)
    ranks = workload.data_parallel // workload.data_parallel_replicate * workload.context_parallel
    trained = sum(count * piece.trained for piece, count in slices)
    elements = sum(count * piece.elements for piece, count in slices)

    def formula(words: str, numbers: str, whole: int, of: ModelState) -> StateFormula:
        """Return a state over the ranks that share it. whole: of all of them [bytes]."""
        shards = ranks if ranks > 1 and is_sharded(of, workload) else 1
        over = f" / {shards} ranks" if shards > 1 else ""
        return StateFormula(f"{words}: {numbers}{over}", whole // shards)

    def each(words: str, width: float, of: ModelState) -> StateFormula:
        """Return a state of every trained parameter. width: of one number [bytes]."""
        numbers = f"{trained:,} trained parameters x {width:.10g} B"
        return formula(words, numbers, round(trained * width), of)

    def mean(name: str, of: ModelState) -> float:
        """Return the bytes of a number of a state, as this rank has it."""
        size = sum(count * int(getattr(piece.states, name)) for piece, count in slices)
        return size * (ranks if is_sharded(of, workload) else 1) / max(1, trained)

    if workload.uses_adapters:
        weights = formula("in the formats", *_by_format(slices), "weights")
        gradients = each("of adapters", mean("gradients", "gradients"), "gradients")
    else:
        width = BITS[form.weights] // 8
        numbers = f"{elements:,} parameters x {width} B"
        weights = formula(f"in {form.weights}", numbers, elements * width, "weights")
        gradients = each(f"in {form.gradients}", BITS[form.gradients] / 8, "gradients")
    masters = BITS[form.masters] / 8 if form.masters else 0.0
    return {
        "weights": weights,
        "gradients": gradients,
        "master_weights": each(f"in {form.masters}", masters, "states"),
        "optimizer_states": each(workload.optimizer, mean("optimizer_states", "states"), "states"),
    }


def _by_format(slices: Sequence[tuple[RankUnit, int]]) -> tuple[str, int]:
    """Return the numbers in every format that a frozen base and its adapters have, most first,
    and their bytes."""
    formats: dict[str, tuple[int, int]] = {}
    for piece, count in slices:
        for parameter in piece.parameters:
            name = parameter.form.name if parameter.form else parameter.dtype
            name = f"adapters in {name}" if parameter.adapter else f"parameters in {name}"
            elements, size = formats.get(name, (0, 0))
            formats[name] = elements + count * parameter.elements, size + count * parameter.bytes
    parts = [
        f"{elements:,} {name} x {size / max(1, elements):.10g} B"
        for name, (elements, size) in sorted(formats.items(), key=lambda each: -each[1][0])
    ]
    text = f"({' + '.join(parts)})" if len(parts) > 1 else "".join(parts)
    return text, sum(size for _, size in formats.values())
