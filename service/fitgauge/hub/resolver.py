"""The Hub as the service sees it: a Reference in, a Model out, within the time a caller waits."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, ParamSpec, TypeVar

from fitgauge.engine.model.model import Model
from fitgauge.errors import (
    GatedModelError,
    HubError,
    HubUnreachableError,
    ModelError,
    UnknownModelError,
)
from fitgauge.hub.cache import CachedModel, Disk, Memory, NegativeCache
from fitgauge.hub.circuit_breaker import CircuitBreaker
from fitgauge.hub.fetch import MAX_DESCRIPTION, fetch
from fitgauge.hub.metadata import RepoMetadata
from fitgauge.hub.no_answer import late, not_running, offline
from fitgauge.hub.reference import Reference, of_caller
from fitgauge.hub.request_context import CALLERS_TOKEN
from fitgauge.hub.settings import HubSettings
from fitgauge.hub.shared import POLL_SECONDS, SharedModels, SharedState
from fitgauge.hub.siblings import LISTED, Listed, quantized_of, read_list
from fitgauge.hub.single_flight import SingleFlight, outcome
from fitgauge.hub.turns import Turns
from fitgauge.hub.watch import HubWatch, unwatched

if TYPE_CHECKING:
    from fitgauge.hub.client import Client, Params

P = ParamSpec("P")
T = TypeVar("T")

THREADS = 4
"""For the disk and the token; their own, so that a name server that hangs (asyncio's default
threads) cannot hold them up."""
READERS = 1
"""threads that parse what the Hub sends: a heavy text holds up neither disk nor token, and no
second one takes the interpreter from the event loop meanwhile"""


class Hub:
    """Resolves references. Lives in one event loop, between `start` and `close`.

    An answer comes from memory, else from disk, else from the Hub. One that is no longer fresh
    is given at once and checked in the background. `clock` gives seconds since 1970, `monotonic`
    seconds that only pass."""

    def __init__(
        self,
        settings: HubSettings | None = None,
        *,
        clock: Callable[[], float] = time.time,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._settings = settings = settings or HubSettings()
        self._clock = clock
        self._monotonic = monotonic
        self._memory = Memory(settings.cached_models, settings.cached_bytes)
        self._failures = NegativeCache(monotonic)
        self._breaker = CircuitBreaker(settings.outage_seconds, monotonic)
        concurrent = settings.concurrent_resolves
        self._flights: SingleFlight[Reference, Model]
        self._flights = SingleFlight(concurrent + settings.queued_resolves)
        self._turns = Turns(
            concurrent, settings.slow_resolves, settings.wait_seconds / 2, settings.flight_seconds
        )
        self._disk = Disk(
            settings.cache_dir, settings.endpoint, settings.stored_models, settings.stored_bytes
        )
        self._pool: ThreadPoolExecutor | None = None
        self._readers: ThreadPoolExecutor | None = None
        self._client: Client | None = None
        self._shared: SharedModels | None = None
        self.watch: HubWatch = unwatched
        """Takes the outcome and the seconds of each request to the Hub; set before `start`."""

    @property
    def settings(self) -> HubSettings:
        """The settings of the resolver."""
        return self._settings

    @property
    def memory(self) -> Memory:
        """The models in memory."""
        return self._memory

    @property
    def refusal(self) -> HubError | None:
        """Why the Hub is not asked at the moment; None where it is."""
        return self._breaker.refusal()

    @property
    def lookups_under_way(self) -> int:
        """Number of models that are being looked up."""
        return len(self._flights)

    @property
    def failures(self) -> int:
        """Number of repositories that are cached as missing, refused or broken."""
        return len(self._failures)

    @property
    def offline(self) -> bool:
        """Whether the Hub must not be asked."""
        return self._settings.offline

    def share(self, state: SharedState) -> SharedModels:
        """Resolve models once for all replicas on this state from now on."""
        self._shared = SharedModels(state, self._settings, self._clock)
        return self._shared

    async def start(self, *, ahead: bool = True) -> None:
        """Start the threads. ahead: import the transport too, which takes as long as an estimate
        from the shell, and open the session before a request waits for it; sends nothing."""
        self._pool = ThreadPoolExecutor(THREADS, thread_name_prefix="fitgauge-hub")
        self._readers = ThreadPoolExecutor(READERS, thread_name_prefix="fitgauge-hub-reader")
        if ahead and not self._settings.offline:
            self._connected().open()

    def _connected(self) -> Client:
        """Return the client, made where there is none yet. Raises HubUnreachableError where the
        resolver is not running."""
        if self._pool is None or self._readers is None:
            raise not_running()
        if self._client is None:
            from fitgauge.hub.client import Client

            self._client = Client(
                self._settings, self._breaker, self._pool, self._readers, self.watch
            )
        return self._client

    async def close(self) -> None:
        """End what is under way. What was fetched is on disk already."""
        await self._flights.close()
        if self._client is not None:
            await self._client.close()
        for pool in (self._pool, self._readers):
            if pool is not None:
                pool.shutdown(wait=False, cancel_futures=True)
        self._client = self._pool = self._readers = None

    def peek(self, reference: Reference) -> Model | None:
        """Return the Model, if it is in memory for this caller. Never waits; one that is no longer
        fresh is checked in the background."""
        model = self._peek(reference)
        if model is None and CALLERS_TOKEN.get():
            model = self._peek(of_caller(reference))
        return model

    def _peek(self, reference: Reference) -> Model | None:
        cached = self._memory.get(reference)
        if cached is None:
            return None
        if not self._is_fresh(reference, cached.facts):
            self.look_up_behind(reference, cached.facts)
        return cached.model

    async def resolve(self, reference: Reference) -> Model:
        """Return the Model behind a reference.

        Raises a ModelError for what the repository is, HubUnreachableError or HubBusyError where
        the Hub gives no answer within `wait_seconds`; the search may then go on in the
        background, so that a later call finds its result.

        A caller's own token is used for what the service itself may not see."""
        if (model := self.peek(reference)) is not None:
            return model
        try:
            return await self._resolve(reference)
        except (GatedModelError, UnknownModelError):
            own = of_caller(reference)
            if own == reference:
                raise
        return await self._resolve(own)

    async def _resolve(self, reference: Reference) -> Model:
        if failure := self._failures.get(reference):
            raise failure
        if reference in self._flights and (refusal := self._breaker.refusal()):
            raise refusal
        started = self._monotonic()
        task = self._flights.join(reference, lambda: self._look_up(reference))
        try:
            model = await outcome(task, self._settings.wait_seconds)
        except TimeoutError:
            error = HubUnreachableError(
                f"{self._settings.shown_endpoint} did not answer within"
                f" {self._settings.wait_seconds:g} s.",
                hint="Retry shortly: the lookup continues in the background.",
                retry_after_seconds=self._settings.outage_seconds,
            )
            self._failures.put(reference, error, error.retry_after_seconds)
            self._breaker.timed_out(reference.repo_id, error, since=started)
            raise error from None
        self._peek(reference)  # one from disk may be old: this has it checked
        return model

    async def metadata(self, reference: Reference) -> RepoMetadata:
        """Return what the Hub says of a repository now. Nothing of it is remembered.

        Raises what `resolve` does."""
        if self._settings.offline:
            raise offline(self._settings.shown_endpoint)
        client = self._connected()
        try:
            async with asyncio.timeout(self._settings.flight_seconds):
                async with client.trip(reference.repo_id, reference.revision) as trip:
                    return await fetch(client, trip, reference, None, self._clock)
        except TimeoutError:
            raise self._late() from None

    async def quantized(self, repo_id: str) -> tuple[Listed, ...]:
        """Return what the Hub lists as quantized from a repository. Raises as `_listed`."""
        return await self._listed(repo_id, quantized_of(repo_id), LISTED)

    async def search(self, words: str, count: int) -> tuple[Listed, ...]:
        """Return the models that the Hub lists for words of a name. Raises as `_listed`."""
        return await self._listed(words, {"search": words, "expand": ["gated"]}, count)

    async def _listed(self, subject: str, wanted: Params, count: int) -> tuple[Listed, ...]:
        """Return a list of the Hub. One request, nothing kept.

        Raises HubUnreachableError, HubBusyError, and a ModelError for an answer that is no list.
        """
        if self._settings.offline:
            raise offline(self._settings.shown_endpoint)
        client = self._connected()
        if refusal := self._breaker.refusal():
            raise refusal
        try:
            async with self._turns.turn(), client.trip(subject, None, counts=False) as trip:
                body = await client.models(trip, wanted, count, MAX_DESCRIPTION)
                return await client.parse(read_list, body)
        except TimeoutError:
            raise self._late() from None

    async def _look_up(self, reference: Reference) -> Model:
        """From disk, else from what replicas share, else from the Hub. What a caller's token shows
        is in neither."""
        if reference.token_id:
            return await self._fetch(reference, None)
        if self._pool is None:
            raise not_running()
        facts = await self._in_thread(self._disk.read, reference)
        if facts is None and (shared := self._shared) is not None:
            there = await shared.read(await self._key(shared, reference), reference)
            facts = there if isinstance(there, RepoMetadata) else None
            if facts is not None:
                await self._in_thread(self._disk.write, reference, facts)
        if facts is None:
            return await self._fetch(reference, None)
        try:
            return await self._adopt(reference, facts)
        except ModelError:
            # an older version could read what this one cannot
            return await self._fetch(reference, None)

    async def _adopt(self, reference: Reference, facts: RepoMetadata) -> Model:
        """Return the Model of metadata that were fetched before, now in memory. Raises a
        ModelError where they cannot be read."""
        loop = asyncio.get_running_loop()
        cached = await loop.run_in_executor(self._readers, CachedModel.of, facts)
        self._memory.put(reference, cached)
        return cached.model

    async def _key(self, shared: SharedModels, reference: Reference) -> str:
        return shared.key(reference, await self._connected().tokens.identity())

    def look_up_behind(self, reference: Reference, facts: RepoMetadata | None = None) -> None:
        """Start a background lookup, or a check of what is known, unless one is under
        way or would be refused."""
        if self._settings.offline or self._pool is None or reference in self._flights:
            return
        if self._failures.get(reference) or self._breaker.refusal() or self._flights.is_full:
            return
        self._flights.join(
            reference, lambda: self._fetch(reference, facts) if facts else self._look_up(reference)
        )

    async def _fetch(self, reference: Reference, facts: RepoMetadata | None) -> Model:
        """From the Hub, within `flight_seconds`, by one replica for all that share. facts: those
        known already."""
        if self._settings.offline:
            raise offline(self._settings.shown_endpoint)
        client = self._connected()
        if (shared := self._shared) is None or reference.token_id:
            return (await self._from_hub(client, reference, facts)).model
        key = await self._key(shared, reference)
        until = self._monotonic() + self._settings.flight_seconds
        while True:
            async with shared.claim(key) as ours:
                there = await shared.read(key, reference)
                if isinstance(there, ModelError):
                    self._memory.forget(reference)
                    self._failures.put(reference, there, self._settings.refusal_seconds)
                    raise there
                if there is not None and self._is_newer(reference, there, facts):
                    with suppress(ModelError):
                        model = await self._adopt(reference, there)
                        await self._in_thread(self._disk.write, reference, there)
                        return model
                if ours or self._monotonic() >= until:
                    return await self._for_all(client, shared, key, reference, facts)
            await asyncio.sleep(POLL_SECONDS)

    def _is_newer(
        self, reference: Reference, facts: RepoMetadata, older: RepoMetadata | None
    ) -> bool:
        return self._is_fresh(reference, facts) and (
            older is None or facts.fetched_at > older.fetched_at
        )

    async def _for_all(
        self,
        client: Client,
        shared: SharedModels,
        key: str,
        reference: Reference,
        facts: RepoMetadata | None,
    ) -> Model:
        """From the Hub, and shared, as is its refusal."""
        try:
            cached = await self._from_hub(client, reference, facts)
        except ModelError as error:
            await shared.refuse(key, reference, error)
            raise
        await shared.write(key, reference, cached.facts)
        return cached.model

    async def _from_hub(
        self, client: Client, reference: Reference, facts: RepoMetadata | None
    ) -> CachedModel:
        """From the Hub, in turn."""
        try:
            async with self._turns.turn():
                with self._breaker.passage():
                    cached = await self._fetched(client, reference, facts)
        except TimeoutError:
            error = self._late()
            self._failures.put(reference, error, error.retry_after_seconds)
            raise error from None
        except ModelError as error:
            self._memory.forget(reference)
            self._failures.put(reference, error, self._settings.refusal_seconds)
            if not reference.token_id:
                await self._in_thread(self._disk.forget, reference)
            raise
        self._failures.forget(reference)
        self._memory.put(reference, cached)
        if not reference.token_id:
            await self._in_thread(self._disk.write, reference, cached.facts)
        return cached

    async def _fetched(
        self, client: Client, reference: Reference, facts: RepoMetadata | None
    ) -> CachedModel:
        """Return the Model behind the reference; what the Hub lacks of it is remembered for a
        while."""
        token = CALLERS_TOKEN.get() if reference.token_id else ""
        try:
            async with client.trip(
                reference.repo_id, reference.revision, callers_token=token
            ) as trip:
                fetched = await fetch(client, trip, reference, facts, self._clock)
                return await client.parse(CachedModel.of, fetched)
        except HubError as error:
            seconds = max(error.retry_after_seconds, self._settings.outage_seconds)
            self._failures.put(reference, error, seconds)
            raise

    def _late(self) -> HubUnreachableError:
        return late(self._settings.shown_endpoint, self._settings.flight_seconds)

    def _is_fresh(self, reference: Reference, facts: RepoMetadata) -> bool:
        return (
            reference.pinned or 0 <= self._clock() - facts.fetched_at < self._settings.fresh_seconds
        )

    async def _in_thread(self, work: Callable[P, T], *arguments: P.args, **named: P.kwargs) -> T:
        """Return what reads or writes files."""
        return await asyncio.get_running_loop().run_in_executor(
            self._pool, partial(work, *arguments, **named)
        )
