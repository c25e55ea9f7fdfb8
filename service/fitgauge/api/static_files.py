"""Files that are read at the start: no request opens one."""

from hashlib import sha256
from pathlib import Path

from litestar import MediaType, Request, Response

_TYPES = {
    ".css": MediaType.CSS, ".html": MediaType.HTML, ".js": "text/javascript",
    ".json": MediaType.JSON, ".log": MediaType.TEXT, ".png": "image/png", ".svg": "image/svg+xml",
    ".toml": "application/toml",
}  # fmt: skip

_HEADERS = {
    "Cache-Control": "no-cache",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
}


class StaticFile:
    """One file with its headers."""

    def __init__(self, path: Path, policy: str, *, without: bytes = b"") -> None:
        """policy: its Content Security Policy; without: what is cut out of it."""
        self.content = path.read_bytes().replace(without, b"")
        self.media_type = _TYPES[path.suffix]
        self.headers = _HEADERS | {
            "Content-Security-Policy": policy,
            "ETag": f'"{sha256(self.content).hexdigest()[:24]}"',
        }

    def response(self, request: Request) -> Response[bytes]:  # type: ignore[type-arg]
        """Return the file, or 304 where the browser has it."""
        if request.headers.get("If-None-Match") == self.headers["ETag"]:
            return Response(b"", status_code=304, headers=self.headers)
        return Response(self.content, media_type=self.media_type, headers=self.headers)


def files_of(folder: Path) -> dict[str, Path]:
    """Return the files of a folder that can be served, by their paths in it."""
    return {
        path.relative_to(folder).as_posix(): path
        for path in sorted(folder.rglob("*"))
        if path.suffix in _TYPES
    }
