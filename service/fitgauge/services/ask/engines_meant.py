"""Which of the engines in a question is meant, one or several set side by side, and its release."""

import re
from collections.abc import Mapping, Sequence
from functools import cache
from typing import get_args

from fitgauge.engine.serving.registry import DEFAULT_ENGINES, ENGINES
from fitgauge.engine.training.workload import Framework
from fitgauge.services.ask.facts import Fact
from fitgauge.services.ask.model_choice import after_contrast
from fitgauge.services.ask.topics import is_about

_LIBRARIES = frozenset(ENGINES) & frozenset(get_args(Framework))
"""Engines that are libraries that models are trained with, too."""
_RELEASE = re.compile(r"\s*(?:version\s*|[v=@-]+\s*)?(\d{1,2}(?:\.\d{1,3}){1,3})(?![\w.]*\w)")
"""The release behind an engine's name: "vLLM 0.11.0", "sglang v0.5"."""
_FLAG = re.compile(r"(?<![\w-])--?[a-z][a-z-]+")


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


def engine_of_flags(text: str) -> str | None:
    """Return the engine that alone has a flag which a text names, "which --n-cpu-moe"; None where
    it is the default one, whose flags other engines read too, or none."""
    owners = map(_flag_owners().get, _FLAG.findall(text))
    return next((owner for owner in owners if owner not in (None, DEFAULT_ENGINES[0])), None)


@cache
def _flag_owners() -> Mapping[str, str]:
    """Return each flag that one engine alone has, with that engine."""
    named: dict[str, set[str]] = {}
    for name, row in ENGINES.items():
        if (facts := row.container_start) is None:
            continue
        options = row.log_parser.options if row.log_parser is not None else ()
        spelled = (*facts.spellings, *facts.spellings.values())
        for flag in (*options, *spelled):
            named.setdefault(flag, set()).add(name)
    return {flag: min(names) for flag, names in named.items() if len(names) == 1}


def engine_version(text: str, engines: Sequence[Fact]) -> str | None:
    """Return the release behind the first engine that has one; None for none. engines: facts."""
    for fact in engines:
        if (match := _RELEASE.match(text, fact.end)) is not None:
            return match[1]
    return None
