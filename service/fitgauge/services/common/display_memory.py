"""What a desktop may hold of a GPU that drives a screen, in every question alike."""

import re

from fitgauge.engine.accelerator import Accelerator
from fitgauge.engine.note import Note
from fitgauge.engine.quantity import GIB, gib

_DESKTOP = int(2.6 * GIB)
"""The most that a desktop was seen to hold of a GPU: tools/accuracy/serving.jsonl, v229 (a
GeForce that drove a screen)."""

_WITH_SCREENS = re.compile(r"(?:GTX|RX|Arc) |RTX \d{4}(?! Ada)|.* Laptop")
"""Names of GPUs that usually drive a screen too: GeForce, Radeon and Arc, and all of laptops."""


def drives_screens(accelerator: Accelerator) -> bool:
    """Return whether it is of a kind that people put in desktops."""
    return _WITH_SCREENS.match(accelerator.name) is not None


def desktop_note(spare: int) -> Note | None:
    """Return a warning where `spare` bytes of such a GPU are less than what a desktop may hold;
    None where there is nothing to warn of."""
    if not 0 <= spare < _DESKTOP:
        return None
    return Note(
        "other-memory-uncounted",
        "other_memory_gib",
        f"Memory of a desktop or another process is not counted: beyond {gib(spare)} this would"
        " not fit. Send `other_memory_gib`.",
    )
