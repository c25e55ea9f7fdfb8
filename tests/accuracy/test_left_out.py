"""Intervals and probabilities hold for campaigns that nothing was fitted to."""

import json

import pytest

from accuracy import left_out, report_odds, truth

COMMITTED = json.loads((truth.HERE / "headline_odds.json").read_text())
DOCS = truth.HERE.parents[1] / "docs"


@pytest.fixture(scope="module")
def odds() -> report_odds.Odds:
    return report_odds.odds()


def test_nine_needs_of_ten_lie_within_the_interval_of_a_left_out_campaign(
    odds: report_odds.Odds,
) -> None:
    served = odds["served"]
    assert 85 <= served["coverage"] <= 97
    assert 85 <= served["coverage_by_campaign"] <= 97
    assert served["width"] <= 12


def test_doubt_makes_probabilities_no_worse(odds: report_odds.Odds) -> None:
    before, after = odds["terms alone"], odds["served"]
    assert after["brier"] <= before["brier"]
    assert after["log_loss"] <= before["log_loss"]
    assert after["highest"] < 1


def test_no_large_campaign_is_covered_in_fewer_than_three_of_four() -> None:
    needs = [one for one in left_out.judgements() if one.need is not None]
    for campaign in {one.run.campaign for one in needs}:
        own = [bool(one.covered) for one in needs if one.run.campaign == campaign]
        assert len(own) < 8 or sum(own) >= 0.75 * len(own), campaign


def test_files_of_one_repository_are_one_campaign() -> None:
    parts: dict[str, set[int]] = {}
    for run in truth.runs():
        parts.setdefault(run.campaign, set()).add(run.fold)
    assert all(len(folds) == 1 for folds in parts.values())
    assert sum("llm-d-planner" in campaign for campaign in parts) == 1


def test_the_page_and_the_diagram_show_the_committed_figures(odds: report_odds.Odds) -> None:
    assert odds == COMMITTED
    assert report_odds.compared(COMMITTED) in (DOCS / "ACCURACY.md").read_text()
    assert (DOCS / "reliability.svg").read_text() == report_odds.diagram()
