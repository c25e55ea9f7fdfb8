"""`make accuracy`: recomputes every figure offline and writes docs/ACCURACY.md and the headlines
beside this file."""

import json

from accuracy import report, report_training, score, training_score
from accuracy.truth import HERE


def main() -> None:
    """Write the page and both headlines, and prints them."""
    serving, training = score.headline(), training_score.headline()
    (HERE / "headline.json").write_text(json.dumps(serving, indent=1) + "\n")
    (HERE / "headline_training.json").write_text(json.dumps(training, indent=1) + "\n")
    (HERE.parents[1] / "docs").mkdir(exist_ok=True)
    (HERE.parents[1] / "docs/ACCURACY.md").write_text(
        report.document(serving) + "\n" + report_training.document(training)
    )
    for name, parts in serving.items():
        print(name, parts["check"])
    for name, parts in training.items():
        print(name, parts)


if __name__ == "__main__":
    main()
