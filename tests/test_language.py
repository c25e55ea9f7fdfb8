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


def banned_names(path: Path) -> list[str]:
    """Return the banned names of a module, without the underscores of private ones."""
    every = names(ast.parse(path.read_text("utf-8")))
    return sorted({name for name in every if name.strip("_").lower() in BANNED_NAMES})


SOURCES = {
    str(path.relative_to(ROOT)): path
    for folder in ("service", "plugin", "tools")
    for path in sorted((ROOT / folder).rglob("*.py"))
}


def test_no_module_uses_a_banned_name() -> None:
    used = {name: banned_names(path) for name, path in SOURCES.items() if banned_names(path)}
    assert not used, used


def test_the_check_sees_a_banned_name_wherever_it_is_defined() -> None:
    tree = ast.parse("def f(given):\n    _found = given\n    self.told = 1\nclass Card: ...\n")
    assert {name.strip("_").lower() for name in names(tree)} >= {"given", "found", "told", "card"}
