"""Run an engine on this machine and measure it: how it is started, watched and ended, and what a
run leaves as a row of truth."""

from fitgauge.measure.cpu import on_cpu, without_gpu
from fitgauge.measure.probe import probe_start, probed
from fitgauge.measure.process import run
from fitgauge.measure.rows import append
from fitgauge.measure.start import NotInstalledError, Start, start_of

__all__ = [
    "NotInstalledError",
    "Start",
    "append",
    "on_cpu",
    "probe_start",
    "probed",
    "run",
    "start_of",
    "without_gpu",
]
