"""No figure of training gets worse than the committed one, and the page shows the committed
ones."""

import json

import pytest

from accuracy import report_training, training_peers, training_score
from accuracy import training_truth as truth
from accuracy.no_worse import assert_no_worse
from accuracy.truth import HERE

COMMITTED = json.loads((HERE / "headline_training.json").read_text())
PAGE = (HERE.parents[1] / "docs/ACCURACY.md").read_text()


@pytest.fixture(scope="module")
def figures():
    return training_score.headline()


@pytest.mark.parametrize(
    "name, part", [(name, part) for name, parts in COMMITTED.items() for part in parts]
)
def test_a_figure_is_no_worse_than_the_committed_one(name, part, figures):
    assert_no_worse(COMMITTED[name][part], figures[name][part], name)


def test_the_page_shows_the_committed_figures():
    assert report_training.must_reach(COMMITTED) in PAGE


def test_every_bar_is_reached():
    assert "not reached" not in report_training.must_reach(COMMITTED)


def test_the_estimate_beats_every_rule_that_people_quote():
    steps = truth.provided()
    ours = training_score.steps(steps)["median"]
    for rule, size in training_peers.RULES.items():
        errors = [
            size(step.spec, step.workload) / training_score.measured(step) - 1 for step in steps
        ]
        assert ours < training_score.spread(errors)["median"] / 10, rule


def test_every_step_rank_and_run_has_a_source():
    assert all(
        row["torch"] and row["transformers"]
        for name in ("training_own", "training_masks", "training_fsdp")
        for row in truth.rows(name)
    )
    assert all(row["source"] for row in truth.rows("training_gpu"))
