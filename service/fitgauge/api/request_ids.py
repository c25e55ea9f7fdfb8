"""X-Request-ID and W3C Trace Context: read from a request, answered with it and handed on."""

import re
from collections.abc import Iterable
from itertools import count
from secrets import token_hex

from fitgauge.hub.request_context import RequestIds

_REQUEST_ID = re.compile(rb"[A-Za-z0-9._:/+=@~-]{1,128}")
_TRACEPARENT = re.compile(
    rb"(?!ff)[0-9a-f]{2}-(?!0{32})[0-9a-f]{32}-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}"
)
"""https://www.w3.org/TR/trace-context/#traceparent-header; what later versions append is ignored,
as are values in another form."""
_TRACESTATE = re.compile(rb"[\x20-\x7e]{1,512}")

_PROCESS = token_hex(8)
_numbers = count(1)


def read_ids(headers: Iterable[tuple[bytes, bytes]]) -> RequestIds:
    """Return the ids of a request by its headers. What could not be written to a log as it is
    (other characters, more than 128) is replaced by an id of this service."""
    request_id = traceparent = tracestate = b""
    for name, value in headers:
        if name == b"x-request-id":
            request_id = value
        elif name == b"traceparent":
            traceparent = value
        elif name == b"tracestate":
            tracestate = value
    if not request_id or not _REQUEST_ID.fullmatch(request_id):
        request_id = b"%s-%x" % (_PROCESS.encode(), next(_numbers))
    if not traceparent or not _TRACEPARENT.fullmatch(traceparent):
        return RequestIds(request_id.decode())
    if not _TRACESTATE.fullmatch(tracestate):
        tracestate = b""
    return RequestIds(request_id.decode(), traceparent.decode(), tracestate.decode())


def answer_headers(ids: RequestIds) -> list[tuple[bytes, bytes]]:
    """Return the headers with which a request is answered."""
    headers = [(b"x-request-id", ids.request_id.encode())]
    if ids.traceparent:
        headers.append((b"traceparent", ids.traceparent.encode()))
    return headers
