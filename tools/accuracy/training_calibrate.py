"""Fits the catalog's training.json to the fit part of the published training runs. Deterministic.

Everything that frameworks' sources define is derived in the engine. What is left: the
fragmentation of the caching allocator, and how far runs lie from what is counted. Runs are split
by a hash of their source: calibration sees `fit` alone, every campaign weighs the same, and
intervals are as wide as campaigns that are left out need (training_left_out.py). Run: python -m
accuracy.training_calibrate, then `make accuracy`."""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from hashlib import sha256
from pathlib import Path
from typing import Any, Literal, NamedTuple

from accuracy.training_left_out import asked_again, narrowest, service_with
from accuracy.training_truth import Published, Row, published
from accuracy.truth import GIB
from fitgauge.catalog.catalog import bundled
from fitgauge.engine.serving.fit import SURE, fit_probability
from fitgauge.engine.training.profile import AllocatorKind, allocator_kind, logits_bytes

DATA = Path(__file__).parents[2] / "service/fitgauge/catalog/data/training.json"
RUNS = (
    "published training runs (tools/accuracy/training_gpu.jsonl, fit part), by"
    " tools/accuracy/training_calibrate.py"
)
FIT_SHARE = 70
FULL = 0.93
"""Of a GPU: what is held beyond it shows the GPU, not the need."""
STATES = ("weights", "gradients", "master_weights", "optimizer_states")
FITTED = (
    "fragmentation",
    "fragmentation_logits",
    "fragmentation_dispatched",
    "spread",
    "spread_routed",
    "slack",
    "filled_probability",
)
"""What `calibrated` writes."""
POOLED: frozenset[AllocatorKind] = frozenset({"transformers", "fsdp1", "fsdp2"})
"""Kinds that share one spread around their own median: FSDP2 has too few runs for its own."""
FEW = 5
"""A kind with fewer runs takes the spread of all kinds."""
LEAST_UNCERTAIN = 0.05
"""Of what is allocated: less that is no arithmetic tells nothing about its spread."""


class Seen(NamedTuple):
    """A number that one run shows, and whose run it is."""

    campaign: str
    value: float


def part(row: Row) -> Literal["fit", "check"]:
    """Return the part that a hash of its source puts a run in."""
    if int(sha256(row["source"].encode()).hexdigest()[:8], 16) % 100 < FIT_SHARE:
        return "fit"
    return "check"


def campaign(row: Row) -> str:
    """Return the project or thread that printed the run."""
    return str(row["source"]).split(" ")[0]


def ran(which: str) -> Iterator[Published]:
    """Return the published runs of a part that ended."""
    return (run for run in published()[0] if run.row["outcome"] != "oom" and part(run.row) == which)


def quantile(seen: Iterable[Seen], share: float) -> float:
    """Return the least value with at least `share` of the weight at or below it, every campaign
    weighing the same."""
    ordered = sorted(seen, key=lambda one: one.value)
    counts = {
        one.campaign: sum(other.campaign == one.campaign for other in ordered) for one in ordered
    }
    below, total = 0.0, float(len(counts))
    for one in ordered:
        below += 1 / counts[one.campaign]
        if below >= share * total - 1e-9:
            return one.value
    return ordered[-1].value


def allocated(row: Row) -> float | None:
    """Return the bytes that PyTorch had allocated at the peak, as printed."""
    printed = row["measured"].get("peak_allocated_gib") or row["measured"].get("peak_active_gib")
    return float(printed) * GIB if printed else None


def reserved(run: Published) -> float | None:
    """Return the bytes that its allocator held, as printed, or the device's less what is
    expected around it; None where the GPU was full."""
    measured, stage = run.row["measured"], run.trained.fullest
    around = stage.shown.expected - stage.reserved.expected
    seen = (
        measured.get("peak_reserved_gib", 0) * GIB
        or measured.get("nvidia_smi_gib", 0) * GIB - around
    )
    usable = bundled().find(run.request.gpu).accelerator.usable.expected
    return float(seen) if 0 < seen < FULL * usable - around else None


def routed(run: Published) -> bool:
    """Return whether the model has experts, of which one rank may get more tokens than another."""
    return any(block.mlp is not None and block.mlp.experts for block in run.model.spec.blocks)


class Sample(NamedTuple):
    """The fragmentation of one run."""

    kind: AllocatorKind
    campaign: str
    held: float
    """Bytes reserved."""
    peak: float
    """Bytes allocated."""
    logits: int
    """Bytes of the logits in fp32."""

    def share(self, times: float) -> Seen:
        """Return the share of the peak that is fragmented, less `times` the logits."""
        return Seen(self.campaign, (self.held - self.peak - times * self.logits) / self.peak)


def samples(runs: Iterable[Published]) -> list[Sample]:
    """Return every run that prints what its allocator reserved; where it does not print the peak,
    the estimate stands for it, unless the model is routed."""
    result = []
    for run in runs:
        held, stage, workload = reserved(run), run.trained.fullest, run.trained.workload
        printed = allocated(run.row)
        if held is not None and (printed or not routed(run)):
            peak = printed or stage.allocated.expected
            logits = logits_bytes(run.model.spec, workload, stage.stage)
            result.append(Sample(allocator_kind(workload), campaign(run.row), held, peak, logits))
    return result


def dispatched(runs: Iterable[Published]) -> list[Seen]:
    """Of every run whose ranks exchanged the tokens of their experts, what was held over what is
    counted, less 1. None of them prints the peak, so that uneven routing is in it too."""
    result = []
    for run in runs:
        held = reserved(run)
        if held is not None and run.trained.workload.expert_parallel > 1:
            result.append(
                Seen(campaign(run.row), held / run.trained.fullest.allocated.expected - 1)
            )
    return result


def fragmentation(seen: list[Sample]) -> tuple[float, dict[AllocatorKind, float]]:
    """Return (times the logits, share of the peak by kind) with the least sum of absolute errors,
    as shares of what was held, every campaign weighing the same within a kind."""
    names = sorted({one.kind for one in seen})

    def shares(times: float) -> dict[AllocatorKind, float]:
        return {
            name: max(0.0, quantile((one.share(times) for one in seen if one.kind == name), 0.5))
            for name in names
        }

    def error(times: float) -> float:
        result, total = shares(times), 0.0
        for name in names:
            own = [one for one in seen if one.kind == name]
            alike = {
                one.campaign: sum(other.campaign == one.campaign for other in own) for one in own
            }
            total += sum(
                abs(one.share(times).value - result[name])
                * one.peak
                / one.held
                / alike[one.campaign]
                for one in own
            )
        return total

    best = min((step / 10 for step in range(31)), key=error)
    return best, shares(best)


def spread(
    runs: Iterable[Published],
    allowed: float,
    shares: Mapping[str, float],
    times: float,
    *,
    experts: bool,
) -> tuple[float, float, int]:
    """(low, high, runs): what of all but states runs allocate over what is counted, where `allowed`
    of the whole is allowed beside.

    Of routed models, of which few runs tell it, what they held tells it less what the allocator
    usually keeps; those under QLoRA tell nothing, as none prints which of its experts bitsandbytes
    quantized."""
    low, high = [], []
    for run in runs:
        if routed(run) != experts or (experts and run.trained.workload.method == "qlora"):
            continue
        peak = allocated(run.row)
        held = run.row["measured"].get("peak_reserved_gib")
        stage = run.trained.fullest
        if peak is None and experts and held:
            spec, workload = run.model.spec, run.trained.workload
            peak = (held * GIB - times * logits_bytes(spec, workload, stage.stage)) / (
                1 + shares[allocator_kind(workload)]
            )
        certain = sum(term.bytes for term in stage.tensors if term.name in STATES)
        rest, whole = stage.allocated.expected - certain, stage.allocated.expected
        if peak is not None and rest > LEAST_UNCERTAIN * whole:
            low.append(Seen(campaign(run.row), (peak + allowed * whole - certain) / rest))
            high.append(Seen(campaign(run.row), (peak - allowed * whole - certain) / rest))
    return quantile(low, 0.05), quantile(high, 0.95), len(low)


def filled(fitted: Mapping[str, Any]) -> list[bool]:
    """Return whether each run of the fit part ended whose sizes alone are called certain by these
    coefficients, while what its allocator would reserve filled the GPU."""
    service, ended = service_with(fitted), []
    for run in published().runs:
        if part(run.row) != "fit":
            continue
        usable = bundled().find(run.request.gpu).accelerator.usable
        demand = asked_again(service, run).demand
        if demand.shown >= usable.expected and fit_probability(demand.required, usable) >= SURE:
            ended.append(run.row["outcome"] != "oom")
    return ended


def coefficient(
    low: float, expected: float, high: float, runs: int, source: str = RUNS
) -> dict[str, Any]:
    """Return a Coefficient as the file has it."""
    numbers = {"low": round(low, 3), "expected": round(expected, 3), "high": round(high, 3)}
    return {**numbers, "runs": runs, "source": source}


def coefficients(
    before: Mapping[str, Any], runs: Sequence[Published], allowed: float
) -> dict[str, Any]:
    """Return the file's content with everything that these runs tell, where `allowed` of the
    whole is allowed beside the spread; what none of them tells is as before."""
    seen = samples(runs)
    times, shares = fragmentation(seen)
    fitted = {}
    for name, share in shares.items():
        few = sum(one.kind == name for one in seen) < FEW
        alike = [one for one in seen if few or one.kind == name or {one.kind, name} <= POOLED]
        off = [Seen(one.campaign, one.share(times).value - shares[one.kind]) for one in alike]
        low, high = min(quantile(off, 0.05), 0), max(quantile(off, 0.95), 0)
        fitted[name] = coefficient(
            share + low, share, share + high, sum(one.kind == name for one in seen)
        )
    factors = {name: one["expected"] for name, one in (before["fragmentation"] | fitted).items()}
    result = {
        **before,
        "fragmentation": before["fragmentation"] | fitted,
        "fragmentation_logits": coefficient(
            times, times, times, sum(one.logits > 0 for one in seen)
        ),
        "slack": coefficient(-allowed, 0, allowed, len(runs)),
    }
    if exchanged := dispatched(runs):
        result["fragmentation_dispatched"] = coefficient(
            0, quantile(exchanged, 0.5), quantile(exchanged, 0.95), len(exchanged)
        )
    for name, experts in (("spread", False), ("spread_routed", True)):
        low, high, count = spread(runs, allowed, factors, times, experts=experts)
        result[name] = coefficient(min(low, 1), 1, max(high, 1), count)
    return result


def calibrated(before: Mapping[str, Any]) -> dict[str, Any]:
    """Return the file's content with everything fitted that the fit part tells."""
    runs = list(ran("fit"))
    allowed = narrowest(
        lambda others, share: coefficients(before, others, share),
        {
            name: [run for run in runs if campaign(run.row) == name]
            for name in sorted({campaign(run.row) for run in runs})
        },
    )
    fitted = coefficients(before, runs, allowed)
    ends = filled(fitted)
    likely = (sum(ends) + 1) / (len(ends) + 2)
    return fitted | {
        "filled_probability": coefficient(
            likely,
            likely,
            likely,
            len(ends),
            "published training runs (tools/accuracy/training_gpu.jsonl, fit part) whose reserved"
            " memory fills the GPU: one more than ran of two more than there are (Laplace), by"
            " tools/accuracy/training_calibrate.py",
        )
    }


def main() -> None:
    """Write the file."""
    result = calibrated(json.loads(DATA.read_text()))
    DATA.write_text(json.dumps(result, indent=1) + "\n")
    print(json.dumps({name: result[name] for name in FITTED}, indent=1))


if __name__ == "__main__":
    main()
