"""docs/CODES.md lists every code that answers hold, and no other."""

import re
from pathlib import Path
from typing import get_args

import pytest

from fitgauge.api.problems import RequestCode
from fitgauge.engine.note import NoteCode
from fitgauge.errors import ErrorCode

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "docs" / "CODES.md").read_text("utf-8")
ERRORS = (*get_args(ErrorCode), *get_args(RequestCode))
SOURCE = "\n".join(
    path.read_text("utf-8")
    for path in sorted((ROOT / "service" / "fitgauge").rglob("*.py"))
    if path.name != "note.py"
)


def listed(heading: str) -> list[str]:
    """Return the codes of one table of the page."""
    _, _, section = PAGE.partition(f"## {heading}\n")
    return re.findall(r"^\| `([a-z0-9-]+)` \|", section.partition("\n## ")[0], re.MULTILINE)


def test_the_page_lists_the_codes_of_warnings() -> None:
    assert listed("Warnings") == sorted(get_args(NoteCode))


@pytest.mark.parametrize("code", get_args(NoteCode))
def test_every_code_of_a_warning_is_in_use(code: str) -> None:
    assert re.search(rf'Note\(\s*"{code}"', SOURCE)


def test_the_page_lists_the_codes_of_errors() -> None:
    assert listed("Errors") == sorted(ERRORS)


@pytest.mark.parametrize("code", get_args(ErrorCode))
def test_every_code_of_an_error_is_in_use(code: str) -> None:
    assert re.search(rf'(code(: ErrorCode)? ?= ?|"\w+": ?)"{code}"', SOURCE)


@pytest.mark.parametrize("code", get_args(RequestCode))
def test_every_code_of_a_refused_request_is_in_use(code: str) -> None:
    assert SOURCE.count(f'"{code}"') > 1
