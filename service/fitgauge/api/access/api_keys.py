"""API keys: long random texts, of which only SHA-256 hashes are stored.

A plain hash is enough, since 256 random bits cannot be guessed; passwords would need a slow one.
"""

import hashlib
import logging
import re
import secrets
import time
from collections.abc import Callable, Mapping
from hmac import compare_digest
from pathlib import Path

from fitgauge.api.access.caller import InvalidAccessError

KEY_START = "fg_"
NAME = re.compile(r"[A-Za-z0-9._@-]{1,64}")
MOST_KEYS = 1000
"""each is compared with each key that is sent: together less than a millisecond"""
LONGEST_KEY = 256
_LARGEST_FILE = 256 * 1024
_LOOK_SECONDS = 5.0
_LINE = re.compile(r"(?P<name>\S+)\s+(?P<hash>[0-9a-f]{64})")

_log = logging.getLogger("fitgauge.access")


def new_key() -> str:
    """Return a new API key of 256 random bits."""
    return KEY_START + secrets.token_urlsafe(32)


def key_hash(key: str) -> str:
    """Return the SHA-256 hash of a key, in hexadecimal."""
    return hashlib.sha256(key.encode()).hexdigest()


class ApiKeys:
    """The keys of a file, read again within 5 s after it changes. A name may have several keys,
    so that a new one is handed out before the old one is removed."""

    def __init__(self, path: Path, clock: Callable[[], float] = time.monotonic) -> None:
        """Read the file. Raise InvalidAccessError."""
        self._path = path
        self._clock = clock
        self._stamp = _stamp(path)
        self._names = _read(path)
        self._looked = clock()

    def name_of(self, key: str) -> str | None:
        """Return whose key it is, None for an unknown one, in the same time for both."""
        self._look()
        digest = key_hash(key) if len(key) <= LONGEST_KEY else ""
        name = None
        for stored, owner in self._names.items():
            if compare_digest(stored, digest):
                name = owner
        return name

    def _look(self) -> None:
        """Read the file again where it changed; one that cannot be used leaves the keys as they
        are."""
        now = self._clock()
        if now - self._looked < _LOOK_SECONDS:
            return
        self._looked = now
        try:
            stamp = _stamp(self._path)
            if stamp != self._stamp:
                self._names = _read(self._path)
                self._stamp = stamp
        except InvalidAccessError as error:
            _log.error("%s The keys in force stay.", error.detail)


def _stamp(path: Path) -> tuple[int, int, int]:
    """Return what changes with a file."""
    try:
        status = path.stat()
    except OSError as error:
        raise _unusable(f"{path}: {error.strerror}.") from None
    return status.st_mtime_ns, status.st_size, status.st_ino


def _read(path: Path) -> Mapping[str, str]:
    """Return the names by hash. Raise InvalidAccessError; it quotes nothing of the file, which may
    hold a key by mistake."""
    try:
        with path.open("rb") as file:
            content = file.read(_LARGEST_FILE + 1)
        text = content.decode()
    except OSError as error:
        raise _unusable(f"{path}: {error.strerror}.") from None
    except UnicodeDecodeError:
        raise _unusable(f"{path} is not text.") from None
    names: dict[str, str] = {}
    for number, line in enumerate(text.splitlines(), 1):
        plain = line.partition("#")[0].strip()
        if not plain:
            continue
        match = _LINE.fullmatch(plain)
        if match is None or not NAME.fullmatch(match["name"]):
            raise _unusable(f"{path}, line {number}, is not a name and a SHA-256 hash.")
        names[match["hash"]] = match["name"]
    if len(names) > MOST_KEYS or len(content) > _LARGEST_FILE:
        raise _unusable(f"{path} holds more than {MOST_KEYS} keys.")
    return names


def _unusable(detail: str) -> InvalidAccessError:
    return InvalidAccessError(detail, hint="`fitgauge key new NAME` prints a key and its line.")
