"""Figures of a training step's time follow from published runs, and hold for those left out."""

from statistics import mean

import pytest

from accuracy import training_speeds as speeds


@pytest.fixture(scope="module")
def linked():
    return [run for run in speeds.runs() if run.linked]


def within(runs):
    return mean(run.time.low <= run.took <= run.time.high for run in runs)


def test_no_step_of_a_figure_lowers_the_error(linked):
    figures = speeds.engine_figures()
    assert len(linked) == 198
    assert speeds.error(linked, figures) == pytest.approx(0.111, abs=0.001)
    assert speeds.fitted(linked, figures) == figures


def test_the_figures_are_those_of_the_engine(linked):
    figures = speeds.engine_figures()
    for run in linked:
        assert run.seconds(figures) == pytest.approx(run.time.expected)


def test_the_intervals_hold_nine_runs_of_ten(linked):
    groups = {
        "dense": [run for run in linked if not run.spec.routed_experts],
        "mixtures": [run for run in linked if run.spec.routed_experts],
        "slow links": [run for run in speeds.runs() if not run.linked],
    }
    assert {name: len(runs) for name, runs in groups.items()} == {
        "dense": 173, "mixtures": 25, "slow links": 18,
    }  # fmt: skip
    assert all(within(runs) >= 0.9 for runs in groups.values())


def test_sources_that_are_left_out_are_met_four_times_of_five(linked):
    inside = []
    for source in {run.source for run in linked}:
        rest = [run for run in linked if run.source != source]
        figures = speeds.fitted(rest, speeds.engine_figures())
        inside += [
            run.time.low <= run.took * run.time.expected / run.seconds(figures) <= run.time.high
            for run in linked
            if run.source == source
        ]
    assert mean(inside) >= 0.8
