"""A list of many pages as one answer."""

from collections.abc import Callable
from typing import Any

WHOLE = 1000
"""The limit that asks a test's helper for all pages."""


def whole_list(ask: Callable[..., Any]) -> Callable[..., Any]:
    """Return `ask` with the items of all pages in the answer where the limit is WHOLE."""

    def answer(**fields: Any) -> Any:
        first = page = ask(**fields)
        while fields.get("limit") == WHOLE and page.next_offset is not None:
            page = ask(**fields | {"offset": page.next_offset})
            first.items = [*first.items, *page.items]
            first.training = [*first.training, *page.training]
            first.measurements = {**first.measurements, **page.measurements}
        return first

    return answer
