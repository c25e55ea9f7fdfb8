"""`make vectors`: writes docs/vectors/, questions with their answers for other calculators."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from litestar.testing import TestClient

from fitgauge.app import create_app
from fitgauge.hub import Hub, HubSettings
from fitgauge.settings import Settings

FOLDER = Path(__file__).parents[1] / "docs" / "vectors"
COMPUTED = 0.001
"""Relative tolerance of a term that is arithmetic: what rounding to blocks and pages may differ."""

DENSE = (
    "Qwen/Qwen3-0.6B",
    "Qwen/Qwen3-8B",
    "Qwen/Qwen3-32B",
    "meta-llama/Llama-3.1-8B-Instruct",
    "meta-llama/Llama-3.3-70B-Instruct",
    "mistralai/Mistral-7B-Instruct-v0.3",
    "google/gemma-3-27b-it",
    "microsoft/phi-4",
)
MIXTURES = (
    "Qwen/Qwen3-30B-A3B",
    "openai/gpt-oss-20b",
    "openai/gpt-oss-120b",
    "deepseek-ai/DeepSeek-V3",
    "mistralai/Mixtral-8x7B-Instruct-v0.1",
)
PLACES = (("RTX 4090", 1), ("L40S", 2), ("A100 80GB", 4), ("H100 SXM", 8))
LOADS = ((8192, 1), (32768, 16))


def serving() -> Iterator[dict[str, Any]]:
    """Yield questions of `POST /v1/fit`: every setting is written, none is chosen."""
    for model in DENSE + MIXTURES:
        for gpu, count in PLACES:
            for context, concurrency in LOADS:
                yield {
                    "model": model,
                    "gpu": gpu,
                    "gpu_count": count,
                    "engine": "vllm",
                    "tensor_parallel": count,
                    "context_length": context,
                    "concurrency": concurrency,
                    "settings": "defaults",
                }
    for engine, quantization in (("sglang", "fp8"), ("llama.cpp", "Q4_K_M"), ("vllm", "fp8")):
        for model in DENSE:
            yield {
                "model": model,
                "gpu": "H100 SXM",
                "engine": engine,
                "quantization": quantization,
                "context_length": 16384,
                "concurrency": 4,
                "settings": "defaults",
            }


def training() -> Iterator[dict[str, Any]]:
    """Yield questions of `POST /v1/training-fit`."""
    for model in DENSE:
        for method in ("full", "lora", "qlora"):
            for checkpointing in ("full", "none"):
                yield {
                    "model": model,
                    "gpu": "H100 SXM",
                    "method": method,
                    "framework": "transformers",
                    "activation_checkpointing": checkpointing,
                    "micro_batch_size": 1,
                    "sequence_length": 2048,
                }
    for model in DENSE + MIXTURES:
        for framework, stage in (("fsdp", None), ("deepspeed", 2), ("deepspeed", 3)):
            yield {
                "model": model,
                "gpu": "H100 SXM",
                "gpu_count": 8,
                "method": "full",
                "framework": framework,
                "activation_checkpointing": "full",
                "micro_batch_size": 1,
                "sequence_length": 4096,
            } | ({"zero_stage": stage} if stage else {})


def term_vector(term: dict[str, Any]) -> dict[str, Any]:
    """Return a term of an answer with the bounds that another calculator may lie within."""
    slack = round(term["bytes"] * COMPUTED) if term["basis"] == "computed" else 0
    return {
        "name": term["name"],
        "bytes": term["bytes"],
        "low": term["low"] - slack,
        "high": term["high"] + slack,
        "basis": term["basis"],
    }


def vector(http: TestClient[Any], path: str, question: dict[str, Any]) -> dict[str, Any]:
    """Return a question with its answer, or with the code of its refusal."""
    response = http.post(path, json=question)
    answer = response.json()
    if response.is_client_error:
        return {"question": question, "refused": answer["code"]}
    limits = answer["limits"]
    return {
        "question": question,
        "answer": {
            "verdict": answer["verdict"],
            "parameters": answer["model"]["parameters"],
            "required_bytes": answer["per_gpu"]["required_bytes"],
            "terms": [term_vector(term) for term in answer["terms"]],
            "kv_cache_tokens": limits["kv_cache_tokens"],
            "max_context_length": limits["max_context_length"],
        },
    }


def vectors() -> dict[str, dict[str, Any]]:
    """Return the content of every file of docs/vectors, by its name."""
    settings = Settings(log_level="error", mcp=False)
    with TestClient(create_app(settings, Hub(HubSettings(offline=True)))) as http:
        return {
            f"{name}.json": {
                "request": f"POST {path}",
                "unit": "bytes per GPU",
                "vectors": [vector(http, path, question) for question in questions],
            }
            for name, path, questions in (
                ("serving", "/v1/fit", serving()),
                ("training", "/v1/training-fit", training()),
            )
        }


if __name__ == "__main__":
    for name, content in vectors().items():
        (FOLDER / name).write_text(json.dumps(content, indent=1) + "\n", "utf-8")
        print(name, len(content["vectors"]))
