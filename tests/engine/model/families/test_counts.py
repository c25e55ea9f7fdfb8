"""A config means as many parameters as transformers builds from it, as a repository holds, or as a
loaded model prints: whatever its sizes and flags, towers and projectors included."""

import pytest

from counted_models import EVERY, counted_models
from fitgauge.engine.model.families import read_config


def name_of(row: dict) -> str:
    """Return what a row is of: a repository, or a family with its class."""
    config = row["config"]
    return row.get("model") or "-".join([config["model_type"], *config.get("architectures", [])])


@pytest.mark.parametrize(
    "row", [row for row in counted_models(*EVERY) if "parameters" in row], ids=name_of
)
def test_count_equals_what_was_counted(row):
    spec = read_config(row["config"])
    assert (spec.parameters, spec.basis) == (row["parameters"], "exact")
