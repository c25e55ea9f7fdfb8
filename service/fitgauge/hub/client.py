"""Requests to the Hub: bounded bodies, retries that honour Retry-After, and every failure as one
of Fitgauge's errors."""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import cached_property, partial
from http.cookiejar import DefaultCookiePolicy
from typing import ParamSpec, TypeVar
from urllib.parse import quote

import httpx2
from huggingface_hub import __version__ as hub_version
from huggingface_hub.errors import OfflineModeIsEnabled
from huggingface_hub.utils import get_async_session

from fitgauge import __version__
from fitgauge.errors import (
    HubBusyError,
    HubError,
    HubUnreachableError,
    MalformedModelError,
    RenamedModelError,
)
from fitgauge.hub.bodies import LARGE_RESOLVES, LargePermit, drain, large_permit, narrow, read_body
from fitgauge.hub.circuit_breaker import CircuitBreaker
from fitgauge.hub.errors import error_of, is_missing_file
from fitgauge.hub.no_answer import offline, unreachable
from fitgauge.hub.redirects import RedirectPolicy
from fitgauge.hub.request_context import REQUEST_IDS
from fitgauge.hub.settings import HubSettings
from fitgauge.hub.tokens import Tokens
from fitgauge.hub.watch import HubWatch, watched
from fitgauge.redaction import redacted

P = ParamSpec("P")
T = TypeVar("T")

MAX_REDIRECTS = 5
DESCRIBED = ("gated", "gguf", "private", "safetensors", "sha", "siblings")
"""What one model_info request asks the Hub to tell (its `expand` parameter)."""

_NO_CONNECTION = (
    httpx2.ConnectError,
    httpx2.ConnectTimeout,
    httpx2.ProxyError,
    httpx2.UnsupportedProtocol,
)
"""refused, no such name, TLS"""
_FAILURES = (httpx2.HTTPError, httpx2.InvalidURL, httpx2.StreamError, OSError, UnicodeError)

USER_AGENT = f"fitgauge/{__version__}; hf_hub/{hub_version}"
"""Not huggingface_hub's own (build_hf_headers): to make it up, it first asks the Hub for its
list of coding agents, for up to 3 s."""

Params = Mapping[str, str | list[str]]


@dataclass(frozen=True)
class Answer:
    """The Hub's response to one request."""

    body: bytes | None
    """None where the file is not there (404) or has not changed (304)."""
    etag: str | None = None
    """The version of the file."""
    commit: str | None = None
    """The commit of the repository."""
    unchanged: bool = False
    """Whether the file is as it was (304)."""


@dataclass
class HubRequest:
    """What the requests of one resolve share."""

    repo_id: str
    """The repository, as owner/name."""
    revision: str
    """Branch, tag or commit."""
    headers: dict[str, str]
    """Headers of every request."""
    deadline: float
    """The loop's time after which no retry starts."""
    permit: LargePermit
    """Its right to read a large body."""
    started: float
    """When it began, by the circuit breaker's clock."""
    counts: bool = True
    """Whether its failures count for the circuit breaker."""
    callers: bool = False
    """Whether the token is a caller's own: its rate limit says nothing of the Hub itself."""


def file_url(endpoint: str, repo_id: str, revision: str, name: str) -> str:
    """Return the address of a file: `hf_hub_url` of huggingface_hub, whose import takes a tenth of
    an answer."""
    return f"{endpoint}/{repo_id}/resolve/{quote(revision, safe='')}/{quote(name)}"


class Client:
    """The Hub at one endpoint, over huggingface_hub's asynchronous session.

    `pool`: threads for files. `readers`: threads that parse what the Hub sends.
    """

    def __init__(
        self,
        settings: HubSettings,
        breaker: CircuitBreaker,
        pool: ThreadPoolExecutor,
        readers: ThreadPoolExecutor,
        watch: HubWatch,
    ) -> None:
        self._settings = settings
        self._breaker = breaker
        self.tokens = Tokens(settings.token, pool)
        """The token of every request."""
        self._readers = readers
        self._watch = watch
        self._redirects = RedirectPolicy(settings.endpoint, settings.redirect_hosts)
        self._timeout = httpx2.Timeout(settings.request_seconds, pool=settings.flight_seconds)
        self._large = asyncio.Semaphore(LARGE_RESOLVES)

    async def close(self) -> None:
        """Close all connections."""
        if "_session" in vars(self):
            await self._session.aclose()

    @cached_property
    def _session(self) -> httpx2.AsyncClient:
        session = get_async_session()
        # huggingface_hub's hook for responses reads, and unpacks, bodies of errors whole
        session.event_hooks = {"request": session.event_hooks["request"], "response": []}
        session.cookies.jar.set_policy(DefaultCookiePolicy(allowed_domains=()))
        return session

    def open(self) -> None:
        """Import the transport, which takes as long as an estimate from the shell, and open the
        session before a request waits for it."""
        _ = self._session

    @asynccontextmanager
    async def trip(
        self, repo_id: str, revision: str | None, *, counts: bool = True, callers_token: str = ""
    ) -> AsyncIterator[HubRequest]:
        """Provide a resolve, from its first request until all that it read is let go of.

        callers_token: sent instead of the service's own. Bodies uncompressed: bounds hold before
        unpacking."""
        started = self._breaker.now()
        token = callers_token or await self.tokens.read()
        headers = {
            "user-agent": USER_AGENT,
            "accept-encoding": "identity",
            **REQUEST_IDS.get().headers(),
            **({"authorization": f"Bearer {token}"} if token else {}),
        }
        deadline = asyncio.get_running_loop().time() + self._settings.wait_seconds
        async with large_permit(self._large) as permit:
            yield HubRequest(
                repo_id,
                revision or "main",
                headers,
                deadline,
                permit,
                started,
                counts,
                bool(callers_token),
            )

    async def parse(self, work: Callable[P, T], *arguments: P.args, **named: P.kwargs) -> T:
        """Return what `work` makes of a stranger's bytes, off the event loop."""
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._readers, partial(work, *arguments, **named))

    async def describe(self, trip: HubRequest, limit: int) -> bytes:
        """Return the Hub's description of the repository at the revision, as huggingface_hub's
        model_info(expand=...) asks for it."""
        url = f"{self._settings.endpoint}/api/models/{trip.repo_id}"
        if trip.revision != "main":
            url += f"/revision/{quote(trip.revision, safe='')}"
        return _there(await self._get(trip, url, limit, params={"expand": list(DESCRIBED)}), url)

    async def models(self, trip: HubRequest, wanted: Params, count: int, limit: int) -> bytes:
        """Return the list of models, the most downloaded first, as
        list_models(sort="downloads", limit=count, **wanted) asks for it."""
        url = f"{self._settings.endpoint}/api/models"
        params: Params = {**wanted, "sort": "downloads", "limit": str(count)}
        return _there(await self._get(trip, url, limit, params=params), url)

    async def folder(self, trip: HubRequest, folder: str, limit: int) -> bytes:
        """Return the listing of one folder, with sizes."""
        revision = quote(trip.revision, safe="")
        tree = f"{self._settings.endpoint}/api/models/{trip.repo_id}/tree/{revision}"
        url = f"{tree}/{quote(folder)}"
        return _there(await self._get(trip, url.rstrip("/"), limit), url)

    async def file(
        self, trip: HubRequest, name: str, limit: int, etag: str | None = None
    ) -> Answer:
        """Return a whole file. `etag`: of the copy that is known already. Raises
        MalformedModelError where it is larger than `limit` [bytes]."""
        return await self._get(
            trip, self._url(trip, name), limit, extra={"if-none-match": etag} if etag else {}
        )

    async def beginning(self, trip: HubRequest, name: str, length: int) -> bytes:
        """Return the first `length` bytes of a file, fewer where it is shorter."""
        url = self._url(trip, name)
        return _there(
            await self._get(
                trip, url, length, extra={"range": f"bytes=0-{length - 1}"}, truncates=True
            ),
            url,
        )

    def _url(self, trip: HubRequest, name: str) -> str:
        return file_url(self._settings.endpoint, trip.repo_id, trip.revision, name)

    async def _get(
        self,
        trip: HubRequest,
        url: str,
        limit: int,
        *,
        params: Params | None = None,
        extra: Mapping[str, str] | None = None,
        truncates: bool = False,
    ) -> Answer:
        """Return a GET, repeated while the Hub fails and a caller still waits. The wait doubles,
        or is what Retry-After asks for."""
        delay = self._settings.first_delay_seconds
        for attempt in range(self._settings.attempts):
            try:
                headers = {**trip.headers, **(extra or {})}
                asking = self._once(trip, url, limit, params, headers, truncates)
                return await watched(self._watch, asking)
            except (HubUnreachableError, HubBusyError) as error:
                if isinstance(error, HubBusyError):
                    wait = error.retry_after_seconds
                else:
                    wait = delay * 2**attempt
                last = attempt + 1 == self._settings.attempts
                if last or asyncio.get_running_loop().time() + wait >= trip.deadline:
                    raise
            await asyncio.sleep(wait)
        raise AssertionError("attempts is at least 1")

    async def _once(
        self,
        trip: HubRequest,
        url: str,
        limit: int,
        params: Params | None,
        headers: Mapping[str, str],
        truncates: bool,
    ) -> Answer:
        try:
            async with self._followed(trip, url, params, headers) as (response, commit):
                if response.status_code == 304:
                    return Answer(None, unchanged=True)
                if is_missing_file(response, url):
                    await drain(response)
                    return Answer(None)
                if response.status_code >= 300:
                    error = error_of(response, trip.repo_id, trip.revision, callers=trip.callers)
                    if (
                        response.status_code == 429
                        and isinstance(error, HubBusyError)
                        and not trip.callers
                    ):
                        self._opened(response.request, error)
                    raise error
                body = await read_body(response, limit, trip.permit, truncates=truncates)
                return Answer(body, response.headers.get("etag"), commit)
        except OfflineModeIsEnabled:
            raise offline(self._settings.shown_endpoint) from None
        except _FAILURES as error:
            raise self._unreachable(error) from error

    @asynccontextmanager
    async def _followed(
        self, trip: HubRequest, url: str, params: Params | None, headers: Mapping[str, str]
    ) -> AsyncIterator[tuple[httpx2.Response, str | None]]:
        """Provide the response behind all redirects, its body unread, and the commit that a hop
        names."""
        request: httpx2.Request | None = self._session.build_request(
            "GET", url, params=params, headers=headers, timeout=self._timeout
        )
        commit = None
        for _ in range(MAX_REDIRECTS + 1):
            if request is None:
                raise httpx2.RemoteProtocolError("Invalid Location header.")
            response = await self._sent(trip, request)
            try:
                commit = response.headers.get("x-repo-commit", commit)
                if not response.has_redirect_location:
                    yield response, commit
                    return
                request = self._redirected(trip, response)
                await drain(response)
            finally:
                await response.aclose()
        raise RenamedModelError(
            f"{trip.repo_id} redirects in a loop.", hint="Send the model's current name on the Hub."
        )

    async def _sent(self, trip: HubRequest, request: httpx2.Request) -> httpx2.Response:
        """Return the response to one request, and what it says of the Hub itself: see
        CircuitBreaker."""
        try:
            response = await self._session.send(request, stream=True, follow_redirects=False)
        except _NO_CONNECTION as error:
            failure = self._unreachable(error)
            self._opened(request, failure)
            raise failure from error
        except httpx2.ReadTimeout as error:
            failure = self._unreachable(error)
            if trip.counts and self._redirects.is_endpoint(request.url):
                self._breaker.timed_out(trip.repo_id, failure, trip.started)
            raise failure from error
        narrow(response)
        if response.status_code != 429 and self._redirects.is_endpoint(request.url):
            self._breaker.answered()
        return response

    def _redirected(self, trip: HubRequest, response: httpx2.Response) -> httpx2.Request | None:
        """Return the request that a redirect asks for, None where its address cannot be read.

        Raise HubUnreachableError where it leads to where it must not. The token stays at the
        endpoint."""
        request = response.next_request
        if request is None:
            return None
        if not self._redirects.allows(request.url):
            raise HubUnreachableError(
                f"The Hub redirects {trip.repo_id} to {request.url.host[:80]!r}, which is not"
                " allowed.",
                hint="If you trust this host, add it to FITGAUGE_HUB_REDIRECT_HOSTS.",
            )
        if not self._redirects.is_endpoint(request.url):
            request.headers.pop("authorization", None)
        return request

    def _opened(self, request: httpx2.Request, error: HubError) -> None:
        """Open the circuit breaker, where the endpoint failed and not a store of files."""
        if self._redirects.is_endpoint(request.url):
            self._breaker.open(error)

    def _unreachable(self, error: Exception) -> HubUnreachableError:
        why = f"{type(error).__name__}: {redacted(str(error))[:120]}"
        return unreachable(self._settings.shown_endpoint, why)


def _there(answer: Answer, url: str) -> bytes:
    if answer.body is None:
        raise MalformedModelError(
            f"The Hub lists {url.rsplit('/', 1)[-1][:80]} but does not have it."
        )
    return answer.body
