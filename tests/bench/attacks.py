"""Attacks on the service, and what another caller feels meanwhile: p99 of a warm /v1/fit, and peak
memory.

    python tests/bench/attacks.py [SECONDS]

An attack is a coroutine function of a Target in ATTACKS; it runs until it is cancelled.
"""

import asyncio
import itertools
import json
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

SECONDS = 30.0
"""of every attack, in the full form"""
WARM = ("/v1/fit", {"model": "Qwen/Qwen3-8B", "gpu": "H100"})
PAUSE = 0.02
"""between two questions of the other caller [s]"""
P99_MS, PEAK_MIB = 50, 200

_FORMATS = (
    "as published, awq, gptq, fp8, int8, int4, nf4, bf16, fp16, q4_k_m, q5_k_m, q6_k, q8_0, nvfp4"
)
_LARGE = {
    "model": "deepseek-ai/DeepSeek-V3",
    "gpu": "H100",
    "gpu_count": 976,
    "pipeline_parallel": 61,
    "tensor_parallel": 16,
    "detail": "full",
}
_TABLE = {
    "models": "Qwen/Qwen3-32B, Qwen/Qwen3-8B",
    "gpus": "RTX 4090, H100, 2x L40S, A10G, T4",
    "context_lengths": list(range(1024, 21504, 1024)),
    "concurrencies": list(range(1, 51)),
}
RULES = 5000
"""of a heavy config"""


@dataclass
class Target:
    """The service under attack: its port, and numbers that make every question a new one."""

    port: int
    number: itertools.count

    async def ask(self, path: str, question: dict[str, object]) -> int:
        """Return the status of the answer, read to its end."""
        reader, writer = await self.send(path, question)
        try:
            head = await reader.readuntil(b"\r\n\r\n")
            while await reader.read(65536):
                pass
            return int(head.split(b" ", 2)[1])
        finally:
            writer.close()

    async def send(
        self, path: str, question: dict[str, object]
    ) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """Send a question without reading the answer."""
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
        body = json.dumps(question).encode()
        head = (
            f"POST {path} HTTP/1.1\r\nhost: x\r\nconnection: close\r\ncontent-type:"
            f" application/json\r\ncontent-length: {len(body)}\r\n\r\n"
        )
        writer.write(head.encode() + body)
        await writer.drain()
        return reader, writer

    def largest_list(self) -> dict[str, object]:
        """Return a question over the whole snapshot that was never asked before."""
        return {
            "gpu": "RTX 3090",
            "quantizations": _FORMATS,
            "limit": 5,
            "context_length": 4096 + next(self.number) % 100_000,
        }


async def abandoned_questions(target: Target) -> None:
    """Six long questions at a time whose callers hang up after 0.2 s."""
    while True:
        links = [await target.send("/v1/models-for-gpu", target.largest_list()) for _ in range(6)]
        await asyncio.sleep(0.2)
        for _, writer in links:
            writer.transport.abort()


async def living_questions(target: Target) -> None:
    """Twenty callers who wait for the answers of long questions."""
    await _together(20, lambda: target.ask("/v1/models-for-gpu", target.largest_list()))


async def heavy_configs(target: Target) -> None:
    """Configs with thousands of quantization rules, each from a repository that is new to the
    service."""
    await _together(
        4, lambda: target.ask("/v1/fit", {"model": f"heavy/{next(target.number)}", "gpu": "H100"})
    )


async def large_answers(target: Target) -> None:
    """Answers of some 100 KiB, each to a question that is new."""
    await _together(
        8,
        lambda: target.ask(
            "/v1/fit", {**_LARGE, "context_length": 1000 + next(target.number) % 100_000}
        ),
    )


async def slow_readers(target: Target) -> None:
    """Two hundred callers who ask for tables of 10,000 rows and do not read them."""
    links = []
    for _ in range(200):
        links.append(await target.send("/v1/compare", _TABLE))
        await asyncio.sleep(0.02)
    await asyncio.Event().wait()


async def _together(callers: int, ask: Callable[[], Awaitable[int]]) -> None:
    """Let so many callers ask again as soon as they are answered."""

    async def caller() -> None:
        while True:
            try:
                await ask()
            except (OSError, asyncio.IncompleteReadError):
                await asyncio.sleep(0.01)

    await asyncio.gather(*(caller() for _ in range(callers)))


ATTACKS: dict[str, Callable[[Target], Awaitable[None]]] = {
    "abandoned long questions": abandoned_questions,
    "living long questions": living_questions,
    "heavy configs": heavy_configs,
    "large answers": large_answers,
    "slow readers": slow_readers,
}


def heavy_repositories() -> dict[str, Any]:
    """Return the repositories heavy/N: thousands of patterns (refused) or of names (answered)."""
    from hub_stand_in import llama_config, safetensors_repository

    patterns = {f"+:.*layers.{number}.*": {"bits": 8} for number in range(RULES)}
    names = [f"model.layers.{number % 32}.mlp.x{number}" for number in range(4 * RULES)]
    quantizations = (
        {"quant_method": "gptq", "bits": 4, "group_size": 128, "dynamic": patterns},
        {"quant_method": "fp8", "modules_to_not_convert": names},
    )
    plain = safetensors_repository("heavy/0", llama_config())
    kinds = [
        {**plain.files, "config.json": json.dumps(llama_config(quantization_config=one)).encode()}
        for one in quantizations
    ]

    class Heavy(dict[str, Any]):
        def get(self, repo_id: str, default: object = None) -> object:
            owner, _, number = repo_id.partition("/")
            if owner != "heavy":
                return default
            return replace(plain, repo_id=repo_id, files=kinds[int(number) % len(kinds)])

    return Heavy()


async def under_attack(
    target: Target,
    pss_mib: Callable[[], float],
    attack: Callable[[Target], Awaitable[None]],
    seconds: float,
):
    """Return (p99 of the other caller [ms], how often it was answered, peak memory [MiB])."""
    await target.ask(*WARM)
    attacking, end = asyncio.create_task(attack(target)), time.perf_counter() + seconds
    took, peak, looked = [], 0.0, 0.0
    while time.perf_counter() < end:
        started = time.perf_counter()
        status = await target.ask(*WARM)
        took.append(time.perf_counter() - started if status == 200 else seconds)
        if time.perf_counter() - looked > 0.5:
            peak, looked = max(peak, await asyncio.to_thread(pss_mib)), time.perf_counter()
        await asyncio.sleep(PAUSE)
    attacking.cancel()
    await asyncio.gather(attacking, return_exceptions=True)
    return sorted(took)[int(len(took) * 0.99)] * 1000, len(took), peak


def lines(seconds: float = SECONDS):
    """Return the lines to print, one an attack, each on a service that has just started."""
    from hub_stand_in import HubStandIn
    from live.process import running

    for name, attack in ATTACKS.items():
        with HubStandIn() as hub, tempfile.TemporaryDirectory() as folder:
            hub.repositories = heavy_repositories()
            with running(hub.url, Path(folder), FITGAUGE_LOG_LEVEL="warning") as process:
                target = Target(process.port, itertools.count())
                p99, answered, peak = asyncio.run(
                    under_attack(target, process.pss_mib, attack, seconds)
                )
        yield (
            f"{name:<31} p99 {p99:6.0f} ms (at most {P99_MS}) of {answered}, peak {peak:4.0f} MiB"
            f" (at most {PEAK_MIB})"
        )


if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parent.parent))
    for line in lines(float(sys.argv[1]) if len(sys.argv) > 1 else SECONDS):
        print(line, flush=True)
