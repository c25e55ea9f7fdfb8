"""Fits vLLM's coefficients to the fit part of the truth and writes them into the catalog's
engines.json. Deterministic.

Everything that the source tells is derived in the engine; what is left is a median of what logs
show beyond it, with the interval that held nine logs of ten (weighted quantiles, every campaign
weighing the same). Where no log tells, a coefficient stays as the source has it, with no runs.
Run: python -m accuracy.calibrate (or `make calibrate`), then `make accuracy`."""

import json
import re
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from accuracy.truth import GIB, Run, check, model, runs, source_weights
from fitgauge.catalog.catalog import bundled
from fitgauge.catalog.engines import whole as whole_rows
from fitgauge.engine.model.spec import Part
from fitgauge.engine.serving.activations import HALF, layer_width
from fitgauge.engine.serving.doubt import ANY_NVIDIA, gpu_class
from fitgauge.engine.serving.profile import SecondRunner
from fitgauge.engine.serving.vllm import releases
from fitgauge.engine.serving.vllm.compute_capability import shares_memory
from fitgauge.engine.serving.vllm.defaults import first_engine
from fitgauge.engine.serving.vllm.encoder import images
from fitgauge.engine.serving.vllm.profile_run import (
    retained_workspace,
    runs_second,
    stage_bytes,
    workspace_bytes,
)
from fitgauge.errors import FitgaugeError
from fitgauge.services.fit.query import FitEstimate

ENGINES = Path(__file__).parents[2] / "service/fitgauge/catalog/data/engines.json"
LOGS = (
    "posted vLLM start-up logs (tools/accuracy/serving.jsonl, fit part), by"
    " tools/accuracy/calibrate.py"
)
FLOAT = 4
SHARED = "laptop|wsl|desktop|GB10"
LEAST_SPREAD = 0.02
"""An interval is never narrower than this share of its coefficient: logs print two decimals."""

Versions = tuple[tuple[int, int], tuple[int, int]]


class Seen(NamedTuple):
    """A coefficient as one run shows it."""

    run: Run
    value: float


def quantile(seen: list[Seen], share: float) -> float:
    """Return the weighted quantile: the least value with at least `share` of the weight at or
    below it; halfway to the next where it is met."""
    ordered = sorted(seen, key=lambda one: one.value)
    weights = source_weights([one.run for one in ordered])
    total, below = sum(weights), 0.0
    for number, (one, weight) in enumerate(zip(ordered, weights, strict=True)):
        below += weight
        if abs(below - share * total) < 1e-9 and number + 1 < len(ordered):
            return (one.value + ordered[number + 1].value) / 2
        if below > share * total:
            return one.value
    return ordered[-1].value


def coefficient(seen: list[Seen], otherwise: dict[str, Any]) -> dict[str, Any]:
    """Median and 5 to 95 % quantiles of what runs show, `otherwise` where none does."""
    seen = unfenced(seen)
    if not seen:
        return otherwise
    middle = quantile(seen, 0.5)
    least = abs(middle) * LEAST_SPREAD
    low, high = min(quantile(seen, 0.05), middle - least), max(quantile(seen, 0.95), middle + least)
    if len({one.run.campaign for one in seen}) < 3:
        low, high = min(low, otherwise["low"]), max(high, otherwise["high"])
    return {
        "low": round(max(0.0, low), 4),
        "expected": round(middle, 4),
        "high": round(high, 4),
        "runs": len(seen),
        "source": LOGS,
    }


def unfenced(seen: list[Seen]) -> list[Seen]:
    """Return what lies within Tukey's outer fences, three quartile distances (at least 10 % of
    the median) around the quartiles."""
    if len(seen) < 4:
        return seen
    first, third = quantile(seen, 0.25), quantile(seen, 0.75)
    reach = max(3 * (third - first), 0.1 * abs(quantile(seen, 0.5)))
    return [one for one in seen if first - reach <= one.value <= third + reach]


def derived(low: float, expected: float, high: float, source: str) -> dict[str, Any]:
    """Return a coefficient that no log of the fit part tells."""
    return {"low": low, "expected": expected, "high": high, "runs": 0, "source": source}


NOTHING = derived(0, 0, 0, "nothing of the kind")


def within(run: Run, versions: Versions) -> bool:
    """Return whether a run's release lies in [first, last)."""
    return run.version is not None and versions[0] <= run.version[:2] < versions[1]


def fitted() -> tuple[Run, ...]:
    """Return the runs that the catalog's coefficients are fitted to."""
    return tuple(run for run in runs() if run.part == "fit")


def evidence(
    chosen: Sequence[Run], versions: Versions, shows: Callable[[Run, FitEstimate], float | None]
) -> list[Seen]:
    """Return what the chosen runs show of something, within versions."""
    seen = []
    for run in chosen:
        if run.engine != "vllm" or not {"activations", "need", "kv_tokens"} & set(run.scores):
            continue
        if not within(run, versions) or model(run.question["model"]) is None:
            continue
        try:
            result = check(run)
        except FitgaugeError:
            continue
        value = shows(run, result) if result is not None else None
        if value is not None:
            seen.append(Seen(run, value))
    return seen


def sampler_parts(result: FitEstimate, run: Run) -> tuple[float, float, float]:
    """(bytes of the pass that are neither layers' nor sampler's own, layers' width [bytes],
    logits of one copy [bytes])."""
    spec = spec_of(run)
    work, gpu = result.workload, result.estimate.accelerator
    seen = images(spec, work, first_engine=first_engine(gpu, work.engine_version))
    extra = workspace_bytes(gpu) + stage_bytes(spec, work) + (seen.held if seen else 0)
    row = HALF * work.max_batched_tokens
    width = max(
        (
            layer_width(b, spec.hidden_size, work.tensor_parallel)
            for b in spec.blocks
            if b.part is Part.LANGUAGE
        ),
        default=0,
    )
    return (
        extra,
        row * width,
        FLOAT * min(work.max_num_seqs, work.max_batched_tokens) * spec.vocabulary_size,
    )


def spec_of(run: Run) -> Any:
    """Return the architecture of a run's model."""
    resolved = model(run.question["model"])
    assert resolved is not None
    return resolved.spec


def copies_of_logits(run: Run, result: FitEstimate) -> float | None:
    """(activation peak - what is held beside) / one copy of the logits."""
    measured = run.measured.get("activation_gib")
    extra, _, one = sampler_parts(result, run)
    return None if measured is None else float((measured * GIB - extra - held(run, result)) / one)


def held(run: Run, result: FitEstimate) -> float:
    """Hidden states and experts' workspaces alive while the sampler runs [bytes]."""
    spec, work = spec_of(run), result.workload
    workspaces = (
        retained_workspace(spec, work) if work.engine_version >= releases.WORKSPACES_RETAINED else 0
    )
    return (
        HALF
        * spec.hidden_size
        * (work.max_batched_tokens + min(work.max_num_seqs, work.max_batched_tokens))
        + workspaces
    )


def sampler_rules(run: Run, result: FitEstimate) -> bool:
    """Return whether the sampler's peak is the higher one, both by the copies that the source
    shows."""
    spec, work = spec_of(run), result.workload
    _, width, one = sampler_parts(result, run)
    copies = SAMPLERS[SORTED if within(run, SORTED) else TRITON]["expected"]
    layers = width + COPIES["expected"] * HALF * work.max_batched_tokens * spec.hidden_size
    return bool(copies * one + held(run, result) > layers)


def second(run: Run) -> bool:
    """Return whether vLLM ran it with its second model runner."""
    assert run.version is not None
    group = [group for group in GROUPS if group.since <= run.version[:2]][-1]
    return runs_second(spec_of(run), group.second)


def first_runner(run: Run, result: FitEstimate) -> float | None:
    """Return the copies of the logits in the first model runner, where its sampler ruled."""
    return None if second(run) or not sampler_rules(run, result) else copies_of_logits(run, result)


def copies_of_hidden(run: Run, result: FitEstimate) -> float | None:
    """(activation peak - widest product - what is held beside) / one copy of the hidden states,
    where the layers ruled."""
    measured = run.measured.get("activation_gib")
    towers = any(block.part is Part.VISION for block in spec_of(run).blocks)
    if measured is None or towers or second(run) or sampler_rules(run, result):
        return None
    extra, width, _ = sampler_parts(result, run)
    return float(
        (measured * GIB - extra - width)
        / (HALF * result.workload.max_batched_tokens * spec_of(run).hidden_size)
    )


def process(run: Run, result: FitEstimate) -> float | None:
    """Return what is not PyTorch's on one rank [bytes]."""
    if max(result.workload.tensor_parallel, result.workload.pipeline_parallel) > 1:
        return None
    return non_torch(run)


def collectives(baseline: float, symmetric: bool) -> Callable[[Run, FitEstimate], float | None]:
    """Return what ranks hold more than one alone [bytes]; `symmetric`: where cards share
    symmetric memory alone."""

    def shows(run: Run, result: FitEstimate) -> float | None:
        several = result.workload.tensor_parallel > 1 and (
            not symmetric or shares_memory(result.estimate.accelerator)
        )
        size = non_torch(run) if several else None
        return None if size is None else max(0.0, size - baseline)

    return shows


def plain_collectives(chosen: Sequence[Run], baseline: float) -> dict[str, Any]:
    """Return what ranks hold more than one alone where cards share no symmetric memory [bytes], of
    every release.

    NCCL's buffers do not depend on vLLM's release, so logs that print none tell too; all count,
    as the few differ by cards and ranks. Of unified memory the host's part is in what is printed,
    so its logs tell nothing of NCCL."""
    seen = []
    for run in chosen:
        gpu_name = run.question.get("gpu")
        if (
            run.engine != "vllm"
            or (run.question.get("tensor_parallel") or 1) < 2
            or gpu_name is None
        ):
            continue
        accelerator = bundled().find(gpu_name).accelerator
        size = non_torch(run)
        apart = accelerator.vendor == "NVIDIA" and not accelerator.unified_memory
        if size is not None and apart and not shares_memory(accelerator):
            seen.append(Seen(run, max(0.0, size - baseline)))
    return whole(interval(seen))


def context_share(chosen: Sequence[Run]) -> dict[str, Any]:
    """Return what is taken of a card before vLLM looks at what is free, as a share of the card,
    of every release, where nothing else is on it: no display, no other process, no host."""
    seen = [
        Seen(run, 1 - run.measured["free_at_start_gib"] / run.total_gpu_gib)
        for run in chosen
        if run.engine == "vllm"
        and run.total_gpu_gib
        and run.measured.get("free_at_start_gib")
        and not run.question.get("other_memory_gib")
        and not re.search(SHARED, f"{run.question.get('gpu')} {run.note}", re.IGNORECASE)
    ]
    return interval(seen)


def interval(seen: list[Seen]) -> dict[str, Any]:
    """Median and 5 to 95 % quantiles of all that runs show."""
    low, middle, high = (round(quantile(seen, share), 4) for share in (0.05, 0.5, 0.95))
    return {"low": low, "expected": middle, "high": high, "runs": len(seen), "source": LOGS}


def non_torch(run: Run) -> float | None:
    """Non-torch memory as printed, or what was consumed beyond the weights [bytes]."""
    m = run.measured
    if m.get("non_torch_gib") is not None:
        return float(m["non_torch_gib"] * GIB)
    if m.get("consumed_gib") and m.get("weights_gib"):
        return float((m["consumed_gib"] - m["weights_gib"]) * GIB)
    return None


def graphs(run: Run, result: FitEstimate) -> float | None:
    """Return the estimate of CUDA graphs that vLLM printed [bytes]."""
    value = run.measured.get("graphs_est_gib", run.measured.get("graphs_estimated_gib"))
    return None if value is None else value * GIB


class Group(NamedTuple):
    """A profile to write: the release it holds from, and the releases whose logs may tell of
    each coefficient."""

    since: tuple[int, int]
    newest: str
    utilization: float
    sampler: Versions
    process: Versions
    graphs_in_budget: bool
    second: SecondRunner
    second_graphs: bool
    source: str


SORTED, TRITON = ((0, 4), (0, 17)), ((0, 17), (9, 9))
SYMMETRIC = (0, 17)
"""From this profile on, what ranks hold differs by cards: symmetric memory is the default
(symm_mem.py of 0.19; logs of 0.11 show none)."""
SAME_COLLECTIVES = ("sglang",)
"""Engines that open NCCL and the custom all-reduce as vLLM does, and whose logs tell too little
of cards without NVLink's switches. Source: sglang srt/distributed/parallel_state.py, adapted
from vLLM's."""
DENSE_SECOND = "vllm 0.25.0, 0.28.0 config/vllm.py, use_v2_model_runner"
GROUPS = (
    Group(
        (0, 4),
        "0.7.3",
        0.9,
        SORTED,
        SORTED,
        False,
        "none",
        False,
        "vllm 0.6.6 worker/worker.py, determine_num_available_blocks",
    ),
    Group(
        (0, 8),
        "0.16.0",
        0.9,
        SORTED,
        ((0, 8), (0, 17)),
        False,
        "none",
        False,
        "vllm 0.8.5, 0.11.0, 0.14.1 v1/worker/gpu_worker.py",
    ),
    Group(
        (0, 17),
        "0.19.1",
        0.9,
        TRITON,
        ((0, 17), (0, 25)),
        False,
        "none",
        False,
        "vllm 0.17.0, 0.19.0 v1/worker/gpu_worker.py",
    ),
    Group(
        (0, 20),
        "0.20.2",
        0.92,
        TRITON,
        ((0, 17), (0, 25)),
        False,
        "none",
        False,
        "vllm 0.20.0, 0.20.2 config/cache.py",
    ),
    Group(
        (0, 21),
        "0.24.0",
        0.92,
        TRITON,
        ((0, 17), (0, 25)),
        True,
        "none",
        False,
        "vllm 0.25.0 v1/worker/gpu_worker.py",
    ),
    Group((0, 25), "0.28.0", 0.92, TRITON, ((0, 17), (9, 9)), True, "dense", False, DENSE_SECOND),
    Group(
        (0, 29),
        "0.30.0",
        0.92,
        TRITON,
        ((0, 17), (9, 9)),
        True,
        "all",
        True,
        "vllm 0.29.0 config/vllm.py, use_v2_model_runner",
    ),
    Group(
        (0, 31),
        "0.32.0",
        0.92,
        TRITON,
        ((0, 17), (9, 9)),
        True,
        "all",
        True,
        "vllm 0.31.0, 0.32.0 v1/worker/gpu/model_runner.py",
    ),
    Group(
        (0, 33),
        "0.33.0",
        0.92,
        TRITON,
        ((0, 17), (9, 9)),
        True,
        "all",
        True,
        "vllm 0.33.0 v1/worker/gpu/model_runner.py",
    ),
)

SAMPLERS = {
    SORTED: derived(
        8.5,
        9.6,
        10.2,
        "v1/sample/ops/topk_topp_sampler.py (0.11): logits, a float32 copy, sorted values, indices,"
        " sort workspace",
    ),
    TRITON: derived(
        3.5,
        3.63,
        4.0,
        "v1/sample/ops/topk_topp_triton.py (0.19): 16-bit and float32 logits, probabilities, noise,"
        " a row a multiprocessor",
    ),
}
LOGITS_ONLY = derived(
    0.5,
    0.5,
    1.6,
    "vllm v1/worker/gpu/model_runner.py, _dummy_sampler_run (0.25, 0.28, 0.32): logits in 16 bits,"
    " in float32 where processed",
)
WARMED = (0, 33)
LOGITS_WARM = derived(
    3.5,
    3.5,
    3.6,
    "vllm v1/worker/gpu/model_runner.py, _dummy_sampler_run (0.33): 16 bits, float32,"
    " FlashInfer's masked logits and probabilities",
)
COPIES = derived(
    3,
    4,
    7,
    "assumed (service/fitgauge/catalog/data/engines.json): residual, normalised input, attention's"
    " output and MLP's output of one layer, 16 bits each",
)


FREE_OF_GB10 = (
    (112.71, 119.7), (114.54, 121.69), (112.9, 121.63), (111.18, 121.63), (110.73, 121.63),
    (109.53, 121.69), (104.87, 121.63), (104.55, 121.63), (104.46, 121.69), (103.02, 121.69),
    (102.79, 121.63), (101.49, 121.63), (101.28, 121.63), (99.33, 121.69),
)  # fmt: skip
"""(free, total) [GiB] of "Free memory on device" lines of GB10 in public repositories, where no
other service is named; most are of starts that were refused, which lack more than the others."""
UNIFIED = {
    "low": 0.058,
    "expected": 0.1,
    "high": 0.165,
    "runs": len(FREE_OF_GB10),
    "source": (
        'public vLLM start-ups on GB10 ("Free memory on device (112.71/119.7 GiB) on startup"),'
        " tools/accuracy/calibrate.py"
    ),
}
"""What is held of unified memory, as a share of it. `expected` is the sixth of the fourteen, as
refused starts are printed more often than the others."""


def vllm_profiles(chosen: Sequence[Run]) -> list[dict[str, Any]]:
    """Return the rows of vLLM, calibrated on the chosen runs."""
    hidden = coefficient(evidence(chosen, ((0, 8), (9, 9)), copies_of_hidden), COPIES)
    alone = coefficient(evidence(chosen, ((0, 4), (9, 9)), process), NOTHING)
    plain = plain_collectives(chosen, alone["expected"])
    context = context_share(chosen)
    once, each = graph_line(evidence(chosen, ((0, 19), (9, 9)), graphs))
    rows = []
    for group in GROUPS:
        runtime = coefficient(
            evidence(chosen, group.process, process),
            derived(5e7, 2.7e8, 5e8, "CUDA libraries of the process"),
        )
        ranks = evidence(
            chosen, group.process, collectives(runtime["expected"], group.since >= SYMMETRIC)
        )
        rows.append(
            {
                "engine": "vllm",
                "since": list(group.since),
                "newest": group.newest,
                "gpu_memory_utilization": group.utilization,
                "logits_copies": coefficient(
                    evidence(chosen, group.sampler, first_runner), SAMPLERS[group.sampler]
                ),
                "hidden_copies": hidden,
                "graph_bytes": once,
                "graph_layer_bytes": each,
                "graphs_in_budget": group.graphs_in_budget,
                "runtime_bytes": whole(runtime),
                "communication_bytes": whole(
                    coefficient(
                        ranks, derived(1e8, 4e8, 2.3e9, "NCCL and custom all-reduce buffers")
                    )
                ),
                "source": group.source,
                "second_runner": group.second,
                "second_logits_copies": second_logits(group),
                "second_graphs_in_budget": group.second_graphs,
                "context_share": context,
                "unified_share": UNIFIED,
                "plain_communication_bytes": plain if group.since >= SYMMETRIC else None,
            }
        )
    return rows


def second_logits(group: Group) -> dict[str, Any] | None:
    """Return the second runner's copies, of releases before and after its warm-up pass (0.28.0,
    0.31.0, 0.32.0 have none, 0.33.0 has)."""
    if group.second == "none":
        return None
    return LOGITS_WARM if group.since >= WARMED else LOGITS_ONLY


def graph_line(seen: list[Seen]) -> tuple[dict[str, Any], dict[str, Any]]:
    """(once, each layer): the line through printed estimates by layers, slope by the median of
    pairwise slopes (Theil and Sen)."""
    points = [(spec_of(one.run).layers, one.value) for one in seen]
    slopes = sorted(
        (y2 - y1) / (x2 - x1)
        for i, (x1, y1) in enumerate(points)
        for x2, y2 in points[i + 1 :]
        if x2 != x1
    )
    slope = max(0.0, slopes[len(slopes) // 2]) if slopes else 0.0
    rest = [Seen(one.run, one.value - slope * spec_of(one.run).layers) for one in seen]
    once = whole(coefficient(rest, derived(2e8, 5e8, 1.1e9, "assumed")))
    each = {
        "low": round(slope),
        "expected": round(slope),
        "high": round(slope),
        "runs": len(seen),
        "source": LOGS,
    }
    return once, each


def whole(row: dict[str, Any]) -> dict[str, Any]:
    """Return bytes as whole numbers."""
    return row | {name: round(row[name]) for name in ("low", "expected", "high")}


def profiles(chosen: Sequence[Run]) -> list[dict[str, Any]]:
    """Return every engine's rows: vLLM's calibrated on the chosen runs, the others as they are but
    for what vLLM's logs tell of them; each with the campaigns that measured it."""
    rows = vllm_profiles(chosen)
    plain = rows[-1]["plain_communication_bytes"]
    for row in whole_rows(json.loads(ENGINES.read_text())):
        if row["engine"] in SAME_COLLECTIVES:
            rows.append(row | {"plain_communication_bytes": plain})
        elif row["engine"] != "vllm":
            rows.append(row)
    seen = [(run, name) for run in chosen if run.measured and (name := class_of(run)) is not None]
    return [
        row
        | {
            "measured": campaigns(
                [
                    one
                    for one in seen
                    if one[0].engine == row["engine"] and depends_on(one[0], row, rows)
                ]
            ),
            "measured_ever": campaigns([one for one in seen if one[0].engine == row["engine"]]),
        }
        for row in rows
    ]


def depends_on(run: Run, row: dict[str, Any], rows: list[dict[str, Any]]) -> bool:
    """Return whether a run's release is one that a row of its engine holds for."""
    since = [tuple(other["since"]) for other in rows if other["engine"] == row["engine"]]
    later = min((one for one in since if one > tuple(row["since"])), default=None)
    version = run.version
    if version is None:
        return len(since) == 1
    return tuple(row["since"]) <= version[:2] and (later is None or version[:2] < later)


def class_of(run: Run) -> str | None:
    """Return the class of a run's GPU, None where it is not known."""
    try:
        return gpu_class(bundled().find(run.question["gpu"]).accelerator)
    except (FitgaugeError, KeyError):
        return None


def campaigns(seen: list[tuple[Run, str]]) -> dict[str, int]:
    """Return how many campaigns measured on every class of GPU; a card known by its size alone is
    any of NVIDIA's."""
    result: dict[str, set[str]] = {}
    for run, name in seen:
        for key in {name, ANY_NVIDIA} if name.startswith(f"{ANY_NVIDIA} ") else {name}:
            result.setdefault(key, set()).add(run.campaign)
    return {name: len(result[name]) for name in sorted(result)}


def calibrated() -> str:
    """Return the text of engines.json."""
    return json.dumps(differing(profiles(fitted())), indent=1, ensure_ascii=False) + "\n"


def differing(rows: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """Of every row what is not as in the row before it of the same engine: what
    `fitgauge.catalog.engines.whole` puts together again."""
    latest: dict[str, dict[str, Any]] = {}
    result = []
    for row in rows:
        before, name = latest.get(row["engine"], {}), row["engine"]
        result.append(
            {
                field: value
                for field, value in row.items()
                if field == "engine" or field not in before or before[field] != value
            }
        )
        latest[name] = row
    return result


if __name__ == "__main__":
    ENGINES.write_text(calibrated())
