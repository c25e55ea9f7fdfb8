"""The command `fitgauge`, also as `python -m fitgauge`."""

import gc
import io
import os
import stat
import sys
from typing import Any

INTERRUPTED = 130
"""The exit code of a command that Ctrl-C ends."""


class _Pipe(io.FileIO):
    """A pipe whose reader may leave, as `head` does: what follows is discarded, so that the exit
    code stays that of the answer."""

    def write(self, data: Any) -> int:  # noqa: ANN401 - any buffer of bytes
        try:
            return super().write(data)
        except BrokenPipeError:
            os.dup2(os.open(os.devnull, os.O_WRONLY), self.fileno())
            return len(data)


def _outlast_the_reader() -> None:
    """Let standard output outlast who reads it, where it is a pipe."""
    try:
        number = sys.stdout.fileno()
        if not stat.S_ISFIFO(os.fstat(number).st_mode):
            return
    except (OSError, ValueError, AttributeError):
        return  # closed, or none
    before, raw = sys.stdout, io.BufferedWriter(_Pipe(number, "w", closefd=False))
    at_once = getattr(before, "write_through", False)  # PYTHONUNBUFFERED
    sys.stdout = io.TextIOWrapper(raw, before.encoding, before.errors, write_through=at_once)


def run() -> None:
    """Run the command. What it imports takes a while, and Ctrl-C may come in between."""
    _outlast_the_reader()
    try:
        gc.disable()  # imports leave next to nothing to collect, and looking for it takes a sixth
        from fitgauge.cli import main
        from fitgauge.garbage import collect_rarely

        collect_rarely()
        gc.enable()
        main()
    except KeyboardInterrupt:
        sys.stderr.write("Interrupted.\n")
        sys.exit(INTERRUPTED)


if __name__ == "__main__":
    run()
