"""The page at / and its files."""

from pathlib import Path
from typing import Annotated

from litestar import Controller, Request, Response, get
from litestar.exceptions import NotFoundException
from litestar.params import PathParameter

from fitgauge.api.controllers import docs
from fitgauge.api.static_files import StaticFile, files_of

_FOLDER = Path(__file__).parents[2] / "web"

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

_DOCS_LINK = b'<link rel="help" href="docs/">\n'

FILES = {
    name: StaticFile(path, POLICY, without=b"" if docs.FILES else _DOCS_LINK)
    for name, path in files_of(_FOLDER).items()
}


class PageController(Controller):
    """The page, for people."""

    include_in_schema = False

    @get("/")
    async def page(self, request: Request) -> Response[bytes]:  # type: ignore[type-arg]
        """Return the page."""
        return FILES["index.html"].response(request)

    @get("/web/{path:path}")
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
