"""The page at / and its files. They are read at the start: no request opens a file."""

from hashlib import sha256
from pathlib import Path
from typing import Annotated

from litestar import Controller, MediaType, Request, Response, get
from litestar.exceptions import NotFoundException
from litestar.params import PathParameter

_FOLDER = Path(__file__).parents[2] / "web"
_TYPES = {
    ".html": MediaType.HTML,
    ".css": MediaType.CSS,
    ".js": "text/javascript",
}

POLICY = "; ".join(
    (
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "connect-src 'self'",
        "img-src 'self' data:",
        "base-uri 'none'",
        "form-action 'none'",
        "frame-ancestors 'none'",
        "require-trusted-types-for 'script'",
        "trusted-types 'none'",
    )
)
"""Content Security Policy: nothing from elsewhere, nothing inline, no text becomes markup."""

_HEADERS = {
    "Cache-Control": "no-cache",
    "Content-Security-Policy": POLICY,
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
}


class _File:
    """One file of the page."""

    def __init__(self, path: Path) -> None:
        self.content = path.read_bytes()
        self.media_type = _TYPES[path.suffix]
        self.headers = _HEADERS | {"ETag": f'"{sha256(self.content).hexdigest()[:24]}"'}

    def response(self, request: Request) -> Response[bytes]:  # type: ignore[type-arg]
        """Return the file, or 304 where the browser has it."""
        if request.headers.get("If-None-Match") == self.headers["ETag"]:
            return Response(b"", status_code=304, headers=self.headers)
        return Response(self.content, media_type=self.media_type, headers=self.headers)


FILES = {
    path.relative_to(_FOLDER).as_posix(): _File(path)
    for path in sorted(_FOLDER.rglob("*"))
    if path.suffix in _TYPES
}


class PageController(Controller):
    """The page, for people."""

    include_in_schema = False

    @get("/", opt={"page": True})
    async def page(self, request: Request) -> Response[bytes]:  # type: ignore[type-arg]
        """Return the page."""
        return FILES["index.html"].response(request)

    @get("/web/{path:path}", opt={"page": True})
    async def file(
        self,
        path: Annotated[str, PathParameter()],
        request: Request,  # type: ignore[type-arg]
    ) -> Response[bytes]:
        """Return a file of the page."""
        file = FILES.get(path.lstrip("/"))
        if file is None:
            raise NotFoundException()
        return file.response(request)
