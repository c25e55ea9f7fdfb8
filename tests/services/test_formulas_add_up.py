"""Every formula an answer prints is arithmetic that gives the bytes of its term, and every source
can be opened."""

import asyncio
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from arithmetic import value_of
from fitgauge.services.common.schemas import FitRequest, TermAnswer
from fitgauge.services.facade import Services
from fitgauge.services.training_fit.schemas import TrainingRequest

ROOT = Path(__file__).parents[2]
SERVING = [
    {"model": model, "gpu": gpu, "context_length": 4096, "concurrency": 3, **fields}
    for model, gpu, fields in [
        ("Qwen/Qwen3-8B", "H100", {}),
        ("Qwen/Qwen3-8B", "RTX 4090", {"kv_cache_dtype": "fp8", "cpu_offload_gib": 4}),
        ("Qwen/Qwen3-32B", "4x RTX 4090", {"pipeline_parallel": 2}),
        ("Qwen/Qwen3-32B", "2x H100", {"quantization": "awq", "kv_cache_memory_gib": 8}),
        ("openai/gpt-oss-120b", "2x H100", {}),
        ("google/gemma-3-27b-it", "H100", {}),
        ("Qwen/Qwen3.5-27B", "2x H100", {}),
        ("deepseek-ai/DeepSeek-V3.2", "8x H200", {"expert_parallel": 8}),
        ("deepseek-ai/DeepSeek-R1", "8x H200", {}),
        ("Qwen/Qwen3-30B-A3B", "MI300X", {}),
        ("meta-llama/Llama-3.1-8B-Instruct", "H100", {"lora_slots": 4, "lora_rank": 16}),
        ("7b", "24GB", {}),
    ]
]
ENGINES = ("vllm", "sglang", "tensorrt-llm", "tgi", "llama.cpp", "ollama", "transformers")
ON_A_MAC = [
    {"model": model, "gpu": "M3 Ultra 512GB", "engine": engine, "context_length": 4096}
    for model in ("Qwen/Qwen3-8B", "google/gemma-3-27b-it", "Qwen/Qwen3.5-27B")
    for engine in ("mlx", "llama.cpp")
]
TRAINING = [
    {"model": model, "gpu": "H100", **fields}
    for model, fields in [
        ("Qwen/Qwen3-8B", {"method": "full", "gpu_count": 8, "framework": "fsdp"}),
        ("Qwen/Qwen3-8B", {"method": "full", "gpu_count": 8, "framework": "deepspeed"}),
        (
            "Qwen/Qwen3-8B",
            {"method": "full", "gpu_count": 8, "framework": "deepspeed", "zero_stage": 3},
        ),
        ("Qwen/Qwen3-8B", {"method": "lora"}),
        ("Qwen/Qwen3-8B", {"method": "qlora", "optimizer": "paged_adamw"}),
        ("Qwen/Qwen3-8B", {"method": "full", "optimizer": "adamw_8bit", "micro_batch_size": 4}),
        ("Qwen/Qwen3-30B-A3B", {"method": "lora"}),
        (
            "meta-llama/Llama-3.1-70B",
            {"framework": "megatron", "gpu_count": 16, "tensor_parallel": 8,
             "pipeline_parallel": 2},
        ),
        ("13b", {"method": "full", "gpu_count": 8, "framework": "megatron"}),
        (
            "13b",
            {"method": "full", "activation_rule": "34sbh", "attention": "eager",
             "activation_checkpointing": "full"},
        ),
        (
            "Qwen/Qwen3-32B",
            {"framework": "fsdp", "gpu_count": 16, "pipeline_parallel": 2, "micro_batches": 4},
        ),
        ("Qwen/Qwen3-1.7B", {"algorithm": "grpo", "trainer": "trl"}),
        ("Qwen/Qwen3-1.7B", {"algorithm": "dpo", "trainer": "trl"}),
    ]
]  # fmt: skip

ROUNDED = 1e-4
"""What six printed digits of a fitted coefficient leave open."""

OWN = re.compile(r"\b(?:service|tools)/[\w./-]+\.(?:py|jsonl?)\b")
ELSEWHERE = re.compile(r"[\w/-]+\.(?:py|cpp|cc|cu|h|go|rs)\b")
RELEASE = re.compile(r"\d+\.\d+|\bb\d{4,5}\b")


def opens(source: str) -> bool:
    """Return whether a source can be opened: an address, a file that is here, a file of a named
    release elsewhere, or the question itself."""
    own = OWN.findall(source)
    if own:
        return all((ROOT / path).exists() for path in own)
    released = ELSEWHERE.search(source) and RELEASE.search(source)
    return source == "the question" or "https://" in source or bool(released)


def serving_questions() -> Iterator[dict[str, object]]:
    for question in SERVING:
        for engine in ENGINES:
            yield {**question, "engine": engine}
    yield from ON_A_MAC


def serving_terms(questions: Services, question: dict[str, object]) -> list[TermAnswer]:
    try:
        _, answer = asyncio.run(questions.check_fit(FitRequest(**question, detail="full")))
    except Exception as error:
        pytest.skip(str(error))
    if answer.verdict == "unsupported":
        pytest.skip(answer.summary)
    ranks = [term for rank in answer.ranks or () for term in rank.terms]
    return [term for term in (*(answer.terms or ()), *ranks) if term.formula]


def training_terms(questions: Services, question: dict[str, object]) -> list[TermAnswer]:
    request = TrainingRequest(**question, detail="full")
    _, answer = asyncio.run(questions.check_training_fit(request))
    phases = [term for phase in answer.phases for term in phase.terms or ()]
    ranks = [term for rank in answer.ranks or () for term in rank.terms]
    return [term for term in (*(answer.terms or ()), *ranks, *phases) if term.formula]


def closed(terms: list[TermAnswer]) -> set[str]:
    """Return the sources that cannot be opened."""
    return {term.source for term in terms if not opens(term.source)}


def wrong(terms: list[TermAnswer]) -> list[str]:
    """Return the terms whose formula gives other bytes: exact and computed ones to the byte."""
    messages = []
    for term in terms:
        try:
            value = value_of(term.formula)
        except ValueError as error:
            messages.append(f"{term.name}: {error}")
            continue
        decimals = re.search(r"\d\.\d|%", term.formula) or term.basis in ("calibrated", "assumed")
        off = ROUNDED * max(value, term.bytes) if decimals else 0
        if abs(value - term.bytes) > off + 1:
            messages.append(f"{term.name}: {term.bytes} is {value:.0f} by {term.formula!r}")
    return messages


@pytest.mark.parametrize("question", [*serving_questions()], ids=str)
def test_every_serving_formula_gives_the_bytes_of_its_term(questions, question):
    terms = serving_terms(questions, question)
    assert terms
    assert not wrong(terms)
    assert not closed(terms)


@pytest.mark.parametrize("question", TRAINING, ids=str)
def test_every_training_formula_gives_the_bytes_of_its_term(questions, question):
    terms = training_terms(questions, question)
    assert terms
    assert not wrong(terms)
    assert not closed(terms)


@pytest.mark.parametrize(
    "source", ["what is usual", "service/none.py", "vllm/v1/worker.py", "a rule, 3.5"]
)
def test_a_source_without_a_file_or_a_release_cannot_be_opened(source):
    assert not opens(source)


@pytest.mark.parametrize("text", ["three layers", "2 3", "2 x", "(2 x 3", "of the card"])
def test_prose_is_no_formula(text):
    with pytest.raises(ValueError, match=r"."):
        value_of(text)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("2 x 64 layers x 8 KV heads x 128 x 2 B x 16 tokens x 513 blocks", 2151677952),
        ("bf16 weights, tensor parallel 2: layers 1,024 B + head 1.5 KiB; tied", 2560),
        ("ceil(10 / 4) x max(2, 3) - 3 % x 100", 6),
        ("2 heads x 3^2 pairs", 18),
    ],
)
def test_a_formula_is_arithmetic(text, value):
    assert value_of(text) == value
