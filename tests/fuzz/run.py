"""Fuzzes one parser by coverage, with atheris, from its seeds.

python tests/fuzz/run.py TARGET CASES
"""

import sys
import tempfile
from pathlib import Path

import atheris

with atheris.instrument_imports(include=["fitgauge"]):
    from fuzz.targets import TARGETS


def main(name: str, cases: str) -> None:
    """Run so many cases. An error that is not the parser's own ends the process with its data in
    crash-*."""
    with tempfile.TemporaryDirectory() as folder:
        for number, seed in enumerate(TARGETS[name].seeds()):
            Path(folder, str(number)).write_bytes(seed)
        options = [f"-runs={cases}", "-max_len=20000", "-rss_limit_mb=4096", "-timeout=30"]
        atheris.Setup([sys.argv[0], *options, folder], TARGETS[name])
        atheris.Fuzz()


if __name__ == "__main__":
    main(*sys.argv[1:])
