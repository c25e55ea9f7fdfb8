"""The user's view: torchtune's README asked with the tool's name and what the README prints,
nothing else."""

from statistics import median

import msgspec
import pytest

from accuracy.training_truth import TRAINING, rows
from accuracy.truth import GIB, model
from fitgauge.catalog.catalog import bundled
from fitgauge.services.training_fit.schemas import TrainingRequest

ROWS = {
    row["id"]: row
    for row in rows("training_gpu")
    if row["framework"] == "torchtune" and "README" in row["source"]
}
PRINTED = ("model", "gpu", "gpu_count", "method", "sequence_length", "micro_batch_size", "compile")
"""Of both tables: the second adds techniques one by one, so that a row says of each whether it
is on."""
TECHNIQUES = {
    "activation_checkpointing": "none", "activation_offload": False, "optimizer": "adamw",
    "optimizer_in_backward": False, "loss": "full",
}  # fmt: skip
DEPARTING = {
    "t106": "between what checkpointed layers take and what they would without",
    "t110": "the unit differs in this row",
}


def asked(row):
    """Return what the README prints of a row, as a question."""
    question, listed = row["question"], "Optimization flags" in row["source"]
    fields = {name: question[name] for name in PRINTED if name in question}
    fields |= {name: question.get(name, off) for name, off in TECHNIQUES.items()} if listed else {}
    return msgspec.convert(fields | {"framework": "torchtune"}, TrainingRequest)


def error(row):
    """Of the most that the step allocates."""
    request = asked(row)
    known = model(request.model)
    trained = TRAINING.check(
        request, known, bundled().find(request.gpu).accelerator, request.gpu_count
    )
    return trained.fullest.allocated.expected / (row["measured"]["peak_active_gib"] * GIB) - 1


ERRORS = {name: error(row) for name, row in ROWS.items() if "question" in row}


def test_half_of_its_rows_are_met_within_a_twelfth():
    assert len(ERRORS) >= 12
    assert median(abs(one) for one in ERRORS.values()) <= 1 / 12


@pytest.mark.parametrize("name", sorted(ERRORS.keys() - DEPARTING.keys()))
def test_a_row_is_met_within_a_quarter(name):
    assert abs(ERRORS[name]) <= 0.25


def test_lora_with_room_lies_between_both_settings_of_checkpointing():
    """t106: 30.3 GiB, where the configuration that is there now checkpoints."""
    row = ROWS["t106"]
    request, known = asked(row), model(row["question"]["model"])
    card = bundled().find(request.gpu).accelerator
    ends = [
        TRAINING.check(
            msgspec.structs.replace(request, activation_checkpointing=kept), known, card, 1
        ).fullest.allocated.expected
        / GIB
        for kept in ("full", "none")
    ]
    assert ends[0] < row["measured"]["peak_active_gib"] < ends[1]
