"""Apply catalog overlays: GPUs, names, prices and quotas."""

import math
from collections.abc import Iterator, Mapping, Sequence
from datetime import date
from types import MappingProxyType
from typing import Any

import msgspec

from fitgauge.catalog.accelerators import Accelerators
from fitgauge.catalog.catalog import Catalog, Names
from fitgauge.catalog.gpu_names import clean
from fitgauge.catalog.instances import Offer, Offers
from fitgauge.catalog.overlay_file import OverlayFile, OverlayInstance, place, refused
from fitgauge.engine.accelerator import Accelerator
from fitgauge.errors import FitgaugeError

CLOUD = "own"
"""The cloud name of prices of single GPUs."""

_ANY_SIZE = tuple(range(1, 73))
"""A price of one GPU holds for any count within a node."""

_LARGEST_NUMBER = 2**53
_LONGEST_TEXT = 500


def overlay(ours: Catalog, files: Sequence[tuple[str, OverlayFile]]) -> Catalog:
    """Return `ours` with `files` (name, contents) applied in order. Raise InvalidCatalogError,
    which names file, row and field."""
    rows = _accelerators(ours, files)
    plain = Catalog(rows)
    names = _names(plain, files)
    named = Catalog(rows, names=names)
    return Catalog(rows, _offers(named, ours.offers, files), names, _quotas(named, files))


def _accelerators(ours: Catalog, files: Sequence[tuple[str, OverlayFile]]) -> Accelerators:
    """Ours, changed, and new ones, in the order of their ids; where a file says `only`, those
    alone that have a row."""
    bundled = {row.id: row for row in ours.all()}
    own: dict[str, Accelerator] = {}
    for file, contents in files:
        for number, row in enumerate(contents.accelerators, 1):
            fields: dict[str, Any] = msgspec.to_builtins(row)
            where = place("accelerators", number, fields["id"])
            if fields["id"] in own:
                raise refused(file, where, "id: duplicate of another row.")
            own[fields["id"]] = _accelerator(bundled, fields, file, where)
    merged = own if any(contents.only for _, contents in files) else bundled | own
    if not merged:
        raise refused(files[0][0], "", "only: true needs at least one row of accelerators.")
    patterns = tuple(
        pattern._replace(accelerator=merged[pattern.accelerator.id])
        for pattern in ours.patterns
        if pattern.accelerator.id in merged
    )
    return Accelerators(by_id=MappingProxyType(dict(sorted(merged.items()))), patterns=patterns)


def _accelerator(
    bundled: Mapping[str, Accelerator], own: dict[str, Any], file: str, where: str
) -> Accelerator:
    """Return one row: over ours of that id, else a new one."""
    base = bundled.get(own["id"])
    if isinstance(usable := own.get("usable"), int):
        own |= {"usable": {"low": usable, "expected": usable, "high": usable}}
    if "usable" in own:
        own = {"usable_basis": "exact", "derived_from": (), **own}
    changed = [
        [name, f"{file}: {where}"]
        for name in own
        if name not in ("id", "sources", "usable_basis", "derived_from")
    ]
    sources = []
    if base:
        sources = [source for source in msgspec.to_builtins(base.sources) if source[0] not in own]
    merged = {**(msgspec.to_builtins(base) if base else {}), "sources": [*sources, *changed], **own}
    vendors = {row.vendor.lower(): row.vendor for row in bundled.values()}
    if isinstance(vendor := merged.get("vendor"), str):
        merged["vendor"] = vendors.get(vendor.lower(), vendor)
    _bounded(merged, file, where)
    try:
        return msgspec.convert(merged, Accelerator)
    except msgspec.ValidationError as error:
        hint = (
            "A new GPU needs name, vendor, marketed_bytes and usable; to change a bundled one"
            " send its id."
        )
        if base:
            hint = ""
        raise refused(file, where, f"{error}.", hint) from None


def _bounded(row: Mapping[str, Any], file: str, where: str) -> None:
    """Refuse what no GPU has: numbers below zero, beyond 2^53 or not finite, sizes of nothing,
    endless texts, empty intervals."""
    for path, value in _leaves(row):
        field = path.partition(".")[0]
        if isinstance(value, str) and not 0 < len(value) <= _LONGEST_TEXT:
            raise refused(file, where, f"{path}: a text of {len(value)} characters.")
        if isinstance(value, int | float) and not (
            math.isfinite(value) and 0 <= value <= _LARGEST_NUMBER
        ):
            raise refused(file, where, f"{path}: {value} is out of range.")
        if field in ("marketed_bytes", "usable", "total_bytes") and value == 0:
            raise refused(file, where, f"{path}: 0 bytes.")
    usable = row.get("usable")
    if isinstance(usable, dict) and not usable["low"] <= usable["expected"] <= usable["high"]:
        raise refused(file, where, "usable: low, expected and high must ascend.")


def _leaves(value: Any, path: str = "") -> Iterator[tuple[str, Any]]:  # noqa: ANN401 - whatever a row holds
    """Yield every number and text of a row, with its path."""
    if isinstance(value, Mapping):
        for name, inner in value.items():
            yield from _leaves(inner, f"{path}.{name}" if path else name)
    elif isinstance(value, list | tuple):
        for inner in value:
            yield from _leaves(inner, path)
    else:
        yield path, value


def _names(catalog: Catalog, files: Sequence[tuple[str, OverlayFile]]) -> Names:
    """Return the overlay's names, each with its GPU and count."""
    names: dict[str, tuple[Accelerator, int]] = {}
    for file, contents in files:
        for name, meaning in contents.names.items():
            where = f"names, {name!r}"
            try:
                key = clean(name)
            except FitgaugeError as error:
                raise refused(file, where, error.detail, error.hint) from None
            if key in names:
                raise refused(file, where, "named twice.")
            names[key] = _meant(catalog, meaning, file, where)
    return names


def _quotas(catalog: Catalog, files: Sequence[tuple[str, OverlayFile]]) -> dict[str, int]:
    """Return the maximum usable GPUs by id."""
    quotas: dict[str, int] = {}
    for file, contents in files:
        for name, most in contents.quotas.items():
            accelerator = _one(catalog, name, file, f"quotas, {name!r}")
            if accelerator.id in quotas:
                raise refused(file, f"quotas, {name!r}", f"{accelerator.name} has a quota already.")
            quotas[accelerator.id] = most
    return quotas


def _offers(catalog: Catalog, ours: Offers, files: Sequence[tuple[str, OverlayFile]]) -> Offers:
    """Ours of the GPUs that are left, without those that a company's own replace, and these."""
    own: dict[tuple[str, str], Offer] = {}
    priced: set[str] = set()
    for file, contents in files:
        for name, price in contents.prices.items():
            where = f"prices, {name!r}"
            accelerator = _one(catalog, name, file, where)
            if accelerator.id in priced:
                raise refused(file, where, f"{accelerator.name} has a price already.")
            priced.add(accelerator.id)
            instance = OverlayInstance(
                cloud=CLOUD, instance=accelerator.id, accelerator=name, count=1, usd_per_hour=price
            )
            offer = _offer(instance, accelerator, contents.as_of, file, where)
            own[CLOUD, accelerator.id] = msgspec.structs.replace(offer, sizes=_ANY_SIZE)
        for number, row in enumerate(contents.instances, 1):
            where = place("instances", number, row.instance)
            key = row.cloud.lower(), row.instance.lower()
            if key in own:
                raise refused(file, where, f"{row.cloud} has another of this name.")
            own[key] = _offer(
                row, _one(catalog, row.accelerator, file, where), contents.as_of, file, where
            )
    left = {row.id for row in catalog.all()} - priced
    bundled_offers = [
        row
        for row in ours.all()
        if row.accelerator_id in left and (row.cloud, row.instance.lower()) not in own
    ]
    return Offers([*bundled_offers, *own.values()])


def _offer(
    row: OverlayInstance, accelerator: Accelerator, as_of: date | None, file: str, where: str
) -> Offer:
    if row.usd_per_hour is not None and as_of is None:
        raise refused(
            file,
            where,
            "the price has no date.",
            "Set the date of the prices: as_of = 2026-01-31 at the top of the file.",
        )
    return Offer(
        cloud=row.cloud.lower(),
        instance=row.instance,
        accelerator_id=accelerator.id,
        count=row.count,
        source=f"{file}: {where}",
        vcpus=row.vcpus,
        memory_gib=row.memory_gib,
        usd_per_hour_low=row.usd_per_hour,
        usd_per_hour_high=row.usd_per_hour,
        as_of=as_of.isoformat() if as_of and row.usd_per_hour is not None else None,
    )


def _one(catalog: Catalog, text: str, file: str, where: str) -> Accelerator:
    """Return the one GPU that a text means."""
    accelerator, count = _meant(catalog, text, file, where)
    if count != 1:
        raise refused(
            file, where, f"{text!r} means {count} GPUs.", ("Name one GPU, without a count.")
        )
    return accelerator


def _meant(catalog: Catalog, text: str, file: str, where: str) -> tuple[Accelerator, int]:
    """Return the GPU and the count that a text means for certain."""
    try:
        match = catalog.find(text)
    except FitgaugeError as error:
        raise refused(file, where, error.detail, error.hint, error.matches) from None
    if match.note is not None:
        raise refused(
            file, where, f"{text!r} is ambiguous: {match.note}", "Send the id of the GPU."
        )
    return match.accelerator, match.count
