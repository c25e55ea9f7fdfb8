"""The documentation at /docs, as `make docs` builds it."""

import re
from base64 import b64encode
from hashlib import sha256
from pathlib import Path
from typing import Annotated

from litestar import Controller, Request, Response, get
from litestar.exceptions import NotFoundException
from litestar.params import PathParameter
from litestar.response import Redirect

from fitgauge.api.problems import RequestError
from fitgauge.api.static_files import StaticFile, files_of

_FOLDER = Path(__file__).parents[2] / "site"
_INLINE_SCRIPT = re.compile(r"<script[^>]*>(.+?)</script>", re.DOTALL)


def read_site(folder: Path) -> dict[str, StaticFile]:
    """Return the files of a built site by their paths in it, none where it is not built."""
    return {
        name: StaticFile(path, policy(path.read_text("utf-8") if path.suffix == ".html" else ""))
        for name, path in files_of(folder).items()
    }


def policy(html: str) -> str:
    """Return the Content Security Policy of a page: nothing from elsewhere, and of inline scripts
    those alone that the generator wrote into this page. Its code adds styles to elements."""
    hashes = (sha256(script.encode()).digest() for script in _INLINE_SCRIPT.findall(html))
    scripts = " ".join(f"'sha256-{b64encode(digest).decode()}'" for digest in hashes)
    return "; ".join(
        (
            "default-src 'none'",
            f"script-src 'self' {scripts}".rstrip(),
            "style-src 'self' 'unsafe-inline'",
            "connect-src 'self'",
            "img-src 'self' data:",
            "worker-src 'self'",
            "base-uri 'none'",
            "form-action 'none'",
            "frame-ancestors 'none'",
        )
    )


FILES = read_site(_FOLDER)


class DocsController(Controller):
    """The documentation, for people."""

    include_in_schema = False

    @get(["/docs", "/docs/{path:path}"])
    async def page(
        self,
        request: Request,  # type: ignore[type-arg]
        path: Annotated[str, PathParameter()] = "",
    ) -> Response[bytes] | Redirect:
        """Return a page or a file of the documentation."""
        if not FILES:
            raise RequestError(
                404,
                "unknown-path",
                "The documentation is not built here.",
                "Run `make docs` and start the service again, or read the folder docs.",
            )
        name = path.strip("/")
        if name in FILES:
            return FILES[name].response(request)
        index = FILES.get(f"{name}/index.html".lstrip("/"))
        if index is None:
            raise NotFoundException()
        if not request.scope["raw_path"].endswith(b"/"):  # links of the page are relative to it
            return Redirect(f"{name.rpartition('/')[2] or 'docs'}/")
        return index.response(request)
