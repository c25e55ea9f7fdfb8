"""The command `fitgauge`, also as `python -m fitgauge`."""

import sys

INTERRUPTED = 130
"""The exit code of a command that Ctrl-C ends."""


def run() -> None:
    """Run the command. What it imports takes a while, and Ctrl-C may come in between."""
    try:
        from fitgauge.cli import main

        main()
    except KeyboardInterrupt:
        sys.stderr.write("Interrupted.\n")
        sys.exit(INTERRUPTED)


if __name__ == "__main__":
    run()
