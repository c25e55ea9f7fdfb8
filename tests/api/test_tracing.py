"""Spans as a collector receives them: names, parents, and no secret."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from fitgauge import spans
from fitgauge.settings import Settings
from hub_stand_in import HubStandIn, safetensors_repository
from live import client, serving

PLANTED = "hf_PLANTEDsecret0123456789abcdef"
TRACE, PARENT = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"


@contextmanager
def collector() -> Iterator[tuple[str, list[bytes]]]:
    """Provide a collector of OTLP over HTTP: its address and the bodies that it received."""
    bodies: list[bytes] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self):
            bodies.append(self.rfile.read(int(self.headers["content-length"])))
            self.send_response(200)
            self.send_header("content-length", "0")
            self.end_headers()

        def log_message(self, *_):
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}", bodies
    finally:
        server.shutdown()
        server.server_close()


def received(bodies):
    """Return the resource's attributes, and every span."""
    resources, found = {}, []
    for body in bodies:
        for group in ExportTraceServiceRequest.FromString(body).resource_spans:
            resources |= {one.key: one.value.string_value for one in group.resource.attributes}
            for scope in group.scope_spans:
                found += scope.spans
    return resources, found


def attributes(span):
    return {one.key: one.value.string_value or one.value.int_value for one in span.attributes}


@pytest.fixture
def traced(monkeypatch):
    """Provide what runs `ask` on a traced service: the spans, and what the Hub was sent."""

    def run(ask, **hub_settings):
        with collector() as (url, bodies), HubStandIn(safetensors_repository("acme/tiny")) as hub:
            monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", url)
            settings = Settings(log_level="warning", tracing=True)
            with serving(hub, settings, **hub_settings) as address, client(address) as http:
                ask(http, hub)
            return bodies, hub

    return run


def test_a_question_is_a_trace_from_the_caller_to_the_hub(traced):
    def ask(http, _):
        http.post(
            "/v1/fit",
            json={"model": "acme/tiny", "gpu": "RTX 4090"},
            headers={"traceparent": f"00-{TRACE}-{PARENT}-01"},
        )

    bodies, hub = traced(ask)
    resource, found = received(bodies)
    names = {span.name: span for span in found}
    assert resource["service.name"] == "fitgauge"
    assert {span.trace_id.hex() for span in found} == {TRACE}
    assert set(names) == {"POST /v1/fit", "resolve model", "hub request", "estimate"}
    server = names["POST /v1/fit"]
    assert server.parent_span_id.hex() == PARENT
    for inner in ("resolve model", "estimate"):
        assert names[inner].parent_span_id == server.span_id
    assert attributes(names["hub request"])["fitgauge.outcome"] == "ok"
    told = attributes(server)
    assert (told["http.route"], told["http.response.status_code"]) == ("/v1/fit", 200)
    assert (told["fitgauge.model"], told["fitgauge.verdict"]) == ("acme/tiny", "fits")
    sent = {request.headers["traceparent"] for request in hub.requests}
    assert sent == {f"00-{TRACE}-{server.span_id.hex()}-01"}


def test_a_search_is_a_span(traced):
    bodies, _ = traced(lambda http, _: http.post("/v1/recommend", json={"model": "acme/tiny"}))
    search = next(span for span in received(bodies)[1] if span.name == "search")
    assert attributes(search) == {"fitgauge.operation": "recommend_gpus"}


def test_no_span_holds_a_secret_or_what_a_caller_made_up(traced):
    def ask(http, hub):
        headers = {"authorization": f"Bearer {PLANTED}", "cookie": PLANTED}
        hub.fault("/api/models/acme/away", drop=True)
        for model in ("acme/tiny", "acme/away", f"acme/{PLANTED}", f"https://x/{PLANTED}"):
            body = {"model": model, "gpu": "RTX 4090"}
            http.post(f"/v1/fit?token={PLANTED}", json=body, headers=headers)
        http.get(f"/v1/gpus/{PLANTED}", headers=headers)
        http.get(f"/{PLANTED}?key={PLANTED}", headers=headers)

    bodies, _ = traced(ask, token=PLANTED, wait_seconds=0.5)
    assert len(received(bodies)[1]) > 6
    assert not [body for body in bodies if PLANTED.encode() in body]


def test_a_collector_that_is_away_costs_no_answer(monkeypatch):
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:9")
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_TIMEOUT", "1")
    with (
        HubStandIn(safetensors_repository("acme/tiny")) as hub,
        serving(hub, Settings(log_level="critical", tracing=True)) as url,
        client(url) as http,
    ):
        assert http.get("/v1/models/acme/tiny").status_code == 200


def test_without_tracing_a_span_is_nothing():
    with spans.span("estimate") as span:
        assert span is None
