"""Names of GPUs and machines that are like one that the catalog does not have."""

from collections.abc import Iterable, Sequence

from fitgauge.catalog.instances import Offer
from fitgauge.engine.accelerator import Accelerator

_NEAR = 5
"""Near matches of an unknown name."""

_LOOKED_AT = 25
"""The most alike, of which as many are equally so."""

_LEAST = 50
"""Similarity in percent."""


def near_gpus(
    text: str,
    of_the_name: Sequence[Accelerator],
    accelerators: Iterable[Accelerator],
    offers: Iterable[Offer],
) -> tuple[str, ...]:
    """Return names like a clean text, at most five: those of `of_the_name` first, then by the
    letters in common, of equal ones that with the fewest slips of the finger (4900 is 4090)."""
    from rapidfuzz import fuzz, process  # of names that are not there alone
    from rapidfuzz.distance import OSA

    names = {row.name: row.name.lower() for row in accelerators} | {
        offer.instance: offer.instance.lower() for offer in offers if " " not in offer.instance
    }
    alike = process.extract(text, names, scorer=fuzz.QRatio, limit=_LOOKED_AT, score_cutoff=_LEAST)
    alike.sort(key=lambda match: (-match[1], OSA.distance(text, match[0])))
    ordered = [*(row.name for row in of_the_name), *(name for _, _, name in alike)]
    return tuple(dict.fromkeys(ordered))[:_NEAR]
