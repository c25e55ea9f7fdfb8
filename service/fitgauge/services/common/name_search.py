"""Names of models and GPUs that hold what somebody is typing."""

from collections.abc import Iterable
from typing import Annotated

from msgspec import Meta, Struct

from fitgauge.engine.accelerator import Accelerator

MOST = 20
"""Names of each kind in an answer."""


class Names(Struct, kw_only=True):
    """Names that hold every word of a search, the shortest first."""

    models: Annotated[list[str], Meta(description="Ids of bundled models.")]
    gpus: Annotated[list[str], Meta(description="Names of GPUs.")]


def search_names(text: str, models: Iterable[str], gpus: Iterable[Accelerator]) -> Names:
    """Return the names that hold every word of `text`."""
    words = text.lower().replace("/", " ").split()
    return Names(
        models=_holding(words, ((name, name) for name in models)),
        gpus=_holding(words, ((f"{gpu.vendor} {gpu.name}", gpu.name) for gpu in gpus)),
    )


def _holding(words: list[str], names: Iterable[tuple[str, str]]) -> list[str]:
    """names: what is searched, and what is answered for it."""
    matches = {name for searched, name in names if all(word in searched.lower() for word in words)}
    return sorted(matches, key=lambda name: (len(name), name))[:MOST]
