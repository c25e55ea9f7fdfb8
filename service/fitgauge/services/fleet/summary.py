"""What a fleet comes to: which models fit, and the fewest and the cheapest GPUs for all of them."""

from collections.abc import Sequence

from fitgauge.engine.quantity import gib
from fitgauge.services.fleet import packing
from fitgauge.services.fleet.packing import Demanded, SolverMissingError
from fitgauge.services.fleet.pools import Pool, kind
from fitgauge.services.fleet.schemas import Fault, FleetAnswer, FleetRow, ModelEntry, Plan
from fitgauge.services.fleet.service import Batch, FleetQuestion, Shard

_ADVICE = " Send "
"""What follows is for callers of the API."""

_NO_SOLVER = (
    "The plan needs a solver that is not installed: pip install 'fitgauge[fleet]', or an image"
    " built with --build-arg FLEET=1."
)


class FleetSummary:
    """Adds rows up."""

    def __init__(self, question: FleetQuestion, shard: Shard) -> None:
        """shard: which part of the fleet the rows are of."""
        self._question = question
        self._shard = shard
        self._faults: list[Fault] = list(question.faults)
        self._rows = 0
        self._skipped = 0
        self._entries: list[ModelEntry] = []
        self._counts: dict[str, dict[str, int]] = {}
        self._tight: set[str] = set()
        self._why: dict[str, str] = {}

    def add(self, batch: Batch) -> None:
        """Add the rows of a model; one whose GPUs are all unknown has none."""
        if batch.fault is not None:
            self._faults.append(batch.fault)
        if not batch.rows:
            return
        name = batch.entry.title
        self._entries.append(batch.entry)
        self._rows += len(batch.rows)
        self._skipped += batch.skipped
        pools: dict[str, list[tuple[str, int]]] = {}
        for row in batch.rows:
            pools.setdefault(row.gpu, []).append((row.verdict, row.gpu_count or 0))
        self._counts[name] = {
            pool: max(count for _, count in held)
            for pool, held in pools.items()
            if all(verdict == "fits" for verdict, _ in held)
        }
        if not self._counts[name] and any(
            all(verdict in ("fits", "tight") for verdict, _ in held) for held in pools.values()
        ):
            self._tight.add(name)
        if not self._counts[name]:
            self._why[name] = _why(batch.rows)

    def answer(self) -> FleetAnswer:
        """Return the fleet as a whole; a part of it has no plans."""
        names = [entry.title for entry in self._entries]
        fit = [name for name in names if self._counts[name]]
        plans, no_plan = self._plans()
        return FleetAnswer(
            summary=_sentence(fit, len(names), self._tight, plans, no_plan)
            + left_out(self._faults),
            models=len(names),
            rows=self._rows,
            skipped=self._skipped,
            fit=fit,
            tight=[name for name in names if name in self._tight],
            do_not_fit=[
                name for name in names if not self._counts[name] and name not in self._tight
            ],
            why=self._why,
            pools=[pool.answer for pool in self._question.pools],
            counts=self._counts,
            plans=plans,
            no_plan=no_plan,
            faults=sorted(self._faults, key=lambda fault: fault.line),
        )

    def _plans(self) -> tuple[list[Plan], str | None]:
        """Return the plans, or why there are none."""
        if self._shard.total > 1:
            number, total = self._shard
            return [], f"This is part {number} of {total}: plans are of the whole fleet."
        demanded = [
            Demanded(entry.title, entry.replicas, self._counts[entry.title])
            for entry in self._entries
            if self._counts[entry.title]
        ]
        if not demanded:
            return [], "No model fits."
        try:
            return _both(demanded, self._question.pools), None
        except SolverMissingError:
            return [], _NO_SOLVER


def _why(rows: Sequence[FleetRow]) -> str:
    """Return what lacks of a model that fits on GPUs of no one kind: the first load that none of
    them holds, with what comes nearest."""
    for load in dict.fromkeys(row.load for row in rows):
        of_load = [row for row in rows if row.load == load]
        if any(row.verdict == "fits" for row in of_load):
            continue
        sized = [row for row in of_load if row.required_bytes and row.budget_bytes]
        if not sized:
            note = of_load[0].note
            return f"under {load}: {note.message.split(_ADVICE)[0] if note else 'unsupported'}"
        nearest = min(sized, key=lambda row: (row.required_bytes or 0) / (row.budget_bytes or 1))
        sizes = f"{gib(nearest.required_bytes or 0)} of {gib(nearest.budget_bytes or 0)}"
        return f"under {load}: needs {sizes} on {nearest.gpu_count} x {kind(nearest.gpu)}"
    return "each load fits on some GPUs, all of them on GPUs of no one kind"


def _both(demanded: Sequence[Demanded], pools: Sequence[Pool]) -> list[Plan]:
    """Return the fewest GPUs and, where any has a price, the cheapest."""
    plans = [packing.plan(demanded, pools, "fewest")]
    if any(pool.usd_per_hour is not None for pool in pools):
        plans.append(packing.plan(demanded, pools, "cheapest"))
    return plans


def _sentence(
    fit: Sequence[str], models: int, tight: set[str], plans: Sequence[Plan], no_plan: str | None
) -> str:
    """Return the summary."""
    only = f", {len(tight)} only tightly" if tight else ""
    clauses = [f"{len(fit)} of {models} models fit{only}", *map(_clause, plans)]
    sentence = "; ".join(clauses) + "."
    return f"{sentence} {no_plan}" if no_plan else sentence


def left_out(faults: Sequence[Fault]) -> str:
    """Return how much of the file has no answer; empty for nothing."""
    number = len(faults)
    if not number:
        return ""
    return f" {number} {'line has' if number == 1 else 'lines have'} no answer: see below."


def _clause(plan: Plan) -> str:
    """Return 'fewest GPUs: 24 (16 x H100, 8 x L40S), 61.20 USD/h'."""
    uses = ", ".join(f"{use.gpus} x {kind(use.gpu)}" for use in plan.pools) or "none"
    price = f"{plan.usd_per_hour:,.2f} USD/h" if plan.usd_per_hour is not None else "no price"
    left = sum(plan.unplaced.values())
    without = f", {left} {'copy' if left == 1 else 'copies'} without GPUs" if left else ""
    if plan.objective == "fewest":
        return f"fewest GPUs: {plan.gpus} ({uses}), {price}{without}"
    return f"cheapest: {price} ({uses}){without}"
