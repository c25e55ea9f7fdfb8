"""Fits vLLM's coefficients to the fit part of the truth and writes them into the catalog's
engines.json. Deterministic.

Everything that the source tells is derived in the engine; what is left is a median of what logs
show beyond it, with the interval that held nine logs of ten (weighted quantiles, every campaign
weighing the same). Where no log tells, a coefficient stays as the source has it, with no runs.
Run: python -m accuracy.calibrate (or `make calibrate`), then `make accuracy`."""

import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from accuracy.quantiles import NOTHING, coefficient, derived, whole
from accuracy.truth import Run, runs
from accuracy.vllm_evidence import (
    collectives,
    context_share,
    copies_of_hidden,
    evidence,
    first_runner,
    graph_line,
    graphs,
    latent_graphs,
    plain_collectives,
    process,
    second_logits,
)
from accuracy.vllm_groups import COPIES, GROUPS, SAMPLERS, SYMMETRIC, UNIFIED
from fitgauge.catalog.catalog import bundled
from fitgauge.catalog.engines import whole as whole_rows
from fitgauge.engine.serving.doubt import ANY_NVIDIA, gpu_class
from fitgauge.errors import FitgaugeError

ENGINES = Path(__file__).parents[2] / "service/fitgauge/catalog/data/engines.json"

SAME_COLLECTIVES = ("sglang",)
"""Engines that open NCCL and the custom all-reduce as vLLM does, and whose logs tell too little
of GPUs without NVLink's switches. Source: sglang srt/distributed/parallel_state.py, adapted
from vLLM's."""


def fitted() -> tuple[Run, ...]:
    """Return the runs that the catalog's coefficients are fitted to."""
    return tuple(run for run in runs() if run.part == "fit")


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
                "graph_latent_layer_bytes": latent_graphs(once["expected"]),
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
    """Return how many campaigns measured on every class of GPU; a GPU known by its size alone is
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
