"""The formula of each training state in words: numbers, format, and over how many ranks."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from fitgauge.engine.model.dtypes import BITS
from fitgauge.engine.quantity import described, exactly
from fitgauge.engine.training.states.sharding import ModelState, RankUnit, is_sharded, shard_ranks
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
    policy = precision_policy(workload)
    ranks = workload.data_parallel // workload.data_parallel_replicate * workload.context_parallel
    trained = _by_ranks(workload, slices, trained=True)
    elements = _by_ranks(workload, slices, trained=False)

    def shared(numbers: Mapping[int, int], of: ModelState) -> Mapping[int, int]:
        """Return the numbers by how many ranks share them; all by one where none are shared."""
        return numbers if is_sharded(of, workload) else {1: sum(numbers.values())}

    def each(
        words: str, numbers: Mapping[int, int], what: str, width: float, of: ModelState
    ) -> StateFormula:
        """Return a state of these numbers. width: of one of them [bytes]."""
        parts = shared(numbers, of)
        texts = [
            f"{count:,} {what} x {width:.10g} B{f' / {over} ranks' if over > 1 else ''}"
            for over, count in parts.items()
        ]
        size = sum(round(count * width) // over for over, count in parts.items())
        return StateFormula(f"{words}: {' + '.join(texts)}", size)

    def of_trained(words: str, width: float, of: ModelState) -> StateFormula:
        """Return a state of every trained parameter."""
        return each(words, trained, "trained parameters", width, of)

    def mean(name: str, of: ModelState) -> float:
        """Return the bytes of a number of a state, as this rank has it."""
        size = sum(count * int(getattr(piece.states, name)) for piece, count in slices)
        here = sum(count / over for over, count in shared(trained, of).items())
        return size / max(1, here)

    if workload.uses_adapters:
        numbers, size = _by_format(slices)
        ways = ranks if ranks > 1 and is_sharded("weights", workload) else 1
        over = f" / {ways} ranks" if ways > 1 else ""
        weights = StateFormula(f"in the formats: {numbers}{over}", size // ways)
        gradients = of_trained("of adapters", mean("gradients", "gradients"), "gradients")
    else:
        width = BITS[policy.weights] // 8
        weights = each(f"in {policy.weights}", elements, "parameters", width, "weights")
        gradients = of_trained(f"in {policy.gradients}", BITS[policy.gradients] / 8, "gradients")
    masters = BITS[policy.masters] / 8 if policy.masters else 0.0
    return {
        "weights": weights,
        "gradients": gradients,
        "master_weights": of_trained(f"in {policy.masters}", masters, "states"),
        "optimizer_states": of_trained(
            workload.optimizer, mean("optimizer_states", "states"), "states"
        ),
    }


def _by_ranks(
    workload: TrainingWorkload, slices: Sequence[tuple[RankUnit, int]], *, trained: bool
) -> dict[int, int]:
    """Return the numbers by how many data-parallel ranks share them, most ranks first: experts
    have fewer than all else where they are divided further. `trained`: of trained parameters
    alone."""
    if workload.expert_ways * workload.expert_parallel == workload.tensor_parallel:
        ranks = workload.data_parallel // workload.data_parallel_replicate
        alike = sum(
            count * (piece.trained if trained else piece.elements) for piece, count in slices
        )
        return {ranks * workload.context_parallel: alike}
    numbers: dict[int, int] = {}
    for piece, count in slices:
        for parameter in piece.parameters:
            if parameter.trained or not trained:
                ranks = shard_ranks(parameter, workload)
                numbers[ranks] = numbers.get(ranks, 0) + count * parameter.elements
    return dict(sorted(numbers.items(), reverse=True)) or {1: 0}


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
