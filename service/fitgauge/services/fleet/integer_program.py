"""The integer program of a fleet's plan, in HiGHS: imported where a plan is made, since its package
is installed on request.

Variables: copies of a group in a pool, copies without GPUs, machines of a pool. One thread and a
bound on nodes rather than on time: the same fleet has the same plan on every machine."""

from collections.abc import Sequence
from typing import NamedTuple

import highspy
import numpy

_MOST_NODES = 1_000
_GAP = 1e-4
"""How much better another plan may be, as a share, where the search ends."""


class Capacity(NamedTuple):
    """GPUs of one kind."""

    available: int | None
    """How many there are; None for no bound."""
    per_machine: int
    """GPUs of a machine."""
    usd_per_hour: float
    """Price of one machine [USD/h]; 0 where none is known."""


class Solution(NamedTuple):
    """The copies of every group in every pool."""

    copies: list[list[int]]
    """By group, then by pool."""
    gap: float
    """How much better another plan may be, as a share."""


class _Program:
    """Columns and rows."""

    def __init__(self) -> None:
        self.upper: list[float] = []
        self.rows: list[tuple[float, float, dict[int, float]]] = []

    def column(self, upper: float) -> int:
        """Add a whole number from 0 to `upper`, and return its place."""
        self.upper.append(upper)
        return len(self.upper) - 1

    def minimise(self, costs: dict[int, float]) -> tuple[list[int], float, float]:
        """Return the values of all columns, the objective and the gap."""
        model = highspy.Highs()  # type: ignore[no-untyped-call]
        model.setOptionValue("output_flag", False)
        model.setOptionValue("threads", 1)
        model.setOptionValue("mip_rel_gap", _GAP)
        model.setOptionValue("mip_max_nodes", _MOST_NODES)
        problem = highspy.HighsLp()
        problem.num_col_, problem.num_row_ = len(self.upper), len(self.rows)
        problem.col_cost_ = numpy.array([costs.get(at, 0.0) for at in range(len(self.upper))])
        problem.col_lower_ = numpy.zeros(len(self.upper))
        problem.col_upper_ = numpy.array(self.upper)
        problem.row_lower_ = numpy.array([row[0] for row in self.rows])
        problem.row_upper_ = numpy.array([row[1] for row in self.rows])
        problem.integrality_ = [highspy.HighsVarType.kInteger] * len(self.upper)
        starts = [0]
        for _, _, entries in self.rows:
            starts.append(starts[-1] + len(entries))
        problem.a_matrix_.format_ = highspy.MatrixFormat.kRowwise
        problem.a_matrix_.start_ = numpy.array(starts)
        problem.a_matrix_.index_ = numpy.array([at for row in self.rows for at in row[2]])
        problem.a_matrix_.value_ = numpy.array(
            [value for row in self.rows for value in row[2].values()]
        )
        model.passModel(problem)
        model.run()
        info = model.getInfo()
        values = [round(value) for value in model.getSolution().col_value]
        return values, float(info.objective_function_value), float(info.mip_gap)


def solve(
    replicas: Sequence[int],
    counts: Sequence[Sequence[int | None]],
    pools: Sequence[Capacity],
    *,
    by_price: bool,
) -> Solution:
    """Return the copies that place the most, then take the fewest GPUs, then the cheapest machines;
    `by_price` the other way round.

    replicas: copies of each group; counts: GPUs of a copy by group and pool, None where it does
    not fit."""
    if not replicas or not pools:
        return Solution([[0] * len(pools) for _ in replicas], 0.0)
    program = _Program()
    placed = [
        [None if count is None else program.column(number) for count in row]
        for number, row in zip(replicas, counts, strict=True)
    ]
    missing = [program.column(number) for number in replicas]
    machines = [
        program.column(
            highspy.kHighsInf if one.available is None else -(-one.available // one.per_machine)
        )
        for one in pools
    ]
    for row, unplaced, number in zip(placed, missing, replicas, strict=True):
        entries = {at: 1.0 for at in row if at is not None} | {unplaced: 1.0}
        program.rows.append((number, number, entries))
    gpus: dict[int, float] = {}
    for place, pool in enumerate(pools):
        taken = {
            at: float(count)
            for row, of_group in zip(placed, counts, strict=True)
            if (at := row[place]) is not None and (count := of_group[place]) is not None
        }
        gpus |= taken
        program.rows.append(
            (-highspy.kHighsInf, 0.0, taken | {machines[place]: -float(pool.per_machine)})
        )
        if pool.available is not None:
            program.rows.append((-highspy.kHighsInf, float(pool.available), taken))
    price = {at: pool.usd_per_hour for at, pool in zip(machines, pools, strict=True)}
    first, second = (price, gpus) if by_price else (gpus, price)
    gap = 0.0
    values: list[int] = []
    for costs in (dict.fromkeys(missing, 1.0), first, second):
        values, least, left = program.minimise(costs)
        gap = left if costs is first else gap
        program.rows.append((-highspy.kHighsInf, least * (1 + 1e-9) + 1e-6, costs))
    return Solution(
        [[0 if at is None else values[at] for at in row] for row in placed], max(0.0, gap)
    )
