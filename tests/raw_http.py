"""Bytes to and from a socket, as no client library would send them."""

import contextlib
import json
import re
import socket
import time

BODY = json.dumps({"model": "acme/tiny", "gpu": "RTX 4090"}).encode()


def head(*lines, path="/v1/fit", method="POST", version="HTTP/1.1"):
    return "\r\n".join([f"{method} {path} {version}", "host: x", *lines, "", ""]).encode("latin-1")


def good(*lines, close=False):
    extra = ["connection: close"] if close else []
    return (
        head("content-type: application/json", f"content-length: {len(BODY)}", *extra, *lines)
        + BODY
    )


def exchange(port, *pieces, pause=0.0, wait=5.0):
    """Return all that comes back until the service closes, or has been silent for `wait`
    seconds."""
    with socket.create_connection(("127.0.0.1", port), 5) as link:
        link.settimeout(wait)
        received = b""
        with contextlib.suppress(ConnectionError):
            for piece in pieces:
                link.sendall(piece)
                time.sleep(pause)
        with contextlib.suppress(ConnectionError, TimeoutError):
            while part := link.recv(65536):
                received += part
    return received


def statuses(received):
    return [int(status) for status in re.findall(rb"HTTP/1\.[01] (\d{3}) ", received)]


def assert_refused(received):
    assert all(400 <= status < 500 for status in statuses(received)), received[:500]
