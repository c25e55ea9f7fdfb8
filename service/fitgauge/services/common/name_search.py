"""Names of models and GPUs that hold what somebody is typing."""

from collections.abc import Callable, Iterable
from typing import Annotated

from msgspec import Struct

from fitgauge.engine.accelerator import Accelerator
from fitgauge.field_docs import doc

MOST = 20
"""Names of each kind in an answer."""


class Names(Struct, kw_only=True):
    """Names that hold every word of a search, the shortest first."""

    models: Annotated[list[str], doc("Ids of bundled models.")]
    gpus: Annotated[list[str], doc("Names of GPUs.")]
    hub: Annotated[
        list[str],
        doc(
            "With `hub`: ids of other models that the Hub lists, the most downloaded first;"
            " empty offline and where it does not answer in time."
        ),
    ] = []


def search_names(text: str, models: Iterable[str], gpus: Iterable[Accelerator]) -> Names:
    """Return the names that hold every word of `text`."""
    matches = word_match(text.replace("/", " "))
    return Names(
        models=_shortest(name for name in models if matches(name)),
        gpus=_shortest(gpu.name for gpu in gpus if matches(f"{gpu.vendor} {gpu.name}")),
    )


def word_match(search: str | None) -> Callable[[str], bool]:
    """Return a test of whether a name holds every word of `search`, in any order and case; None
    is in every name."""
    words = (search or "").lower().split()
    return lambda name: all(word in name.lower() for word in words)


def _shortest(names: Iterable[str]) -> list[str]:
    return sorted(set(names), key=lambda name: (len(name), name))[:MOST]
