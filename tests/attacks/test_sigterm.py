"""SIGTERM under load: requests that have arrived are answered, connections are told to close."""

import signal
import socket
import subprocess
import time

import pytest

from live.callers import BODY, Caller
from live.process import running

REQUEST = (
    b"POST /v1/fit HTTP/1.1\r\nhost: a\r\ncontent-type: application/json\r\ncontent-length:"
    b" %d\r\n\r\n%s" % (len(BODY), BODY)
)


@pytest.fixture
def stopping(hub, tmp_path):
    """Provide a service that a test stops."""
    with running(hub.url, tmp_path) as process:
        yield process


def test_no_keep_alive_client_loses_a_request(stopping):
    callers = [Caller(stopping.port) for _ in range(20)]
    for caller in callers:
        caller.start()
    while not all(caller.answered > 5 for caller in callers):
        time.sleep(0.01)
    assert stopping.terminate() == 0
    for caller in callers:
        caller.join(20)
    assert [caller.lost for caller in callers] == [0] * 20
    assert all(caller.told_to_close for caller in callers)


def test_a_request_on_its_way_to_an_idle_connection_is_answered(stopping):
    with socket.create_connection(("127.0.0.1", stopping.port), 5) as link:
        link.sendall(REQUEST)
        link.recv(65536)
        stopping.popen.send_signal(signal.SIGTERM)
        while b"Shutting down" not in stopping.log.read_bytes():
            time.sleep(0.01)
        link.sendall(REQUEST)
        received = b""
        while part := link.recv(65536):
            received += part
    assert received.count(b"HTTP/1.1 200 ") == 1
    assert b"connection: close" in received
    assert stopping.popen.wait(20) == 0


def test_requests_sent_ahead_of_their_turn_are_answered(stopping):
    with socket.create_connection(("127.0.0.1", stopping.port), 5) as link:
        link.sendall(REQUEST * 50)
        stopping.popen.send_signal(signal.SIGTERM)
        received = b""
        while part := link.recv(65536):
            received += part
    assert received.count(b"HTTP/1.1 200 ") == 50
    assert received.count(b"connection: close") <= 1
    assert stopping.popen.wait(20) == 0


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_service_that_is_told_to_stop_exits_with_code_0(stopping, number):
    with socket.create_connection(("127.0.0.1", stopping.port), 5):
        stopping.popen.send_signal(number)
        assert stopping.popen.wait(20) == 0
    assert b"Traceback" not in stopping.log.read_bytes()


def test_a_request_that_never_ends_does_not_keep_the_service_up(stopping):
    with socket.create_connection(("127.0.0.1", stopping.port), 5) as link:
        link.sendall(REQUEST[:-5])
        try:
            assert stopping.terminate(25) == 0
        except subprocess.TimeoutExpired:
            pytest.fail("the service still runs")
