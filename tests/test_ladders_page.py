"""docs/SETTINGS.md: what tools/ladders.py writes from the engines' ladders."""

import runpy
from pathlib import Path

from fitgauge.engine.serving.registry import ENGINES

ROOT = Path(__file__).parents[1]
PAGE = runpy.run_path(str(ROOT / "tools" / "ladders.py"))["page"]()


def test_the_committed_page_is_current():
    assert ROOT.joinpath("docs", "SETTINGS.md").read_text("utf-8") == PAGE, "run `make formulas`"


def test_every_setting_of_every_engine_is_listed():
    rows = {line.split(" | ")[0].strip("| "): line for line in PAGE.splitlines()}
    for name, row in ENGINES.items():
        for ladder in row.ladders.batch:
            assert f"`{ladder.setting}`: {ladder.rule}" in rows[name]
