"""The Catalog: an immutable value. A reload makes another."""

from collections.abc import Mapping
from functools import cache
from types import MappingProxyType

from msgspec import structs

from fitgauge.catalog import accelerators, instances
from fitgauge.catalog.accelerators import Accelerators, Pattern
from fitgauge.catalog.gpu_match import GpuMatch
from fitgauge.catalog.instances import Offers
from fitgauge.catalog.lookup import Lookup
from fitgauge.engine.accelerator import Accelerator

Names = Mapping[str, tuple[Accelerator, int]]
"""Clean texts (see spelling.clean) that mean so many GPUs."""

Quotas = Mapping[str, int]
"""How many GPUs of an id may be used."""

_NO_OFFERS = Offers(())
_NO_NAMES: Names = MappingProxyType({})
_NO_QUOTAS: Quotas = MappingProxyType({})


class Catalog:
    """Accelerators, their names, cloud offers and quotas. Immutable."""

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
        """Return the accelerator and the count that `text` names. See Lookup.find, also for
        errors."""
        match = self._lookup.find(text)
        quota = self.quota(match.accelerator)
        return match if quota is None else structs.replace(match, quota=quota)

    def find_unlike(self, text: str) -> GpuMatch:
        """Return the same, also of GPUs of several kinds. See Lookup.find_unlike."""
        match = self._lookup.find_unlike(text)
        return match if match.unlike else self.find(text)

    def all(self) -> tuple[Accelerator, ...]:
        """Return every accelerator, ordered by id."""
        return self._rows.all()

    @property
    def date(self) -> str | None:
        """The newest date among its prices (YYYY-MM-DD); None where nothing is priced."""
        return self.offers.newest

    @property
    def patterns(self) -> tuple[Pattern, ...]:
        """Ways to write them, the commoner reading first."""
        return self._rows.patterns

    def unlimited(self) -> "Catalog":
        """Return the same without quotas."""
        return Catalog(self._rows, self.offers, self.names)

    def quota(self, accelerator: Accelerator) -> int | None:
        """Return how many of these may be used at once, None for no limit."""
        return self.quotas.get(accelerator.id)


@cache
def bundled() -> Catalog:
    """Return the bundled catalog, without overlays."""
    return Catalog(accelerators.load(), instances.load())
