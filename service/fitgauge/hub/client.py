"""Requests to the Hub: bounded bodies, retries that honour Retry-After, and every failure as one of Fitgauge's errors."""

import asyncio
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from urllib.parse import quote

import httpx2
from huggingface_hub import __version__ as hub_version
from huggingface_hub import constants, get_token, hf_hub_url
from huggingface_hub.errors import DeviceCodeError, OfflineModeIsEnabled, OIDCError
from huggingface_hub.utils import get_async_session

from fitgauge import __version__
from fitgauge.errors import HubBusy, HubUnreachable, MalformedModel, RenamedModel
from fitgauge.hub.refusals import error_of, is_missing_file
from fitgauge.hub.settings import HubSettings

MAX_REDIRECTS = 5
DESCRIBED = ("gated", "gguf", "private", "safetensors", "sha", "siblings")
"""What one model_info request asks the Hub to tell (its `expand` parameter)."""

USER_AGENT = f"fitgauge/{__version__}; hf_hub/{hub_version}"
"""Not huggingface_hub's own (build_hf_headers): to make it up, it first asks the Hub for its list of coding agents, for up to 3 s."""

Params = Mapping[str, str | list[str]]


@dataclass(frozen=True)
class Answer:
    """What a request brought: `body` None where the file is not there (404) or has not changed (304, `unchanged`)."""

    body: bytes | None
    etag: str | None = None
    commit: str | None = None
    unchanged: bool = False


@dataclass
class Trip:
    """What the requests of one resolve share: the repository, the headers, and the moment after which nobody waits for a retry."""

    repo_id: str
    revision: str
    headers: dict[str, str]
    deadline: float


class Client:
    """The Hub at one endpoint, over huggingface_hub's asynchronous session."""

    def __init__(self, settings: HubSettings, pool: ThreadPoolExecutor) -> None:
        self._settings = settings
        self._pool = pool
        self._session = get_async_session()
        self._session.max_redirects = MAX_REDIRECTS
        self._timeout = httpx2.Timeout(settings.request_seconds, pool=settings.flight_seconds)

    async def close(self) -> None:
        """Closes all connections."""
        await self._session.aclose()

    async def trip(self, repo_id: str, revision: str | None) -> Trip:
        """The start of a resolve.

        The token in a thread: huggingface_hub reads it from a file, or renews it. Bodies uncompressed: bounds hold before unpacking.
        """
        loop = asyncio.get_running_loop()
        try:
            token = await loop.run_in_executor(self._pool, _token, self._settings.token)
        except (OSError, OIDCError, DeviceCodeError) as error:
            raise HubUnreachable(f"No token for the Hub: {type(error).__name__}.", hint="Check HF_TOKEN, or log in again.") from error
        headers = {"user-agent": USER_AGENT, "accept-encoding": "identity"} | ({"authorization": f"Bearer {token}"} if token else {})
        return Trip(repo_id, revision or "main", headers, loop.time() + self._settings.wait_seconds)

    async def describe(self, trip: Trip, limit: int) -> bytes:
        """The Hub's description of the repository at the revision, as huggingface_hub's model_info(expand=...) asks for it."""
        url = f"{self._settings.endpoint}/api/models/{trip.repo_id}"
        if trip.revision != "main":
            url += f"/revision/{quote(trip.revision, safe='')}"
        return _there(await self._get(trip, url, limit, params={"expand": list(DESCRIBED)}), url)

    async def quantized(self, trip: Trip, expanded: Sequence[str], count: int, limit: int) -> bytes:
        """Repositories that name this one as the model they quantize, as list_models(filter=..., sort="downloads", expand=...) asks."""
        url = f"{self._settings.endpoint}/api/models"
        params: Params = {
            "filter": f"base_model:quantized:{trip.repo_id}",
            "sort": "downloads",
            "limit": str(count),
            "expand": list(expanded),
        }
        return _there(await self._get(trip, url, limit, params=params), url)

    async def folder(self, trip: Trip, folder: str, limit: int) -> bytes:
        """The listing of one folder, with sizes."""
        url = f"{self._settings.endpoint}/api/models/{trip.repo_id}/tree/{quote(trip.revision, safe='')}/{quote(folder)}"
        return _there(await self._get(trip, url.rstrip("/"), limit), url)

    async def file(self, trip: Trip, name: str, limit: int, etag: str | None = None) -> Answer:
        """A whole file. `etag`: of the copy that is known already. Raises MalformedModel where it is larger than `limit` [bytes]."""
        return await self._get(trip, self._url(trip, name), limit, extra={"if-none-match": etag} if etag else {})

    async def beginning(self, trip: Trip, name: str, length: int) -> bytes:
        """The first `length` bytes of a file, fewer where it is shorter."""
        url = self._url(trip, name)
        return _there(await self._get(trip, url, length, extra={"range": f"bytes=0-{length - 1}"}, cut=True), url)

    def _url(self, trip: Trip, name: str) -> str:
        return hf_hub_url(trip.repo_id, name, revision=trip.revision, endpoint=self._settings.endpoint)

    async def _get(
        self, trip: Trip, url: str, limit: int, *, params: Params | None = None, extra: Mapping[str, str] | None = None, cut: bool = False
    ) -> Answer:
        """A GET, repeated while the Hub fails and a caller still waits. The wait doubles, or is what Retry-After asks for."""
        delay = self._settings.first_delay_seconds
        for attempt in range(self._settings.attempts):
            try:
                return await self._once(trip, url, limit, params, {**trip.headers, **(extra or {})}, cut)
            except (HubUnreachable, HubBusy) as error:
                wait = error.retry_after_seconds if isinstance(error, HubBusy) else delay * 2**attempt
                last = attempt + 1 == self._settings.attempts
                if last or asyncio.get_running_loop().time() + wait >= trip.deadline:
                    raise
            await asyncio.sleep(wait)
        raise AssertionError("attempts is at least 1")

    async def _once(self, trip: Trip, url: str, limit: int, params: Params | None, headers: Mapping[str, str], cut: bool) -> Answer:
        try:
            async with self._session.stream("GET", url, params=params, headers=headers, timeout=self._timeout) as response:
                if response.status_code == 304:
                    return Answer(None, unchanged=True)
                if is_missing_file(response):
                    return Answer(None)
                if response.status_code >= 400:
                    raise error_of(response, trip.repo_id, trip.revision)
                return Answer(await _body(response, limit, cut), response.headers.get("etag"), _commit(response))
        except httpx2.TooManyRedirects:
            raise RenamedModel(
                f"{trip.repo_id} has moved in a circle.", hint="Look the model up on the Hub and send its new name."
            ) from None
        except OfflineModeIsEnabled:
            raise offline(self._settings.endpoint) from None
        except (httpx2.HTTPError, httpx2.InvalidURL, httpx2.StreamError, OSError, UnicodeError) as error:
            raise unreachable(self._settings.endpoint, f"{type(error).__name__}: {str(error)[:120]}") from error


def offline(endpoint: str) -> HubUnreachable:
    """The error of a Hub that must not be asked."""
    return HubUnreachable(
        f"Offline: HF_HUB_OFFLINE is set and nothing is cached of this model from {endpoint}.",
        hint="Ask for a model that is cached or in the snapshot, or start the service without HF_HUB_OFFLINE.",
    )


def unreachable(endpoint: str, why: str) -> HubUnreachable:
    """The error of a Hub that gives no answer, or none that can be read."""
    return HubUnreachable(f"No answer from {endpoint}: {why}", hint="Ask again in a moment, or check HF_ENDPOINT and the proxy.")


def _token(setting: str | bool | None) -> str | None:
    """The token to send: the one given, none for False, else the one huggingface_hub finds."""
    if isinstance(setting, str) or setting is False:
        return setting or None
    return None if setting is None and constants.HF_HUB_DISABLE_IMPLICIT_TOKEN else get_token()


def _there(answer: Answer, url: str) -> bytes:
    if answer.body is None:
        raise MalformedModel(f"The Hub names {url.rsplit('/', 1)[-1][:80]} and has no such file.")
    return answer.body


def _commit(response: httpx2.Response) -> str | None:
    """The commit a file was read at: the Hub says so itself, also where it then sends on to a store of files."""
    return next((hop.headers["x-repo-commit"] for hop in (response, *response.history) if "x-repo-commit" in hop.headers), None)


async def _body(response: httpx2.Response, limit: int, cut: bool) -> bytes:
    """The body, at most `limit` bytes: the rest is left where `cut`, else MalformedModel."""
    body = bytearray()
    async for chunk in response.aiter_bytes():
        body += chunk
        if len(body) > limit:
            if cut:
                break
            raise MalformedModel(f"{response.url.path[-80:]} is larger than the {limit} bytes that are read of it.")
    return bytes(body[:limit])
