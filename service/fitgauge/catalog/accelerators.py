"""The accelerators of the catalog: data/accelerators.jsonl, one row a line, a source for every
fact.

A new one needs a line there, in the order of ids, and a line in data/accelerator_names.tsv,
where people's names for it stand."""

from collections.abc import Iterator, Mapping
from functools import cache
from types import MappingProxyType
from typing import NamedTuple

from fitgauge.catalog import tables
from fitgauge.engine.accelerator import Accelerator
from fitgauge.errors import UnknownAcceleratorError


class Pattern(NamedTuple):
    """One way to write an accelerator."""

    needed: frozenset[str]
    """Words that must stand in the text."""
    allowed: frozenset[str]
    """Words that may."""
    accelerator: Accelerator
    """The accelerator that these words mean."""


class Accelerators(NamedTuple):
    """The accelerators of a catalog."""

    by_id: Mapping[str, Accelerator]
    """In the order of their ids."""
    patterns: tuple[Pattern, ...]
    """Ways to write them, the commoner reading first."""

    def get(self, accelerator_id: str) -> Accelerator:
        """Return the accelerator of this id. Raises UnknownAcceleratorError."""
        try:
            return self.by_id[accelerator_id]
        except KeyError:
            raise UnknownAcceleratorError(
                f"Unknown accelerator id {accelerator_id!r}.",
                hint="GET /v1/gpus lists all accelerators.",
                field="gpu",
            ) from None

    def all(self) -> tuple[Accelerator, ...]:
        """Return every accelerator, ordered by id."""
        return tuple(self.by_id.values())


@cache
def load() -> Accelerators:
    """Return those that are bundled, read once; unknown fields, missing ones and wrong types are
    refused."""
    by_id = {row.id: row for row in tables.records("accelerators", Accelerator)}
    return Accelerators(by_id=MappingProxyType(by_id), patterns=tuple(_patterns(by_id)))


def _patterns(by_id: Mapping[str, Accelerator]) -> Iterator[Pattern]:
    """Yield the lines of data/accelerator_names.tsv: an id, then patterns, where a [word] may be
    left out."""
    for accelerator_id, *spellings in tables.rows("accelerator_names"):
        for spelling in spellings:
            words = spelling.split()
            needed = frozenset(word for word in words if not word.startswith("["))
            yield Pattern(
                needed, frozenset(word.strip("[]") for word in words), by_id[accelerator_id]
            )
