"""`make accuracy`: recomputes every figure offline and writes docs/ACCURACY.md, its reliability
diagram and the headlines beside this file."""

import json
from collections.abc import Mapping
from typing import Any

from accuracy import (
    buffers,
    report,
    report_host,
    report_odds,
    report_speeds,
    report_training,
    report_weakest,
    score,
    training_score,
    training_speeds,
)
from accuracy.truth import HERE

DATA = HERE.parents[1] / "service" / "fitgauge" / "catalog" / "data"
_SHOWN = {"runs": "runs", "median": "median", "p90": "p90", "coverage": "coverage",
    "right": "right", "balanced": "right"}  # fmt: skip
"""Figures of the headline by their names in the service's answer."""


def rows(headline: Mapping[str, Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return the headline as the service answers it: one row a figure and set of runs."""
    return [
        {"figure": figure.replace("_", " "), "part": part}
        | {answered: figures[name] for name, answered in _SHOWN.items() if name in figures}
        | {"source": "docs/ACCURACY.md, by make accuracy"}
        for figure, parts in headline.items()
        for part, figures in parts.items()
    ]


MARKERS = ("<!-- accuracy: written by make accuracy -->\n", "<!-- accuracy -->\n")


def in_readme(text: str, figures: list[dict[str, Any]]) -> str:
    """Return the README with its lines on accuracy: the check part, to which nothing was fitted."""
    check = {row["figure"]: row for row in figures if row["part"] == "check"}
    weights, tokens, outcome = check["weights"], check["kv tokens"], check["outcome"]
    training = check["training runs"]
    steps = next(row for row in figures if row["figure"] == "training steps")
    lines = (
        f"- Weights as vLLM logs them: {weights['median']:.2g} % off in the median of"
        f" {weights['runs']} published runs; tokens of its KV cache {tokens['median']:.2g} %"
        f" ({tokens['runs']}).\n"
        f"- Served or not: {outcome['right']:.0f} % judged rightly, served and failed runs alike"
        f" ({outcome['runs']}).\n"
        f"- Memory of training runs: {training['median']:.2g} % off in the median"
        f" ({training['runs']}); of the tensors of one step {steps['median']:.2g} %"
        f" ({steps['runs']}).\n"
    )
    start, end = MARKERS
    before, _, rest = text.partition(start)
    return f"{before}{start}{lines}{end}{rest.partition(end)[2]}"


def main() -> None:
    """Write the page, its diagram and the headlines, and print them."""
    serving, training, odds = score.headline(), training_score.headline(), report_odds.odds()
    (HERE / "headline.json").write_text(json.dumps(serving, indent=1) + "\n")
    (HERE / "headline_training.json").write_text(json.dumps(training, indent=1) + "\n")
    (HERE / "headline_odds.json").write_text(json.dumps(odds, indent=1) + "\n")
    docs = HERE.parents[1] / "docs"
    docs.mkdir(exist_ok=True)
    (docs / "ACCURACY.md").write_text(
        "\n".join(
            (
                report.document(serving, odds),
                buffers.document(),
                report_training.document(training),
                report_speeds.document(),
                report_host.document(),
                training_speeds.document(),
                report_weakest.document(),
            )
        )
    )
    (docs / "reliability.svg").write_text(report_odds.diagram())
    figures = rows(serving | training)
    (DATA / "accuracy.json").write_text(json.dumps(figures, indent=1) + "\n")
    readme = HERE.parents[1] / "README.md"
    readme.write_text(in_readme(readme.read_text("utf-8"), figures), "utf-8")
    for name, parts in serving.items():
        print(name, parts["check"])
    for name, figures in odds.items():
        print(name, figures)
    for name, parts in training.items():
        print(name, parts)


if __name__ == "__main__":
    main()
