"""A company's own catalog as it lies on disk: a file, or a folder such as a mounted ConfigMap;
read at the start and when it changes."""

import asyncio
import hashlib
import logging
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from fitgauge.catalog.catalog import Catalog
from fitgauge.catalog.overlay import overlay
from fitgauge.catalog.overlay_file import LARGEST, SUFFIXES, OverlayFile, parse, refused
from fitgauge.errors import InvalidCatalogError

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Loaded:
    """A catalog as it was read."""

    catalog: Catalog
    """The catalog."""
    files: tuple[str, ...]
    """The files it came from."""
    digest: str
    """SHA-256 of these files."""
    at: float
    """When they were read [seconds since 1970]."""


@dataclass(frozen=True)
class Refused:
    """Files on disk that are not in force."""

    error: InvalidCatalogError
    """Why."""
    at: float
    """Since when [seconds since 1970]."""


class OverlayReload:
    """The own catalog at `path`, over `ours`. `current` is in force; `refused` is None unless a
    later one could not be used."""

    def __init__(self, path: Path, ours: Catalog, clock: Callable[[], float] = time.time) -> None:
        """Read it. Raises InvalidCatalogError where it cannot be used: there is no older one to
        keep."""
        self._path = path
        self._ours = ours
        self._clock = clock
        self._stamp: object = self._stamp_now()
        self.current = self._read()
        self.refused: Refused | None = None

    async def follow(self, seconds: float, use: Callable[[Catalog], object]) -> None:
        """Look every so many seconds, and hands over each catalog that comes into force. Goes on
        until it is cancelled."""
        while True:
            await asyncio.sleep(seconds)
            news = await asyncio.to_thread(self._look)
            if isinstance(news, Refused):
                self.refused = news
                logger.error(
                    "The catalog overlay was refused, the previous one stays in force: %s %s",
                    news.error.detail,
                    news.error.hint,
                )
            elif news is not None:
                self.current, self.refused = news, None
                use(news.catalog)
                logger.info(
                    "The catalog overlay was reloaded: %s, sha256 %s",
                    ", ".join(news.files),
                    news.digest,
                )

    def _look(self) -> Loaded | Refused | None:
        """Return what the files hold that lie there now; None where they are those of the last
        look. Reads files: not for an event loop."""
        stamp = self._stamp_now()
        if stamp == self._stamp:
            return None
        self._stamp = stamp
        try:
            return self._read()
        except InvalidCatalogError as error:
            return Refused(error, self._clock())

    def _read(self) -> Loaded:
        contents = [(path.name, _bytes(path)) for path in _files(self._path)]
        if sum(len(raw) for _, raw in contents) > LARGEST:
            raise refused(self._path.name, "", f"more than {LARGEST} bytes in all.")
        files: Sequence[tuple[str, OverlayFile]] = [
            (name, parse(name, raw)) for name, raw in contents
        ]
        digest = hashlib.sha256(
            b"\0".join(part for name, raw in contents for part in (name.encode(), raw))
        ).hexdigest()
        return Loaded(
            overlay(self._ours, files), tuple(name for name, _ in contents), digest, self._clock()
        )

    def _stamp_now(self) -> object:
        """Return what differs where a file was written, or a link set to another."""
        try:
            stats = [(path.name, path.stat()) for path in _files(self._path)]
        except (OSError, InvalidCatalogError) as error:
            return str(error)
        return [
            (name, stat.st_dev, stat.st_ino, stat.st_mtime_ns, stat.st_size) for name, stat in stats
        ]


def _files(path: Path) -> list[Path]:
    """Return the files at `path`: itself, or those of the folder in the order of their names,
    hidden ones left out."""
    try:
        if not path.is_dir():
            listed = [path]
        else:
            listed = sorted(
                one
                for one in path.iterdir()
                if one.suffix in SUFFIXES and not one.name.startswith(".") and one.is_file()
            )
    except OSError as error:
        raise refused(path.name, "", f"{error.strerror}.") from None
    if not listed:
        raise refused(path.name, "", "a folder without a .toml or .json file.")
    return listed


def _bytes(path: Path) -> bytes:
    if path.suffix not in SUFFIXES:
        raise refused(path.name, "", f"the name of an overlay must end in {' or '.join(SUFFIXES)}.")
    try:
        with path.open("rb") as file:
            return file.read(LARGEST + 1)
    except OSError as error:
        raise refused(path.name, "", f"{error.strerror}.") from None
