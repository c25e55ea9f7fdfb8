"""X-Request-ID and W3C Trace Context: read, answered and handed on to the Hub."""

import re

import pytest

from fitgauge.api.request_ids import read_ids
from fitgauge.hub.request_context import RequestIds

TRACE = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"


def test_a_callers_id_is_answered_and_handed_on_to_the_hub(http, stand_in):
    sent = {"X-Request-ID": "edge-1234", "traceparent": TRACE, "tracestate": "vendor=1"}
    answer = http.get("/v1/models/acme/large@abc", headers=sent)
    assert (answer.headers["x-request-id"], answer.headers["traceparent"]) == ("edge-1234", TRACE)
    asked = [request.headers for request in stand_in.requests if "/abc" in request.path]
    assert asked
    for headers in asked:
        assert {
            "x-request-id": "edge-1234",
            "traceparent": TRACE,
            "tracestate": "vendor=1",
        }.items() <= (headers.items())


def test_every_answer_has_an_id_of_its_own_where_the_caller_sent_none(http):
    answers = [http.get("/health/live"), http.get("/no/such/path"), http.get("/health/live")]
    ids = [answer.headers["x-request-id"] for answer in answers]
    assert len({*ids}) == 3
    assert all(re.fullmatch(r"[0-9a-f]{16}-[0-9a-f]+", one) for one in ids)
    assert "traceparent" not in answers[0].headers


@pytest.mark.parametrize(
    "sent", [b"", b"a b", b"line\nfeed", b'"quoted"', b"x" * 129, "ü".encode(), b"{json}"]
)
def test_what_no_log_could_hold_as_it_is_becomes_an_id_of_the_service(sent):
    assert read_ids([(b"x-request-id", sent)]).request_id.encode() != sent


@pytest.mark.parametrize(
    "sent",
    [
        TRACE.upper(),
        TRACE.replace("00-", "ff-", 1),
        f"00-{'0' * 32}-00f067aa0ba902b7-01",
        f"00-4bf92f3577b34da6a3ce929d0e0e4736-{'0' * 16}-01",
        TRACE[:-3],
        TRACE + "-more",
    ],
)
def test_an_invalid_traceparent_is_ignored_with_its_tracestate(sent):
    ids = read_ids([(b"traceparent", sent.encode()), (b"tracestate", b"vendor=1")])
    assert ids == RequestIds(ids.request_id)


def test_every_answer_names_the_version_of_the_document(http):
    version = http.get("/schema/openapi.json").json()["info"]["version"]
    answers = [http.get("/v1/gpus"), http.post("/v1/fit", content=b""), http.get("/none")]
    assert {answer.headers["api-version"] for answer in answers} == {version}
