"""How often Python looks for objects that hold one another and that nothing else holds."""

import gc

_THRESHOLDS = (10_000, 50, 1_000)
"""By default the collector walks every object whenever their number has grown by a quarter: pauses
of up to 100 ms, measured while 200 callers read large tables slowly (p99 of another caller's warm
question: 98 ms, with these thresholds 13 ms), and a tenth of the time of a fleet."""


def collect_rarely() -> None:
    """Leave out what is there by now, and look at what comes less often."""
    gc.freeze()
    gc.set_threshold(*_THRESHOLDS)
