"""The reference of docs: what `make formulas` writes from the code."""

import re
import runpy
from pathlib import Path

import pytest

from fitgauge.cli import COMMANDS
from fitgauge.settings import Settings, variable
from live.conformance import OPERATIONS

ROOT = Path(__file__).parents[1]
TOOL = runpy.run_path(str(ROOT / "tools" / "formulas.py"))
REFERENCE = runpy.run_path(str(ROOT / "tools" / "reference.py"))
PAGES = REFERENCE["pages"]()


def test_the_committed_page_is_current():
    assert ROOT.joinpath("docs", "FORMULAS.md").read_text("utf-8") == TOOL["page"](), (
        "run `make formulas`"
    )


@pytest.mark.parametrize("name", PAGES)
def test_a_page_of_the_api_the_command_or_the_settings_is_current(name):
    assert ROOT.joinpath("docs", name).read_text("utf-8") == PAGES[name], "run `make formulas`"


def test_the_reference_has_every_operation_command_and_variable():
    assert [one.path for one in OPERATIONS if f" {one.path}\n" not in PAGES["api.md"]] == []
    assert [name for name in COMMANDS if f"## fitgauge {name}" not in PAGES["command.md"]] == []
    rows = re.findall(r"^\| `(\w+)` \| .+ \| .+ \| .+ \|$", PAGES["variables.md"], re.MULTILINE)
    assert rows == [variable(field) for field in Settings.__struct_fields__]


def test_a_command_whose_options_are_fields_of_a_request_names_them_once():
    _, _, section = PAGES["command.md"].partition("## fitgauge check\n")
    section = section.partition("\n## ")[0]
    assert "(api.md#post-v1fit)" in section
    assert "--context-length" not in section
    assert "--machine, --no-machine" in section


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


def test_what_makes_a_term_of_a_fitted_coefficient_is_on_the_page():
    listed = set(re.findall(r"^\*\*`([\w.]+)`\*\*", TOOL["page"](), re.MULTILINE))
    assert {"communication_term", "process_term", "_usual", "_with_varied"} <= listed
