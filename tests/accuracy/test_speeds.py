"""The speed at a load against published runs: the intervals of answers are those of the rows."""

from itertools import chain
from statistics import quantiles

import pytest

from accuracy import report_host, report_speeds
from accuracy.truth import HERE
from fitgauge.services.fit.speed import MEASURED_FIRST_TOKEN, MEASURED_SPREAD, MODELLED_SPREAD
from fitgauge.services.fit.texts import TEXT_SPREAD


def test_half_of_the_modelled_speeds_are_within_a_sixth() -> None:
    ratios = sorted(abs(one.speed_ratio - 1) for one in report_speeds.held())
    assert ratios[len(ratios) // 2] < 0.17


def test_four_of_five_speeds_and_first_tokens_lie_within_their_interval() -> None:
    speeds, firsts = report_speeds.coverage(report_speeds.held())
    assert speeds > 0.8
    assert firsts > 0.88


def test_the_interval_of_what_is_modelled_is_that_of_the_runs_by_source() -> None:
    assert (report_speeds.by_source(0.05), report_speeds.by_source(0.95)) == pytest.approx(
        MODELLED_SPREAD, abs=0.006
    )


def test_the_interval_of_what_is_measured_is_that_of_runs_left_out() -> None:
    speeds, firsts = map(report_speeds.tenths, report_speeds.left_out())
    assert speeds == pytest.approx(MEASURED_SPREAD, abs=0.011)
    assert firsts == pytest.approx(MEASURED_FIRST_TOKEN, abs=0.011)


def test_the_interval_of_texts_is_that_of_the_published_batches() -> None:
    ratios = sorted(chain.from_iterable(report_speeds.text_ratios().values()))
    cuts = quantiles(ratios, n=20, method="inclusive")
    assert (cuts[0], cuts[-1]) == pytest.approx(TEXT_SPREAD, abs=0.02)


def test_the_page_shows_these_figures() -> None:
    page = (HERE.parents[1] / "docs" / "ACCURACY.md").read_text("utf-8")
    assert report_speeds.document() in page
    assert report_host.document() in page
