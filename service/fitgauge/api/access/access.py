"""The rules of access in force, as the application takes them: a middleware, a guard, routes."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from litestar import Request
from litestar.connection import ASGIConnection
from litestar.handlers import BaseRouteHandler
from litestar.middleware import DefineMiddleware
from litestar.types import ExceptionHandlersMap
from msgspec import Struct

from fitgauge.api.access.api_keys import ApiKeys
from fitgauge.api.access.audit import Audit
from fitgauge.api.access.authentication import Authenticator, CallerAuthentication, TokenVerifier
from fitgauge.api.access.caller import AccessError, Caller, InvalidAccessError, on_access_error
from fitgauge.api.access.limits import CallerLimits, SharedCounts
from fitgauge.api.access.resource_metadata import METADATA_PATH, base_url, metadata_controller
from fitgauge.api.middleware import weight_of

_LOCAL = ("127.0.0.1", "localhost", "::1")


class AccessOptions(Struct, frozen=True):
    """Settings of access; by default everybody may ask, and callers are not distinguished."""

    api_keys: str = ""
    """A file of names and hashes of API keys."""
    jwt_keys: str = ""
    """The public keys of an identity provider: a file or an address."""
    jwt_issuer: str = ""
    """Of tokens; also the authorization server that MCP hosts are sent to."""
    jwt_audience: str = ""
    """Of tokens."""
    jwt_algorithms: str = ""
    """That tokens may be signed by, divided by commas."""
    jwt_scope: str = ""
    """That a token must have; empty: none."""
    jwt_leeway_seconds: float = 0.0
    """How far clocks may differ."""
    caller_header: str = ""
    """In which a trusted proxy names the caller."""
    trusted_proxies: str = ""
    """Addresses and networks divided by commas."""
    anonymous: bool = False
    """Whether requests without credentials pass where callers are distinguished."""
    caller_requests_per_second: float = 0.0
    """Of one caller; 0: no limit."""
    caller_requests_per_day: int = 0
    """Of one caller; 0: no limit."""
    caller_hub_tokens: bool = False
    """Whether callers may send a token of the Hub."""
    public_url: str = "/"
    """Address of the service."""

    @property
    def identifies(self) -> bool:
        """Whether callers are distinguished by more than their address."""
        return bool(self.api_keys or self.jwt_keys or self.caller_header)

    @property
    def is_on(self) -> bool:
        """Whether there are any rules."""
        return (
            self.identifies
            or self.caller_hub_tokens
            or self.caller_requests_per_second > 0
            or self.caller_requests_per_day > 0
        )


class Access:
    """Middleware and guard: who sends a request, and whether it passes."""

    def __init__(
        self, options: AccessOptions, weights: Mapping[str, int], shared: SharedCounts | None = None
    ) -> None:
        """weights: requests that one counts as, by path; shared: counts of all replicas. Raise
        InvalidAccessError."""
        self._options = options
        self._weights = {**weights, "/mcp": 0}  # what a tool takes is counted when it is called
        self._audit = Audit()
        self._limits = CallerLimits(
            options.caller_requests_per_second, options.caller_requests_per_day, shared=shared
        )
        self._authenticator = Authenticator(
            ApiKeys(Path(options.api_keys)) if options.api_keys else None,
            _tokens(options) if options.jwt_keys else None,
            options.caller_header,
            options.trusted_proxies,
            anonymous=options.anonymous or not options.identifies,
            hub_tokens=options.caller_hub_tokens,
        )
        self.exception_handlers: ExceptionHandlersMap = {AccessError: self._on_error}

    @property
    def middleware(self) -> DefineMiddleware:
        """Litestar's middleware, which finds the caller."""
        return DefineMiddleware(
            CallerAuthentication, authenticator=self._authenticator, audit=self._audit
        )

    @property
    def routes(self) -> Sequence[Any]:
        """Routes that describe how to get in."""
        if not self._options.jwt_keys:
            return ()
        issuer, scope = self._options.jwt_issuer, self._options.jwt_scope
        return (metadata_controller(self._options.public_url, issuer, scope),)

    async def guard(
        self, connection: ASGIConnection[Any, Any, Any, Any], handler: BaseRouteHandler
    ) -> None:
        """Let a request pass. Raise AccessError 403 or 429."""
        if handler.opt.get("open"):
            return
        scope, caller = connection.scope, connection.scope["user"]
        try:
            self._check_scope(caller)
            await self._limits.take(caller, weight_of(self._weights, scope["path"]))
        except AccessError as error:
            self._audit.refused(scope, caller, error)
            raise
        self._audit.allowed(scope, caller)

    def _check_scope(self, caller: Caller) -> None:
        wanted = self._options.jwt_scope
        if wanted and caller.via == "token" and wanted not in caller.scopes:
            raise AccessError(
                403,
                "forbidden",
                f"The token lacks the scope {wanted}.",
                f"Ask for a token with the scope {wanted}.",
            )

    def _on_error(self, request: Request[Any, Any, Any], error: AccessError) -> Any:  # noqa: ANN401 - a response
        """Answer with the problem, and how to get in (RFC 6750, RFC 9728)."""
        response = on_access_error(request, error)
        if error.status in (401, 403):
            response.headers["WWW-Authenticate"] = self._challenge(request, error)
        return response

    def _challenge(self, request: Request[Any, Any, Any], error: AccessError) -> str:
        parts = ['Bearer realm="fitgauge"']
        if error.slug == "invalid-credentials":
            parts.append('error="invalid_token"')
        elif error.slug == "forbidden":
            parts += ['error="insufficient_scope"', f'scope="{self._options.jwt_scope}"']
        if self._options.jwt_keys:
            of = "/mcp" if request.scope["path"] == "/mcp" else ""
            base = base_url(request, self._options.public_url)
            parts.append(f'resource_metadata="{base}{METADATA_PATH}{of}"')
        return ", ".join(parts)


def _tokens(options: AccessOptions) -> TokenVerifier:
    """Return the verifier. Cryptography is imported where tokens are used alone."""
    from fitgauge.api.access.signing_keys import SigningKeys
    from fitgauge.api.access.tokens import SAFE_ALGORITHMS, Tokens

    algorithms = tuple(item.strip() for item in options.jwt_algorithms.split(",") if item.strip())
    for wrong, detail, hint in (
        (
            not (options.jwt_issuer and options.jwt_audience),
            "FITGAUGE_JWT_KEYS needs FITGAUGE_JWT_ISSUER and FITGAUGE_JWT_AUDIENCE.",
            "Set both.",
        ),
        (
            not algorithms or not {*algorithms} <= {*SAFE_ALGORITHMS},
            "FITGAUGE_JWT_ALGORITHMS names an algorithm that is not accepted.",
            f"Use some of {', '.join(SAFE_ALGORITHMS)}.",
        ),
        (
            options.jwt_keys.startswith("http:")
            and urlsplit(options.jwt_keys).hostname not in _LOCAL,
            "FITGAUGE_JWT_KEYS is read without TLS: whoever answers could sign tokens.",
            "Use https, or a file.",
        ),
    ):
        if wrong:
            raise InvalidAccessError(detail, hint=hint)
    keys = SigningKeys(options.jwt_keys)
    return Tokens(
        keys, options.jwt_issuer, options.jwt_audience, algorithms, options.jwt_leeway_seconds
    )
