"""What was fetched before: in memory for the warm path, on disk for the next start, and failures
for a while."""

import copy
import gc
import hashlib
import logging
import os
import stat
import sys
import tempfile
from collections import OrderedDict
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from types import BuiltinFunctionType, FunctionType, ModuleType

import msgspec

from fitgauge.engine.model.model import Model
from fitgauge.errors import FitgaugeError, HubError
from fitgauge.hub.metadata import RepoMetadata, model_of
from fitgauge.hub.reference import Reference

SCHEMA = 2
"""Raise it when Facts change their meaning: older files are then ignored."""
MAX_FILE = 8 * 2**20
"""bytes of a file that is read: more than the bounded bodies of one resolve come to"""
MAX_FAILURES = 4096

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class CachedModel:
    """A resolved model in memory."""

    facts: RepoMetadata
    """The metadata it came from."""
    model: Model
    """The model."""
    weight: int
    """Bytes that both take."""

    @classmethod
    def of(cls, facts: RepoMetadata) -> "CachedModel":
        """Read the Facts. Raise MalformedModelError, ModelWithoutWeightsError. Not for the event
        loop."""
        model = model_of(facts)
        return cls(facts, model, deep_size(facts, model))


_SHARED = (type, ModuleType, FunctionType, BuiltinFunctionType, Enum)


def deep_size(*roots: object) -> int:
    """Return the bytes of the objects and of all they refer to, each once."""
    counted: set[int] = set()
    waiting = list(roots)
    size = 0
    while waiting:
        item = waiting.pop()
        if id(item) not in counted and not isinstance(item, _SHARED):
            counted.add(id(item))
            size += sys.getsizeof(item)
            waiting += gc.get_referents(item)
    return size


class Memory:
    """The answers used last, at most `entries` of them and `size` bytes with all that they hold."""

    def __init__(self, entries: int, size: int) -> None:
        self._entries = entries
        self._size = size
        self.held_bytes = 0
        self.hits = 0
        self.misses = 0
        self._items: OrderedDict[Reference, CachedModel] = OrderedDict()

    def __len__(self) -> int:
        return len(self._items)

    def get(self, reference: Reference) -> CachedModel | None:
        """Return what is known of it, which now was used last."""
        item = self._items.get(reference)
        if item is None:
            self.misses += 1
        else:
            self.hits += 1
            self._items.move_to_end(reference)
        return item

    def put(self, reference: Reference, item: CachedModel) -> None:
        """Add it, and drop what was not used for longest where there is too much."""
        self.forget(reference)
        self._items[reference] = item
        self.held_bytes += item.weight
        while len(self._items) > self._entries or (
            self.held_bytes > self._size and len(self._items) > 1
        ):
            _, oldest = self._items.popitem(last=False)
            self.held_bytes -= oldest.weight

    def forget(self, reference: Reference) -> None:
        """Drop it, if it is there."""
        if (item := self._items.pop(reference, None)) is not None:
            self.held_bytes -= item.weight


class NegativeCache:
    """Failures of single repositories, each until its moment. `clock`: monotonic seconds."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._items: OrderedDict[Reference, tuple[FitgaugeError, float]] = OrderedDict()

    def __len__(self) -> int:
        """Return the number of failures, also of those whose moment has passed."""
        return len(self._items)

    def get(self, reference: Reference) -> FitgaugeError | None:
        """Return the error to give at once. A HubError says when the Hub is asked again."""
        error, until = self._items.get(reference, (None, 0.0))
        if error is None:
            return None
        left = until - self._clock()
        if left <= 0:
            del self._items[reference]
            return None
        return error.later(left) if isinstance(error, HubError) else copy.copy(error)

    def put(self, reference: Reference, error: FitgaugeError, seconds: float) -> None:
        """Remember a failure, as a copy: the error itself refers to frames, and they to bodies."""
        self._items[reference] = copy.copy(error), self._clock() + seconds
        self._items.move_to_end(reference)
        if len(self._items) > MAX_FAILURES:
            self._items.popitem(last=False)

    def forget(self, reference: Reference) -> None:
        """Drop it: the repository was read."""
        self._items.pop(reference, None)


class _File(msgspec.Struct, frozen=True):
    """A file of the disk cache."""

    schema: int
    """Version of this layout."""
    endpoint: str
    """The Hub it came from; the file's name is only a hash of it and `reference`."""
    reference: str
    """What was resolved."""
    facts: RepoMetadata
    """The metadata of the repository."""


class Disk:
    """One file for every endpoint and reference, none at all without a folder.

    At most `files` files of `size` bytes together. Files are replaced whole, so that a killed
    process leaves none half written.
    """

    def __init__(self, folder: Path | None, endpoint: str, files: int, size: int) -> None:
        self._folder = folder
        self._endpoint = endpoint
        self._files = files
        self._size = size
        self._decoder = msgspec.msgpack.Decoder(_File)

    def name(self, reference: Reference) -> str:
        """Return the file that holds its Facts."""
        return (
            f"{hashlib.sha256(f'{self._endpoint} {reference}'.encode()).hexdigest()[:40]}.msgpack"
        )

    def read(self, reference: Reference) -> RepoMetadata | None:
        """Return its Facts, None where there are none that can be read."""
        if self._folder is None:
            return None
        try:
            file = self._decoder.decode(_regular_file(self._folder / self.name(reference)))
        except (OSError, msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            return None
        ours = (
            file.schema == SCHEMA
            and file.endpoint == self._endpoint
            and file.reference == str(reference)
        )
        return file.facts if ours else None

    def write(self, reference: Reference, facts: RepoMetadata) -> None:
        """Keep them. A disk that cannot be written to is logged and costs nothing but the cache."""
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
        """Drop them, if they are there."""
        if self._folder is not None:
            with suppress(OSError):
                (self._folder / self.name(reference)).unlink()

    def _prune(self, folder: Path) -> None:
        """Delete the files written longest ago beyond the bounds.

        A killed process may have left some unfinished; another process may delete at the same time.
        """
        files = []
        with os.scandir(folder) as entries:
            for entry in entries:
                if entry.name.endswith((".msgpack", ".part")):
                    with suppress(OSError):
                        status = entry.stat(follow_symlinks=False)
                        if not stat.S_ISDIR(status.st_mode):
                            files.append((status.st_mtime, status.st_size, entry.path))
        count, size = len(files), sum(size for _, size, _ in files)
        for _, length, path in sorted(files):
            if count <= self._files and size <= self._size:
                break
            Path(path).unlink(missing_ok=True)
            count, size = count - 1, size - length


def _regular_file(path: Path) -> bytes:
    """Return the content of a regular file of at most MAX_FILE bytes, else raise OSError.

    Opening never waits: a FIFO is opened without a writer, and then not read.
    """
    handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    with os.fdopen(handle, "rb") as file:
        status = os.fstat(handle)
        if not stat.S_ISREG(status.st_mode) or status.st_size > MAX_FILE:
            raise OSError(f"{path} is not a regular file of at most {MAX_FILE} bytes")
        return file.read(MAX_FILE)
