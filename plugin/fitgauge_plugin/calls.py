"""How this package reaches the service: one request, one reply."""

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, NamedTuple

import httpx2


class Reply(NamedTuple):
    """What the service answered."""

    status: int
    """Of HTTP."""
    body: dict[str, Any]
    """The JSON object; empty where somebody else answered, such as a gateway."""
    retry_after: str = ""
    """Seconds after which to ask again, where the service says so."""

    @property
    def is_success(self) -> bool:
        """Return whether the service answered the question."""
        return 200 <= self.status < 300


Call = Callable[[str, str, Mapping[str, Any] | None, Mapping[str, str]], Awaitable[Reply]]
"""Of method, path, JSON body and headers."""

GATEWAY_ERROR = 502


def http_call(http: httpx2.AsyncClient) -> Call:
    """Return a call over HTTP. It never raises: a service that does not answer is a reply too."""

    async def call(
        method: str, path: str, body: Mapping[str, Any] | None, headers: Mapping[str, str]
    ) -> Reply:
        try:
            response = await http.request(
                method, path, json=None if body is None else dict(body), headers=dict(headers)
            )
        except httpx2.TransportError as error:
            reason = f"The service at {http.base_url} gave no answer ({type(error).__name__})."
            return Reply(GATEWAY_ERROR, {"error": reason, "code": "no-answer"})
        return Reply(
            response.status_code, _json_object(response), response.headers.get("Retry-After", "")
        )

    return call


def _json_object(response: httpx2.Response) -> dict[str, Any]:
    try:
        decoded = response.json()
    except ValueError:
        return {}
    return decoded if isinstance(decoded, dict) else {}
