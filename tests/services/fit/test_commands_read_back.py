"""A printed command is the launch that was judged: read back as a question, with the engine's
defaults for what it leaves out, it gets the same verdict and bytes."""

import random
import shlex
from collections.abc import Callable
from itertools import product
from typing import Any

import pytest

from fitgauge.catalog.checkpoints import rows
from fitgauge.engine.quantity import GIB
from fitgauge.engine.serving.registry import ENGINES
from fitgauge.engine.serving.start_log.lines import clean_lines
from fitgauge.services.common.fit_schemas import FitAnswer
from fitgauge.services.common.schemas import FitRequest
from fitgauge.services.common.unsupported import IMPOSSIBLE

Check = Callable[..., FitAnswer]
Question = dict[str, Any]

MODELS = (
    "Qwen/Qwen3-8B", "Qwen/Qwen3-32B", "meta-llama/Llama-2-7b-chat-hf",
    "meta-llama/Llama-3.3-70B-Instruct", "openai/gpt-oss-20b", "deepseek-ai/DeepSeek-V3",
    "google/gemma-3-27b-it", "mistralai/Mixtral-8x7B-Instruct-v0.1", "Qwen/Qwen3-30B-A3B",
    "Qwen/Qwen2.5-72B-Instruct", "Qwen/Qwen3-32B-AWQ", "BAAI/bge-m3",
)  # fmt: skip
GPUS = ("RTX 3060 12GB", "RTX 4090", "2x RTX 3090", "T4", "A100 80GB", "4x L40S", "8x H200")
FORMATS = (None, None, "fp8", "awq", "gptq", "int4", "bf16", "fp16", "q4_k_m", "nvfp4")
GGUF_FORMATS = (None, "q4_k_m", "Q4_K_M", "q8_0", "as published")
SETTINGS: tuple[Question, ...] = (
    {},
    {"context_length": 4096, "concurrency": 4},
    {"enforce_eager": True, "max_num_seqs": 32},
    {"kv_cache_dtype": "fp8", "gpu_memory_utilization": 0.85},
    {"kv_cache_dtype": "q8_0", "concurrency": 3},
    {"max_batched_tokens": 4096},
    {"max_batched_tokens": 4096, "kv_cache_memory_gib": 2.0},
)
_DTYPES = {"float16": "fp16", "bfloat16": "bf16", "float32": "fp32"}


def questions(engine: str, number: int) -> list[Question]:
    """Return a seeded sample of questions to an engine."""
    formats = GGUF_FORMATS if ENGINES[engine].reads_gguf else FORMATS
    settings = SETTINGS[:-1] if engine == "sglang" else SETTINGS  # its pool is sent in tokens
    cells = list(product(MODELS, GPUS, formats, settings))
    drawn = random.Random(f"commands of {engine}").sample(cells, number)
    return [
        {"model": model, "gpu": gpu, "engine": engine, "quantization": form, **fields}
        for model, gpu, form, fields in drawn
    ]


def logged(engine: str, command: str) -> Question:
    """Return the fields in a command line, as explain-log reads them."""
    parser = ENGINES[engine].log_parser
    assert parser is not None
    log = parser.read(clean_lines(command))
    flags = dict(log.flags)
    ranks = int(flags.get("tensor_parallel", 1)) * int(flags.get("data_parallel", 1))
    if flags.pop("expert_parallel_on", False):
        flags["expert_parallel"] = ranks
    if (pool := flags.pop("kv_cache_memory_bytes", None)) is not None:
        flags["kv_cache_memory_gib"] = float(pool) / GIB
    if (dtype := flags.pop("dtype", None)) is not None:
        flags["quantization"] = _DTYPES[str(dtype)]
    return {"model": log.model, **flags}


def served_by_llamacpp(command: str, asked: Question) -> Question:
    """Return the fields in a command line of llama-server."""
    parts = [part for part in shlex.split(command) if part != "--kv-unified"]  # has no value
    flags = dict(zip(parts[1::2], parts[2::2], strict=True))
    repository, _, label = flags.pop("-hf").partition(":")
    model = next(row.model for row in rows() if row.name == repository)
    fields: Question = {"model": model, "quantization": label or None}
    requests = asked.get("concurrency", 1)
    fields["context_length"] = int(flags.pop("-c")) // requests
    assert flags.pop("-ngl") == "all"
    cache = flags.pop("--cache-type-k", None)
    assert flags.pop("--cache-type-v", None) == cache
    sequences, batch = flags.pop("--parallel", None), flags.pop("--ubatch-size", None)
    assert not flags, f"a flag that nothing reads: {flags}"
    fields |= {"kv_cache_dtype": cache} if cache else {}
    fields |= {"max_num_seqs": int(sequences)} if sequences else {}
    return fields | ({"max_batched_tokens": int(batch)} if batch else {})


@pytest.mark.parametrize(("engine", "number"), [("vllm", 120), ("sglang", 80), ("llama.cpp", 80)])
def test_a_command_read_back_is_the_launch_that_was_judged(
    check_fit: Check, engine: str, number: int
) -> None:
    read, placeholders = 0, 0
    for asked in questions(engine, number):
        try:
            answer = check_fit(**asked)
        except IMPOSSIBLE:  # an impossible question has no command
            continue
        if answer.verdict not in ("fits", "tight") or answer.launch is None:
            continue
        if answer.launch.placeholder is not None:
            placeholders += 1
            assert answer.launch.placeholder in answer.launch.command
            continue
        command = answer.launch.command
        fields = (
            served_by_llamacpp(command, asked) if engine == "llama.cpp" else logged(engine, command)
        )
        known = {name: value for name, value in fields.items() if _is_field(name)}
        sent = {"gpu": asked["gpu"], "engine": engine, "concurrency": asked.get("concurrency")}
        again = check_fit(**sent, **known)
        assert again.per_gpu == answer.per_gpu, (asked, command)
        assert again.verdict == answer.verdict, (asked, command)
        read += 1
    assert read > 15
    assert placeholders


def test_attention_replicas_of_sglang_are_read_back(check_fit: Check) -> None:
    """SGLang's --tp-size counts the ranks of all replicas there."""
    asked = {
        "model": "deepseek-ai/DeepSeek-V3", "gpu": "8x H200", "engine": "sglang",
        "context_length": 65_536, "concurrency": 16,
        "tensor_parallel": 2, "data_parallel": 4, "expert_parallel": 8,
    }  # fmt: skip
    answer = check_fit(**asked)
    assert answer.launch is not None
    assert "--tp-size 8 --dp-size 4 --ep-size 8" in answer.launch.command
    fields = logged("sglang", answer.launch.command)
    degrees = ("tensor_parallel", "data_parallel", "expert_parallel")
    assert [fields[name] for name in degrees] == [2, 4, 8]
    known = {name: value for name, value in fields.items() if _is_field(name)}
    again = check_fit(gpu="8x H200", engine="sglang", concurrency=16, **known)
    assert again.per_gpu == answer.per_gpu


OPTIONS: dict[str, tuple[Question, bool | float | str]] = {
    "enforce_eager": ({}, True),
    "lora_slots": ({}, 2),
    "lora_rank": ({"lora_slots": 2}, 64),
    "speculative_tokens": ({"model": "zai-org/GLM-4.5-Air", "gpu": "8x H200"}, 1),
    "pooling": ({}, True),
    "rope_scaling_factor": ({"context_length": 32_768}, 2.0),
    "kv_offload_gib": ({}, 16.0),
    "disaggregation": ({}, "prefill"),
    "language_model_only": ({}, True),
    "n_gpu_layers": ({}, 20),
    "n_cpu_moe": ({"model": "Qwen/Qwen3-30B-A3B"}, 20),
}
"""Questions in which each option does something, and a value of it."""


@pytest.mark.parametrize(
    ("engine", "option"),
    [(engine, option) for engine, row in ENGINES.items() for option in sorted(row.options)],
)
def test_an_option_that_an_engine_reads_is_in_its_command(
    check_fit: Check, engine: str, option: str
) -> None:
    fields, value = OPTIONS[option]
    asked = {"model": "Qwen/Qwen3-8B", "gpu": "H100", "engine": engine, **fields}
    without, with_it = check_fit(**asked).launch, check_fit(**asked, **{option: value}).launch
    assert without is not None
    assert with_it is not None
    assert with_it.command != without.command


def _is_field(name: str) -> bool:
    return name in FitRequest.__struct_fields__
