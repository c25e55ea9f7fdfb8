"""Configs of every family with the number of parameters that transformers, a repository or a loaded
model has (tests/engine/model/families/data)."""

import json
from pathlib import Path

DATA = Path(__file__).parent / "engine" / "model" / "families" / "data"
EVERY = tuple(sorted(path.name for path in DATA.glob("*.json")))


def counted_models(*names: str) -> list[dict]:
    """Return the rows of these files."""
    return [
        row
        for name in names
        for row in json.loads((DATA / name).read_text(encoding="utf-8"))["models"]
    ]
