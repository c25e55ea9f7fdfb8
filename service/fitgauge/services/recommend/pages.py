"""Pages of a Pareto set."""

from collections.abc import Callable, Sequence
from typing import TypeVar

from fitgauge.services.common.pages import take_page
from fitgauge.services.recommend.schemas import RecommendRequest

_Option = TypeVar("_Option")
_Item = TypeVar("_Item")


def page_of(
    request: RecommendRequest, front: Sequence[_Option], build: Callable[[_Option], _Item]
) -> tuple[list[_Item], int | None]:
    """Return the page that a request asks for and the offset of the next; empty where it asks for
    none. build: makes the item of an option."""
    if request.detail != "full" and request.limit is None and request.offset is None:
        return [], None
    return take_page(front[request.offset or 0 :], request.limit, request.offset, len(front), build)
