"""Behind a gateway: the address of the caller, and the prefix under which the service is seen."""

from litestar.enums import ScopeType
from litestar.types import ASGIApp, Receive, Scope, Send
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
        self._app = app
        self._root_path = root_path
        self._inner = self._located if root_path else app
        if trusted_proxies:
            self._inner = ProxyHeadersMiddleware(self._inner, trusted_proxies)  # type: ignore[arg-type, assignment]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request to the application."""
        if scope["type"] == ScopeType.HTTP:
            client = scope["client"]
            scope[PEER] = client[0] if client else ""  # type: ignore[literal-required]
        await self._inner(scope, receive, send)

    async def _located(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Route by the path below the prefix; addresses that answers name begin with it."""
        if scope["type"] == ScopeType.HTTP:
            path = scope["path"]
            if path == self._root_path or path.startswith(f"{self._root_path}/"):
                path = path[len(self._root_path) :] or "/"
            # Litestar routes by what follows the first occurrence of `root_path` in the path,
            # which takes /fit for a prefix of /v1/fit; its addresses begin with `app_root_path`
            scope = {**scope, "app_root_path": self._root_path, "path": path}  # type: ignore[assignment]
        await self._app(scope, receive, send)
