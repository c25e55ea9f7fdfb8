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
    for header, value in headers:
        if header == b"x-request-id":
            request_id = value
        elif header == b"traceparent":
            traceparent = value
        elif header == b"tracestate":
            tracestate = value
    if not request_id or not _REQUEST_ID.fullmatch(request_id):
        name = f"{_PROCESS}-{next(_numbers):x}"
    else:
        name = request_id.decode()
    if not traceparent or not _TRACEPARENT.fullmatch(traceparent):
        return RequestIds(name)
    if not _TRACESTATE.fullmatch(tracestate):
        tracestate = b""
    return RequestIds(name, traceparent.decode(), tracestate.decode())


def answer_headers(ids: RequestIds) -> list[tuple[bytes, bytes]]:
    """Return the headers with which a request is answered."""
    headers = [(b"x-request-id", ids.request_id.encode())]
    if ids.traceparent:
        headers.append((b"traceparent", ids.traceparent.encode()))
    return headers
