"""The GPUs that a text means."""

from collections import Counter

import msgspec

from fitgauge.engine.accelerator import Accelerator
from fitgauge.engine.note import Note


class GpuMatch(msgspec.Struct, frozen=True):
    """A resolved name: so many GPUs, of one kind unless `unlike` holds several."""

    accelerator: Accelerator
    """The GPU."""
    count: int
    """How many of them."""
    note: str | None = None
    """What was assumed, if anything."""
    others: tuple[Accelerator, ...] = ()
    """Accelerators that the text may mean as well."""
    quota: int | None = None
    """How many of these may be used at once; None for no limit."""
    unlike: tuple[Accelerator, ...] = ()
    """Every GPU by itself where they are of several kinds; then `accelerator` is the smallest."""

    @property
    def id(self) -> str:
        """The id of the GPU; the ids of all kinds where they are of several."""
        return "+".join(dict.fromkeys(gpu.id for gpu in self.unlike or (self.accelerator,)))

    @property
    def name(self) -> str:
        """The name of the GPU; with numbers where they are of several kinds."""
        return self.unlike_name or self.accelerator.name

    @property
    def unlike_name(self) -> str:
        """'2 x RTX 4090 + RTX 3060 12GB'; empty for GPUs of one kind."""
        counts = Counter(gpu.name for gpu in self.unlike)
        return " + ".join(
            f"{count} x {name}" if count > 1 else name for name, count in counts.items()
        )

    @property
    def warnings(self) -> list[Note]:
        """What was assumed, as a warning on `gpu`."""
        return [Note("gpu-read-as", "gpu", self.note)] if self.note else []
