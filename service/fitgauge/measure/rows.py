"""A file of truth: a run a line, each once."""

from pathlib import Path

import msgspec

from fitgauge.services.explain_log.schemas import LogCase


def append(path: Path, case: LogCase) -> None:
    """Add a run unless it is there. Raises OSError."""
    recorded = path.read_text(encoding="utf-8") if path.exists() else ""
    if f'"{case.id}"' not in recorded:
        with path.open("a", encoding="utf-8") as file:
            file.write(msgspec.json.encode(case).decode() + "\n")
