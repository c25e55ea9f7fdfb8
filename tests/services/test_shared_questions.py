"""docs/questions.md: its arithmetic gives what the service answers, and its tables are what the
service says now."""

import re

import pytest

from hub_stand_in import HubStandIn
from live import client, serving
from shared_questions import PAGE, page

_NUMBER = re.compile(r"\d[\d,]*(?:\.\d+)?")


@pytest.fixture(scope="module")
def written():
    with HubStandIn() as hub, serving(hub, offline=True) as url, client(url) as http:
        return page(http)


def rows(text):
    """Return the rows of its tables, with the numbers apart from the words."""
    lines = [line for line in text.splitlines() if line.startswith("| ")]
    return [
        (
            _NUMBER.sub("#", line),
            [float(number.replace(",", "")) for number in _NUMBER.findall(line)],
        )
        for line in lines
    ]


def test_the_page_asks_what_the_service_is_asked(written):
    asked = [
        line
        for line in written.splitlines()
        if line.startswith(("## ", "POST ", "{", "$ fitgauge"))
    ]
    assert asked == [
        line
        for line in PAGE.read_text("utf-8").splitlines()
        if line.startswith(("## ", "POST ", "{", "$ fitgauge"))
    ]


def test_the_tables_are_what_the_service_says_now(written):
    """Return where they are not: write the page anew with tests/shared_questions.py, and read it
    before it is committed."""
    for (words, numbers), (now, told) in zip(
        rows(PAGE.read_text("utf-8")), rows(written), strict=True
    ):
        assert words == now
        assert numbers == pytest.approx(told, rel=0.05, abs=0.1)
