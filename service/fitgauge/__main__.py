"""The command `fitgauge`, also as `python -m fitgauge`."""

import gc
import sys

INTERRUPTED = 130
"""The exit code of a command that Ctrl-C ends."""


def run() -> None:
    """Run the command. What it imports takes a while, and Ctrl-C may come in between."""
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
