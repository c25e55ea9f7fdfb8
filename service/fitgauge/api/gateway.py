"""Behind a gateway: the address of the caller, and the prefix under which the service is seen."""

from collections.abc import Awaitable

from litestar.enums import ScopeType
from litestar.types import ASGIApp, HTTPScope, Receive, Scope, Send
from uvicorn.middleware.proxy_headers import ProxyHeadersMiddleware

PEER = "fitgauge.peer"
"""Key of the scope: the address that the connection comes from, whatever headers say."""


class Gateway:
    """Read what a gateway says of a request.

    X-Forwarded-For and X-Forwarded-Proto are read by uvicorn's own middleware, from trusted
    proxies alone. The prefix is the same whether the gateway strips it or not."""

    def __init__(self, app: ASGIApp, trusted_proxies: str, root_path: str) -> None:
        """trusted_proxies: addresses and networks divided by commas, or *; root_path: the
        prefix."""
        self._root_path = root_path
        self._app = app
        if trusted_proxies:
            self._app = ProxyHeadersMiddleware(app, trusted_proxies)  # type: ignore[arg-type, assignment]

    def __call__(self, scope: Scope, receive: Receive, send: Send) -> Awaitable[None]:
        """Pass the request to the application. It is routed by the path below the prefix;
        addresses that answers name begin with the prefix."""
        if scope["type"] == ScopeType.HTTP:
            client = scope["client"]
            scope[PEER] = client[0] if client else ""  # type: ignore[literal-required]
            if self._root_path:
                self._locate(scope)
        return self._app(scope, receive, send)

    def _locate(self, scope: HTTPScope) -> None:
        path = scope["path"]
        if path == self._root_path or path.startswith(f"{self._root_path}/"):
            path = path[len(self._root_path) :] or "/"
        # Litestar routes by what follows the first occurrence of `root_path` in the path, which
        # takes /fit for a prefix of /v1/fit; its addresses begin with `app_root_path`
        scope["path"] = path
        scope["app_root_path"] = self._root_path  # type: ignore[typeddict-unknown-key]
