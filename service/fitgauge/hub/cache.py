"""Facts that were fetched before: in memory for the warm path, on disk for the next start."""

import hashlib
import logging
import os
import tempfile
from collections import OrderedDict
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import msgspec

from fitgauge.engine.architecture import Model
from fitgauge.errors import FitgaugeError
from fitgauge.hub.facts import Facts
from fitgauge.hub.reference import Reference

SCHEMA = 1
"""Raise it when Facts change their meaning: older files are then ignored."""

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Known:
    """An answer in memory, and the Facts it came from."""

    facts: Facts
    model: Model


@dataclass(frozen=True)
class Refused:
    """A repository that gave an error, remembered until a moment."""

    error: FitgaugeError
    until: float


class Memory:
    """The answers used last, at most `entries` of them and `size` bytes of their texts."""

    def __init__(self, entries: int, size: int) -> None:
        self._entries = entries
        self._size = size
        self._held = 0
        self._items: OrderedDict[Reference, Known | Refused] = OrderedDict()

    def __len__(self) -> int:
        return len(self._items)

    def get(self, reference: Reference) -> Known | Refused | None:
        """What is known of it, and now was used last."""
        item = self._items.get(reference)
        if item is not None:
            self._items.move_to_end(reference)
        return item

    def put(self, reference: Reference, item: Known | Refused) -> None:
        """Keeps it, and forgets what was not used for longest where there is too much."""
        self.forget(reference)
        self._items[reference] = item
        self._held += _weight(item)
        while len(self._items) > self._entries or (self._held > self._size and len(self._items) > 1):
            _, oldest = self._items.popitem(last=False)
            self._held -= _weight(oldest)

    def forget(self, reference: Reference) -> None:
        """Drops it, if it is there."""
        if (item := self._items.pop(reference, None)) is not None:
            self._held -= _weight(item)


def _weight(item: Known | Refused) -> int:
    return item.facts.weight if isinstance(item, Known) else 512


class _File(msgspec.Struct, frozen=True):
    """A file of the disk cache. Endpoint and reference are kept inside too: the name is only their hash."""

    schema: int
    endpoint: str
    reference: str
    facts: Facts


class Disk:
    """One file for every endpoint and reference, none at all without a folder.

    Files are replaced whole, so that a killed process leaves none half written.
    """

    def __init__(self, folder: Path | None, endpoint: str, limit: int) -> None:
        self._folder = folder
        self._endpoint = endpoint
        self._limit = limit
        self._decoder = msgspec.msgpack.Decoder(_File)

    def name(self, reference: Reference) -> str:
        """The file that holds its Facts."""
        return f"{hashlib.sha256(f'{self._endpoint} {reference}'.encode()).hexdigest()[:40]}.msgpack"

    def read(self, reference: Reference) -> Facts | None:
        """Its Facts, None where there are none that can be read."""
        if self._folder is None:
            return None
        try:
            file = self._decoder.decode((self._folder / self.name(reference)).read_bytes())
        except (OSError, msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            return None
        ours = file.schema == SCHEMA and file.endpoint == self._endpoint and file.reference == str(reference)
        return file.facts if ours else None

    def write(self, reference: Reference, facts: Facts) -> None:
        """Keeps them. A disk that cannot be written to is logged and costs nothing but the cache."""
        if self._folder is None:
            return
        content = msgspec.msgpack.encode(_File(SCHEMA, self._endpoint, str(reference), facts))
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
            handle, name = tempfile.mkstemp(dir=self._folder, suffix=".part")
            try:
                with os.fdopen(handle, "wb") as file:
                    file.write(content)
                Path(name).replace(self._folder / self.name(reference))
            except BaseException:
                Path(name).unlink(missing_ok=True)
                raise
            self._prune(self._folder)
        except OSError as error:
            logger.warning("The Hub cache in %s cannot be written: %s", self._folder, error)

    def forget(self, reference: Reference) -> None:
        """Drops them, if they are there."""
        if self._folder is not None:
            with suppress(OSError):
                (self._folder / self.name(reference)).unlink()

    def _prune(self, folder: Path) -> None:
        """Deletes the files written longest ago beyond the limit; a killed process may have left some unfinished."""
        files = sorted((path.stat().st_mtime, path) for path in folder.iterdir() if path.suffix in (".msgpack", ".part"))
        for _, path in files[: max(len(files) - self._limit, 0)]:
            path.unlink(missing_ok=True)
