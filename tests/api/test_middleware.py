"""What operators see: counts, times, a line for each request, and nothing of what was asked."""

import asyncio
import re

import httpx
import pytest
from litestar import Litestar, get
from prometheus_client import CollectorRegistry

from fitgauge.api.metrics import RequestMetrics
from fitgauge.api.middleware import ObservabilityMiddleware, TokenBucket
from fitgauge.api.problem_responses import on_defect
from fitgauge.settings import Settings
from hub_stand_in import HubStandIn, safetensors_repository
from live import client, serving


def counted(http):
    """Return requests by (method, route, status)."""
    text = http.get("/metrics").text
    return {
        (labels["method"], labels["route"], labels["status"]): float(number)
        for line, number in re.findall(r"^fitgauge_requests_total{(.*)} (\S+)$", text, re.MULTILINE)
        for labels in [dict(re.findall(r'(\w+)="([^"]*)"', line))]
    }


def test_requests_are_counted_by_route_and_never_by_what_callers_make_up():
    with (
        HubStandIn(safetensors_repository("acme/tiny")) as hub,
        serving(hub) as url,
        client(url) as http,
    ):
        for name in ("tiny", "none", "tiny"):
            http.get(f"/v1/models/acme/{name}")
        http.get("/made/up/1")
        http.get("/made/up/2")
        http.head("/v1/gpus")
        counts = counted(http)
    route = "/v1/models/{owner}/{name}"
    assert counts == {
        ("GET", route, "200"): 2,
        ("GET", route, "404"): 1,
        ("GET", "unknown", "404"): 2,
        ("HEAD", "/v1/gpus", "200"): 1,
    }


def test_metrics_are_what_prometheus_reads(http):
    http.get("/health/live")
    response = http.get("/metrics")
    assert response.headers["content-type"].startswith("text/plain; version=")
    assert 'fitgauge_request_seconds_bucket{le="+Inf",route="/health/live"}' in response.text


def test_health_asks_nobody(http, stand_in):
    before = stand_in.count()
    assert (
        http.get("/health/live").json()["status"]
        == http.get("/health/ready").json()["status"]
        == "ok"
    )
    assert stand_in.count() == before


def test_the_log_has_one_line_a_request_and_nothing_of_its_content(capfd):
    with (
        HubStandIn(safetensors_repository("acme/tiny")) as hub,
        serving(hub, Settings(log_level="info")) as url,
        client(url) as http,
    ):
        http.post("/v1/fit?secret=1", json={"model": "acme/secret", "gpu": "RTX 4090"})
        http.get("/v1/gpus/secret?secret=1")
    lines = [line for line in capfd.readouterr().err.splitlines() if "fitgauge.access" in line]
    assert [re.sub(r"^\S+ | ms=\d+\.\d\d| request_id=\S+$", "", line) for line in lines] == [
        "INFO fitgauge.access method=POST route=/v1/fit status=404 code=unknown-model",
        "INFO fitgauge.access method=GET route=/v1/gpus/{id} status=422 code=invalid-request",
    ]
    assert not any("secret" in line for line in lines)


def test_a_quiet_level_writes_no_line(capfd):
    with (
        HubStandIn() as hub,
        serving(hub, Settings(log_level="warning")) as url,
        client(url) as http,
    ):
        http.get("/health/live")
    assert "fitgauge.access" not in capfd.readouterr().err


def test_an_application_that_fails_is_counted_as_a_500():
    registry = CollectorRegistry()

    async def failing(scope, receive, send):
        raise RuntimeError

    scope = {"type": "http", "method": "GET", "path": "/", "headers": []}
    with pytest.raises(RuntimeError):
        asyncio.run(
            ObservabilityMiddleware(RequestMetrics(registry), 0)(failing)(scope, None, None)
        )
    assert (
        registry.get_sample_value(
            "fitgauge_requests_total", {"method": "GET", "route": "unknown", "status": "500"}
        )
        == 1
    )


def test_a_bucket_lets_through_its_rate():
    now = [0.0]
    bucket = TokenBucket(2, clock=lambda: now[0])
    assert [bucket.wait_seconds() for _ in range(3)] == [0, 0, 0.5]
    now[0] = 0.5
    assert [bucket.wait_seconds() for _ in range(2)] == [0, 0.5]
    now[0] = 100
    assert [bucket.wait_seconds() for _ in range(3)] == [0, 0, 0.5]


def test_an_expensive_request_passes_where_one_would_and_those_behind_it_wait_for_what_it_took():
    now = [0.0]
    bucket = TokenBucket(2, clock=lambda: now[0])
    assert [bucket.wait_seconds(20), bucket.wait_seconds()] == [0, 9.5]
    now[0] = 9.5
    assert [bucket.wait_seconds(20), bucket.wait_seconds()] == [0, 10]


def test_long_questions_count_as_several_requests():
    with (
        HubStandIn() as hub,
        serving(hub, Settings(requests_per_second=2)) as url,
        client(url) as http,
    ):
        assert (
            http.post(
                "/v1/models-for-gpu", json={"gpu": "T4", "search": "no such model"}
            ).status_code
            == 200
        )
        refused = http.get("/v1/gpus")
    assert (refused.status_code, int(refused.headers["retry-after"]) >= 5) == (429, True)


def test_a_defect_is_told_without_its_trace_and_logged_with_it(caplog):
    @get("/")
    async def broken() -> None:
        raise ZeroDivisionError("of /secret/path")

    app = Litestar(
        [broken],
        exception_handlers={Exception: on_defect},
        openapi_config=None,
        logging_config=None,
    )

    async def asked():
        async with httpx.AsyncClient(
            transport=httpx.ASGITransport(app, raise_app_exceptions=False), base_url="http://x"
        ) as http:
            return await http.get("/")

    response = asyncio.run(asked())
    assert response.status_code == 500
    assert response.headers["content-type"] == "application/problem+json"
    assert "secret" not in response.text
    assert "ZeroDivisionError" in caplog.text
