"""What a million tokens cost at a speed."""

from collections.abc import Sequence
from typing import Annotated

from msgspec import Struct

from fitgauge.field_docs import doc


class Usd(Struct, kw_only=True):
    """An amount in US dollars as an interval."""

    low: Annotated[float, doc("At the lowest price and the highest speed [USD].")]
    expected: Annotated[float, doc("At the lowest price and the expected speed [USD].")]
    high: Annotated[float, doc("At the highest price and the lowest speed [USD].")]


def per_million(low: float, high: float, speed: Sequence[float] | None) -> Usd | None:
    """Dollars of 10^6 tokens = dollars an hour x 10^6 / (3600 x tokens a second); None without a
    speed.

    expected: the lowest price at the expected speed; low: the lowest at the highest speed; high:
    the highest at the lowest."""
    if not speed or not all(speed):
        return None
    slow, expected, fast = speed
    return Usd(low=_million(low, fast), expected=_million(low, expected), high=_million(high, slow))


def _million(usd_per_hour: float, tokens_per_second: float) -> float:
    return round(usd_per_hour * 1e6 / (3600 * tokens_per_second), 4)
