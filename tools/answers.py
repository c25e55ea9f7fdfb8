"""Record what a thousand random questions answer, and compare two such records.

    python tools/answers.py record FILE           # the same questions at every call
    python tools/answers.py compare BEFORE AFTER  # each difference: numbers and codes, then texts

Numbers, verdicts and codes of a change that only moves code are equal; texts may differ.
"""

import asyncio
import json
import os
import random
import sys
from collections import Counter
from pathlib import Path
from typing import Any

os.environ["HF_HUB_OFFLINE"] = "1"

SEED = 20261122
ENGINES = (
    "vllm", "sglang", "tensorrt-llm", "llama.cpp", "ollama", "transformers", "tgi", "mlx",
)  # fmt: skip
FORMATS = (
    None,
    None,
    None,
    "fp8",
    "awq",
    "gptq",
    "int8",
    "nf4",
    "bf16",
    "q4_k_m",
    "q8_0",
    "nvfp4",
    "mxfp4",
    "foo",
)
GPUS = (
    "RTX 4090", "RTX 3090", "H100", "A100 80GB", "L40S", "L4", "T4", "B200", "H200", "MI300X",
    "4060 Ti 16GB", "24GB",
    "M3 Max 64GB", "A10G", "V100 32GB", "RTX 5090", "GB10", "nonsense card", "2x4090",
    "p5.48xlarge", "Gaudi 3",
)  # fmt: skip
NAMES = ("7b", "13b", "70b", "llama 3.1 70b", "qwen3 32b", "no/such-model", "deepseek v3")
TEXTS = {
    "summary", "formula", "source", "warnings", "hint", "detail", "change", "title", "command",
    "note", "notes", "why",
    "reason", "message", "description", "label", "sentence", "explanation", "files", "launch",
    "text", "type",
    "cause", "causes", "basis_note", "advice",
}  # fmt: skip
"""Fields that hold prose; every other field is compared exactly."""


def optional(draw: random.Random, share: float, **choices: Any) -> dict[str, Any]:  # noqa: ANN401
    """Return each field with probability `share`, its value drawn from its choices."""
    return {name: draw.choice(values) for name, values in choices.items() if draw.random() < share}


def questions(models: list[str], logs: list[str]) -> list[tuple[str, str, Any]]:
    """Return (method, path, body) of every question."""
    draw = random.Random(SEED)
    model = lambda: draw.choice(models) if draw.random() < 0.85 else draw.choice(NAMES)  # noqa: E731
    gpu = lambda: draw.choice(GPUS)  # noqa: E731
    requests: list[tuple[str, str, Any]] = []
    add = requests.append
    for number in range(460):
        own = {"settings": "defaults"} if number % 2 else {}
        add(("POST", "/v1/fit", own | {"model": model(), "gpu": gpu()} | optional(
            draw, 0.3, gpu_count=(1, 2, 3, 4, 8, 16), engine=ENGINES, quantization=FORMATS,
            context_length=(512, 4096, 8192, 32768, 131072, 1000000),
            concurrency=(1, 2, 8, 33, 256),
            detail=("full", "summary"),
        ) | optional(
            draw, 0.08, kv_cache_dtype=("fp8", "auto", "q8_0", "foo"),
            tensor_parallel=(1, 2, 3, 4, 8),
            pipeline_parallel=(1, 2, 4), data_parallel=(1, 2), expert_parallel=(1, 2, 4, 8),
            gpu_memory_utilization=(0.5, 0.8, 0.95, 1.5), max_batched_tokens=(512, 2048, 16384),
            max_num_seqs=(1, 16, 1024),
            enforce_eager=(True, False), cpu_offload_gib=(1, 10), kv_cache_memory_gib=(1, 20),
            lora_slots=(1, 4),
            engine_version=("0.11", "0.19", "0.33", "9.9", "x"), draft_model=("Qwen/Qwen3-0.6B",),
            other_memory_gib=(1, 5), images=(1, 4),
        )))  # fmt: skip
    for _ in range(240):
        add(("POST", "/v1/training-fit", {"model": model(), "gpu": gpu()} | optional(
            draw, 0.35, gpu_count=(1, 2, 4, 8, 16), method=("full", "lora", "qlora", "foo"),
            sequence_length=(512, 2048, 8192, 32768), micro_batch_size=(1, 2, 8),
            framework=("transformers", "deepspeed", "fsdp", "megatron", "trl", "axolotl", "unsloth",
                "torchtune",
                       "torchtitan", "llama-factory", "ms-swift", "nemo", "verl", "openrlhf",
                       "litgpt", "accelerate"),
        ) | optional(
            draw, 0.12, optimizer=("adamw", "adamw_8bit", "paged_adamw", "sgd", "adafactor", "lion",
                "muon", "foo"),
            precision=("mixed_bf16", "mixed_fp16", "bf16", "fp32", "int8", "fp8"),
            loss=("full", "chunked", "fused"),
            activation_checkpointing=("none", "selective", "full"),
            attention=("eager", "sdpa", "flash"), lora_rank=(8, 64),
            zero_stage=(0, 1, 2, 3), offload=("optimizer", "all", "none"),
            tensor_parallel=(1, 2, 4), pipeline_parallel=(1, 2),
            algorithm=("dpo", "ppo", "grpo", "kto", "sft"), detail=("full",),
            context_parallel=(1, 2), expert_parallel=(1, 2),
        )))  # fmt: skip
    for _ in range(60):
        add(("POST", "/v1/recommend", {"model": model()} | optional(
            draw, 0.3, context_length=(4096, 32768), concurrency=(1, 16),
            gpus=("4x L40S, 2x RTX 4090", "H100, A100"),
            objective=("cheapest", "fastest", "most_headroom", "fewest_gpus"),
            max_usd_per_hour=(1, 12), task=("training", "serving"),
        )))  # fmt: skip
    for _ in range(12):
        add(("POST", "/v1/models-for-gpu", {"gpu": gpu()} | optional(
            draw, 0.3, task=("generate", "encode"), quantizations=("as published, awq", "q4_k_m"),
            search=("qwen3", "llama"),
            limit=(5, 100), context_length=(16384,),
        )))  # fmt: skip
    for _ in range(60):
        add(("POST", "/v1/compare", {
            "models": [model() for _ in range(draw.randint(1, 3))],
            "gpus": [gpu() for _ in range(draw.randint(1, 3))],
        } | optional(draw, 0.3, engines=("vllm, llama.cpp", "sglang", "foo"),
        quantizations=("as published, fp8", "awq"),
                     context_lengths=([4096, 65536], 8192),
                     concurrencies=([1, 16], 4))))  # fmt: skip
    for _ in range(50):
        add(("POST", "/v1/training-plan", {"model": model(), "gpu": gpu()} | optional(
            draw, 0.3, gpu_count=(2, 8, 16), method=("full", "lora", "qlora"),
            framework=("fsdp", "megatron", "deepspeed"),
            objective=("cheapest", "fastest", "fewest_gpus"), sequence_length=(2048, 8192),
        )))  # fmt: skip
    for log in logs:
        add(("POST", "/v1/explain-log", {"log": log[:60_000]} | optional(
            draw, 0.5, gpu=("H100", "RTX 4090"),
            model=("Qwen/Qwen3-8B", "meta-llama/Llama-3.1-8B-Instruct"))))  # fmt: skip
    for _ in range(30):
        add(("POST", "/v1/utilization",
            {"gpu": gpu(), "achieved_tflops": draw.choice((50, 400))} if draw.random() < 0.3
                     else {"gpu": gpu(), "model": model(), "gpu_count": 4,
                         "tokens_per_second": draw.choice((500, 6000))}))  # fmt: skip
    for _ in range(30):
        add(("GET", f"/v1/models/{draw.choice(models)}", None))
    add(("GET", "/v1/gpus?limit=1000", None))
    for _ in range(18):
        add(("GET", f"/v1/gpus/{gpu()}", None))
    return requests


async def answers(requests: list[tuple[str, str, Any]]) -> list[dict[str, Any]]:
    """Return status and body of each question, asked of the service in this process."""
    import httpx

    from fitgauge.app import create_app
    from fitgauge.settings import Settings

    app = create_app(Settings(log_level="error", max_body_bytes=2**20, question_seconds=600))
    results = []
    transport = httpx.ASGITransport(app=app)  # type: ignore[arg-type]
    async with (
        lifespan(app),
        httpx.AsyncClient(transport=transport, base_url="http://test", timeout=300) as client,
    ):
        for method, path, body in requests:
            response = await client.request(method, path, json=body)
            results.append(
                {
                    "asked": [method, path, body],
                    "status": response.status_code,
                    "body": response.json(),
                }
            )
    return results


class lifespan:
    """Run an ASGI application's start-up and shutdown around a block."""

    def __init__(self, app: Any) -> None:  # noqa: ANN401
        self.app, self.inbox, self.ready, self.done = (
            app,
            asyncio.Queue(),
            asyncio.Event(),
            asyncio.Event(),
        )

    async def send(self, message: dict[str, Any]) -> None:
        """Take what the application answers."""
        (self.ready if "startup" in message["type"] else self.done).set()

    async def __aenter__(self) -> None:
        self.task = asyncio.create_task(
            self.app({"type": "lifespan", "asgi": {}, "state": {}}, self.inbox.get, self.send)
        )
        await self.inbox.put({"type": "lifespan.startup"})
        await self.ready.wait()

    async def __aexit__(self, *_: object) -> None:
        await self.inbox.put({"type": "lifespan.shutdown"})
        await self.done.wait()


def differences(before: Any, after: Any, path: str = "") -> list[tuple[str, str, bool]]:  # noqa: ANN401
    """Return (path, what differs, whether it is prose) of two answers."""
    if isinstance(before, dict) and isinstance(after, dict):
        return [d for key in before.keys() | after.keys()
                for d in differences(before.get(key), after.get(key), f"{path}.{key}")]  # fmt: skip
    if isinstance(before, list) and isinstance(after, list) and len(before) == len(after):
        return [
            d
            for i, pair in enumerate(zip(before, after, strict=True))
            for d in differences(*pair, f"{path}[{i}]")
        ]
    if before == after:
        return []
    names = {piece.partition("[")[0] for piece in path.split(".")}
    return [(path, f"{json.dumps(before)[:160]} -> {json.dumps(after)[:160]}", bool(names & TEXTS))]


def main() -> int:
    """Record or compare."""
    if sys.argv[1:2] == ["record"]:
        root = Path(__file__).parent.parent
        rows = (root / "service/fitgauge/catalog/data/models.jsonl").read_text().splitlines()
        logs = [
            path.read_text(errors="replace") for path in sorted((root / "tests").rglob("*.log"))
        ]
        results = asyncio.run(answers(questions([json.loads(row)["id"] for row in rows], logs)))
        Path(sys.argv[2]).write_text(
            "\n".join(json.dumps(result, sort_keys=True) for result in results)
        )
        print(len(results), Counter(result["status"] for result in results))
        return 0
    before, after = (
        [json.loads(line) for line in Path(name).read_text().splitlines()] for name in sys.argv[2:4]
    )
    numbers = prose = 0
    for old, new in zip(before, after, strict=True):
        assert old["asked"] == new["asked"], "the records hold different questions"
        for path, what, is_prose in differences({**old, "asked": 0}, {**new, "asked": 0}):
            if is_prose:
                prose += 1
            else:
                numbers += 1
                print(old["asked"][1], json.dumps(old["asked"][2])[:120], path, what)
    print(
        f"{len(before)} questions: {numbers} differences in numbers, verdicts or codes; {prose} in"
        " texts"
    )
    return 1 if numbers else 0


if __name__ == "__main__":
    raise SystemExit(main())
