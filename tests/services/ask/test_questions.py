"""Questions in the manner of people: what each says is understood, and nothing else."""

import json
from pathlib import Path

import msgspec
import pytest

from fitgauge.catalog.catalog import bundled
from fitgauge.catalog.snapshot import Snapshot
from fitgauge.services.ask.names import GpuNames, ModelNames
from fitgauge.services.ask.reading import Reader

ROWS = [
    json.loads(line)
    for line in (Path(__file__).parent / "data" / "questions.jsonl").read_text("utf-8").splitlines()
]


@pytest.fixture(scope="module")
def read():
    reader = Reader(GpuNames(bundled()), ModelNames(Snapshot()))

    def understood(text):
        reading = reader.read(text)
        return reading.operation, msgspec.to_builtins(reading.understood)

    return understood


def resolved(understood):
    """Return the same with the GPU as the catalog's id: several spellings are right."""
    return {
        field: bundled().find(value).accelerator.id if field == "gpu" else value
        for field, value in understood.items()
    }


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row["text"][:40])
def test_a_question_says_this_and_nothing_else(read, row):
    operation, understood = read(row["text"])
    assert operation == row["operation"]
    assert resolved(understood) == resolved(row["understood"])


@pytest.mark.parametrize("row", [row for row in ROWS if row["text"].isascii()][:30], ids=str)
def test_case_and_doubled_spaces_change_nothing(read, row):
    _, understood = read(row["text"])
    for other in (row["text"].upper(), row["text"].lower(), row["text"].replace(" ", "  ")):
        assert _plain(read(other)[1]) == _plain(understood), other


def _plain(understood):
    """Return names in one spelling."""
    return {
        field: " ".join(value.lower().split()) if isinstance(value, str) else str(value).lower()
        for field, value in resolved(understood).items()
        if field not in ("models", "gpus")
    }


@pytest.mark.parametrize(
    "settings, expected",
    [
        ("context 32k", 32768),
        ("32k context", 32768),
        ("a context window of 32768 tokens", 32768),
        ("max_model_len=32768", 32768),
        ("--max-model-len 32768", 32768),
        ("上下文32k", 32768),
        ("32k上下文", 32768),
        ("context length: 32,768", 32768),
        ("上下文长度为3.2万", 32000),
        ("1M context", 1048576),
    ],
)
def test_a_context_is_read_before_and_after_its_word(read, settings, expected):
    _, understood = read(f"will a 7b run on a 4090 with {settings}?")
    assert understood["context_length"] == expected


@pytest.mark.parametrize("model", ["qwen3.5 27b", "llama 4 scout", "Qwen3-Next-80B-A3B"])
def test_millions_of_tokens_behind_a_name_are_no_part_of_it(read, model):
    _, understood = read(f"{model} 1M context on 8x H100")
    assert understood["context_length"] == 1048576
    assert "1M" not in understood["model"]


@pytest.mark.parametrize(
    "hardware, count",
    [
        ("4x RTX 3090", 4),
        ("4 x RTX 3090", 4),
        ("4*3090", 4),
        ("3090 x4", 4),
        ("RTX 3090 * 4", 4),
        ("four 3090s", 4),
        ("4张3090", 4),
        ("四张3090", 4),
        ("3090四卡", 4),
        ("2 nodes of 4x 3090", 8),
        ("2台4卡3090", 8),
        ("a single 3090", 1),
    ],
)
def test_a_count_is_read_in_any_place(read, hardware, count):
    _, understood = read(f"can a 7b run on {hardware}?")
    assert understood["gpu_count"] == count
    assert resolved(understood)["gpu"] == bundled().find("RTX 3090").accelerator.id


@pytest.mark.parametrize(
    "text",
    [
        "a 7b needs 28 GB of memory, is that right?",
        "7B 模型需要 28GB 显存吗?",
        "it shows 23.4 GB in use for the 7b",
        "the 7b uses 16 GB",
    ],
)
def test_memory_that_is_needed_is_no_gpu(read, text):
    _, understood = read(text)
    assert "gpu" not in understood


def test_the_cache_in_fp8_leaves_the_weights_alone(read):
    _, understood = read("serve a 70b on 4x H100 with fp8 kv cache")
    assert understood["kv_cache_dtype"] == "fp8"
    assert "quantization" not in understood


def test_a_format_that_is_refused_is_not_wanted(read):
    _, understood = read("can I run a 34b without 8bit quantization on 3x 4090?")
    assert "quantization" not in understood


def test_lengths_and_batches_go_to_the_fields_of_the_operation(read):
    serving = read("serve a 7b on an A100, sequence length 2048, max batch size 4")[1]
    training = read("fine-tune a 7b on an A100, context length 2048, batch size 4")[1]
    assert (serving["context_length"], serving["concurrency"]) == (2048, 4)
    assert (training["sequence_length"], training["micro_batch_size"]) == (2048, 4)


@pytest.mark.parametrize(
    ("question", "data"),
    [
        ("fine-tune qwen3 8b on a 4090 with 50k samples for 3 epochs", {"samples": 50_000,
            "epochs": 3}),
        ("finetune llama 3.1 8b on 8xH100 with 100M tokens", {"token_budget": 100_000_000}),
        ("full fine-tune Qwen3-8B on 1B tokens, 8x A100 80GB", {"token_budget": 1_000_000_000}),
        ("full fine-tune Qwen3-8B on 1 billion tokens with 8x A100",
            {"token_budget": 1_000_000_000}),
        ("pretrain a 7 billion parameter model on 2T tokens with 64 H100s",
            {"token_budget": 2_000_000_000_000}),
        ("pretrain a 7b on 1.5 trillion tokens with 64 H100s",
            {"token_budget": 1_500_000_000_000}),
        ("finetune llama 3.1 8b with 2 million samples on 4x A100", {"samples": 2_000_000}),
        ("4090微调Qwen3-8B,1万条数据,3轮,要多久?", {"samples": 10_000, "epochs": 3}),
        ("How long does it take to train a 7b with qlora on a 4090?", {"token_budget": 1_000_000}),
        ("How much disk does a checkpoint of a full fine-tune of a 7b on an H100 need?",
            {"save_steps": 500}),
        ("fine-tune a 7b on an A100 with 4k tokens", {}),
        ("run a 7b on a 4090 with 50 samples, how long does it take?", {}),
    ],
)  # fmt: skip
def test_data_of_a_training_is_read(read, question, data):
    _, understood = read(question)
    fields = ("samples", "epochs", "token_budget", "save_steps")
    assert {name: understood[name] for name in fields if name in understood} == data


def test_merging_adapters_is_read(read):
    assert read("How much memory do I need to merge the LoRA adapter of Qwen3-8B on an A100?")[1][
        "merge"
    ]
    assert "merge" not in read("fine-tune a merged 7b with lora on an A100")[1]


def test_tokens_of_a_data_set_are_no_size_of_a_model(read):
    assert read("full fine-tune Qwen3-8B on 1B tokens on an H100")[1]["model"] == "Qwen3-8B"
    assert read("run a 7B token generator on an H100")[1]["model"] == "7b"


@pytest.mark.parametrize(
    ("question", "size"),
    [
        ("will a 7 billion parameter model fit on a T4", "7b"),
        ("will a 350 million parameter model fit on a T4", "350m"),
        ("will a 1 trillion parameter model fit on 16 H100", "1000b"),
        ("7 Milliarden Parameter auf einer 4090?", "7b"),
    ],
)
def test_a_size_that_is_written_out_is_that_of_a_model(read, question, size):
    assert read(question)[1]["model"] == size


def test_models_on_a_par_are_all_named(read):
    _, understood = read("Which of Llama 3 8B, Qwen3 14B and Gemma 3 27B fit on a 4090?")
    assert understood["models"] == ["Llama 3 8B", "Qwen3 14B", "Gemma 3 27B"]
    assert "model" not in understood
