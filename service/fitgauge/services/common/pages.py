"""Pages of lists: 20 items by default, and never more than a caller can read."""

from collections.abc import Callable, Iterable
from typing import Annotated, TypeVar

import msgspec
from msgspec import Meta

from fitgauge.field_docs import doc

PAGE_ITEMS = 20
"""Items of a page where no `limit` is sent."""

PAGE_CHARACTERS = 70_000
"""Of the items of one page as JSON. Tool hosts refuse answers above 100,000; the rest is left for
what stands around the items."""

PageLimit = Annotated[
    Annotated[int, Meta(ge=1, le=1000)] | None, doc("Items of a page. Default 20.")
]
PageOffset = Annotated[Annotated[int, Meta(ge=0, le=1_000_000)] | None, doc("Items to skip.")]
NextOffset = Annotated[
    int | None,
    doc(
        "The `offset` of the next page; null on the last. A page ends where an answer would"
        " grow too long."
    ),
]

_Item = TypeVar("_Item")
_Row = TypeVar("_Row")


def encoded_characters(value: object) -> int:
    """Return the length of a value as JSON [bytes, at least its characters]."""
    return len(msgspec.json.encode(value))


def take_page(
    rows: Iterable[_Row],
    limit: int | None,
    offset: int | None,
    total: int,
    build: Callable[[_Row], _Item],
) -> tuple[list[_Item], int | None]:
    """Return the items of a page and the offset of the next page, None where there is none.

    rows: those from `offset` on. build: makes the item of a row, called for those shown. A page
    has `limit` items, or as many as fit into PAGE_CHARACTERS, at least one."""
    items: list[_Item] = []
    characters = 0
    for _, row in zip(range(limit or PAGE_ITEMS), rows, strict=False):
        item = build(row)
        characters += encoded_characters(item)
        if items and characters > PAGE_CHARACTERS:
            break
        items.append(item)
    following = (offset or 0) + len(items)
    return items, following if items and following < total else None
