"""When a model was released, by its name: data/model_releases.tsv. It orders lists and changes no
figure."""

from functools import cache
from types import MappingProxyType

from fitgauge.catalog import tables

_FIRST_YEAR = 2019
_UNKNOWN = "2023-01"
"""Month of a model whose name is not listed: as if it were old."""


def release_month(model_id: str) -> int:
    """Return the months from January 2019 to a model's release, by the longest listed part of its
    name."""
    name = model_id.rpartition("/")[2].lower()
    parts = [part for part in load() if part in name]
    year, month = load().get(max(parts, key=len, default=""), _UNKNOWN).split("-")
    return (int(year) - _FIRST_YEAR) * 12 + int(month) - 1


@cache
def load() -> MappingProxyType[str, str]:
    """Return the months by parts of names, read once."""
    return MappingProxyType({part: month for part, month, _ in tables.rows("model_releases")})
