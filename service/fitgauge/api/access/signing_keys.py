"""The public keys of an identity provider (RFC 7517), from a file or by URL."""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import httpx
import jwt
import msgspec
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicKey

from fitgauge.api.access.caller import AccessError

FRESH_SECONDS = 300.0
"""How long keys are used before they are read again."""
RETRY_SECONDS = 30.0
"""Between two readings, also where a token names an unknown key: callers who make up key ids
cannot make the service ask the provider more often."""
STALE_SECONDS = 3600.0
"""How long keys are used while the provider does not answer."""
MOST_KEYS = 100
_LARGEST = 256 * 1024
_LEAST_RSA_BITS = 2048
_TIMEOUT_SECONDS = 5.0

Jwk = dict[str, Any]
_DECODER = msgspec.json.Decoder(dict[str, list[Jwk] | Any])
_log = logging.getLogger("fitgauge.access")


class SigningKeys:
    """The keys by id, read when they are first needed, then from time to time."""

    def __init__(
        self,
        source: str,
        clock: Callable[[], float] = time.monotonic,
        read: Callable[[], Awaitable[bytes]] | None = None,
    ) -> None:
        """source: an address, or a file. read: replaces reading it."""
        self._source = source
        self._clock = clock
        self._read = read or self._fetch
        self._keys: dict[str, Jwk] = {}
        self._bound: dict[tuple[str, str], jwt.PyJWK] = {}
        self._read_at = self._tried_at = float("-inf")
        self._lock = asyncio.Lock()

    async def find(self, kid: str | None, algorithm: str) -> jwt.PyJWK | None:
        """Return the key of this id for an algorithm, None where there is none. Without an id:
        the only key there is. Raise AccessError 503 where no keys can be read."""
        if not self._is_fresh() or not self._has(kid):
            await self._refresh(kid)
        if self._clock() - self._read_at > STALE_SECONDS:
            raise AccessError(
                503,
                "signing-keys-unavailable",
                "The identity provider's keys cannot be read.",
                "Ask again in 30 s.",
                retry_after=round(RETRY_SECONDS),
            )
        if not self._has(kid):
            return None
        name = next(iter(self._keys)) if kid is None else kid
        return self._bind(name, algorithm)

    def _bind(self, kid: str, algorithm: str) -> jwt.PyJWK | None:
        """Return a key for one algorithm alone, None where it is not for that."""
        if (kid, algorithm) in self._bound:
            return self._bound[kid, algorithm]
        jwk = self._keys[kid]
        if jwk.get("alg", algorithm) != algorithm:
            return None
        try:
            key = jwt.PyJWK(jwk, algorithm)
        except (jwt.PyJWTError, ValueError, TypeError):
            return None
        if isinstance(key.key, RSAPublicKey) and key.key.key_size < _LEAST_RSA_BITS:
            return None
        self._bound[kid, algorithm] = key
        return key

    def _has(self, kid: str | None) -> bool:
        return len(self._keys) == 1 if kid is None else kid in self._keys

    def _is_fresh(self) -> bool:
        return self._clock() - self._read_at < FRESH_SECONDS

    async def _refresh(self, kid: str | None) -> None:
        """Read the keys, once for all who wait, and not more often than RETRY_SECONDS."""
        async with self._lock:
            if self._is_fresh() and self._has(kid):
                return
            now = self._clock()
            if now - self._tried_at < RETRY_SECONDS:
                return
            self._tried_at = now
            try:
                self._keys = public_keys(await self._read())
            except (OSError, ValueError, httpx.HTTPError, httpx.InvalidURL) as error:
                _log.error("The signing keys cannot be read: %s", type(error).__name__)
                return
            self._bound.clear()
            self._read_at = now

    async def _fetch(self) -> bytes:
        if not self._source.startswith(("http://", "https://")):
            return await asyncio.to_thread(_read_file, Path(self._source))
        async with (
            httpx.AsyncClient(timeout=_TIMEOUT_SECONDS, follow_redirects=False) as http,
            http.stream("GET", self._source) as response,
            asyncio.timeout(2 * _TIMEOUT_SECONDS),
        ):
            response.raise_for_status()
            content = bytearray()
            async for chunk in response.aiter_bytes():
                content += chunk
                if len(content) > _LARGEST:
                    raise ValueError("too large")
            return bytes(content)


def _read_file(path: Path) -> bytes:
    with path.open("rb") as file:
        return file.read(_LARGEST + 1)


def public_keys(content: bytes) -> dict[str, Jwk]:
    """Return the keys of a JWK set that may sign tokens, by id. Raise ValueError where it is none.

    Left out: shared secrets (`oct`), with which anybody who knows a public key could sign, private
    keys, and keys for encryption."""
    try:
        keys = _DECODER.decode(content).get("keys")
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise ValueError("not a JWK set") from error
    if not isinstance(keys, list) or len(keys) > MOST_KEYS:
        raise ValueError("not a JWK set")
    return {
        str(key.get("kid", "")): key
        for key in keys
        if isinstance(key, dict)
        and key.get("kty") in ("RSA", "EC", "OKP")
        and key.get("use", "sig") == "sig"
        and "d" not in key
    }
