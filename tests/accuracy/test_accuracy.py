"""No figure gets worse than the committed one, and the page shows the committed ones."""

import json

import pytest

from accuracy import report, score, truth
from accuracy.no_worse import assert_no_worse

COMMITTED = json.loads((truth.HERE / "headline.json").read_text())
PAGE = (truth.HERE.parents[1] / "docs/ACCURACY.md").read_text()


@pytest.fixture(scope="module")
def figures() -> report.Figures:
    return score.headline()


@pytest.mark.parametrize(
    "name, part", [(name, part) for name, parts in COMMITTED.items() for part in parts]
)
def test_a_figure_is_no_worse_than_the_committed_one(
    name: str, part: str, figures: report.Figures
) -> None:
    assert_no_worse(COMMITTED[name][part], figures[name][part], name)


def test_the_page_shows_the_committed_figures() -> None:
    assert report.must_reach(COMMITTED) in PAGE


def test_the_estimate_beats_the_rules_that_calculators_use() -> None:
    from accuracy import peers

    assert (
        score.spread(score.weights(None))["median"]
        < score.spread(peers.weight_errors(None))["median"] / 5
    )
    assert (
        score.covering(score.needs(None))["median"]
        < score.covering(peers.need_errors(None))["median"] / 5
    )
    assert (
        score.balanced(score.outcomes(None))["balanced"]
        > score.balanced(peers.outcomes(None))["balanced"]
    )


def test_nothing_that_the_question_tells_is_promised_and_fails() -> None:
    """In the check part: runs of a printed release, on a card that others left free, without
    settings the question has no word for."""
    assert (
        dict(score.calibration_bins(score.outcomes("check")))["without any of these"][
            "broken_promises"
        ]
        == 0
    )


def test_what_is_untold_is_judged_by_the_source_and_not_by_what_came_out() -> None:
    kinds = {(score.untold(run), run.outcome) for run in truth.runs() if "outcome" in run.scores}
    assert {outcome for kind, outcome in kinds if kind == "release not printed"} >= {
        "served",
        "oom",
        "kv_too_small",
    }
