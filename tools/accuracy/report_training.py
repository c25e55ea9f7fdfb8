"""The training half of docs/ACCURACY.md: what must be reached, errors by family and setting,
published runs, the rules people quote."""

from collections.abc import Callable, Iterable, Iterator
from statistics import median
from typing import NamedTuple

from accuracy import training_parallel as parallel
from accuracy import training_peers as peers
from accuracy import training_score as score
from accuracy import training_truth as truth
from accuracy.report import Figures, table
from accuracy.training_calibrate import campaign, routed
from accuracy.training_causes import RUN_CAUSES, STEP_CAUSES
from accuracy.training_score import Counted
from accuracy.training_texts import KERNELS, NOT_MEASURED, PARALLEL, PREFACE, PUBLISHED
from accuracy.training_truth import Published, Step
from accuracy.truth import GIB
from fitgauge.catalog.catalog import bundled


class Bar(NamedTuple):
    """One figure that must be reached."""

    words: str
    figure: str
    part: str
    key: str
    least: float | None
    most: float | None


BARS = (
    Bar("a step's tensors, given set, median", "training_steps", "given", "median", None, 1),
    Bar("a step's tensors, given set, 95th percentile", "training_steps", "given", "p95", None, 4),
    Bar("a step's tensors, our own set, median", "training_steps", "own", "median", None, 1),
    Bar("a step's tensors, our own set, 95th percentile", "training_steps", "own", "p95", None, 4),
    Bar("families never taught, median", "training_untaught", "never taught", "median", None, 10),
    Bar(
        "taught families as if they were not, median",
        "training_untaught",
        "as if never taught",
        "median",
        None,
        10,
    ),
    Bar("one rank of FSDP2, median", "training_ranks", "fsdp", "median", None, 2),
    Bar("one rank of FSDP2, 95th percentile", "training_ranks", "fsdp", "p95", None, 6),
    Bar("published GPU runs, median", "training_runs", "all", "median", None, 8),
    Bar("published GPU runs, 90th percentile", "training_runs", "all", "p90", None, 20),
    Bar(
        "published GPU runs within their 90 % interval", "training_runs", "all", "coverage", 85, 97
    ),
    Bar(
        "runs that ended without memory, not told that they fit",
        "training_outcomes",
        "out of memory",
        "right",
        90,
        None,
    ),
)


def must_reach(figures: Figures) -> str:
    """Return every bar with its figure."""
    rows: list[tuple[object, ...]] = []
    for bar in BARS:
        figures_ = figures[bar.figure][bar.part]
        value = figures_[bar.key]
        held = (bar.least is None or value >= bar.least) and (bar.most is None or value <= bar.most)
        wanted = [
            *([f"at least {bar.least:g}"] if bar.least is not None else []),
            *([f"at most {bar.most:g}"] if bar.most is not None else []),
        ]
        rows.append(
            (
                bar.words,
                " and ".join(wanted),
                f"{value:g} %",
                int(figures_["runs"]),
                "reached" if held else "**not reached**",
            )
        )
    return table(("figure", "must be", "is", "runs", ""), rows)


def grouped(name: str, steps: Iterable[Step], group: Callable[[Step], str]) -> str:
    """Absolute errors of steps by a property of theirs."""
    return spreads(name, ((group(step), step.error) for step in steps))


def spreads(name: str, named: Iterable[tuple[str, float]]) -> str:
    """Absolute errors by name."""
    cells: dict[str, list[float]] = {}
    for key, error in named:
        cells.setdefault(key, []).append(error)
    head = (name, "steps", "median, %", "90th, %", "worst, %")
    rows: list[tuple[object, ...]] = []
    for key, errors in sorted(cells.items()):
        figures_ = score.spread(errors, 2)
        rows.append((key, len(errors), figures_["median"], figures_["p90"], figures_["worst"]))
    return table(head, rows)


def by_framework(counted: Iterable[Counted], group: Callable[[Counted], str], name: str) -> str:
    """Errors and coverage of published runs by a property of theirs."""
    cells: dict[str, list[Counted]] = {}
    for one in counted:
        cells.setdefault(group(one), []).append(one)
    rows: list[tuple[object, ...]] = []
    for key, figures_ in sorted(cells.items()):
        figures = score.runs(figures_)
        bias = 100 * median(one.error for one in figures_)
        rows.append(
            (
                key,
                len(figures_),
                figures["median"],
                figures["p90"],
                f"{bias:+.1f}",
                figures["coverage"],
            )
        )
    return table((name, "runs", "median, %", "90th, %", "bias, %", "in the interval, %"), rows)


def side_by_side() -> str:
    """Return the same steps, ranks and runs, here and under every rule."""
    sets: dict[str, list[Step]] = {
        "steps, whole model trained": [
            step for step in (*truth.provided(), *truth.own()) if not step.workload.uses_adapters
        ],
        "steps, LoRA": [
            step for step in (*truth.provided(), *truth.own()) if step.workload.uses_adapters
        ],
        "ranks of FSDP2": list(truth.ranks()),
    }
    rows: list[tuple[object, ...]] = []
    for words, steps in sets.items():
        rows.append((words, len(steps), "fitgauge", *_shown([step.error for step in steps])))
        for rule, size in peers.RULES.items():
            errors = [size(step.spec, step.workload) / score.measured(step) - 1 for step in steps]
            rows.append((words, len(steps), rule, *_shown(errors)))
    counted = score.counted()
    rows.append(
        ("published runs", len(counted), "fitgauge", *_shown([one.error for one in counted]))
    )
    for rule, size in peers.RULES.items():
        errors = [
            size(one.run.model.spec, one.run.trained.workload) / one.measured - 1 for one in counted
        ]
        rows.append(("published runs", len(counted), rule, *_shown(errors)))
    return table(("truth", "number", "rule", "median error, %", "90th, %"), rows)


def _shown(errors: list[float]) -> tuple[float, float]:
    figures_ = score.spread(errors, 2)
    return figures_["median"], figures_["p90"]


def worst_steps(steps: Iterable[Step]) -> str:
    """Return the ten steps and ranks that are furthest off, one a model and attention."""
    rows: list[tuple[object, ...]] = []
    seen: set[tuple[str, str]] = set()
    for step in sorted(steps, key=lambda step: -abs(step.error)):
        model, attention = step.row["model"], step.row["attn"]
        if (model, attention) in seen:
            continue
        seen.add((model, attention))
        what = ", ".join(
            str(step.row.get(key))
            for key in ("method", "regime", "checkpointing", "seq", "batch")
            if step.row.get(key)
        )
        why = next(
            (
                cause
                for name, kind, cause in STEP_CAUSES
                if model.startswith(name) and kind in ("", attention)
            ),
            "",
        )
        rows.append(
            (
                model,
                attention,
                what,
                f"{score.measured(step) / GIB:.3f}",
                f"{100 * step.error:+.1f} %",
                why or "not explained",
            )
        )
        if len(rows) == 10:
            break
    return table(("model", "attention", "setting", "measured GiB", "error", "why"), rows)


def worst_runs(counted: Iterable[Counted]) -> str:
    """Return the ten published runs that are furthest off."""
    rows: list[tuple[object, ...]] = []
    for one in sorted(counted, key=lambda one: (-abs(one.error), one.run.row["id"]))[:10]:
        row = one.run.row
        sizes = [f"{value / GIB:.1f}" for value in (one.measured, one.low, one.expected, one.high)]
        what = (
            f"{one.run.request.model}, {row['method']}, {row['framework']},"
            f" {row.get('gpu_count') or 1} GPU"
        )
        rows.append(
            (
                row["id"],
                what,
                one.counter.removesuffix("_gib"),
                *sizes,
                RUN_CAUSES.get(row["id"], "not explained"),
                row["source"],
            )
        )
    return table(
        ("run", "what", "counter", "measured GiB", "low", "expected", "high", "why", "source"), rows
    )


def thin(one: Counted) -> str:
    """Return what a run that was looked for is of."""
    request = one.run.request
    if bundled().find(request.gpu).accelerator.vendor.lower() == "amd":
        return "AMD"
    kinds = {
        "mixtures": routed(one.run),
        "context parallel": (request.context_parallel or 1) > 1,
        "offload": request.offload is not None,
        "tensor parallel": (request.tensor_parallel or 1) > 1,
    }
    return next((name for name, is_so in kinds.items() if is_so), "other")


def misjudged(runs: Iterable[Published]) -> str:
    """Run whose outcome was told wrongly."""
    chosen = tuple(runs)
    rows: list[tuple[object, ...]] = [
        (
            one.run.row["id"],
            one.run.request.model,
            one.run.request.gpu,
            one.run.row["outcome"],
            one.verdict,
            one.run.row["source"],
        )
        for one in (*score.outcomes(chosen, ran=False), *score.outcomes(chosen, ran=True))
        if not one.right
    ]
    return table(("run", "model", "GPU", "happened", "said", "source"), rows) if rows else "None."


def parallel_errors() -> Iterator[tuple[str, float]]:
    """Yield what every measured rank is, and the error."""
    for step in (
        *truth.ranks(),
        *parallel.tensor_ranks(sharded=False),
        *parallel.tensor_ranks(sharded=True),
        *parallel.zero_ranks(),
    ):
        yield _kind(step), step.error
    for rank in parallel.context_ranks():
        way = "DeepSpeed's Ulysses" if rank.row["way"] == "ulysses" else "PyTorch's ring"
        yield f"context parallel, {way}, kept between the passes", rank.error
    for _, error in parallel.stage_ranks():
        yield "a stage of PyTorch's pipelines under FSDP2", error
    for row, stage in parallel.offload_ranks():
        framework = {"deepspeed": "DeepSpeed", "fsdp": "FSDP2"}[row["framework"]]
        passes = max(phase.total for phase in stage.phases if phase.name in ("forward", "backward"))
        if row["offload"] != "none":
            yield f"offload under {framework}, host memory", stage.host / row["bytes"]["host"] - 1
        yield (
            f"offload under {framework}, left on the GPU",
            passes / max(row["bytes"]["forward"], row["bytes"]["backward"]) - 1,
        )
    for row in parallel.of_kind("megatron_activations"):
        computed, measured = parallel.micro_batch_bytes(row), row["bytes"]
        routing = ", experts unevenly chosen" if row.get("load", 1) != 1 else ""
        yield f"Megatron, what a layer keeps{routing}", computed["layer"] / measured["layer"] - 1


def _kind(step: Step) -> str:
    if step.row.get("kind") == "zero":
        return f"DeepSpeed's ZeRO-{step.workload.zero_stage}"
    if "tensor_parallel" not in step.row:
        return "FSDP2"
    plan = "torchtitan's plan" if step.workload.sequence_parallel else "transformers' plan"
    return f"tensor parallel, {plan}" + (", and FSDP2" if step.workload.data_parallel > 1 else "")


def document(figures: Figures) -> str:
    """Return the whole half."""
    every = (*truth.provided(), *truth.own())
    verified = [step for step in every if step.verified]
    counted = score.counted()
    unknown = sorted({*truth.published().unknown, *truth.literature().unknown})
    counts = {
        "given": len(truth.provided()),
        "own": len(truth.own()),
        "ranks": len(truth.ranks()),
        "runs": len(truth.published().runs),
    }
    return "\n\n".join(
        (
            "# Accuracy of training",
            PREFACE.format(**counts),
            "## Must reach: training",
            must_reach(figures),
            KERNELS,
            "## Beside the rules that people quote",
            "Sources in `tools/accuracy/training_peers.py`.",
            side_by_side(),
            "## Steps by family",
            grouped("family", verified, lambda step: step.spec.model_type),
            "## Steps by setting",
            grouped("checkpointing", verified, lambda step: str(step.row["checkpointing"])),
            grouped("method and precision", verified,
                lambda step: f"{step.row['method']}, {step.row['regime']}"),
            grouped("attention", verified, lambda step: str(step.row["attn"])),
            grouped("optimizer", verified,
                lambda step: (
                    f"{step.row['optimizer']}, {step.row.get('implementation', 'for_loop')}")),
            grouped("sequences in a row", verified,
                lambda step: "several, packed" if step.row.get("packed", 1) > 1 else "one"),
            "## Parallel ranks",
            PARALLEL.format(
                schedules=len(parallel.of_kind("schedule")),
                stages=sum(len(row["parameters"]) for row in parallel.of_kind("megatron"))
            ),
            spreads("what", parallel_errors()),
            "## Families never taught (basis: assumed)",
            grouped("family", [step for step in every if not step.verified],
                lambda step: step.spec.model_type),
            "## Published runs",
            by_framework(counted, lambda one: one.run.trained.workload.framework, "framework"),
            by_framework(counted, lambda one: one.counter.removesuffix("_gib"), "counter"),
            by_framework(counted, lambda one: one.run.request.method or "full", "method"),
            "Outcomes that were told wrongly:",
            misjudged(truth.published().runs),
            "## Runs to which nothing is fitted",
            PUBLISHED.format(
                rows=len(truth.rows("training_found")), asked=len(truth.literature().runs)
            ),
            by_framework(score.literature(), thin, "what"),
            by_framework(score.literature(), lambda one: campaign(one.run.row), "campaign"),
            "Outcomes that were told wrongly:",
            misjudged(truth.literature().runs),
            worst_runs(score.literature()),
            "## The ten worst steps and ranks, one a model and attention",
            worst_steps((*verified, *truth.ranks())),
            "## The ten worst published runs",
            worst_runs(counted),
            "## What is not measured",
            NOT_MEASURED,
            "Models of published runs whose config is not at hand: "
                + (", ".join(unknown) or "none") + ".",
        )
    ) + "\n"  # fmt: skip
