"""Hold the code to the terms of the field: phrases and names that only this project used do not
return."""

import ast
import re
from collections.abc import Iterator
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


BANNED_NAMES = frozenset(
    {
        "asked", "beside", "card", "cards", "cut", "found", "given", "kept", "known", "laid",
        "made", "play", "played", "remembered", "room", "said", "scene", "seat", "taught", "told",
    }
)  # fmt: skip
"""Names that tell what happened to a value, or are of this project alone, instead of what it is."""


def names(tree: ast.AST) -> Iterator[str]:
    """Yield every name that a module defines: functions, classes, arguments, variables, fields."""
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield node.name
        elif isinstance(node, ast.arg):
            yield node.arg
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.id
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            yield node.attr


_WRITTEN = re.compile(rf"\b_*(?:{'|'.join(sorted(BANNED_NAMES))})_*\b", re.IGNORECASE)


def banned_names(text: str) -> list[str]:
    """Return the banned names of a module, without the underscores of private ones."""
    if not _WRITTEN.search(text):  # most modules have none: these are not parsed
        return []
    every = names(ast.parse(text))
    return sorted({name for name in every if name.strip("_").lower() in BANNED_NAMES})


SOURCES = {
    str(path.relative_to(ROOT)): path
    for folder in ("service", "plugin", "tools")
    for path in sorted((ROOT / folder).rglob("*.py"))
}


def test_no_module_uses_a_banned_name() -> None:
    texts = {name: path.read_text("utf-8") for name, path in SOURCES.items()}
    used = {name: banned for name, text in texts.items() if (banned := banned_names(text))}
    assert not used, used


def test_the_check_sees_a_banned_name_wherever_it_is_defined() -> None:
    text = "def f(given):\n    _found = given\n    self.told = 1\nclass Card: ...\n"
    assert banned_names(text) == ["Card", "_found", "given", "told"]
