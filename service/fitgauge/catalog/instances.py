"""Where accelerators are rented: data/instances.jsonl, one instance type of a cloud a line, with a
source and, where priced, a date.

Prices are dated facts, not quotes: the lowest and the highest on-demand price over the regions
that the source lists."""

import re
from collections.abc import Collection, Iterable, Mapping
from functools import cache
from itertools import groupby
from types import MappingProxyType

import msgspec

from fitgauge.catalog import tables
from fitgauge.engine.accelerator import USUAL_NODE

CLOUD_NAMES = {
    "amazon": "aws", "amazonwebservices": "aws", "ec2": "aws", "sagemaker": "aws", "google": "gcp",
    "googlecloud": "gcp",
    "googlecloudplatform": "gcp", "gce": "gcp", "microsoft": "azure", "microsoftazure": "azure",
    "oracle": "oci", "oraclecloud": "oci",
    "lambdalabs": "lambda", "aliyun": "alibaba", "alibabacloud": "alibaba", "huaweicloud": "huawei",
    "tencentcloud": "tencent",
    "volcano": "volcengine", "datacrunch": "verda",
}  # fmt: skip
"""Other names of clouds, in small letters without anything between
them."""

_FILLERS = frozenset({
    "a", "an", "cloud", "instance", "instances", "labs", "machine", "machines", "node", "nodes",
    "series", "server", "tpu", "vm", "vms",
})  # fmt: skip

_SEPARATORS = re.compile(r"[\s._-]+")
_SERIES = re.compile(r"Standard_(?P<line>N[CD])\d+(?P<letters>[a-z]*)_(?:\w+_)?(?P<version>v\d+)")
"""A size of Azure: https://learn.microsoft.com/azure/virtual-machines/vm-naming-conventions."""

_FAMILY = re.compile(
    r"([a-z]+\d\w*(?:-b\d+)?)\.|([a-z]\d-\w+)-|Standard_([A-Z]+)\d+[a-z]*(_\w+_v\d)$"
)
"""What machines of AWS, GCP and Azure that differ in size alone share: g5 of g5.12xlarge,
a3-highgpu of a3-highgpu-8g, ND_MI300X_v5 of Standard_ND96isr_MI300X_v5."""

_LEFT_OUT = re.compile(r"^(?:standard[ _-]|ecs\.|ml\.)")
"""What clouds write before some names, and people leave out or add."""


class Offer(msgspec.Struct, frozen=True, kw_only=True, gc=False, forbid_unknown_fields=True):
    """One instance type of a cloud: accelerators of one kind in one machine.
    What the source does not state is None."""

    cloud: str
    """In lower case (`aws`)."""
    instance: str
    """The cloud's own name (`p5.48xlarge`)."""
    accelerator_id: str
    """Id of its accelerators."""
    count: int
    """How many of them a machine holds."""
    source: str
    """Where the row comes from."""
    vcpus: int | None = None
    """Virtual CPUs of the machine."""
    memory_gib: float | None = None
    """Memory of the host [GiB]."""
    usd_per_hour_low: float | None = None
    """The whole machine on demand in its cheapest region [USD/h]."""
    usd_per_hour_high: float | None = None
    """The same in its dearest region [USD/h]."""
    as_of: str | None = None
    """Date of the prices (YYYY-MM-DD)."""
    regions: int | None = None
    """Number of regions they were read in."""
    sizes: tuple[int, ...] = ()
    """Where the cloud prices one GPU and its machines hold several: how many, ascending; else
    empty."""


class Rental(msgspec.Struct, frozen=True, gc=False):
    """So many machines of one offer as hold the accelerators; a machine is paid whole."""

    offer: Offer
    """The instance type."""
    nodes: int
    """Number of machines."""
    count: int
    """Accelerators in all of them."""

    @property
    def usd_per_hour_low(self) -> float | None:
        """All its machines in the cheapest region [USD an hour]."""
        return self._all(self.offer.usd_per_hour_low)

    @property
    def usd_per_hour_high(self) -> float | None:
        """All its machines in the dearest region [USD an hour]."""
        return self._all(self.offer.usd_per_hour_high)

    def _all(self, usd_per_hour: float | None) -> float | None:
        return None if usd_per_hour is None else usd_per_hour * (self.count / self.offer.count)


def rental(offer: Offer, count: int, node: int) -> Rental | None:
    """Return the machines of one offer that hold `count` accelerators; None where one of them holds
    less than a node of the deployment.

    node: accelerators that share a machine. Layers split over machines that are smaller would
    meet over a network, so they do not match a request for that many accelerators."""
    largest = offer.sizes[-1] if offer.sizes else offer.count
    if largest < min(count, node):
        return None
    if count > largest:
        machines = -(-count // largest)
        return Rental(offer, machines, machines * largest)
    return Rental(offer, 1, next(size for size in offer.sizes or (offer.count,) if size >= count))


class PriceRange(msgspec.Struct, frozen=True, gc=False):
    """What accelerators cost on demand: the cheapest rental of every cloud, over clouds and
    regions."""

    count: int
    """Number of accelerators."""
    usd_per_hour_low: float
    """Lowest price [USD/h]."""
    usd_per_hour_high: float
    """Highest price [USD/h]."""
    as_of: str
    """The oldest date among the prices (YYYY-MM-DD)."""
    clouds: tuple[str, ...]
    """Those with a price, the cheapest first."""


def price_range(count: int, rentals: Collection[Rental]) -> PriceRange | None:
    """Return what `count` accelerators cost where they are rented out so, the cheapest first;
    None where no price is known."""
    priced = [each for each in rentals if each.usd_per_hour_low is not None]
    if not priced:
        return None
    return PriceRange(
        count=count,
        usd_per_hour_low=_price(priced[0]),
        usd_per_hour_high=max(each.usd_per_hour_high or 0.0 for each in priced),
        as_of=min(each.offer.as_of or "" for each in priced),
        clouds=tuple(each.offer.cloud for each in priced),
    )


class Offers:
    """Offers of clouds, found by accelerator or by name. Never changes."""

    __slots__ = ("_by_accelerator", "_by_name", "_clouds", "_families", "_rows", "newest")

    def __init__(self, rows: Iterable[Offer]) -> None:
        self._rows = tuple(rows)
        self.newest = max((row.as_of for row in self._rows if row.as_of), default=None)
        ordered = sorted(
            self._rows,
            key=lambda row: (row.accelerator_id, row.cloud, row.count, _price(row), row.instance),
        )
        self._by_accelerator: Mapping[str, tuple[tuple[Offer, ...], ...]] = MappingProxyType(
            {
                accelerator_id: tuple(
                    tuple(of_cloud) for _, of_cloud in groupby(of_one, key=lambda row: row.cloud)
                )
                for accelerator_id, of_one in groupby(ordered, key=lambda row: row.accelerator_id)
            }
        )
        by_name: dict[str, list[Offer]] = {}
        for row in self._rows:
            by_name.setdefault(_key(row.instance), []).append(row)
        for key, series in _series(self._rows).items():
            if len(series) == 1:
                by_name.setdefault(key, series)
        self._by_name: Mapping[str, tuple[Offer, ...]] = MappingProxyType(
            {key: tuple(named) for key, named in by_name.items()}
        )
        self._clouds = frozenset(row.cloud for row in self._rows)
        families: dict[str, list[Offer]] = {}
        for row in self._rows:
            if family := _FAMILY.match(row.instance):
                families.setdefault(_key("".join(filter(None, family.groups()))), []).append(row)
        alike = (
            rows for rows in families.items() if len({row.accelerator_id for row in rows[1]}) == 1
        )
        self._families: Mapping[str, Offer] = MappingProxyType(
            {key: rows[0] for key, rows in alike}
        )

    def all(self) -> tuple[Offer, ...]:
        """Return every offer, in the order of the file."""
        return self._rows

    def clouds(self) -> tuple[str, ...]:
        """Return every cloud, in the order of its name."""
        return tuple(sorted(self._clouds))

    def of(self, accelerator_id: str, clouds: Collection[str] | None = None) -> tuple[Offer, ...]:
        """Offers of an accelerator, by cloud, then by count, then the cheapest first; only those
        of `clouds`, where given."""
        return tuple(
            row for of_cloud in self._of_clouds(accelerator_id, clouds) for row in of_cloud
        )

    def named(self, text: str) -> tuple[Offer, ...]:
        """Offers that `text` names: "p5.48xlarge", "aws p4d.24xlarge", "ND96isr_H100_v5"; one
        for each cloud that uses the name."""
        key, clouds = self._read(text)
        return tuple(row for row in self._by_name.get(key, ()) if not clouds or row.cloud in clouds)

    def family(self, text: str) -> Offer | None:
        """Return one of the machines whose names begin with `text` ("g5", "a3-megagpu"), where
        all of these hold one kind of accelerator."""
        key, clouds = self._read(text)
        row = self._families.get(key)
        return row if row and (not clouds or row.cloud in clouds) else None

    def _read(self, text: str) -> tuple[str, set[str]]:
        """Return the key of the name in `text`, and the clouds named with it."""
        clouds, rest = set(), []
        for word in text.lower().replace("-series", "").split():
            cloud = CLOUD_NAMES.get(word, word)
            if cloud in self._clouds:
                clouds.add(cloud)
            elif word not in _FILLERS:
                rest.append(word)
        return _key(" ".join(rest)), clouds

    def rentals(
        self,
        accelerator_id: str,
        count: int,
        clouds: Collection[str] | None = None,
        node: int = USUAL_NODE,
    ) -> tuple[Rental, ...]:
        """Return how each cloud that has machines for it rents `count` accelerators out, the
        cheapest cloud first, those without a price last.

        Of a cloud: the fewest machines with the fewest accelerators that hold them, the cheapest
        where several do. node: see `rental`."""
        rentals = []
        for of_cloud in self._of_clouds(accelerator_id, clouds):
            held = [each for row in of_cloud if (each := rental(row, count, node)) is not None]
            if held:
                rentals.append(min(held, key=lambda each: (each.count, each.nodes, _price(each))))
        return tuple(sorted(rentals, key=lambda each: (_price(each), each.offer.cloud)))

    def price(
        self,
        accelerator_id: str,
        count: int,
        clouds: Collection[str] | None = None,
        node: int = USUAL_NODE,
    ) -> PriceRange | None:
        """Return what `count` accelerators cost over these clouds, None where no price is known.
        node: see `rental`."""
        return price_range(count, self.rentals(accelerator_id, count, clouds, node))

    def card_hour(self, accelerator_id: str) -> PriceRange | None:
        """Return what one GPU costs in the machine of each cloud that is the cheapest by the GPU,
        None where no price is known.

        The machine may have to be rented whole: see `price` for so many GPUs.
        """
        cheapest = []
        for of_cloud in self._of_clouds(accelerator_id, None):
            best = min(of_cloud, key=lambda row: _price(row) / row.count)
            if (
                best.usd_per_hour_low is not None
                and best.usd_per_hour_high is not None
                and best.as_of is not None
            ):
                cheapest.append(
                    (
                        best.usd_per_hour_low / best.count,
                        best.usd_per_hour_high / best.count,
                        best.as_of,
                        best.cloud,
                    )
                )
        if not cheapest:
            return None
        cheapest.sort()
        lows, highs, days, named = zip(*cheapest, strict=True)
        return PriceRange(
            count=1,
            usd_per_hour_low=lows[0],
            usd_per_hour_high=max(highs),
            as_of=min(days),
            clouds=named,
        )

    def _of_clouds(
        self, accelerator_id: str, clouds: Collection[str] | None
    ) -> tuple[tuple[Offer, ...], ...]:
        """Offers of an accelerator, one tuple for each cloud."""
        each = self._by_accelerator.get(accelerator_id, ())
        if clouds is None:
            return each
        return tuple(of_cloud for of_cloud in each if of_cloud[0].cloud in clouds)


def _series(rows: Iterable[Offer]) -> Mapping[str, list[Offer]]:
    """Return the machines of Azure's series as people call them: "ND H100 v5", "NDm A100 v4"."""
    series: dict[str, list[Offer]] = {}
    for row in rows:
        if match := _SERIES.fullmatch(row.instance):
            large = "m" if "m" in match["letters"] else ""
            gpu = row.accelerator_id.partition("-")[0]
            name = f"{match['line']}{large} {gpu} {match['version']}"
            series.setdefault(_key(name), []).append(row)
    return series


def _key(name: str) -> str:
    """Return a name without what people write in many ways: case, separators, the cloud's own
    prefix, xl for xlarge, v5e for v5litepod."""
    bare = _SEPARATORS.sub("", _LEFT_OUT.sub("", name.lower()))
    return re.sub(r"(?<=\d)xl$", "xlarge", bare.replace("v5litepod", "v5e"))


def _price(of: Offer | Rental) -> float:
    """Return the lowest price, with what has none behind all that have one."""
    return float("inf") if of.usd_per_hour_low is None else of.usd_per_hour_low


@cache
def load() -> Offers:
    """Return the offers, read once; unknown fields, missing ones and wrong types are refused."""
    return Offers(tables.records("instances", Offer))
