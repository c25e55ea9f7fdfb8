"""GPUs named by their memory: "24GB" is a GPU sold with 24 GB, "24GiB" exactly that; and how near a
size is to a row of the catalog."""

import re
from collections.abc import Iterable, Mapping, Sequence
from statistics import median_low

from msgspec import structs

from fitgauge.catalog.gpu_names import Size, Spelling
from fitgauge.engine.accelerator import Accelerator, custom
from fitgauge.engine.quantity import GB, GIB, Bytes, gib

_BOX_VENDORS = ("NVIDIA", "AMD", "Intel")
"""Vendors of graphics GPUs, whose GB on the box are GiB less what the driver and ECC hold."""

_SAME = 0.01
"""Share of the memory within which two sizes are one."""

_MEMORY_IN_NAME = re.compile(r"\s*\b\d+ ?GB\b")
"""What the names of a GPU's memory variants differ in."""


def sold_with(size: Size, rows: Iterable[Accelerator]) -> tuple[Accelerator, ...]:
    """Return the GPU that a size alone means, and the same with the least and the most that
    GPUs sold with this size give a process, where these differ.

    Of a size that no GPU has, the usable memory lies between those of its neighbours."""
    if size.unit.endswith("ib"):
        return (custom(size.bytes, str(size)),)
    gpus = [row for row in rows if _is_sold_by_size(row)]
    if not gpus:
        return (custom(size.bytes, str(size)),)
    amount = size.gigabytes * GB
    sold: dict[int, list[Accelerator]] = {}
    for row in sorted(gpus, key=lambda row: (row.usable.expected, row.id)):
        sold.setdefault(row.marketed_bytes, []).append(row)
    usable, usual = _usable(amount, {marketed: _usual(rows) for marketed, rows in sold.items()})
    gpu = custom(round(amount), str(size), usable, tuple(row.id for row in usual))
    same = next((rows for marketed, rows in sold.items() if abs(marketed / amount - 1) < _SAME), ())
    return gpu, *_extremes(gpu, same)


def _usual(gpus: Sequence[Accelerator]) -> Accelerator:
    """Return the GPU whose usable memory is the median."""
    usable = median_low(row.usable.expected for row in gpus)
    return next(row for row in gpus if row.usable.expected == usable)


def _usable(amount: float, usual: Mapping[int, Accelerator]) -> tuple[int, list[Accelerator]]:
    """Return what is usable of so many bytes on the box, and the GPUs it follows from: in
    proportion between the two nearest sizes that are sold, beyond all of them as of the last."""
    below = max((size for size in usual if size <= amount), default=None)
    above = min((size for size in usual if size >= amount), default=None)
    if below is None or above is None or below == above:
        nearest = max(size for size in (below, above) if size is not None)
        return int(usual[nearest].usable.expected * amount / nearest), [usual[nearest]]
    low, high = usual[below].usable.expected, usual[above].usable.expected
    share = (amount - below) / (above - below)
    return int(low + share * (high - low)), [usual[below], usual[above]]


def _extremes(gpu: Accelerator, gpus: Sequence[Accelerator]) -> Iterable[Accelerator]:
    """Yield the GPU with the usable memory of the first and the last of `gpus`, named by them."""
    for row in (*gpus[:1], *gpus[-1:]):
        usable = row.usable.expected
        if abs(usable / gpu.usable.expected - 1) > _SAME:
            yield structs.replace(
                gpu,
                name=f"{gpu.name} like {row.name} ({gib(usable)} usable)",
                usable=Bytes(low=usable, expected=usable, high=usable),
                derived_from=(row.id,),
            )


def _is_sold_by_size(row: Accelerator) -> bool:
    """Return whether people mean this kind of GPU by its size: no slice, laptop or unified
    memory, and none that its vendor never sold."""
    return (
        row.vendor in _BOX_VENDORS
        and not row.unified_memory
        and not row.id.startswith("mig-")
        and " Laptop" not in row.name
        and "(modded)" not in row.name
    )


def note(gpu: Accelerator) -> str:
    """Return what is usable of a GPU named by its size alone."""
    usable, size = gpu.usable.expected, gpu.marketed_bytes
    if not gpu.derived_from:
        return f"A GPU of {size:,} bytes, all of them usable."
    return (
        f"A GPU sold with {size / GB:g} GB: {usable / GIB:.1f} GiB of it are usable, the median of"
        " such GPUs. Send GiB for an exact size."
    )


def largest_first(rows: list[Accelerator]) -> list[Accelerator]:
    """Return the rows with the memory variants of the likeliest one first, the largest ahead where
    memory is the machine's; of GPUs that have memory of their own the table says which is
    commoner."""
    if len(rows) < 2 or not rows[0].unified_memory:
        return rows
    product = _MEMORY_IN_NAME.sub("", rows[0].name)
    variants = [row for row in rows if _MEMORY_IN_NAME.sub("", row.name) == product]
    variants.sort(key=lambda row: -row.marketed_bytes)
    return variants + [row for row in rows if row not in variants]


def sizes_as_words(spelling: Spelling) -> frozenset[str]:
    """Return sizes as patterns spell those that tell two GPUs of one name apart: "48gb" in RTX
    4090 48GB."""
    return frozenset(f"{size.gigabytes:g}gb" for size in spelling.sizes)


def size_distance(row: Accelerator, sizes: list[Size]) -> float:
    """Return how far the sizes of a text lie from those of a row, as a share; 0 where the text
    names none."""
    sold_as = [row.marketed_bytes / GB]
    if row.total_bytes is not None:
        sold_as.append(row.total_bytes / GIB)
    if row.vendor != "Apple":  # Metal's limit on a 64 GB Mac is 48 GiB, the size of another Mac
        sold_as.append(row.usable.expected / GIB)
    return max(
        (min(abs(size.gigabytes - one) / one for one in sold_as) for size in sizes), default=0.0
    )
