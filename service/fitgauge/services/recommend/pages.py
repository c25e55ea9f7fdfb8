"""Pages of a Pareto set."""

from collections.abc import Sequence
from typing import TypeVar

from fitgauge.services.recommend.schemas import RecommendRequest

_PAGE = 20

_Item = TypeVar("_Item")


def page_of(request: RecommendRequest, front: Sequence[_Item]) -> Sequence[_Item]:
    """Return the page that a request asks for; empty where it asks for none."""
    if request.detail != "full" and request.limit is None and request.offset is None:
        return ()
    start = request.offset or 0
    return front[start : start + (request.limit or _PAGE)]
