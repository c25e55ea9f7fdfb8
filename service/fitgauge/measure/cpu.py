"""Engines that ran on a CPU: their buffers in host memory are what was estimated."""

import re

from msgspec import structs

from fitgauge.engine.serving.start_log.measurements import StartLog
from fitgauge.services.explain_log.schemas import LogAnswer

_HOST = "host_"
_SPLIT = ("n_gpu_layers", "layers")
_GPU = re.compile(r"on one [\d.]+ GiB GPU")
_SIZE = re.compile(r"A GPU of [\d,]+ bytes")


def on_cpu(log: StartLog) -> StartLog:
    """Return a log whose buffers in host memory count, as those of the one device there is."""
    return structs.replace(
        log,
        readings=tuple(
            structs.replace(reading, name=reading.name.removeprefix(_HOST))
            for reading in log.readings
        ),
        flags={name: value for name, value in log.flags.items() if name not in _SPLIT},
    )


def without_gpu(answer: LogAnswer) -> LogAnswer:
    """Return an answer about this machine's memory, which was asked about as that of a GPU."""
    return structs.replace(
        answer,
        summary=_GPU.sub("in this machine's memory", answer.summary),
        warnings=[one for one in answer.warnings if not _SIZE.match(one.message)],
    )
