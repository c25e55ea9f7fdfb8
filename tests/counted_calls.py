"""Work counted in calls, which no machine changes."""

import sys
from collections.abc import Callable


def calls(work: Callable[[], object]) -> int:
    """Return how many functions `work` calls, Python's own included."""
    count = 0

    def counted(_frame: object, event: str, _argument: object) -> None:
        nonlocal count
        count += event in ("call", "c_call")

    before = sys.getprofile()
    sys.setprofile(counted)
    try:
        work()
    finally:
        sys.setprofile(before)
    return count
