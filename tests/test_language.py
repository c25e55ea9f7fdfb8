"""Hold the code to the terms of the field: phrases that only this project used do not return."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[1]

BANNED = re.compile(
    r"\bbeside\b|\bnobody\b|is said of|changed nothing|\btaught\b|in vain|\banew\b|\btold\b"
    r"|\bseats?\b|were taken\b|of the catalog is meant|is no (engine|number|name|Hub)",
    re.IGNORECASE,
)


def test_no_line_of_the_service_or_the_plugin_holds_a_banned_phrase() -> None:
    lines = [
        f"{path.relative_to(ROOT)}:{number}: {line.strip()}"
        for folder in ("service", "plugin")
        for path in sorted((ROOT / folder).rglob("*.py"))
        for number, line in enumerate(path.read_text("utf-8").splitlines(), 1)
        if BANNED.search(line)
    ]
    assert not lines, "\n".join(lines)
