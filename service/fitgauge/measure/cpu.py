"""Logs of engines that ran on a CPU: their buffers in host memory are what was estimated."""

from msgspec import structs

from fitgauge.engine.serving.start_log.measurements import StartLog

_HOST = "host_"
_SPLIT = ("n_gpu_layers", "layers")


def on_cpu(log: StartLog) -> StartLog:
    """Return a log whose buffers in host memory count, as those of the one device there is."""
    return structs.replace(
        log,
        readings=tuple(
            structs.replace(reading, name=reading.name.removeprefix(_HOST))
            for reading in log.readings
        ),
        flags={name: value for name, value in log.flags.items() if name not in _SPLIT},
        remarks=tuple(remark for remark in log.remarks if remark != "partial_offload"),
    )
