"""ARCHITECTURE: its rooms are there, and every term of serving is found where it says."""

import ast
import importlib
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "service" / "fitgauge"
PAGE = ROOT.joinpath("ARCHITECTURE.md").read_text("utf-8")
TERMS = PAGE.partition("## Where is byte X counted?")[2].partition("## Rules")[0]
_MAKERS = frozenset({"exact_term", "term", "Term"})


def test_every_folder_and_file_that_is_named_is_there():
    named = set(re.findall(r"`((?:engine|catalog|hub|logs|services|api)/[\w/.]*)`", PAGE))
    assert len(named) > 30
    assert [path for path in sorted(named) if not PACKAGE.joinpath(path).exists()] == []


@pytest.mark.parametrize(
    "path, name", sorted(set(re.findall(r"`(engine/[\w/]+)\.py` `(\w+)`", TERMS)))
)
def test_what_makes_a_term_is_there(path, name):
    assert hasattr(importlib.import_module(f"fitgauge.{path.replace('/', '.')}"), name)


def test_every_word_is_a_name_of_the_code():
    words = PAGE.partition("## Words")[2].partition("\n## ")[0]
    named = set(re.findall(r"`([A-Z]\w+)`", words))
    code = "\n".join(path.read_text("utf-8") for path in PACKAGE.rglob("*.py"))
    assert len(named) > 15
    assert [
        name
        for name in sorted(named)
        if not re.search(rf"^(?:class {name}\b|{name} = )", code, re.MULTILINE)
    ] == []


def made(tree):
    """Return the names that `certain`, `Coefficient.term` and `Term` are given as they stand."""
    for call in (node for node in ast.walk(tree) if isinstance(node, ast.Call)):
        called = call.func.id if isinstance(call.func, ast.Name) else getattr(call.func, "attr", "")
        if called in _MAKERS:
            given = [*call.args[:1], *(word.value for word in call.keywords if word.arg == "name")]
            yield from (
                one.value
                for one in given
                if isinstance(one, ast.Constant) and isinstance(one.value, str)
            )


def test_every_term_of_serving_is_in_the_table():
    files = [
        path for path in PACKAGE.joinpath("engine").rglob("*.py") if "training" not in path.parts
    ]
    names = {name for path in files for name in made(ast.parse(path.read_text("utf-8")))}
    rows = [line for line in TERMS.splitlines() if line.startswith("| `")]
    told = {name for row in rows for name in re.findall(r"`(\w+)`", row.split("|")[1])}
    assert names == told
