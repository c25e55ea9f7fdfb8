"""docs/FORMULAS.md: what tools/formulas.py writes from the docstrings of the engine."""

import runpy
from pathlib import Path

ROOT = Path(__file__).parents[1]
TOOL = runpy.run_path(str(ROOT / "tools" / "formulas.py"))


def test_the_committed_page_is_current():
    assert ROOT.joinpath("docs", "FORMULAS.md").read_text("utf-8") == TOOL["page"](), (
        "run `make formulas`"
    )


def test_a_docstring_splits_into_sentence_lines_and_source():
    docstring = "Return keys and values [bytes].\n\n= 2 x heads x head_dim\nSource: a paper."
    assert TOOL["split"](docstring) == (
        "Return keys and values [bytes].",
        "= 2 x heads x head_dim",
        "a paper.",
    )


def test_every_serving_engine_has_a_section():
    page = TOOL["page"]()
    assert [
        name for name in TOOL["ENGINES"].values() if f"## Serving with {name}\n" not in page
    ] == []
