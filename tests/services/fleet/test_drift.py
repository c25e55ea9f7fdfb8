"""What a release changes: rows with the terms behind them, and releases that nobody read."""

import asyncio

import pytest

from fitgauge.errors import InvalidRequestError
from fitgauge.services.fleet.drift import DriftSummary, Releases
from fitgauge.services.fleet.fleet_file import read_fleet

FLEET = """
models = ["Qwen/Qwen2.5-72B-Instruct-AWQ", "Qwen/Qwen-14B-Chat", "Qwen/Qwen3-8B"]
gpus = ["H100", "L40S"]

[[loads]]
name = "small"
context_length = 2048
"""


@pytest.fixture
def drift(service):
    """Return what changes from one release to another."""

    def run(before, after, text=FLEET):
        async def collect():
            question = service.question(read_fleet(text))
            releases = Releases(service, question, before=before, after=after)
            summary = DriftSummary(releases, question.faults)
            async for batch in releases.batches():
                summary.add(batch)
            return summary.answer()

        return asyncio.run(collect())

    return run


def test_the_same_release_changes_nothing(drift):
    answer = drift("0.33", "0.33")
    assert (answer.rows, answer.stop, answer.models) == ([], [], 3)


def test_models_that_a_release_dropped_stop_fitting(drift):
    answer = drift("0.19", "0.33")
    stops = [row for row in answer.rows if row.change == "stops"]
    assert {row.name for row in stops} == {"Qwen/Qwen-14B-Chat"} == set(answer.stop)
    assert all(row.note is not None and row.verdict_after == "unsupported" for row in stops)


def test_a_change_of_gpus_is_explained_by_its_terms(drift):
    """Terms that differ, and their differences add up to that of the need."""
    rows = [row for row in drift("0.19", "0.33").rows if row.required_bytes is not None]
    assert rows
    for row in rows:
        before, after = row.required_bytes
        assert row.change == "needs_more"
        assert row.gpu_count_before == row.at_gpu_count < row.gpu_count_after
        assert row.verdict_before == "fits" != row.verdict_after
        changes = [one.after_bytes - one.before_bytes for one in row.terms]
        assert sum(changes) == after - before != 0
        assert changes == sorted(changes, key=abs, reverse=True)


def test_the_other_way_round_is_the_reverse(drift):
    there, back = drift("0.19", "0.33"), drift("0.33", "0.19")
    reverse = {"stops": "starts", "needs_more": "needs_fewer"}
    assert {(row.name, row.gpu, reverse[row.change]) for row in there.rows} == {
        (row.name, row.gpu, row.change) for row in back.rows
    }


@pytest.mark.parametrize("before, after", [("0.33", "0.34"), ("0.99", "0.33"), ("0.33", "1")])
def test_a_release_that_was_not_read_is_unknown(drift, before, after):
    with pytest.raises(InvalidRequestError) as refused:
        drift(before, after)
    assert refused.value.code == "unsupported-version"


def test_models_of_another_engine_are_not_asked_about(drift):
    text = "[[models]]\nmodel = '7b'\nengine = 'llama.cpp'\n[[gpus]]\ngpu = 'H100'\n"
    answer = drift("0.19", "0.33", text)
    assert (answer.models, answer.not_asked) == (0, ["7b"])
