"""From the headers of a request to its caller."""

import re
from ipaddress import ip_address, ip_network
from typing import Any, NoReturn, Protocol

from litestar.connection import ASGIConnection
from litestar.middleware.authentication import (
    AbstractAuthenticationMiddleware,
    AuthenticationResult,
)
from litestar.types import ASGIApp, Scope

from fitgauge.api.access.api_keys import KEY_START, ApiKeys
from fitgauge.api.access.audit import Audit
from fitgauge.api.access.caller import CALLER, CARRIED, AccessError, Caller, InvalidAccessError
from fitgauge.api.gateway import PEER
from fitgauge.hub.request_context import CALLERS_TOKEN

_NAME = re.compile(r"[\x21-\x7e]{1,200}")
"""Of a caller in a header, and of a token of the Hub."""


class TokenVerifier(Protocol):
    """Checks the tokens of an identity provider."""

    async def caller(self, token: str) -> Caller:
        """Return whose token it is. Raise AccessError."""


class Authenticator:
    """Finds the caller: whom a gateway names, else a key or a token, else an address."""

    def __init__(
        self,
        keys: ApiKeys | None = None,
        tokens: TokenVerifier | None = None,
        gateway_header: str = "",
        trusted_proxies: str = "",
        *,
        anonymous: bool = True,
        hub_tokens: bool = False,
    ) -> None:
        """gateway_header: names the caller where the request comes from a trusted proxy.
        anonymous: whether requests without credentials pass. hub_tokens: whether callers may send
        a token of the Hub."""
        self._keys = keys
        self._tokens = tokens
        self._gateway_header = gateway_header.lower().encode()
        self._proxies = _Proxies(trusted_proxies)
        self._anonymous = anonymous
        self._hub_tokens = hub_tokens

    async def caller(self, scope: Scope) -> Caller:
        """Return who sends the request. Raise AccessError 401."""
        return (
            self._by_gateway(scope)
            or await self._by_credentials(scope)
            or self._anonymous_caller(scope)
        )

    def hub_token(self, scope: Scope) -> str:
        """Return the caller's own token of the Hub, empty where none is sent or none is used.
        Raise AccessError 401."""
        token = _header(scope, b"x-hf-token") if self._hub_tokens else None
        if token and not _NAME.fullmatch(token):
            _refuse("X-HF-Token is not a token.")
        return token or ""

    def _by_gateway(self, scope: Scope) -> Caller | None:
        if not self._gateway_header or scope.get(PEER, "") not in self._proxies:
            return None
        name = _header(scope, self._gateway_header)
        if name is None:
            return None
        if not _NAME.fullmatch(name):
            _refuse("The gateway's header is not a name.")
        return Caller(name, "gateway")

    async def _by_credentials(self, scope: Scope) -> Caller | None:
        if self._keys is None and self._tokens is None:
            return None
        key, sent = _header(scope, b"x-api-key"), _header(scope, b"authorization")
        if sent is not None:
            scheme, _, credentials = sent.partition(" ")
            if scheme.lower() != "bearer" or not credentials.strip():
                _refuse("Authorization is not of the form Bearer KEY.")
            if self._tokens is not None and not credentials.startswith(KEY_START):
                return await self._tokens.caller(credentials.strip())
            key = credentials.strip()
        if key is None:
            return None
        name = self._keys.name_of(key) if self._keys is not None else None
        if name is None:
            _refuse("The API key is unknown.")
        return Caller(name, "api-key")

    def _anonymous_caller(self, scope: Scope) -> Caller:
        if not self._anonymous:
            raise AccessError(
                401, "missing-credentials", "This service asks who you are.", self._hint()
            )
        client = scope["client"]
        return Caller(client[0] if client else "unknown", "anonymous")

    def _hint(self) -> str:
        if self._keys is None and self._tokens is None:
            return "Send the request through the gateway."
        return "Send Authorization: Bearer with a key or a token."


class CallerAuthentication(AbstractAuthenticationMiddleware):
    """Litestar's middleware: the caller becomes the request's `user`."""

    __slots__ = ("_audit", "_authenticator")

    def __init__(self, app: ASGIApp, authenticator: Authenticator, audit: Audit) -> None:
        super().__init__(app, exclude_from_auth_key="open", exclude_http_methods=())
        self._authenticator = authenticator
        self._audit = audit

    async def authenticate_request(
        self, connection: ASGIConnection[Any, Any, Any, Any]
    ) -> AuthenticationResult:
        """Return the caller. Raise AccessError 401."""
        scope = connection.scope
        carried = scope.get(CARRIED)
        try:
            caller = (
                carried if isinstance(carried, Caller) else await self._authenticator.caller(scope)
            )
            CALLERS_TOKEN.set(self._authenticator.hub_token(scope))
        except AccessError as error:
            self._audit.refused(scope, None, error)
            raise
        CALLER.set(caller)
        return AuthenticationResult(user=caller, auth=caller.via)


class _Proxies:
    """Addresses and networks, divided by commas; * is all."""

    def __init__(self, text: str) -> None:
        self._all = text.strip() == "*"
        named = [] if self._all else [item.strip() for item in text.split(",") if item.strip()]
        try:
            self._networks = [ip_network(item, strict=False) for item in named]
        except ValueError as error:
            raise InvalidAccessError(
                f"FITGAUGE_TRUSTED_PROXIES: {error}.",
                hint="Use addresses and networks divided by commas, such as 10.0.0.0/8, or *.",
            ) from None

    def __contains__(self, address: object) -> bool:
        if self._all:
            return True
        try:
            peer = ip_address(str(address))
        except ValueError:
            return False
        return any(peer in network for network in self._networks)


def _header(scope: Scope, name: bytes) -> str | None:
    """Return the value of a header, None where it is not sent. Raise AccessError 401 where it is
    sent twice: a gateway and this service might read different ones."""
    values = [value for key, value in scope["headers"] if key == name]
    if len(values) > 1:
        _refuse(f"The header {name.decode()} is sent {len(values)} times.")
    return values[0].decode("latin-1").strip() if values else None


def _refuse(detail: str) -> NoReturn:
    raise AccessError(401, "invalid-credentials", detail, "Send valid credentials, once.")
