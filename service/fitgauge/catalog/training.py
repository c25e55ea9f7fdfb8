"""Memory of training processes in addition to their tensors, as observed."""

from functools import cache
from importlib.resources import files

import msgspec

from fitgauge.engine.training.profile import TrainingProfile


@cache
def load_training() -> TrainingProfile:
    """Return the bundled profile."""
    raw = files("fitgauge.catalog").joinpath("data/training.json").read_bytes()
    return msgspec.json.decode(raw, type=TrainingProfile)
