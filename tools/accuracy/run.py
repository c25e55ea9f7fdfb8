"""`make accuracy`: recomputes every figure offline and writes docs/ACCURACY.md, its reliability
diagram and the headlines beside this file."""

import json
from collections.abc import Mapping
from typing import Any

from accuracy import report, report_odds, report_training, score, training_score
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


def main() -> None:
    """Write the page, its diagram and the headlines, and print them."""
    serving, training, odds = score.headline(), training_score.headline(), report_odds.odds()
    (HERE / "headline.json").write_text(json.dumps(serving, indent=1) + "\n")
    (HERE / "headline_training.json").write_text(json.dumps(training, indent=1) + "\n")
    (HERE / "headline_odds.json").write_text(json.dumps(odds, indent=1) + "\n")
    docs = HERE.parents[1] / "docs"
    docs.mkdir(exist_ok=True)
    (docs / "ACCURACY.md").write_text(
        report.document(serving, odds) + "\n" + report_training.document(training)
    )
    (docs / "reliability.svg").write_text(report_odds.diagram())
    (DATA / "accuracy.json").write_text(json.dumps(rows(serving | training), indent=1) + "\n")
    for name, parts in serving.items():
        print(name, parts["check"])
    for name, figures in odds.items():
        print(name, figures)
    for name, parts in training.items():
        print(name, parts)


if __name__ == "__main__":
    main()
