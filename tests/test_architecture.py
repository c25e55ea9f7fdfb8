"""ARCHITECTURE: its packages are there, and every term of serving is found where it says."""

import ast
import importlib
import re
from pathlib import Path

import pytest

from fitgauge.engine.training.estimate import SOURCES

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "service" / "fitgauge"
PAGE = ROOT.joinpath("ARCHITECTURE.md").read_text("utf-8")
TERMS = PAGE.partition("## Where is byte X counted?")[2].partition("## Rules")[0]
_MAKERS = frozenset({"exact_term", "term", "Term"})
_TRAINING_MAKERS = _MAKERS | {"Amount", "amount", "in_words", "state"}
SERVING_TERMS, _, TRAINING_TERMS = TERMS.partition("### Training")


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


def made(tree, makers):
    """Yield the names that calls of `makers` are given as they stand."""
    for call in (node for node in ast.walk(tree) if isinstance(node, ast.Call)):
        name = call.func.id if isinstance(call.func, ast.Name) else getattr(call.func, "attr", "")
        if name in makers:
            values = [*call.args[:1], *(word.value for word in call.keywords if word.arg == "name")]
            choices = [
                choice
                for value in values
                for choice in (
                    (value.body, value.orelse) if isinstance(value, ast.IfExp) else (value,)
                )
            ]
            yield from (
                choice.value
                for choice in choices
                if isinstance(choice, ast.Constant) and isinstance(choice.value, str)
            )


def terms_of(folder, makers, *, training):
    """Return the names of terms that the files of a folder make."""
    files = [
        path
        for path in PACKAGE.joinpath(folder).rglob("*.py")
        if ("training" in path.parts) is training
    ]
    return {name for path in files for name in made(ast.parse(path.read_text("utf-8")), makers)}


def terms_in(table):
    """Return the names in the first column."""
    rows = [line for line in table.splitlines() if line.startswith("| `")]
    return {name for row in rows for name in re.findall(r"`(\w+)`", row.split("|")[1])}


def test_every_term_of_serving_is_in_the_table():
    assert terms_of("engine", _MAKERS, training=False) == terms_in(SERVING_TERMS)


def test_every_term_of_training_is_in_the_table():
    names = terms_of("engine", _TRAINING_MAKERS, training=True) | set(SOURCES)
    assert names == terms_in(TRAINING_TERMS)
