"""The caller of a request, and how a request without one is refused."""

from collections.abc import Mapping
from contextvars import ContextVar
from typing import Any, Literal

from litestar import Request, Response
from msgspec import Struct

from fitgauge.api.problem_responses import on_request_error
from fitgauge.api.problems import RequestCode, RequestError
from fitgauge.errors import ErrorCode, FitgaugeError

Via = Literal["api-key", "token", "gateway", "anonymous"]
"""How a caller is known."""

CARRIED = "fitgauge.caller"
"""Key of a scope: the caller of a request that the service makes for another one in its own
process. No header sets it."""


class Caller(Struct, frozen=True):
    """Whose request it is."""

    name: str
    """Of an API key, the subject of a token, what a gateway says, or an address."""
    via: Via
    """How it is known."""
    scopes: frozenset[str] = frozenset()
    """Of a token."""

    @property
    def id(self) -> str:
        """What tells this caller from any other."""
        return f"{self.via}:{self.name}"


CALLER: ContextVar[Caller | None] = ContextVar("caller", default=None)
"""Of the request that is being answered; None while access is open to all."""


class InvalidAccessError(FitgaugeError):
    """The settings of access cannot be used: `detail` names the setting, or the file and line."""

    code: ErrorCode = "invalid-settings"


class AccessError(RequestError):
    """A request that is refused for who sends it, or for how many they send."""

    def __init__(
        self,
        status: int,
        slug: RequestCode,
        detail: str,
        hint: str,
        *,
        retry_after: int | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(status, slug, detail, hint, retry_after=retry_after)
        self.headers = dict(headers or {})


def on_access_error(request: Request[Any, Any, Any], error: AccessError) -> Response[bytes]:
    """Answer with the problem of a refused caller, on every path."""
    response = on_request_error(request, error)
    response.headers |= error.headers
    return response
