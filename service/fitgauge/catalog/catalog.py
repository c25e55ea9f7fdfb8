"""The Catalog: what may be asked about and chosen from. One value, handed to whoever asks; a
reload makes another."""

from collections.abc import Mapping
from functools import cache
from types import MappingProxyType

from msgspec import structs

from fitgauge.catalog import accelerators, instances
from fitgauge.catalog.accelerators import Accelerators, Pattern
from fitgauge.catalog.instances import Offers
from fitgauge.catalog.lookup import GpuMatch, Lookup
from fitgauge.engine.accelerator import Accelerator

Names = Mapping[str, tuple[Accelerator, int]]
"""Clean texts (see spelling.clean) that mean so many cards."""

Quotas = Mapping[str, int]
"""How many cards of an id may be used."""

_NO_OFFERS = Offers(())
_NO_NAMES: Names = MappingProxyType({})
_NO_QUOTAS: Quotas = MappingProxyType({})


class Catalog:
    """Accelerators, how people call them, where they are rented, and how many may be used.
    Nothing in it ever changes."""

    def __init__(
        self,
        rows: Accelerators,
        offers: Offers = _NO_OFFERS,
        names: Names = _NO_NAMES,
        quotas: Quotas = _NO_QUOTAS,
    ) -> None:
        self.offers = offers
        self.names = names
        self.quotas = quotas
        self._rows = rows
        self._lookup = Lookup(rows, offers, names)

    def find(self, text: str) -> GpuMatch:
        """Return the accelerator and the count that `text` means. See Lookup.find, also for what
        it raises."""
        found = self._lookup.find(text)
        quota = self.quota(found.accelerator)
        return found if quota is None else structs.replace(found, quota=quota)

    def all(self) -> tuple[Accelerator, ...]:
        """Return every accelerator, ordered by id."""
        return self._rows.all()

    @property
    def patterns(self) -> tuple[Pattern, ...]:
        """Ways to write them, the commoner reading first."""
        return self._rows.patterns

    def unlimited(self) -> "Catalog":
        """Return the same without quotas."""
        return Catalog(self._rows, self.offers, self.names)

    def quota(self, accelerator: Accelerator) -> int | None:
        """Return how many of these may be used at once, None where nobody limits them."""
        return self.quotas.get(accelerator.id)


@cache
def bundled() -> Catalog:
    """Ours, without a company's own."""
    return Catalog(accelerators.load(), instances.load())
