"""What MCP hosts may read: a model, a GPU, how far estimates are off, and the picture of an
answer."""

import json
from collections.abc import Mapping
from importlib.resources import files
from urllib.parse import quote, unquote

import mcp_types as types
from mcp.shared.exceptions import MCPError

from fitgauge_plugin.calls import Call

BAR = "ui://fitgauge/bar.html"
BAR_TYPE = "text/html;profile=mcp-app"
ACCURACY = "fitgauge://accuracy"
_MODEL = "fitgauge://models/"
_GPU = "fitgauge://gpus/"
_JSON = "application/json"
_NOT_FOUND = -32602
"""The protocol's code for a resource that does not exist."""

LISTED = [
    types.Resource(
        uri=ACCURACY,
        name="accuracy",
        title="Accuracy",
        description="How far estimates are off, against measured runs.",
        mime_type=_JSON,
    ),
    types.Resource(
        uri=BAR,
        name="bar",
        title="Memory of one GPU",
        description="Draws the answer of check_fit and check_training_fit.",
        mime_type=BAR_TYPE,
    ),
]

TEMPLATES = [
    types.ResourceTemplate(
        uri_template=_MODEL + "{owner}/{name}",
        name="model",
        title="Model",
        description="Layers, parameters, context and files of a model by its Hugging Face ID.",
        mime_type=_JSON,
    ),
    types.ResourceTemplate(
        uri_template=_GPU + "{id}",
        name="gpu",
        title="GPU",
        description="Usable memory, bandwidth and price of a GPU, by any usual name.",
        mime_type=_JSON,
    ),
]


async def read(uri: str, call: Call, headers: Mapping[str, str]) -> types.ReadResourceResult:
    """Return a resource. Raises MCPError where there is none of that address."""
    if uri == BAR:
        page = files("fitgauge_plugin").joinpath("bar.html").read_text("utf-8")
        return _contents(uri, page, BAR_TYPE)
    path = _path(uri)
    if path is None:
        raise MCPError(_NOT_FOUND, "Unknown resource.", data={"uri": uri[:200]})
    reply = await call("GET", path, None, headers)
    if not reply.is_success:
        reason = reply.body.get("detail", f"The service answered {reply.status}.")
        raise MCPError(_NOT_FOUND, str(reason), data={"uri": uri[:200]})
    return _contents(uri, json.dumps(reply.body, ensure_ascii=False), _JSON)


def _path(uri: str) -> str | None:
    """Return where the API answers a resource; None for an unknown one."""
    if uri == ACCURACY:
        return "/v1/accuracy"
    for start, path, parts in ((_MODEL, "/v1/models/", 2), (_GPU, "/v1/gpus/", 1)):
        if uri.startswith(start):
            segments = [unquote(segment) for segment in uri[len(start) :].split("/")]
            if len(segments) == parts and all(segment.strip(". ") for segment in segments):
                return path + "/".join(quote(segment, safe="") for segment in segments)
    return None


def _contents(uri: str, text: str, mime_type: str) -> types.ReadResourceResult:
    contents = types.TextResourceContents(uri=uri, mime_type=mime_type, text=text)
    return types.ReadResourceResult(contents=[contents])
