"""`make accuracy`: recomputes every figure offline and writes docs/ACCURACY.md, its reliability
diagram and the headlines beside this file."""

import json

from accuracy import report, report_odds, report_training, score, training_score
from accuracy.truth import HERE


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
    for name, parts in serving.items():
        print(name, parts["check"])
    for name, figures in odds.items():
        print(name, figures)
    for name, parts in training.items():
        print(name, parts)


if __name__ == "__main__":
    main()
