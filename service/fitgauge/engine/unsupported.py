"""What an engine or a framework does not run, and the settings that it does."""

from collections.abc import Iterable, Mapping, Sequence

Value = str | int | bool | None
"""A value of a setting; None stands for one that is left out."""

Alternative = Mapping[str, tuple[Value, ...]]
"""Settings that work together, each with the values that it may have, the nearest first."""


class UnsupportedError(Exception):
    """A setting does not work with this model, engine or hardware.

    parameter: the setting at fault, by its name in the workload.
    reason: why it does not work, as a sentence.
    alternatives: what works, the nearest first; empty where nothing narrows down what does.
    matches: up to five existing names that are close to an unknown one.
    """

    def __init__(
        self,
        parameter: str,
        reason: str,
        alternatives: tuple[Alternative, ...] = (),
        *,
        matches: tuple[str, ...] = (),
    ) -> None:
        super().__init__(reason)
        self.parameter = parameter
        self.reason = reason
        self.alternatives = alternatives
        self.matches = matches[:5]


def nearest(values: Iterable[int], wanted: int) -> tuple[int, ...]:
    """Return the twelve values that are nearest to the one wanted, the nearest first."""
    return tuple(sorted(values, key=lambda value: (abs(value - wanted), value))[:12])


def refused_degree(title: str, degree: int, reason: str, works: Sequence[int]) -> UnsupportedError:
    """Return the error for a degree of tensor parallelism that the engine of this title refuses,
    with the degrees that work instead, else one GPU."""
    return UnsupportedError(
        "tensor_parallel",
        f"{title} refuses tensor_parallel {degree}: {reason}.",
        (
            {"tensor_parallel": nearest(works, degree)}
            if works
            else {"tensor_parallel": (1,), "data_parallel": (1,)},
        ),
    )
