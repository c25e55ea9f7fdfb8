"""The Catalog: what may be asked about and chosen from. One value, handed to whoever asks; a reload makes another."""

from collections.abc import Mapping
from functools import cache
from types import MappingProxyType

from fitgauge.catalog.accelerators import Accelerators, load
from fitgauge.catalog.lookup import Found, Lookup
from fitgauge.engine.accelerator import Accelerator

_NONE: Mapping[str, tuple[str, int]] = MappingProxyType({})


class Catalog:
    """Accelerators, and how people call them. Nothing in it ever changes."""

    def __init__(self, accelerators: Accelerators, names: Mapping[str, tuple[str, int]] = _NONE) -> None:
        """names: clean texts (see spelling.clean) that mean so many cards of an id."""
        self._accelerators = accelerators
        self._lookup = Lookup(accelerators, names)

    def find(self, text: str) -> Found:
        """The accelerator and the count that `text` means. See Lookup.find, also for what it raises."""
        return self._lookup.find(text)

    def all(self) -> tuple[Accelerator, ...]:
        """Every accelerator, ordered by id."""
        return self._accelerators.all()


@cache
def bundled() -> Catalog:
    """Ours, without a company's own."""
    return Catalog(load())
