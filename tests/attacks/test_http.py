"""Requests that clients and gateways really send, and connections that cost more than they ask."""

import contextlib
import gzip
import json
import re
import socket
from pathlib import Path

import pytest

from fitgauge.api.connection_limits import BoundedConnection
from live import PATIENCE, serving

DATA = Path(__file__).parent / "data"
CLIENTS = sorted(DATA.glob("*.http"))
BODY = json.dumps({"model": "Qwen/Qwen3-8B", "gpu": "H100"}).encode()
JSON = "Content-Type: application/json"


class Impatient(BoundedConnection):
    """The service's connection with bounds that a test can wait for."""

    request_seconds = 0.5
    most_connections = 8


@pytest.fixture(scope="module")
def impatient_port(hub):
    with serving(hub, options={"http": Impatient}) as url:
        yield int(url.rpartition(":")[2])


def post(*lines, body=BODY, path="/v1/fit"):
    head = "\r\n".join([f"POST {path} HTTP/1.1", JSON, f"Content-Length: {len(body)}", *lines])
    return f"{head}\r\n\r\n".encode() + body


def exchange(port, *pieces, answers=1):
    """Return all that comes back: so many whole answers, and what comes in the moment after them.
    The service may close before."""
    with socket.create_connection(("127.0.0.1", port), 5) as link:
        link.settimeout(PATIENCE)
        received = b""
        with contextlib.suppress(ConnectionError):
            for piece in pieces:
                link.sendall(piece)
            while whole_answers(received) < answers and (part := link.recv(65536)):
                received += part
        link.settimeout(0.2)
        with contextlib.suppress(ConnectionError, TimeoutError):
            while part := link.recv(65536):
                received += part
    return received


def whole_answers(received):
    """Return how many answers have come with their bodies: head and body are written apart."""
    heads = re.finditer(rb"HTTP/1\.1 \d{3} .*?\r\n\r\n", received, re.DOTALL)
    return sum(
        len(received) >= head.end() + int(re.search(rb"(?i)content-length: (\d+)", head[0])[1])
        for head in heads
    )


def send_for_ever(link, data):
    while True:
        link.sendall(data)


def statuses(received):
    return [int(status) for status in re.findall(rb"HTTP/1\.1 (\d{3}) ", received)]


@pytest.mark.parametrize("client", CLIENTS, ids=lambda path: path.stem)
def test_what_a_client_sends_is_answered_once(service, client):
    received = exchange(service.port, client.read_bytes())
    assert statuses(received) == [200]
    assert json.loads(received.partition(b"\r\n\r\n")[2])["model"]["id"] == "Qwen/Qwen3-8B"


@pytest.mark.parametrize("client", CLIENTS, ids=lambda path: path.stem)
def test_a_client_sends_its_request_in_pieces_and_twice(service, client):
    request = client.read_bytes()
    pieces = [request[at : at + 7] for at in range(0, len(request), 7)]
    assert statuses(exchange(service.port, *pieces, *pieces, answers=2)) == [200, 200]


@pytest.mark.parametrize("protocol", ["h2c", "websocket", "TLS/1.2", "h2c, websocket"])
def test_an_upgrade_with_a_body_is_an_ordinary_request(service, protocol):
    lines = ("Host: a", "Connection: Upgrade, HTTP2-Settings", f"Upgrade: {protocol}")
    request = post(*lines, "HTTP2-Settings: AAEAAEAAAAIAAAAB")
    head, gap, body = request.partition(b"\r\n\r\n")
    assert statuses(exchange(service.port, head + gap, body)) == [200]
    assert statuses(exchange(service.port, request * 3, answers=3)) == [200] * 3


def test_an_upgrade_does_not_hide_a_second_request_in_its_body(service):
    hidden = b"GET /v1/gpus HTTP/1.1\r\nHost: a\r\n\r\n"
    request = post("Host: a", "Connection: upgrade", "Upgrade: h2c", body=hidden)
    assert statuses(exchange(service.port, request)) == [400]


def test_an_upgrade_in_chunks_is_an_ordinary_request(service):
    lines = ["POST /v1/fit HTTP/1.1", JSON, "Host: a", "Connection: upgrade", "Upgrade: h2c"]
    head = "\r\n".join([*lines, "Transfer-Encoding: chunked", "", ""]).encode()
    assert statuses(
        exchange(service.port, head + b"%x\r\n%s\r\n0\r\n\r\n" % (len(BODY), BODY))
    ) == [200]


def test_a_proxy_request_is_refused(service):
    request = b"CONNECT example.com:80 HTTP/1.1\r\nHost: example.com\r\n\r\n"
    assert statuses(exchange(service.port, request)) == [400]


@pytest.mark.parametrize("hosts", [[], ["Host: a", "Host: b"], ["Host: a", "host: a"]])
def test_a_request_has_exactly_one_host(service, hosts):
    received = exchange(service.port, post(*hosts))
    assert statuses(received) == [400]
    assert b"Host header" in received


@pytest.mark.parametrize(
    "lines",
    [
        ["Transfer-Encoding: chunked"],
        ["Content-Length: 5"],
        ["Transfer-Encoding: chunked", "Connection: upgrade", "Upgrade: h2c"],
        ["Content-Length: 5", "Connection: upgrade", "Upgrade: h2c"],
    ],
    ids=", ".join,
)
def test_conflicting_lengths_are_refused(service, lines):
    assert statuses(exchange(service.port, post("Host: a", *lines))) == [400]


@pytest.mark.parametrize("coding", ["gzip", "br", "zstd", "x, y", "gzip, identity"])
def test_a_body_in_an_unknown_coding_is_refused_as_such(http, coding):
    content, headers = gzip.compress(BODY), {"content-encoding": coding}
    answer = http.post(
        "/v1/fit", content=content, headers={"content-type": "application/json", **headers}
    )
    assert answer.status_code == 415
    assert coding.split(",")[0] in answer.json()["detail"]
    assert "Content-Encoding" in answer.json()["hint"]


def test_a_body_in_the_coding_identity_is_read(http):
    headers = {"content-type": "application/json", "content-encoding": "identity"}
    assert http.post("/v1/fit", content=BODY, headers=headers).status_code == 200


def test_a_caller_that_never_reads_is_closed_and_costs_bounded_memory(impatient_port, service):
    """The same bytes to both: one closes early enough to wait for, of the other memory is
    read."""
    flood = b"GET /v1/gpus HTTP/1.1\r\nHost: a\r\n\r\n" * 20_000
    before = service.pss_mib()
    with socket.create_connection(("127.0.0.1", service.port), 5) as link:
        link.settimeout(2)
        with contextlib.suppress(OSError):
            link.sendall(flood)
        assert service.pss_mib() - before < 40
    with socket.create_connection(("127.0.0.1", impatient_port), 5) as link:
        link.settimeout(20)
        with pytest.raises(ConnectionError):
            send_for_ever(link, flood)


def test_connections_beyond_the_bound_are_refused_and_the_others_answered(impatient_port):
    with contextlib.ExitStack() as links:
        first = links.enter_context(socket.create_connection(("127.0.0.1", impatient_port), 5))
        first.sendall(post("Host: a"))
        assert statuses(first.recv(65536)) == [200]
        for _ in range(Impatient.most_connections - 1):
            links.enter_context(socket.create_connection(("127.0.0.1", impatient_port), 5))
        received = exchange(impatient_port)
        assert statuses(received) == [503]
        assert b"retry-after: 1" in received
        first.sendall(post("Host: a"))
        assert statuses(first.recv(65536)) == [200]
