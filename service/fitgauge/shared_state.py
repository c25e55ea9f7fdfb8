"""State that replicas share: a Litestar store on Valkey or Redis, bounded in time, and left aside
where it does not answer. Only a service that shares state imports this module."""

import asyncio
import hashlib
import logging
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from time import monotonic
from typing import TypeVar

from litestar.stores.valkey import ValkeyStore
from valkey.asyncio import Valkey
from valkey.asyncio.lock import Lock
from valkey.asyncio.retry import Retry
from valkey.backoff import NoBackoff
from valkey.exceptions import ConnectionError as LostConnectionError
from valkey.exceptions import LockError

from fitgauge.redaction import redacted

T = TypeVar("T")

ANSWER_SECONDS = 0.25
"""The longest that the store is waited for."""
CLAIM_SECONDS = 1.0
"""How long a claim outlives a replica that was killed."""
PING_SECONDS = 1.0
"""How often the store is looked for."""

_TAKE = """
local time = redis.call('TIME')
local now = time[1] + time[2] / 1e6
local rate, quota, weight = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3])
local midnight = (math.floor(now / 86400) + 1) * 86400
if quota > 0 and tonumber(redis.call('GET', KEYS[2]) or 0) >= quota then
  return {'day', tostring(midnight - now)}
end
if rate > 0 then
  local busy = math.max(tonumber(redis.call('GET', KEYS[1]) or 0) - now, 0)
  local wait = busy - (math.max(rate, 1) - 1) / rate
  if wait > 1e-6 then
    return {'second', tostring(wait)}
  end
  busy = busy + weight / rate
  redis.call('SET', KEYS[1], string.format('%.6f', now + busy), 'PX', math.ceil(busy * 1000))
end
if quota > 0 then
  redis.call('INCRBY', KEYS[2], weight)
  redis.call('EXPIREAT', KEYS[2], midnight)
end
return {'', '0'}
"""
"""Counts a request by the server's clock, all at once: a token bucket as TokenBucket is one, held
as the moment at which it is full again, and a number that ends with the day."""

_TLS = ("rediss", "valkeys")
_logger = logging.getLogger("fitgauge.shared_state")


class _BoundedStore(ValkeyStore):
    """Litestar's store, which reads values up to a limit alone."""

    async def get_up_to(self, key: str, limit: int) -> bytes | None:
        """Return a value; None where there is none, or more than `limit` bytes."""
        value: bytes = await self._valkey.getrange(self._make_key(key), 0, limit)
        return value if 0 < len(value) <= limit else None


class ValkeyState:
    """The state at one address. Where it fails once it is left aside, until it answers a ping:
    no request waits for it a second time."""

    def __init__(self, url: str) -> None:
        """url: redis://, valkey://, with TLS rediss:// or valkeys://, or unix://."""
        tls = {"ssl_check_hostname": True} if url.startswith(_TLS) else {}
        self._valkey = Valkey.from_url(
            url,
            socket_timeout=ANSWER_SECONDS,
            socket_connect_timeout=ANSWER_SECONDS,
            max_connections=64,
            retry=Retry(NoBackoff(), 1, (LostConnectionError,)),
            **tls,
        )
        self._store = _BoundedStore(self._valkey, "FITGAUGE")
        self._take = self._valkey.register_script(_TAKE)
        self.is_up = False
        self.failure = "It has not answered yet."
        """Why it is left aside."""
        self._warned = False
        self.operations: Counter[str] = Counter()
        """Number of operations by outcome: ok, failed, or skipped while it is left aside."""

    async def follow(self) -> None:
        """Look for the store for as long as the service runs."""
        while True:
            started = monotonic()
            await self._attempt(self._valkey.ping, is_ping=True)
            await asyncio.sleep(max(0.0, PING_SECONDS - (monotonic() - started)))

    async def close(self) -> None:
        """Close all connections."""
        with suppress(Exception):
            await self._valkey.aclose(close_connection_pool=True)

    async def get(self, key: str, limit: int) -> bytes | None:
        """Return a value; None where there is none, or more than `limit` bytes."""
        return await self._attempt(lambda: self._store.get_up_to(key, limit))

    async def put(self, key: str, value: bytes, seconds: int) -> None:
        """Store a value for some seconds."""
        await self._attempt(lambda: self._store.set(key, value, expires_in=seconds))

    async def forget(self, key: str) -> None:
        """Drop a value."""
        await self._attempt(lambda: self._store.delete(key))

    async def take(
        self, caller: str, per_second: float, per_day: int, weight: int
    ) -> tuple[str, float] | None:
        """Count a request of a caller as `weight`, for all replicas.

        Return the limit that it is beyond (day or second, empty for none) and the seconds until
        it may pass; None where the store is away."""
        digest = hashlib.sha256(caller.encode()).hexdigest()[:40]
        keys = [f"FITGAUGE:caller:{{{digest}}}:{name}" for name in ("rate", "day")]
        taken = await self._attempt(
            lambda: self._take(keys=keys, args=[per_second, per_day, weight])
        )
        if taken is None:
            return None
        limit, wait = taken
        return limit.decode(), float(wait)

    @asynccontextmanager
    async def claim(self, key: str) -> AsyncIterator[bool]:
        """Hold a claim, renewed until the context ends; False where another replica has it. Where
        the store is away it is granted."""
        lock = Lock(self._valkey, f"FITGAUGE:claim:{key}", CLAIM_SECONDS, thread_local=False)
        taken = await self._attempt(lambda: lock.acquire(blocking=False))
        if not taken:
            yield taken is None
            return
        renewing = asyncio.create_task(self._renew(lock))
        try:
            yield True
        finally:
            renewing.cancel()
            await self._attempt(lambda: _release(lock))

    async def _renew(self, lock: Lock) -> None:
        while True:
            await asyncio.sleep(CLAIM_SECONDS / 3)
            await self._attempt(lambda: _extend(lock))

    async def _attempt(self, ask: Callable[[], Awaitable[T]], *, is_ping: bool = False) -> T | None:
        """Return what the store answers; None where it does not, or is left aside."""
        if not (self.is_up or is_ping):
            self.operations["skipped"] += 1
            return None
        try:
            async with asyncio.timeout(2 * ANSWER_SECONDS):
                answer = await ask()
        except Exception as error:  # whatever the store does, the service answers
            self.operations["failed"] += 1
            self._leave(error)
            return None
        if is_ping:
            self._return()
        else:
            self.operations["ok"] += 1
        return answer

    def _leave(self, error: Exception) -> None:
        self.is_up = False
        self.failure = redacted(f"{type(error).__name__}: {error}")[:200]
        if not self._warned:
            self._warned = True
            warning = "The shared state does not answer, this replica goes on alone: %s"
            _logger.warning(warning, self.failure)

    def _return(self) -> None:
        if not self.is_up:
            self.is_up, self._warned = True, False
            _logger.info("The shared state answers.")


async def _release(lock: Lock) -> None:
    with suppress(LockError):  # it ran out, and another replica may have it
        await lock.release()


async def _extend(lock: Lock) -> None:
    with suppress(LockError):
        await lock.extend(CLAIM_SECONDS, replace_ttl=True)
