"""Quantities of Kubernetes and Compose."""

import re

from fitgauge.services.manifests.yaml_text import Text

_QUANTITY = re.compile(r"(?P<number>\d{1,15}(?:\.\d{1,6})?)\s?(?P<unit>[kKMGTPE]?i?)[bB]?")
_COUNT = re.compile(r"[0-9]{1,6}")
_SCALES = {unit: 1000**power for power, unit in enumerate(("", "k", "M", "G", "T", "P", "E"))}
_SCALES |= {
    f"{unit}i": 1024**power for power, unit in enumerate(("", "K", "M", "G", "T", "P", "E"))
}


def bytes_of(quantity: Text | None) -> int | None:
    """Return a quantity of Kubernetes or Compose [bytes]; None where it is none."""
    match = _QUANTITY.fullmatch(quantity.strip()) if quantity is not None else None
    if match is None:
        return None
    return int(
        float(match["number"]) * _SCALES[match["unit"].replace("K", "k").replace("ki", "Ki")]
    )


def count_of(text: str | None) -> int | None:
    """Return a number of things below a million; None where a text is none."""
    return int(text) if text is not None and _COUNT.fullmatch(text) else None
