"""A request field is added in one class: it reaches the workload, a term, the echo, the contract
and the command."""

import json
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import Any

TESTS = Path(__file__).parents[1]


@cache
def answers() -> dict[str, Any]:
    """Return what toy_field.py prints."""
    result = subprocess.run(
        [sys.executable, str(TESTS / "adding/toy_field.py")],
        capture_output=True,
        check=True,
        env={"PYTHONPATH": f"{TESTS}:{TESTS.parent / 'service'}", "HF_HUB_OFFLINE": "1"},
    )
    printed: dict[str, Any] = json.loads(result.stdout)
    return printed


def terms(answer: dict[str, Any]) -> dict[str, int]:
    return {term["name"]: term["bytes"] for term in answer["terms"]}


def required(answer: dict[str, Any]) -> int:
    size: int = answer["per_gpu"]["required_bytes"]["expected"]
    return size


def test_it_reaches_the_formula_of_a_term() -> None:
    assert terms(answers()["with"])["toy_pages"] == 7 * 2 * 2**20
    assert "toy_pages" not in terms(answers()["without"])
    assert required(answers()["with"]) - required(answers()["without"]) == 7 * 2 * 2**20


def test_it_is_echoed_under_its_own_name() -> None:
    assert answers()["with"]["understood_as"]["toy_pages"] == 7
    assert "toy_pages" not in answers()["without"]["understood_as"]


def test_engines_that_do_not_read_it_say_so() -> None:
    answer = answers()["elsewhere"]
    assert "toy_pages" not in answer["understood_as"]
    assert any(warning["field"] == "toy_pages" for warning in answer["warnings"])
    assert not any("`toy_pages`" in text for text in answers()["with"]["warnings"])


def test_its_bounds_are_the_contract() -> None:
    assert "$.toy_pages" in answers()["out of bounds"]
    described = answers()["property"]
    assert described["description"] == "toy: pages of 2 MiB that it holds back."
    assert (described["type"], described["minimum"], described["maximum"]) == (
        ["integer", "null"],
        1,
        64,
    )


def test_the_command_has_its_option() -> None:
    assert "--toy-pages" in answers()["help"]
