"""`make accuracy`: recomputes every figure offline and writes docs/ACCURACY.md and tests/accuracy/headline.json."""

import json

from accuracy.report import document
from accuracy.score import headline
from accuracy.truth import HERE


def main() -> None:
    """Writes both files and prints the headline."""
    figures = headline()
    (HERE / "headline.json").write_text(json.dumps(figures, indent=1) + "\n")
    (HERE.parents[1] / "docs").mkdir(exist_ok=True)
    (HERE.parents[1] / "docs/ACCURACY.md").write_text(document(figures))
    for name, parts in figures.items():
        print(name, parts["check"])


if __name__ == "__main__":
    main()
