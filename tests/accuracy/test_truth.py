"""The truth set says what it may: fields of the contract, sizes with a unit, a source on every
run."""

import re
from collections import Counter

import msgspec
import pytest

from accuracy import truth
from fitgauge.services.common.schemas import FitRequest

FIELDS = {field.name for field in msgspec.structs.fields(FitRequest)}
UNITS = (
    *(
        "gib",
        "mib",
        "gb",
        "bytes",
        "tokens",
        "blocks",
        "cells",
        "size",
        "slots",
        "len",
        "concurrency",
        "weight",
        "layers",
    ),
    *("approx", "estimate", "printed", "split", "total", r"gpu\d+"),
)
UNIT = re.compile(rf"_({'|'.join(UNITS)})$|^(per_stage|est_max_len)$")


def test_every_run_is_read_and_ids_are_unique() -> None:
    ids = Counter(run.id for run in truth.runs())
    assert len(ids) >= 280
    assert max(ids.values()) == 1


@pytest.mark.parametrize("run", truth.runs(), ids=lambda run: run.id)
def test_a_run_asks_in_the_words_of_the_contract(run: truth.Run) -> None:
    assert set(run.question) <= FIELDS
    msgspec.convert({"gpu": "H100"} | run.question, FitRequest)


@pytest.mark.parametrize("run", truth.runs(), ids=lambda run: run.id)
def test_a_run_names_its_source_and_the_unit_of_every_size(run: truth.Run) -> None:
    assert run.source
    assert all(UNIT.search(name) for name in run.measured), run.measured
    assert not run.source.startswith(("/", "."))


@pytest.mark.parametrize("run", [run for run in truth.runs() if run.scores], ids=lambda run: run.id)
def test_what_may_be_scored_was_measured(run: truth.Run) -> None:
    needed = {
        "weights": ("weights_gib",),
        "planner": ("kv_gib", "kv_tokens"),
        "kv_tokens": ("kv_tokens",),
        "activations": ("activation_gib",),
        "need": ("kv_gib",),
        "outcome": (),
    }
    for scored in run.scores:
        assert all(run.measured.get(name) is not None for name in needed[scored])
        assert scored in ("weights", "planner") or "gpu" in run.question
    assert "outcome" not in run.scores or run.outcome in ("served", "oom", "kv_too_small")


def test_seven_runs_of_ten_are_to_fit_and_a_source_is_on_one_side_only() -> None:
    parts = Counter(run.part for run in truth.runs())
    assert 0.6 <= parts["fit"] / len(truth.runs()) <= 0.8
    sides: dict[str, set[str]] = {}
    for run in truth.runs():
        sides.setdefault(run.source, set()).add(run.part)
    assert all(len(side) == 1 for side in sides.values())


def test_models_beside_the_snapshot_stand_on_its_models() -> None:
    for name in truth.variants():
        known = truth.model(name)
        assert known is not None
        assert known.spec.quantization
