"""The GPU of a question that names none."""

from fitgauge.catalog.gpu_match import GpuMatch
from fitgauge.catalog.lookup import MAX_CUSTOM_BYTES
from fitgauge.engine.accelerator import custom

ANY_GPU = GpuMatch(custom(MAX_CUSTOM_BYTES, "any-size"), 1)
"""One GPU that holds whatever is asked."""
