"""Lengths, chunks and heads that lie: the service refuses or closes, and answers a good question
afterwards."""

import pytest

from raw_http import BODY, assert_refused, exchange, head, statuses

pytestmark = pytest.mark.usefixtures("still_answers")

LENGTHS = [
    ["content-length: -1"],
    ["content-length: x"],
    ["content-length: 1e3"],
    ["content-length: +5"],
    ["content-length: 99999999999999999999999999"],
    ["content-length: 5", "content-length: 6"],
    [f"content-length: {len(BODY)}", "transfer-encoding: chunked"],
    ["transfer-encoding: gzip"],
    ["transfer-encoding: identity, chunked, x"],
    ["content-length: 18446744073709551615"],
]


@pytest.mark.parametrize("lines", LENGTHS, ids=", ".join)
def test_lies_about_length_are_refused(port, lines):
    received = exchange(port, head("content-type: application/json", *lines) + BODY, wait=1)
    assert statuses(received)
    assert_refused(received)


def test_a_length_that_is_left_out_means_no_body(port):
    received = exchange(port, head("content-type: application/json", "connection: close"))
    assert statuses(received) == [400]
    assert b"malformed-json" in received


def test_a_length_shorter_than_the_body_is_refused(port):
    received = exchange(port, head("content-type: application/json", "content-length: 10") + BODY)
    assert statuses(received)[0] == 400
    assert_refused(received)


CHUNKS = [
    b"ZZ\r\n{}\r\n0\r\n\r\n",
    b"-1\r\n{}\r\n0\r\n\r\n",
    b"2\r\n{}{}\r\n0\r\n\r\n",
    b"FFFFFFFFFFFFFFFFFF\r\n{}\r\n0\r\n\r\n",
    b"2;" + b"x" * 100_000 + b"\r\n{}\r\n0\r\n\r\n",
    b"0\r\n" + b"trailer: x\r\n" * 20_000 + b"\r\n",
    b"0\r\n\r\n",
]


@pytest.mark.parametrize("chunks", CHUNKS, ids=lambda chunks: repr(chunks[:20]))
def test_chunks_that_lie_are_refused(port, chunks):
    received = exchange(
        port,
        head("content-type: application/json", "transfer-encoding: chunked", "connection: close")
        + chunks,
        wait=1,
    )
    assert_refused(received)


def test_a_body_in_honest_chunks_is_read(port):
    chunks = (
        b"".join(b"%x\r\n%s\r\n" % (1, BODY[at : at + 1]) for at in range(len(BODY))) + b"0\r\n\r\n"
    )
    received = exchange(
        port,
        head("content-type: application/json", "transfer-encoding: chunked", "connection: close")
        + chunks,
    )
    assert statuses(received) == [200]


@pytest.mark.parametrize(
    "lines",
    [
        ["x: " + "a" * 1_000_000],
        [f"x{number}: {'a' * 100}" for number in range(10_000)],
        ["cookie: " + "a=b; " * 100_000],
    ],
    ids=["one long", "many", "cookie"],
)
def test_a_giant_head_is_refused(port, lines):
    received = exchange(port, head(*lines, path="/v1/gpus", method="GET"), wait=2)
    assert_refused(received)


def test_a_head_that_grows_for_ever_is_refused(port):
    pieces = [head(method="GET", path="/v1/gpus")[:-2]] + [b"x: " + b"a" * 1000 + b"\r\n"] * 500
    received = exchange(port, *pieces, wait=2)
    assert statuses(received) in ([431], [])
