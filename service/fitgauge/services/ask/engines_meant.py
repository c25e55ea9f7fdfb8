"""Which of the engines in a question is meant, one or several set side by side, and its release."""

import re
from collections.abc import Sequence
from typing import get_args

from fitgauge.engine.serving.registry import ENGINES
from fitgauge.engine.training.workload import Framework
from fitgauge.services.ask.facts import Fact
from fitgauge.services.ask.model_choice import after_contrast
from fitgauge.services.ask.topics import is_about

_LIBRARIES = frozenset(ENGINES) & frozenset(get_args(Framework))
"""Engines that are libraries that models are trained with, too."""
_RELEASE = re.compile(r"\s*(?:version\s*|[v=@-]+\s*)?(\d{1,2}(?:\.\d{1,3}){1,3})(?![\w.]*\w)")
"""The release behind an engine's name: "vLLM 0.11.0", "sglang v0.5"."""


def engines_side_by_side(text: str, named: Sequence[Fact]) -> list[str]:
    """Return the engines that a text about serving sets side by side; empty for one.

    named: facts of engines."""
    covered = [str(fact.value) for fact in named if fact.value in ENGINES]
    names = list(dict.fromkeys(covered))
    return names if len(names) > 1 and is_about(text, "comparison") else []


def engine_meant(text: str, named: Sequence[Fact]) -> Fact | None:
    """Return the engine after "but", else the first: a library that models are trained with too
    only where no other is named. named: facts of engines."""
    covered = [fact for fact in named if fact.value in ENGINES] or named
    engines = [fact for fact in covered if fact.value not in _LIBRARIES] or named
    return after_contrast(text, engines) or next(iter(engines), None)


def engine_version(text: str, engines: Sequence[Fact]) -> str | None:
    """Return the release behind the first engine that has one; None for none. engines: facts."""
    for fact in engines:
        if (match := _RELEASE.match(text, fact.end)) is not None:
            return match[1]
    return None
