"""Run an engine until its log says what became of it, and end it with all that it started."""

import os
import signal
import subprocess
import tempfile
import time
from contextlib import suppress
from typing import IO

from fitgauge.logs.detect import detect
from fitgauge.measure.start import Start

READY = ("Application startup complete", "ready to roll", "server is listening")
"""What servers print last: uvicorn of vLLM and SGLang, SGLang itself, llama-server."""

QUIET_SECONDS = 30.0
"""A log that shows an outcome and says nothing more for so long is at its end."""

MOST_BYTES = 2**20
"""Of a log that are read: a start prints less, and an engine that repeats itself is ended."""

_POLL_SECONDS = 0.2
_SIGNALS = (
    (signal.SIGINT, 15.0),  # llama.cpp prints its table of memory then
    (signal.SIGTERM, 10.0),
    (signal.SIGKILL, 5.0),
)


def run(start: Start, seconds: float) -> str:
    """Return what a start prints, until it serves, ends or `seconds` have passed; then it is ended.
    Raises OSError where it cannot be started."""
    with tempfile.TemporaryFile() as output:
        process = _started(start.arguments, start, output)
        client = None
        try:
            until, seen, since = time.monotonic() + seconds, 0, time.monotonic()
            while process.poll() is None and time.monotonic() < until:
                time.sleep(_POLL_SECONDS)
                text = _read(output)
                if len(text) != seen:
                    seen, since = len(text), time.monotonic()
                if start.client:
                    if client is None and start.client_after in text:
                        client = _started(start.client, start, output)
                    if client is not None and client.poll() is not None:
                        break
                elif any(literal in text for literal in READY):
                    break
                if len(text) >= MOST_BYTES:
                    break
                if time.monotonic() - since > QUIET_SECONDS and _has_ended(text):
                    break
        finally:
            for one in (client, process):
                if one is not None:
                    _end(one)
        return _read(output)


def _started(
    arguments: tuple[str, ...], start: Start, output: IO[bytes]
) -> "subprocess.Popen[bytes]":
    """Return a process in a session of its own, which its children are in too."""
    return subprocess.Popen(
        arguments,
        stdin=subprocess.DEVNULL,
        stdout=output,
        stderr=subprocess.STDOUT,
        env=start.environment,
        start_new_session=True,
    )


def _read(output: IO[bytes]) -> str:
    """Return the beginning of the log; the place that processes write at stays where it is."""
    return os.pread(output.fileno(), MOST_BYTES, 0).decode("utf-8", "replace")


def _has_ended(text: str) -> bool:
    log = detect(text)
    return log is not None and log.outcome is not None


def _end(process: "subprocess.Popen[bytes]") -> None:
    """End a process and its session; what does not obey is killed."""
    for number, patience in _SIGNALS:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, number)
        with suppress(subprocess.TimeoutExpired):
            process.wait(patience)
            break
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)  # children that outlive it
