"""What people say happened, as rows of truth: a line of JSON each, without their names."""

import json
from collections import OrderedDict
from collections.abc import Mapping
from pathlib import Path
from typing import Any

OUTCOMES = {"ran": "served", "did_not_run": "failed"}
"""What the buttons say, and what it is in a truth file."""

_MOST_SEEN = 10_000


class Outcomes:
    """The rows of one file, one for a message."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._seen: OrderedDict[str, None] = OrderedDict()

    def note(
        self,
        message: str,
        outcome: str,
        question: Mapping[str, Any],
        shown: Mapping[str, Any],
        date: str,
    ) -> None:
        """Append a row, unless the message has one. Raises OSError where the file cannot be
        written.

        message: its channel and time; outcome: of OUTCOMES; question: operation, request and answer
        of its permalink; shown: the button's value, with the figures of the message; date: of
        today."""
        if message in self._seen:
            return
        model = question["answer"].get("model") or {}
        gpu = question["answer"].get("gpu") or {}
        row = {
            "date": date,
            "operation": question["operation"],
            "question": question["request"],
            "model": model.get("id"),
            "parameters": model.get("parameters"),
            "gpu": gpu.get("id"),
            "verdict": shown.get("v"),
            "fit_probability": shown.get("p"),
            "required_bytes": shown.get("n"),
            "available_bytes": shown.get("u"),
            "outcome": OUTCOMES[outcome],
        }
        self._path.parent.mkdir(parents=True, exist_ok=True)
        with self._path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(row, ensure_ascii=False) + "\n")
        self._seen[message] = None
        while len(self._seen) > _MOST_SEEN:
            self._seen.popitem(last=False)
