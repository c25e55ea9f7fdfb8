"""The Hub as the service sees it: a Reference in, a Model out, within the time a caller waits."""

import asyncio
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import ParamSpec, TypeVar

from fitgauge.engine.architecture import Model
from fitgauge.errors import HubUnreachable, ModelError
from fitgauge.hub.cache import Disk, Known, Memory, Refused
from fitgauge.hub.client import Client, offline
from fitgauge.hub.facts import Facts, model_of
from fitgauge.hub.fetch import MAX_DESCRIPTION, fetch
from fitgauge.hub.flight import Flights, outcome
from fitgauge.hub.gate import Gate
from fitgauge.hub.reference import Reference
from fitgauge.hub.settings import HubSettings
from fitgauge.hub.siblings import EXPANDED, LISTED, Listed, read_list

P = ParamSpec("P")
T = TypeVar("T")

THREADS = 4
"""For the disk and the token; their own, so that a name server that hangs (asyncio's default threads) cannot hold them up."""


class Hub:
    """Resolves references. Lives in one event loop, between `start` and `close`.

    An answer comes from memory, else from disk, else from the Hub. One that is no longer fresh is given at once and checked
    in the background. `clock` gives seconds since 1970, `monotonic` seconds that only pass.
    """

    def __init__(
        self,
        settings: HubSettings | None = None,
        *,
        clock: Callable[[], float] = time.time,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._settings = settings or HubSettings()
        self._clock = clock
        self._memory = Memory(self._settings.kept_models, self._settings.kept_bytes)
        self._gate = Gate(self._settings.outage_seconds, monotonic)
        self._monotonic = monotonic
        self._flights: Flights[Reference, Model] = Flights(self._settings.concurrent_resolves + self._settings.queued_resolves)
        self._turns = asyncio.Semaphore(self._settings.concurrent_resolves)
        self._disk = Disk(self._settings.cache_dir, self._settings.endpoint, self._settings.stored_models)
        self._pool: ThreadPoolExecutor | None = None
        self._client: Client | None = None

    @property
    def settings(self) -> HubSettings:
        """What it was told."""
        return self._settings

    @property
    def offline(self) -> bool:
        """Whether the Hub must not be asked."""
        return self._settings.offline

    async def start(self) -> None:
        """Opens the session with the Hub; sends nothing."""
        self._pool = ThreadPoolExecutor(THREADS, thread_name_prefix="fitgauge-hub")
        self._client = Client(self._settings, self._pool)

    async def close(self) -> None:
        """Ends what is under way. What was fetched is on disk already."""
        await self._flights.close()
        if self._client is not None:
            await self._client.close()
        if self._pool is not None:
            self._pool.shutdown(wait=False, cancel_futures=True)
        self._client = self._pool = None

    def peek(self, reference: Reference) -> Model | None:
        """The Model, if it is in memory. Never waits; one that is no longer fresh is checked in the background."""
        known = self._memory.get(reference)
        if not isinstance(known, Known):
            return None
        if not self._is_fresh(reference, known.facts):
            self._revalidate(reference, known.facts)
        return known.model

    async def resolve(self, reference: Reference) -> Model:
        """The Model behind a reference.

        Raises a ModelError for what the repository is, HubUnreachable or HubBusy where the Hub gives no answer within
        `wait_seconds`; the search may then go on in the background, so that a later call finds its result.
        """
        if (model := self.peek(reference)) is not None:
            return model
        refused = self._memory.get(reference)
        if isinstance(refused, Refused) and self._clock() < refused.until:
            raise refused.error.with_traceback(None)
        if reference in self._flights and (refusal := self._gate.refusal()):
            raise refusal
        asked_at = self._monotonic()
        task = self._flights.join(reference, lambda: self._look_up(reference))
        try:
            model = await outcome(task, self._settings.wait_seconds)
        except TimeoutError:
            error = HubUnreachable(
                f"{self._settings.endpoint} gave no answer in {self._settings.wait_seconds:g} s.",
                hint="Ask again in a moment: the search goes on in the background.",
            )
            self._gate.shut(error, since=asked_at)
            raise error from None
        self.peek(reference)  # one from disk may be old: this has it checked
        return model

    async def quantized(self, repo_id: str) -> tuple[Listed, ...]:
        """What the Hub lists as quantized from a repository. One request, nothing kept; a failure shuts no gate.

        Raises HubUnreachable, HubBusy, and a ModelError for an answer that is no list.
        """
        if self._settings.offline:
            raise offline(self._settings.endpoint)
        if self._client is None:
            raise not_running()
        if refusal := self._gate.refusal():
            raise refusal
        try:
            async with self._turns, asyncio.timeout(self._settings.flight_seconds):
                trip = await self._client.trip(repo_id, None)
                return read_list(await self._client.quantized(trip, EXPANDED, LISTED, MAX_DESCRIPTION))
        except TimeoutError:
            raise HubUnreachable(f"{self._settings.endpoint} gave no list in {self._settings.flight_seconds:g} s.") from None

    async def _look_up(self, reference: Reference) -> Model:
        """From disk, else from the Hub."""
        facts = await self._in_thread(self._disk.read, reference)
        if facts is None:
            return await self._fetch(reference, None)
        try:
            model = await self._in_thread(model_of, facts)
        except ModelError:
            return await self._fetch(reference, None)  # an older version could read what this one cannot
        self._memory.put(reference, Known(facts, model))
        return model

    def _revalidate(self, reference: Reference, facts: Facts) -> None:
        """Starts a check of what is known, unless one is under way or would be refused."""
        if self._settings.offline or self._client is None or reference in self._flights or self._gate.refusal() or self._flights.is_full:
            return
        self._flights.join(reference, lambda: self._fetch(reference, facts))

    async def _fetch(self, reference: Reference, known: Facts | None) -> Model:
        """From the Hub, in turn, and within `flight_seconds`."""
        if self._settings.offline:
            raise offline(self._settings.endpoint)
        if self._client is None:
            raise not_running()
        try:
            async with self._turns:
                with self._gate.passage():
                    facts = await self._fetched(self._client, reference, known)
            model = await self._in_thread(model_of, facts)
        except ModelError as error:
            self._memory.put(reference, Refused(error, self._clock() + self._settings.refusal_seconds))
            await self._in_thread(self._disk.forget, reference)
            raise
        self._memory.put(reference, Known(facts, model))
        await self._in_thread(self._disk.write, reference, facts)
        return model

    async def _fetched(self, client: Client, reference: Reference, known: Facts | None) -> Facts:
        try:
            async with asyncio.timeout(self._settings.flight_seconds):
                return await fetch(client, reference, known, self._clock)
        except TimeoutError:
            raise HubUnreachable(f"{self._settings.endpoint} gave no answer in {self._settings.flight_seconds:g} s.") from None

    def _is_fresh(self, reference: Reference, facts: Facts) -> bool:
        return reference.pinned or 0 <= self._clock() - facts.fetched_at < self._settings.fresh_seconds

    async def _in_thread(self, work: Callable[P, T], *arguments: P.args, **named: P.kwargs) -> T:
        """What reads or writes files, or computes for long."""
        return await asyncio.get_running_loop().run_in_executor(self._pool, partial(work, *arguments, **named))


def not_running() -> HubUnreachable:
    """The error of a resolver that was not started."""
    return HubUnreachable("The Hub resolver is not running.", hint="Call start() first.")
