"""Memory is bounded in bytes: of stored answers, of bodies under way, of the whole service."""

import asyncio
import json
import re
from concurrent.futures import ThreadPoolExecutor

import httpx

from fitgauge.api.admission import Admission
from fitgauge.api.problems import RequestError
from fitgauge.engine.quantity import MIB
from fitgauge.services.explain_log.schemas import LONGEST_LOG

MOST_MIB = 200
LARGE = {
    "model": "deepseek-ai/DeepSeek-V3", "gpu": "H100", "gpu_count": 976, "pipeline_parallel": 61,
    "tensor_parallel": 16,
    "detail": "full",
}  # fmt: skip


def ask(service, path, bodies, workers=8):
    """Return the status of every question."""
    with (
        httpx.Client(base_url=service.url, trust_env=False, timeout=120) as link,
        ThreadPoolExecutor(workers) as pool,
    ):
        headers = {"content-type": "application/json"}
        return list(
            pool.map(
                lambda body: link.post(path, content=body, headers=headers).status_code, bodies
            )
        )


def post(body, *headers):
    """Return the scope of a request and the messages of its body."""
    lines = [(b"host", b"x"), (b"content-length", b"%d" % len(body)), *headers]
    scope = {"type": "http", "http_version": "1.1", "method": "POST", "path": "/", "headers": lines}

    async def receive():
        return {"type": "http.request", "body": body, "more_body": False}

    return scope, receive


def test_bodies_under_way_count_until_they_are_answered():
    async def run():
        release, refused = asyncio.Event(), []

        async def app(scope, receive, send):
            try:
                await receive()
            except RequestError as refusal:
                refused.append((refusal.status, refusal.retry_after))
                return
            await release.wait()

        admission = Admission(app, body_bytes=25_000)
        tasks = [asyncio.create_task(admission(*post(bytes(10_000)), None)) for _ in range(5)]
        small = [asyncio.create_task(admission(*post(bytes(4096)), None)) for _ in range(50)]
        upload = asyncio.create_task(
            admission(*post(bytes(10**6), (b"content-type", b"application/gzip")), None)
        )
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        held = admission.held_bytes
        release.set()
        await asyncio.gather(*tasks, *small, upload)
        return held, refused, admission.held_bytes

    assert asyncio.run(run()) == (20_000, [(503, 1)] * 3, 0)


def test_hundreds_of_large_answers_stay_in_the_bounds_of_the_service(service):
    """More than is stored: a cache that counts answers, or counts them short, holds them all."""
    bodies = [
        json.dumps({**LARGE, "context_length": 1024 + number}).encode() for number in range(700)
    ]
    assert set(ask(service, "/v1/fit", bodies)) == {200}
    metrics = httpx.get(f"{service.url}/metrics", trust_env=False).text
    held, entries = (
        float(re.search(rf'^fitgauge_cache_{what}{{cache="answers"}} (\S+)$', metrics, re.M)[1])
        for what in ("bytes", "entries")
    )
    assert 15 * MIB < held <= 16 * MIB
    assert entries < len(bodies)
    assert service.pss_mib() < MOST_MIB


def test_large_questions_stay_in_the_bounds_of_the_service(service):
    padding = b" " * (65_536 - 100)
    bodies = (
        json.dumps(
            {"model": "Qwen/Qwen3-8B", "gpu": "H100", "context_length": 1024 + number}
        ).encode()
        + padding
        for number in range(300)
    )
    assert set(ask(service, "/v1/fit", bodies, workers=32)) == {200}
    assert service.pss_mib() < MOST_MIB


def test_fifty_large_logs_at_once_are_read_or_refused_within_the_bounds_of_the_service(service):
    line = "INFO [gpu_model_runner.py] Model loading took 15.27 GiB memory and 3.1 seconds é\n"
    text = line * (LONGEST_LOG // len(line))
    log = json.dumps({"log": text, "model": "Qwen/Qwen3-8B", "gpu": "H100"}).encode()
    codes = ask(service, "/v1/explain-log", [log] * 50, workers=50)
    assert set(codes) <= {200, 503}
    assert 200 in codes
    assert service.pss_mib() < MOST_MIB
    assert ask(service, "/v1/explain-log", [log]) == [200]
