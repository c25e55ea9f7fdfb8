"""transformers, which prints no start-up log: a script measures it (`transformers_probe.py`)."""

from pathlib import Path

import msgspec

from fitgauge.engine.serving.start_log.measurements import Measurement, StartLog
from fitgauge.measure.start import Start, python_with

_MARK = "fitgauge-measured "
_SCRIPT = Path(__file__).with_name("transformers_probe.py")


class _Printed(msgspec.Struct, frozen=True):
    """What the script prints."""

    version: str
    """The release of transformers."""
    gpu: str | None
    """The GPU as its driver names it; None: it ran on the CPU."""
    measured: dict[str, int]
    """Sizes [bytes] by name."""


def probe_start(model: str, context_length: int, concurrency: int, python: Path | None) -> Start:
    """Return how to run the script for a model. Raises NotInstalledError."""
    program = python_with("transformers", python)
    return Start(arguments=(program, str(_SCRIPT), model, str(context_length), str(concurrency)))


def probed(text: str, context_length: int, concurrency: int) -> StartLog | None:
    """Return what the script measured; None where it did not get so far."""
    for number, line in enumerate(text.splitlines(), start=1):
        if line.startswith(_MARK):
            printed = msgspec.json.decode(line.removeprefix(_MARK), type=_Printed)
            return StartLog(
                engine="transformers",
                version=printed.version,
                gpu=printed.gpu,
                gpu_count=1,
                flags={"context_length": context_length, "concurrency": concurrency},
                readings=tuple(
                    Measurement(name=name, value=size, resolution=0.0, rank="", line=number)
                    for name, size in printed.measured.items()
                ),
                outcome="served",
            )
    return None
