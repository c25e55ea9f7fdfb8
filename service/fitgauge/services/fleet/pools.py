"""The GPUs of a fleet: what a copy of a model may take of them, and their price."""

import re
from typing import NamedTuple

from fitgauge.catalog.catalog import Catalog
from fitgauge.engine.accelerator import Accelerator, most_gpus
from fitgauge.services.common.kubernetes import node_size
from fitgauge.services.fleet.schemas import GpuEntry, PoolAnswer

_COUNT = re.compile(r"^\s*\d+\s*[x×*]\s*(?=\S)", re.IGNORECASE)
_ONE = re.compile(r"^\s*(?:1\s*[x×*]|one\b)", re.IGNORECASE)
"""A count of one, which a name without a count does not say."""

MOST_PER_COPY = 16
"""GPUs of one copy at most."""


class Pool(NamedTuple):
    """GPUs of one kind."""

    name: str
    """What rows call them."""
    title: str
    """What the file calls them."""
    accelerator: Accelerator
    """The GPU."""
    available: int | None
    """How many there are; None for no bound."""
    per_machine: int
    """GPUs of a machine."""
    usd_per_hour: float | None
    """Price of one GPU [USD/h]."""
    as_of: str | None
    """Date of the catalog's price; None for the file's own."""
    counts: tuple[int, ...]
    """How many a copy may take, ascending: each divides the next, so that copies fill machines
    without gaps."""

    def paid(self, machines: int) -> int:
        """Return the GPUs of so many machines: they are paid whole, and no more than there are."""
        return min(machines * self.per_machine, self.available or machines * self.per_machine)

    @property
    def answer(self) -> PoolAnswer:
        """The pool as it is answered."""
        return PoolAnswer(
            name=self.name,
            gpu=self.accelerator.name,
            count=self.available,
            per_machine=self.per_machine,
            usd_per_hour=self.usd_per_hour,
            as_of=self.as_of,
        )


def kind(name: str) -> str:
    """Return what rows call GPUs without the count in it: "H100" of "16x H100"."""
    return _COUNT.sub("", name)


def pool_of(entry: GpuEntry, catalog: Catalog) -> Pool:
    """Return the GPUs of an entry; those of so many machines where it names one of a cloud. Raises
    UnknownAcceleratorError."""
    match = catalog.find(entry.gpu)
    accelerator = match.accelerator
    offer = next(iter(catalog.offers.named(kind(entry.gpu))), None)
    is_counted = match.count > 1 or _ONE.match(entry.gpu)
    count = entry.count or (match.count if is_counted else None)
    if entry.count and offer:
        count = entry.count * offer.count
    if match.quota is not None:
        count = match.quota if count is None else min(count, match.quota)
    per_machine = entry.per_machine or (offer.count if offer else node_size(accelerator, None))
    usd_per_hour, as_of = entry.usd_per_hour, None
    if usd_per_hour is None and offer and offer.usd_per_hour_low is not None:
        usd_per_hour, as_of = offer.usd_per_hour_low / offer.count, offer.as_of
    elif usd_per_hour is None and (price := catalog.offers.card_hour(accelerator.id)) is not None:
        usd_per_hour, as_of = price.usd_per_hour_low, price.as_of
    most = most_gpus(accelerator, MOST_PER_COPY)
    counts = _counts(per_machine, most if count is None else min(most, count))
    name = f"{accelerator.name} ({entry.title})" if offer and not entry.name else entry.title
    return Pool(name, entry.title, accelerator, count, per_machine, usd_per_hour, as_of, counts)


def _counts(per_machine: int, most: int) -> tuple[int, ...]:
    """Return powers of two that divide a machine, the machine, and its doubles, up to `most`."""
    counts = []
    count = 1
    while count <= most:
        counts.append(count)
        if count >= per_machine or per_machine % (2 * count) == 0:
            count *= 2
        else:
            count = per_machine
    return tuple(counts)
