"""`python -m fitgauge` is the command `fitgauge`."""

from fitgauge.cli import main

main()
