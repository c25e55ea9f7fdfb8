"""Published runs that were looked for when all was fitted: what a row must say, and what holds on a set that nobody fitted to."""

from statistics import median

import pytest

from accuracy.training_calibrate import ran
from accuracy.training_score import found, outcomes, runs
from accuracy.training_truth import COUNTERS, rows
from accuracy.training_truth import found as asked

ROWS = rows("training_found")
OTHERS = {"gpu_memory_printed", "allocated_after_step_gib", "as_printed"}
"""What a source prints beside the counters that are scored."""


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row["id"])
def test_a_row_says_what_was_printed_where_and_why_it_is_not_asked_if_so(row):
    assert row["source"]
    assert row["measured"]["as_printed"]
    assert set(row["measured"]) <= OTHERS | {counter for counter, _ in COUNTERS}
    assert row["outcome"] in ("ran", "oom")
    assert row["length_kind"] in ("exact", "cap")
    assert "question" in row or row["note"]
    assert "question" not in row or row["length_kind"] == "exact"


def test_a_figure_says_its_unit():
    assert all(
        row["unit_note"] for row in ROWS if "oom" not in row["outcome"] and set(row["measured"]) > {"as_printed"} and "question" in row
    )


def test_no_row_has_a_source_of_the_sets_that_came_before():
    before = {row["source"] for name in ("training_gpu", "training_rl") for row in rows(name)}
    assert before.isdisjoint(row["source"] for row in ROWS)


def test_calibration_never_sees_them():
    fitted = {run.row["id"] for which in ("fit", "check") for run in ran(which)}
    assert fitted.isdisjoint(row["id"] for row in ROWS)


def test_there_are_some_of_every_kind_that_the_first_set_has_few_of():
    questions = [row["question"] for row in ROWS if "question" in row]
    assert sum(question["gpu"].startswith("MI") for question in questions) >= 5
    for field in ("context_parallel", "expert_parallel", "offload", "tensor_parallel"):
        assert sum(field in question for question in questions) >= 5, field
    assert sum(row["outcome"] == "oom" for row in ROWS) >= 5


def test_half_of_their_figures_are_met_within_a_tenth_and_nine_of_ten_within_three_tenths():
    errors = sorted(abs(one.error) for one in found())
    assert median(errors) <= 0.1
    assert errors[int(0.9 * len(errors))] <= 0.3


def test_most_of_their_figures_lie_within_the_interval():
    assert runs(found())["coverage"] >= 70


def test_nine_of_ten_outcomes_are_told_rightly():
    judged = [*outcomes(asked().runs, ran=True), *outcomes(asked().runs, ran=False)]
    assert sum(one.right for one in judged) >= 0.9 * len(judged)
