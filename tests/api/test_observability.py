"""What operators see of a service: lines, metrics and conditions, and no secret in them."""

import json
import logging
import re
from contextlib import contextmanager
from contextvars import copy_context

import pytest

from fitgauge.api.access.caller import CALLER, Caller
from fitgauge.api.access_log import access_log
from fitgauge.api.log_lines import configure
from fitgauge.hub.request_context import RequestIds
from fitgauge.redaction import redacted
from fitgauge.services.common.answered import Answered
from fitgauge.settings import Settings
from hub_stand_in import HubStandIn, safetensors_repository
from live import client, serving

PLANTED = "hf_PLANTEDsecret0123456789abcdef"
QUESTION = {"model": "acme/tiny", "gpu": "RTX 4090"}


@contextmanager
def own_handlers():
    """Let the service write its log as it does outside of pytest, which adds handlers of its
    own."""
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    root.handlers.clear()
    try:
        yield
    finally:
        root.handlers[:] = handlers
        root.setLevel(level)


def samples(http):
    """Return every sample of /metrics by its name and labels."""
    text = http.get("/metrics").text
    return dict(
        line.rsplit(" ", 1) for line in text.splitlines() if line and not line.startswith("#")
    )


def json_lines(err):
    """Return the lines of requests in what was written."""
    lines = [json.loads(line) for line in err.splitlines() if line.startswith("{")]
    return [line for line in lines if line["logger"] == "fitgauge.access"]


def test_a_line_is_json_with_what_was_answered(capfd):
    named = {
        "x-request-id": "of-a-gateway",
        "traceparent": "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
    }
    with (
        HubStandIn(safetensors_repository("acme/tiny")) as hub,
        serving(hub, Settings(log_format="json")) as url,
        client(url) as http,
    ):
        for _ in range(2):
            verdict = http.post("/v1/fit", json=QUESTION).json()["verdict"]
        http.post("/v1/training-fit", json=QUESTION)
        http.post("/tools/check_fit", json=QUESTION)
        http.get("/v1/models/acme/none", headers=named)
    lines = json_lines(capfd.readouterr().err)
    asked = [(line["route"], line["status"], line.get("model")) for line in lines]
    assert asked == [
        ("/v1/fit", 200, "acme/tiny"),
        ("/v1/fit", 200, "acme/tiny"),
        ("/v1/training-fit", 200, "acme/tiny"),
        ("/tools/{name}", 200, "acme/tiny"),
        ("/v1/models/{owner}/{name}", 404, None),
    ]
    assert [line.get("verdict") for line in lines[:2]] == [verdict, verdict]
    assert (lines[-1]["code"], lines[-1]["request_id"]) == ("unknown-model", "of-a-gateway")
    assert lines[-1]["trace_id"] == "4bf92f3577b34da6a3ce929d0e0e4736"
    assert len({line["request_id"] for line in lines}) == 5
    assert all(line["duration_ms"] > 0 and line["level"] == "INFO" for line in lines)


def test_a_name_with_a_line_of_its_own_stays_in_one_line():
    lines = []
    answered = Answered()
    answered.model = "acme/tiny\nINFO forged status=200"
    write = access_log("text", lines.append)

    def of_a_caller():
        CALLER.set(Caller("a b\r\nc", "token"))
        write("/v1/fit", "POST", 200, 0.001, RequestIds("id"), answered)

    copy_context().run(of_a_caller)
    assert (lines[0].count("\n"), " forged" in lines[0]) == (1, False)
    assert " caller=token:a%20b%0D%0Ac model=acme/tiny%0AINFO" in lines[0]


def test_other_lines_are_json_too(capfd):
    with own_handlers():
        configure("info", "json")
        try:
            raise ZeroDivisionError(f"with Bearer {PLANTED}")
        except ZeroDivisionError:
            logging.getLogger("any").exception("of %s", f"https://me:{PLANTED}@hub.internal/a")
    line = json.loads(capfd.readouterr().err)
    assert (line["level"], line["logger"]) == ("ERROR", "any")
    assert line["message"] == "of https://***@hub.internal/a"
    assert "ZeroDivisionError" in line["exception"]
    assert PLANTED not in str(line)


@pytest.mark.parametrize(
    "text",
    [
        f"authorization: Bearer {PLANTED}",
        f"{{'Authorization': 'Bearer {PLANTED}'}}",
        f"[(b'authorization', b'Bearer {PLANTED}')]",
        "Illegal header value b'Bearer xoxb-secret-secret'",
        "http://me:secret@hub.internal/api/models/a/b",
        "redis://:secret@valkey:6379/0",
        "https://cdn.hub/x?X-Amz-Signature=secret&X-Amz-Credential=secret%2F2026",
        "https://cdn.hub/x?Policy=secret&Signature=secret&Key-Pair-Id=secret",
        "token=secret, api_key: secret",
        f"a bare {PLANTED}",
    ],
)
def test_a_secret_is_cut_out_by_its_name_and_by_its_form(text):
    assert "secret" not in redacted(text)
    assert "***" in redacted(text)


@pytest.mark.parametrize(
    "text",
    [
        "https://huggingface.co/acme/tiny/resolve/main/config.json",
        "8,192 tokens: 12.5 GiB",
        "The tokens of acme/tiny: none",
        "max_tokens=4096",
        "path C://models and a@b",
    ],
)
def test_what_is_no_secret_stays(text):
    assert redacted(text) == text


@pytest.mark.parametrize("log_format", ["text", "json"])
def test_a_planted_secret_is_in_no_output(log_format, capfd):
    """In headers, queries, bodies, the address of the Hub, its redirects and the token."""
    with own_handlers(), HubStandIn(safetensors_repository("acme/tiny")) as hub:
        hub.fault("/api/models/acme/moved", status=307, headers={
            "location": f"{hub.url}/api/models/acme/tiny?X-Amz-Signature={PLANTED}",
        })  # fmt: skip
        hub.fault("/api/models/acme/away", drop=True)
        hub.fault("/api/models/acme/elsewhere", status=307, headers={
            "location": f"https://me:{PLANTED}@elsewhere.example/x?token={PLANTED}",
        })  # fmt: skip
        endpoint = hub.url.replace("//", f"//me:{PLANTED}@")
        settings = Settings(log_level="debug", log_format=log_format)
        with (
            serving(hub, settings, token=PLANTED, endpoint=endpoint, wait_seconds=1.0) as url,
            client(url, headers={"authorization": f"Bearer {PLANTED}", "cookie": PLANTED}) as http,
        ):
            answers = [
                http.post(f"/v1/fit?token={PLANTED}", json={"model": name, "gpu": "RTX 4090"}).text
                for name in ("acme/tiny", "acme/moved", "acme/away", "acme/elsewhere")
            ]
            body = {"model": f"{hub.url}/a/b?token={PLANTED}", "gpu": PLANTED, "concurrency": 0}
            http.post("/v1/fit", json=body)
            http.post("/v1/fit", content=f'{{"model": "{PLANTED}')
            http.get(f"/{PLANTED}")
            hub.repositories.clear()
            seen = [http.get(path).text for path in ("/metrics", "/health/ready")]
    out = capfd.readouterr()
    assert "fitgauge.access" in out.err
    for text in (*answers, *seen, out.out, out.err):
        assert PLANTED not in text


def test_what_was_asked_of_the_hub_and_answered_from_caches_is_counted():
    with (
        HubStandIn(safetensors_repository("acme/tiny")) as hub,
        serving(hub) as url,
        client(url) as http,
    ):
        for _ in range(3):
            http.post("/v1/fit", json=QUESTION)
        http.get("/v1/models/acme/none")
        metrics = samples(http)
        requests = hub.count()
    outcomes = {
        name: float(value)
        for name, value in metrics.items()
        if name.startswith("fitgauge_hub_requests_total")
    }
    assert sum(outcomes.values()) == requests
    assert outcomes['fitgauge_hub_requests_total{outcome="unknown-model"}'] >= 1
    assert metrics['fitgauge_refusals_total{code="unknown-model"}'] == "1.0"
    assert metrics['fitgauge_cache_reads_total{cache="answers",result="hit"}'] == "2.0"
    assert metrics['fitgauge_cache_entries{cache="models"}'] == "1.0"
    assert float(metrics['fitgauge_cache_bytes{cache="models"}']) > 1000
    assert metrics["fitgauge_hub_failures"] == "1.0"
    judged = [re.findall(r'="([^"]*)"', name) for name in metrics if "fitgauge_verdicts_t" in name]
    assert [(engine, operation) for engine, operation, _ in judged] == [("vllm", "check_fit")]
    assert sum(float(v) for name, v in metrics.items() if "fitgauge_verdicts_t" in name) == 3


def test_a_hub_that_is_away_is_a_reason_and_a_metric():
    with (
        HubStandIn() as hub,
        serving(hub, endpoint="http://127.0.0.1:9", wait_seconds=0.2) as url,
        client(url) as http,
    ):
        assert http.get("/health/ready").json()["reasons"] == []
        http.get("/v1/models/acme/tiny")
        ready, metrics = http.get("/health/ready").json(), samples(http)
    assert [reason["code"] for reason in ready["reasons"]] == ["hub-away"]
    assert (ready["status"], metrics["fitgauge_hub_breaker_open"]) == ("ok", "1.0")


def test_offline_is_a_reason():
    with HubStandIn() as hub, serving(hub, offline=True) as url, client(url) as http:
        reasons = http.get("/health/ready").json()["reasons"]
    assert [reason["code"] for reason in reasons] == ["hub-offline"]
