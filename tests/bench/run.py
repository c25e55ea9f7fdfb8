"""Speed and memory, as ratios of one run: machines are noisy, so every figure stands beside one
taken in turns with it.

    python tests/bench/run.py

The service and an echo handler run under the same server with one worker each; a third process
asks them in turns."""

import asyncio
import itertools
import json
import os
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from contextlib import contextmanager
from pathlib import Path

HERE = Path(__file__).parent
QUESTION = {
    "model": "Qwen/Qwen3-32B",
    "gpu": "RTX 4090",
    "gpu_count": 4,
    "context_length": 16384,
    "concurrency": 2,
}
CONNECTIONS, SECONDS, ROUNDS = 16, 1.5, 5


class Caller(asyncio.Protocol):
    """One kept-alive connection that asks again as soon as it is answered."""

    def __init__(self, requests, answered):
        self.requests, self.answered, self.buffer = requests, answered, b""

    def connection_made(self, transport):
        self.transport = transport
        transport.write(next(self.requests))

    def data_received(self, data):
        self.buffer += data
        head, found, body = self.buffer.partition(b"\r\n\r\n")
        if not found or len(body) < int(
            head.lower().split(b"content-length: ")[1].split(b"\r\n")[0]
        ):
            return
        if b" 200 " not in head[:20]:
            raise SystemExit(self.buffer[:400])
        self.buffer = b""
        self.answered()
        self.transport.write(next(self.requests))


NEW_CONTEXTS = itertools.count(1025)
"""Contexts of all rounds together: what one has asked is in the cache of answers in the next."""


def bodies(vary):
    """Yield the question over and over; with `vary`, one that nobody asked before every time."""
    while True:
        more = {"context_length": next(NEW_CONTEXTS)} if vary else {}
        yield json.dumps({**QUESTION, **more}).encode()


def requests(path, vary):
    for body in bodies(vary):
        head = (
            f"POST {path} HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\ncontent-length:"
            f" {len(body)}\r\n\r\n"
        )
        yield head.encode() + body


async def rate(port, path, vary=False):
    """Answer a second over CONNECTIONS connections."""
    count = 0

    def answered():
        nonlocal count
        count += 1

    loop, asked = asyncio.get_running_loop(), requests(path, vary)
    transports = [
        (await loop.create_connection(lambda: Caller(asked, answered), "127.0.0.1", port))[0]
        for _ in range(CONNECTIONS)
    ]
    start = time.perf_counter()
    await asyncio.sleep(SECONDS)
    took = time.perf_counter() - start
    for transport in transports:
        transport.abort()
    return count / took


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


@contextmanager
def started(*command, path):
    """Provide a server as a process: (port, pid, seconds from start to ready)."""
    port = free_port()
    environment = {**os.environ, "HF_HUB_OFFLINE": "1", "HF_HOME": tempfile.mkdtemp()}
    begun = time.perf_counter()
    process = subprocess.Popen(
        [*command, str(port)], env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    try:
        while True:
            try:
                with socket.create_connection(("127.0.0.1", port), 0.2) as link:
                    link.sendall(
                        f"GET {path} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n".encode()
                    )
                    if link.recv(64):
                        break
            except OSError:
                time.sleep(0.005)
        yield port, process.pid, time.perf_counter() - begun
    finally:
        process.terminate()
        process.wait(15)


def resident_mib(pid):
    """Resident memory of a process and its children [MiB]."""
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return (
        sum(
            int(Path(f"/proc/{p}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
            for p in (pid, *children)
        )
        / 2**20
    )


def engine_microseconds():
    """Return one estimate of a prepared model: median over models of the best of several runs
    [microseconds]."""
    from bench import engine

    return engine.microseconds()


def search_lines():
    """Return one recommendation, and cells of a comparison a second."""
    from bench import search

    return search.lines()


def manifest_lines():
    """Return what a thousand manifests take."""
    from bench import manifests

    return manifests.lines()


def fleet_lines():
    """Return a fleet of 500 models x 50 GPUs x 4 loads, and what a million rows cost."""
    from bench import fleet

    return fleet.lines()


def attack_lines():
    """Return what another caller feels under attack, and peak memory."""
    from bench import attacks

    return attacks.lines()


def plan_lines():
    """Return a training plan over 64 cards, of dense models and of mixtures."""
    from bench import plans

    return plans.lines()


def peer_lines():
    """Return what other calculators answer to twenty questions, and what that takes."""
    from bench import peers

    return peers.lines() if peers.PEERS.exists() else ()


def page_lines():
    """Return what the page weighs, and how soon it draws and follows a slider."""
    from bench import page

    return page.lines()


async def measure(service, echo):
    """(echo, the same question again, a new question every time) in answers a second, taken in
    turns."""
    await rate(service, "/v1/fit")
    rounds = [
        (
            await rate(echo, "/echo"),
            await rate(service, "/v1/fit"),
            await rate(service, "/v1/fit", vary=True),
        )
        for _ in range(ROUNDS)
    ]
    return [statistics.median(column) for column in zip(*rounds, strict=True)]


def main():
    fitgauge = str(Path(sys.executable).parent / "fitgauge")
    with started(sys.executable, str(HERE / "echo.py"), path="/echo") as (echo, _, _):
        starts = []
        for _ in range(3):
            with started(fitgauge, "serve", "--port", path="/health/ready") as (_, _, seconds):
                starts.append(seconds)
        with started(fitgauge, "serve", "--port", path="/health/ready") as (service, pid, _):
            before = resident_mib(pid)
            echoed, again, new = asyncio.run(measure(service, echo))
            after = resident_mib(pid)
    print(f"echo handler                    {echoed:8.0f} answers/s   1.00")
    print(
        f"warm fit, the same question     {again:8.0f} answers/s   {again / echoed:.2f}   (at least"
        " 0.60)"
    )
    print(
        f"warm fit, always a new question {new:8.0f} answers/s   {new / echoed:.2f}   (at least"
        " 0.25)"
    )
    print(
        f"start to ready                  {statistics.median(starts):8.2f} s           (at most"
        " 1.0)"
    )
    print(f"resident, ready and after load  {before:8.0f} MiB, {after:.0f} MiB (at most 120)")
    for lines in (
        engine_microseconds(), search_lines(), plan_lines(), fleet_lines(), manifest_lines(),
        attack_lines(), page_lines(), peer_lines(),
    ):  # fmt: skip
        for line in lines:
            print(line, flush=True)


if __name__ == "__main__":
    sys.path.insert(0, str(HERE.parent))
    main()
