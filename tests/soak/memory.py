"""Memory after every endpoint was asked once, and the time to be ready."""

import asyncio
import statistics
import time

import httpx

from live.conformance import OPERATIONS, UNDOCUMENTED
from live.process import running
from soak.faults import cpu_seconds
from soak.load import Link, request

PAGES = ("/", "/v1/fit.svg?model=7b&gpu=H100", "/v1/fit.png?model=7b&gpu=H100")
PLACES = {"{owner}/{name}": "Qwen/Qwen3-8B", "/v1/gpus/{id}": "/v1/gpus/h100-sxm-80gb"}
MCP = {"accept": "application/json, text/event-stream", "content-type": "application/json"}


def ask_everything(http):
    """Ask every operation of the document with its first example, every other path and MCP. Return
    the statuses by what was asked."""
    statuses = {}
    for operation in OPERATIONS:
        path = operation.path
        if "{answer_id}" in path:
            continue
        for place, value in PLACES.items():
            path = path.replace(place, value)
        examples = list(operation.examples.values())
        answer = http.request(operation.method, path, json=examples[0] if examples else None)
        statuses[f"{operation.method} {operation.path}"] = answer.status_code
        if operation.path == "/v1/fit":
            again = http.get(f"/v1/answers/{answer.json()['answer_id']}")
            statuses["GET /v1/answers/{answer_id}"] = again.status_code
    for path in (*PAGES, *UNDOCUMENTED):
        if path not in ("/mcp", "/.well-known/oauth-protected-resource/mcp"):
            statuses[f"GET {path}"] = http.get(path).status_code
    for method, parameters in (
        ("tools/list", {}),
        ("resources/list", {}),
        ("prompts/list", {}),
        ("tools/call", {"name": "check_fit", "arguments": {"model": "7b", "gpu": "H100"}}),
    ):
        answer = http.post("/mcp", json=_call(method, parameters), headers=MCP)
        statuses[f"MCP {method}"] = 500 if "error" in answer.json() else answer.status_code
    return statuses


def _call(method, parameters):
    return {"jsonrpc": "2.0", "id": 1, "method": method, "params": parameters}


def seconds_to_ready(hub_url, folder, times):
    """Return (wall, processor) seconds from the start to the first 200 of /health/ready, of the
    best start."""
    measured = []
    for number in range(times):
        own = folder / f"start-{number}"
        own.mkdir()
        began = time.perf_counter()
        with running(hub_url, own) as service:
            wall = time.perf_counter() - began
            measured.append((wall, cpu_seconds(service.popen.pid)))
    return min(wall for wall, _ in measured), min(cpu for _, cpu in measured)


def memory_over(service, seconds, rate=20):
    """Ask everything once, then for so long a mix of questions again and again. Return (statuses,
    PSS [MiB] after everything was asked once, share by which it grew over the time)."""
    with httpx.Client(base_url=service.url, trust_env=False, timeout=120) as http:
        statuses = ask_everything(http)
        once = service.pss_mib()
        for _ in range(3):  # until caches hold what the questions share
            ask_everything(http)
    bodies = [
        request(operation.path, example)
        for operation in OPERATIONS
        for example in list(operation.examples.values())[:1]
    ]
    return statuses, once, asyncio.run(_growth(service, bodies, seconds, rate))


async def _growth(service, bodies, seconds, rate):
    link = await Link.to(service.port)
    samples, start, number = [], time.perf_counter(), 0
    while (now := time.perf_counter() - start) < seconds:
        await link.ask(bodies[number % len(bodies)])
        number += 1
        if number % rate == 0:
            samples.append((now, service.pss_mib()))
        await asyncio.sleep(max(0, start + number / rate - time.perf_counter()))
    link.close()
    first = statistics.median(pss for at, pss in samples if at < 0.3 * seconds)
    last = statistics.median(pss for at, pss in samples if at > 0.7 * seconds)
    return last / first - 1
