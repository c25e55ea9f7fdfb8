"""A command holds no flag or variable that its engine's own parser does not take: those of a
release stand in `data/flags`, an engine a file."""

import asyncio
import re
import shlex
from pathlib import Path

import pytest

from fitgauge.errors import InvalidRequestError
from fitgauge.services.common.schemas import FitRequest

FLAGS = Path(__file__).parent / "data/flags"
MODELS = (
    "Qwen/Qwen3-8B",
    "openai/gpt-oss-120b",
    "deepseek-ai/DeepSeek-V3",
    "google/gemma-3-27b-it",
)
ASKED = (
    {},
    {"context_length": 32768, "concurrency": 16},
    {"enforce_eager": True, "max_num_seqs": 32},
    {"kv_cache_dtype": "fp8"},
    {"kv_cache_dtype": "q8_0", "max_batched_tokens": 256},
    {"gpu_memory_utilization": 0.8, "quantization": "fp8"},
    {"pipeline_parallel": 2, "data_parallel": 2},
    {"data_parallel": 8, "expert_parallel": 8},
    {"cpu_offload_gib": 10},
    {"lora_slots": 4, "lora_rank": 32},
    {"kv_offload_gib": 16, "kv_cache_memory_gib": 4},
    {"draft_model": "Qwen/Qwen3-0.6B", "speculative_tokens": 3},
    {"quantization": "nf4"},
    {"context_length": 131072, "model": "Qwen/Qwen3-32B"},
)


def words_of(command: str) -> set[str]:
    """Return the flags of a command, and the variables that are the engine's own."""
    program = command.rpartition(" -m ")[2]
    words = {word.partition("=")[0] for word in shlex.split(program)}
    flags = {word for word in words if re.fullmatch(r"--?[a-zA-Z][\w-]*", word)}
    return flags | {word for word in words if word.startswith("OLLAMA_")}


@pytest.mark.parametrize("engine", sorted(path.stem for path in FLAGS.glob("*.txt")))
def test_an_engine_takes_every_flag_that_is_printed_for_it(questions, engine):
    takes = set((FLAGS / f"{engine}.txt").read_text("utf-8").split("\n", 1)[1].split())
    read = 0
    for model in MODELS:
        for asked in ASKED:
            request = FitRequest(**{"model": model, "gpu": "8x H200", "engine": engine, **asked})
            try:
                launch = asyncio.run(questions.check_fit(request))[1].launch
            except InvalidRequestError:  # a setting that the engine has not
                continue
            for command in () if launch is None else launch.command.splitlines():
                started = command.rpartition("&& ")[2]
                assert words_of(started) <= takes, (asked, words_of(started) - takes)
                read += 1
    assert read >= len(MODELS)
