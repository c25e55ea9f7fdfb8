"""OAuth 2.0 Protected Resource Metadata (RFC 9728): where MCP hosts get a token."""

from typing import Any

from litestar import Controller, Request, get

METADATA_PATH = "/.well-known/oauth-protected-resource"


def base_url(request: Request[Any, Any, Any], public_url: str) -> str:
    """Return the address of the service, without a slash at its end: the public one, else as the
    caller reached it."""
    return (public_url if public_url.startswith("http") else str(request.base_url)).rstrip("/")


def metadata_controller(public_url: str, issuer: str, scope: str) -> type[Controller]:
    """Return the controller of an identity provider. scope: that a token must have."""

    class ResourceMetadataController(Controller):
        """Where to get a token for the service and for /mcp."""

        include_in_schema = False
        opt = {"open": True}  # noqa: RUF012 - Litestar's

        @get([METADATA_PATH, f"{METADATA_PATH}/mcp"])
        async def describe(self, request: Request[Any, Any, Any]) -> dict[str, Any]:
            """Name the resource and its authorization server."""
            of = request.url.path.rpartition(METADATA_PATH)[2]
            return {
                "resource": base_url(request, public_url) + of,
                "authorization_servers": [issuer],
                "bearer_methods_supported": ["header"],
                "resource_name": "Fitgauge",
                **({"scopes_supported": [scope]} if scope else {}),
            }

    return ResourceMetadataController
