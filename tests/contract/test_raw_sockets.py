"""What no client library would send: the service answers 4xx or closes, never 5xx, never hangs,
and answers a good question afterwards."""

import contextlib
import json
import os
import resource
import signal
import socket
import subprocess
import sys
import threading
import time
from functools import partial
from pathlib import Path

import httpx
import pytest

from fitgauge.api.connection_limits import BoundedConnection
from hub_stand_in import HubStandIn, safetensors_repository
from live import PATIENCE, serving
from raw_http import BODY, assert_refused, exchange, good, head, statuses

pytestmark = pytest.mark.usefixtures("still_answers")

SERVICE = Path(__file__).parents[2] / "service"


class Impatient(BoundedConnection):
    """The service's connection with bounds that a test can wait for."""

    request_seconds = 0.5


@pytest.fixture(scope="module")
def impatient_port():
    with (
        HubStandIn(safetensors_repository("acme/tiny")) as hub,
        serving(hub, options={"http": Impatient}) as url,
    ):
        yield int(url.rpartition(":")[2])


GARBAGE = [
    b"\r\n\r\n\r\n",
    b"GARBAGE\r\n\r\n",
    b"\x00\x01\x02\x03\r\n\r\n",
    b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(64),
    b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    b"GET\r\n\r\n",
    b"GET / HTTP/9.9\r\n\r\n",
    b"GET /v1/gpus FTP/1.1\r\n\r\n",
    b"get /v1/gpus HTTP/1.1\r\nhost: x\r\n\r\n",
    b"FROBNICATE /v1/gpus HTTP/1.1\r\nhost: x\r\n\r\n",
    b"GET /v1/gpus HTTP/1.1\nhost: x\n\n",
    b"GET /\xff\xfe HTTP/1.1\r\nhost: x\r\n\r\n",
    b"GET /v1/gpus HTTP/1.1\r\nhost x\r\n\r\n",
    b"GET /v1/gpus HTTP/1.1\r\n: x\r\n\r\n",
    b"GET /v1/gpus HTTP/1.1\r\nho st: x\r\n\r\n",
    b"GET /v1/gpus HTTP/1.1\r\nhost: x\r\nx: a\x00b\r\n\r\n",
    b"GET /v1/gpus HTTP/1.1\r\nhost: x\r\nx: a\rset-cookie: b\r\n\r\n",
    b"GET /v1/gpus HTTP/1.1\r\nhost: x\r\n folded: x\r\n\r\n",
    b"OPTIONS * HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n",
    b"CONNECT example.com:80 HTTP/1.1\r\nhost: x\r\n\r\n",
    b"TRACE /v1/fit HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n",
    b"PURGE /v1/fit HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n",
]


@pytest.mark.parametrize("sent", GARBAGE, ids=lambda sent: repr(sent[:24]))
def test_garbage_is_refused(port, sent):
    with socket.create_connection(("127.0.0.1", port), 5) as link:
        link.sendall(sent)
        link.shutdown(socket.SHUT_WR)
        link.settimeout(5)
        received = b""
        with contextlib.suppress(ConnectionError):
            while part := link.recv(65536):
                received += part
    if b"HTTP/1.1\nhost" in sent:
        assert statuses(received) in ([200], [400])
    else:
        assert_refused(received)


def test_what_is_no_http_is_refused_in_the_words_of_the_contract(port):
    received = exchange(port, b"GARBAGE\r\n\r\n")
    assert b"content-type: application/problem+json" in received
    assert json.loads(received.partition(b"\r\n\r\n")[2])["hint"]


@pytest.mark.parametrize(
    "path",
    [
        "/v1/gpus/" + "a" * 10_000,
        "/v1/gpus?" + "a=b&" * 10_000,
        "/v1/gpus?limit=" + "9" * 10_000,
        "/v1/models/a%2Fb/c",
        "/v1/models/a/b%2Fc%2Fd",
        "/v1/gpus/%00",
        "/v1/gpus/a%0d%0aset-cookie:%20a=b",
        "/v1/gpus/%",
        "/v1/gpus/%zz",
        "/v1/gpus/%ff%fe",
        "/v1/gpus/%F0%9F%99%82",
        "/v1/models/../../etc/passwd",
        "/v1/models/%2e%2e/%2e%2e",
        "/v1/models/..%2f..%2fetc/passwd",
        "/v1/gpus?%ff=%fe",
        "/v1/gpus?a[]=1",
        "/v1/gpus?limit=1%00",
        "/v1/gpus?=",
        "http://elsewhere/v1/unknown",
        "//elsewhere/v1/gpus",
        "http://",
        "*",
        "v1/gpus",
    ],
)
def test_a_strange_path_is_refused_and_not_reflected_into_the_head(port, path):
    received = exchange(port, head("connection: close", path=path, method="GET"))
    assert statuses(received)
    assert_refused(received)
    assert b"set-cookie" not in received.partition(b"\r\n\r\n")[0].lower()


@pytest.mark.parametrize(
    "path",
    [
        "http://elsewhere/v1/gpus/rtx-4090",
        "/v1/gpus/rtx-4090?",
        "/v1//gpus/rtx-4090/",
        "/v1/gpus/rtx-4090#x",
    ],
)
def test_another_spelling_of_a_path_is_answered(port, path):
    assert statuses(exchange(port, head("connection: close", path=path, method="GET"))) == [200]


def test_http_1_0_is_answered_and_closed(port):
    assert statuses(exchange(port, b"GET /health/live HTTP/1.0\r\n\r\n")) == [200]


def test_pipelined_questions_are_answered_in_order(port):
    gpu = head(path="/v1/gpus/rtx-4090", method="GET")
    received = exchange(port, good() + gpu + head(path="/nowhere", method="GET") + good(close=True))
    assert statuses(received) == [200, 200, 404, 200]


def test_a_hundred_pipelined_questions_are_answered(port):
    assert statuses(exchange(port, good() * 99 + good(close=True))) == [200] * 100


def test_expect_100_continue_is_honoured(port):
    received = exchange(
        port,
        head(
            "content-type: application/json",
            f"content-length: {len(BODY)}",
            "expect: 100-continue",
            "connection: close",
        ),
        BODY,
        pause=0.1,
    )
    assert statuses(received) == [100, 200]


def test_an_upgrade_is_ignored(port):
    lines = [
        "connection: upgrade, close",
        "upgrade: websocket",
        "sec-websocket-key: x",
        "sec-websocket-version: 13",
    ]
    assert statuses(
        exchange(port, head(*lines, path="/v1/gpus/rtx-4090", method="GET"), wait=1)
    ) == [200]


def test_a_body_cut_off_leaves_nothing_behind(port):
    for _ in range(20):
        with socket.create_connection(("127.0.0.1", port), 5) as link:
            link.sendall(good()[:-5])


def test_a_caller_that_leaves_before_the_answer_is_no_defect(port, caplog):
    for _ in range(20):
        with socket.create_connection(("127.0.0.1", port), 5) as link:
            link.sendall(good())
            link.setsockopt(
                socket.SOL_SOCKET, socket.SO_LINGER, b"\x01\x00\x00\x00\x00\x00\x00\x00"
            )
    assert statuses(exchange(port, good(close=True))) == [200]
    assert "defect" not in caplog.text
    metrics = exchange(port, head("connection: close", path="/metrics", method="GET"))
    assert b'status="5' not in metrics


def test_a_slow_body_is_answered_when_it_is_there(port):
    whole = good(close=True)
    pieces = [whole[at : at + 20] for at in range(0, len(whole), 20)]
    assert statuses(exchange(port, *pieces, pause=0.01)) == [200]


@pytest.mark.parametrize(
    "sent",
    [b"", b"POST /v1/fit HT", head()[:-2], good()[:-5]],
    ids=["nothing", "line", "head", "body"],
)
def test_a_request_that_never_ends_is_closed(impatient_port, sent):
    with socket.create_connection(("127.0.0.1", impatient_port), 8) as link:
        link.sendall(sent)
        assert_refused(b"".join(iter(partial(link.recv, 65536), b"")))  # ends where it is closed


def test_a_connection_that_asks_again_and_again_is_kept_beyond_the_bound_of_one_request(
    impatient_port,
):
    with socket.create_connection(("127.0.0.1", impatient_port), 5) as link:
        for _ in range(4):
            link.sendall(good())
            assert b" 200 " in link.recv(65536)[:20]
            time.sleep(0.3)


def test_a_thousand_idle_connections_are_borne(port):
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, 4096), hard))
    links = []
    try:
        for number in range(1000):
            links.append(socket.create_connection(("127.0.0.1", port), 5))
            if number % 2:
                links[-1].sendall(b"POST /v1/fit HTTP/1.1\r\nhost: x\r\n")
        assert statuses(exchange(port, good(close=True))) == [200]
    finally:
        for link in links:
            link.close()
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_sigterm_finishes_the_request_under_way():
    with HubStandIn(safetensors_repository("acme/tiny")) as hub:
        hub.fault("acme/tiny", times=1, delay=0.7)
        with socket.create_server(("127.0.0.1", 0)) as probe:
            port = probe.getsockname()[1]
        environment = {
            **os.environ, "HF_ENDPOINT": hub.url, "HF_HOME": "/nonexistent", "HF_HUB_OFFLINE": "0",
            "NO_PROXY": "127.0.0.1",
            "PYTHONPATH": str(SERVICE), "FITGAUGE_HUB_WAIT_SECONDS": "5",
        }  # fmt: skip
        command = [sys.executable, "-m", "fitgauge", "serve", "--port", str(port)]
        with subprocess.Popen(
            command, env=environment, stderr=subprocess.PIPE, text=True
        ) as process:
            try:
                url = f"http://127.0.0.1:{port}"
                answers = []
                await_ready(url)
                question = {"model": "acme/tiny", "gpu": "RTX 4090"}
                asking = threading.Thread(
                    target=lambda: answers.append(
                        httpx.post(
                            f"{url}/v1/fit", json=question, trust_env=False, timeout=PATIENCE
                        )
                    )
                )
                asking.start()
                while not hub.count("acme/tiny"):
                    time.sleep(0.005)
                process.send_signal(signal.SIGTERM)
                asking.join(PATIENCE)
                assert [answer.status_code for answer in answers] == [200]
                process.wait(PATIENCE)
                said = process.stderr.read()
            finally:
                process.kill()
    assert "method=POST route=/v1/fit status=200 ms=" in said
    assert "Traceback" not in said


def await_ready(url):
    end = time.monotonic() + PATIENCE
    while time.monotonic() < end:
        with contextlib.suppress(httpx.TransportError):
            httpx.get(f"{url}/health/ready", trust_env=False)
            return
        time.sleep(0.02)
    raise AssertionError("the service did not start")
