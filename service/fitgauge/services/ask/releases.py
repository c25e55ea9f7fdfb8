"""The release of an engine, as a text writes it behind its name: "vLLM 0.11.0", "sglang v0.5"."""

import re
from collections.abc import Sequence

from fitgauge.services.ask.facts import Fact

_RELEASE = re.compile(r"\s*(?:version\s*|[v=@-]+\s*)?(\d{1,2}(?:\.\d{1,3}){1,3})(?![\w.]*\w)")


def engine_version(text: str, engines: Sequence[Fact]) -> str | None:
    """Return the release behind the first engine that has one; None for none. engines: facts."""
    for fact in engines:
        if (match := _RELEASE.match(text, fact.end)) is not None:
            return match[1]
    return None
