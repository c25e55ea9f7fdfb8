"""Memory of training processes in addition to their tensors, as observed."""

from functools import cache

import msgspec

from fitgauge.catalog import tables
from fitgauge.engine.training.profile import TrainingProfile


@cache
def load_training() -> TrainingProfile:
    """Return the bundled profile."""
    raw = (tables.DATA / "training.json").read_bytes()
    return msgspec.json.decode(raw, type=TrainingProfile)
