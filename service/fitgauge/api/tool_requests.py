"""Bodies and errors of /tools: any JSON object in, {"error", "code", "send", "or"} out."""

import math
from difflib import get_close_matches
from typing import Any

import msgspec
from litestar import MediaType, Request, Response

from fitgauge.api.problems import STATUS, RequestError
from fitgauge.errors import HubError, QueueFullError
from fitgauge.services.common.answered import note_code
from fitgauge.services.tools.errors import ToolCallError, UnknownToolError
from fitgauge.services.tools.faces import TOOLS
from fitgauge.services.tools.schemas import ToolError

_WRAPPERS = ("arguments", "args", "input", "inputs", "parameters", "params", "body", "requestBody")
"""Keys under which some hosts send the arguments."""


class ArgumentsDecoder:
    """Decode JSON into the arguments of a call, also where a host wraps or encodes them twice."""

    def __init__(self, largest: int) -> None:
        """Build a decoder. largest: bytes of a body."""
        self.largest = largest

    def __deepcopy__(self, _: object) -> "ArgumentsDecoder":
        """Return itself: Litestar copies a controller's handlers with their `opt`."""
        return self

    def decode(self, raw: bytes) -> dict[str, Any]:
        """Return the arguments. Raises RequestError 400 where it is not JSON, 422 where it is not
        an object."""
        sent = _decoded(raw)
        if isinstance(sent, str) and sent.lstrip().startswith("{"):
            sent = _decoded(sent.encode())
        if isinstance(sent, dict) and len(sent) == 1:
            (key, inner), *_ = sent.items()
            if key in _WRAPPERS and isinstance(inner, str) and inner.lstrip().startswith("{"):
                inner = _decoded(inner.encode())
            if key in _WRAPPERS and isinstance(inner, dict):
                sent = inner
        if isinstance(sent, dict):
            return sent
        raise RequestError(
            422, "invalid-request", "The arguments must be one JSON object.", "Send an object."
        )


def _decoded(raw: bytes) -> Any:  # noqa: ANN401 - JSON is any
    try:
        return msgspec.json.decode(raw)
    except (msgspec.MsgspecError, UnicodeError):
        detail = "The body is not JSON."
    except RecursionError:
        detail = "The JSON is nested too deeply."
    raise RequestError(400, "malformed-json", detail, "Send an object.")


def _response(error: ToolError, status: int, headers: dict[str, str]) -> Response[bytes]:
    note_code(error.code)
    return Response(
        msgspec.json.encode(error), status_code=status, media_type=MediaType.JSON, headers=headers
    )


def on_tool_error(_: Request[Any, Any, Any], error: ToolCallError) -> Response[bytes]:
    """Answer a call without an answer, with the status that /v1 has."""
    reason, headers = error.reason, {}
    if isinstance(reason, HubError | QueueFullError):
        headers["Retry-After"] = str(max(1, math.ceil(reason.retry_after_seconds)))
    return _response(error.answer, STATUS[type(reason)][0], headers)


def on_unknown_tool(_: Request[Any, Any, Any], error: UnknownToolError) -> Response[bytes]:
    """Answer 404 with the tools there are, the nearest first."""
    nearest = get_close_matches(error.name, TOOLS, n=len(TOOLS), cutoff=0)
    short = ToolError(error=f"Unknown tool {error.name[:40]!r}.", code="unknown-path")
    short.alternatives = nearest
    return _response(short, 404, {})


def on_tool_request_error(_: Request[Any, Any, Any], error: RequestError) -> Response[bytes]:
    """Answer with a request that is refused before it is answered."""
    headers = {"Retry-After": str(error.retry_after)} if error.retry_after else {}
    short = ToolError(error=f"{error.detail} {error.hint}", code=error.slug)
    if error.matches:
        short.alternatives = list(error.matches)
    return _response(short, error.status, headers)
