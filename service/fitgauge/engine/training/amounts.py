"""A phase of a training step at its highest moment, and the amounts of memory it is made of."""

from collections.abc import Mapping, Sequence

import msgspec
from msgspec.structs import replace

from fitgauge.engine.quantity import Bytes, described
from fitgauge.engine.training.states.formulas import StateFormula
from fitgauge.engine.training.states.sharding import RankStates
from fitgauge.engine.training.workload import PhaseName


class Amount(msgspec.Struct, frozen=True, gc=False):
    """A named part of a phase."""

    name: str
    """The term it belongs to."""
    size: Bytes
    """Its bytes with their interval."""
    formula: str
    """The equation with its numbers."""


class Phase(msgspec.Struct, frozen=True, kw_only=True):
    """One phase of a step at its highest moment."""

    name: PhaseName
    """Which phase it is."""
    parts: tuple[Amount, ...]
    """What is alive then."""

    @property
    def total(self) -> int:
        """Expected bytes of all parts."""
        return sum(part.size.expected for part in self.parts)


def phase(name: PhaseName, parts: Sequence[Amount]) -> Phase:
    """Return a phase of the parts that have bytes."""
    return Phase(name=name, parts=tuple(part for part in parts if part.size.high))


def all_states(rank: RankStates, formulas: Mapping[str, StateFormula]) -> list[Amount]:
    """Return what a rank holds throughout a step: weights, copies of them, optimizer states."""
    return [
        state("weights", rank.weights, formulas),
        in_words(
            "fp8_weights",
            rank.fp8,
            "linears' weights in fp8 and transposed, less the 16-bit weights they take the"
            " place of",
        ),
        in_words("ema_weights", rank.averages, "a moving average of trained weights"),
        state("master_weights", rank.master_weights, formulas),
        state("optimizer_states", rank.optimizer_states, formulas),
    ]


def state(name: str, size: int, formulas: Mapping[str, StateFormula]) -> Amount:
    """Return a state of `size` bytes with its formula."""
    return amount(name, size, formulas[name].of(size))


def in_words(name: str, size: int, words: str, numbers: int = 0) -> Amount:
    """Return a part in words; as so many bytes of each of `numbers`, where it is that."""
    formula = described(words, size)
    if numbers and size % numbers == 0:
        formula = f"{words}: {numbers:,} numbers x {size // numbers} B"
    return amount(name, size, formula)


def amount(name: str, size: int, formula: str) -> Amount:
    """Return a part of exactly `size` bytes."""
    return Amount(name, Bytes(low=size, expected=size, high=size), formula)


def spanned(phases: tuple[Phase, ...], others: Sequence[tuple[Phase, ...]]) -> tuple[Phase, ...]:
    """Return the phases with the interval of activations widened by how much lower or higher the
    highest of `others` is: the same step by other releases."""
    if not others:
        return phases
    top = max(phase.total for phase in phases)
    tops = [max(phase.total for phase in other) for other in others]
    less, more = max(0, top - min(tops)), max(0, max(tops) - top)

    def wider(part: Amount) -> Amount:
        if part.name != "activations":
            return part
        size = part.size
        low, high = max(0, size.low - less), size.high + more
        return Amount(part.name, Bytes(low, size.expected, high), part.formula)

    return tuple(replace(phase, parts=tuple(map(wider, phase.parts))) for phase in phases)
