"""Models as people write them: in any order, with formats, tags and sizes."""

import re

import pytest

from counted_calls import calls
from fitgauge.catalog.model_names import Footprint, ModelReading, Names
from fitgauge.catalog.name_parts import Name, named_size
from fitgauge.catalog.snapshot import Snapshot

SNAPSHOT = Snapshot()


@pytest.mark.parametrize(
    ("text", "model_id", "named"),
    [
        ("14B Qwen2.5", "Qwen/Qwen2.5-14B-Instruct", None),
        ("70b llama v3.1 base", "meta-llama/Meta-Llama-3.1-70B", None),
        ("gemma2 9b it", "google/gemma-2-9b-it", None),
        ("Qwen25 32b", "Qwen/Qwen2.5-32B-Instruct", None),
        ("qwen2.5VL 7B", "Qwen/Qwen2.5-VL-7B-Instruct", None),
        ("gptoss-20b", "openai/gpt-oss-20b", None),
        ("deepseekv3.1", "deepseek-ai/DeepSeek-V3.1", None),
        ("falcon-7b模型", "tiiuae/falcon-7b-instruct", None),
        ("Falcon-7B-Instruct-GPTQ", "tiiuae/falcon-7b-instruct", "gptq"),
        ("phi-4-int4", "microsoft/phi-4", "int4"),
        ("gemma 3 12b 4-bit", "google/gemma-3-12b-it", "int4"),
        ("Falcon3-10B-Instruct-Q5_K_M.gguf", "tiiuae/Falcon3-10B-Instruct", "q5_k_m"),
        ("Qwen3-14B Q6", "Qwen/Qwen3-14B", "q6_k"),
        ("OLMo-2-1124-13B-Instruct-fp8", "allenai/OLMo-2-1124-13B-Instruct", "fp8"),
        ("Qwen2.5-14B-Instruct AWQ", "Qwen/Qwen2.5-14B-Instruct-AWQ", None),
        ("qwen2.5-72b-instruct-gptq-int8", "Qwen/Qwen2.5-72B-Instruct-GPTQ-Int8", None),
        ("Qwen3-32B FP8", "Qwen/Qwen3-32B-FP8", None),
        ("gemma2:9b", "google/gemma-2-9b-it", "q4_0"),
        ("llama3.2:3b-instruct-q8_0", "meta-llama/Llama-3.2-3B-Instruct", "q8_0"),
        ("phi4:latest", "microsoft/phi-4", "q4_k_m"),
        ("deepseek r1 14b", "deepseek-ai/DeepSeek-R1-Distill-Qwen-14B", None),
        ("deepseek r1 671b", "deepseek-ai/DeepSeek-R1", None),
        ("bloom", "bigscience/bloom", None),
        ("llama-3-1-70b-instruct", "meta-llama/Llama-3.1-70B-Instruct", None),
        ("gemmma 2 27b", "google/gemma-2-27b-it", None),
        ("devstral", "mistralai/Devstral-Small-2-24B-Instruct-2512", None),
        ("devstral 2", "mistralai/Devstral-2-123B-Instruct-2512", None),
        ("mistral 24b", "mistralai/Mistral-Small-24B-Instruct-2501", None),
    ],
)  # fmt: skip
def test_a_name_is_read_with_its_format(text: str, model_id: str, named: str | None) -> None:
    reading = SNAPSHOT.read(text)
    assert reading is not None
    assert (reading.id, reading.format) == (model_id, named)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("llama", {"llama", "8b"}),
        ("gemma 3", {"gemma", "3", "12b"}),
        ("llama 3", {"meta", "llama", "3", "8b"}),
        ("mixtral", {"mixtral", "8x7b"}),
        ("gpt oss", {"gpt", "oss", "20b"}),
        ("Qwen 32B", {"32b"}),
    ],
)
def test_the_usual_member_of_a_family_is_a_guess_with_others(text: str, words: set[str]) -> None:
    reading = SNAPSHOT.read(text)
    assert reading is not None
    assert words <= set(re.split(r"[-/]", reading.id.lower())) | {"8b", "72b"}
    assert reading.others
    assert reading.id not in reading.others


KINDS = ("coder", "vl", "math", "embedding", "guard", "distill", "vision")


@pytest.mark.parametrize("text", ["qwen3", "qwen 7b", "qwen2.5 32b", "llama 8b", "deepseek"])
def test_a_plain_name_is_never_another_kind_or_quantization(text: str) -> None:
    reading = SNAPSHOT.read(text)
    assert reading is not None
    for model_id in (reading.id, *reading.others):
        assert not any(kind in model_id.lower() for kind in KINDS), model_id
        assert Name.of(model_id).format in ("", "bf16")


@pytest.mark.parametrize(
    ("new", "old", "alike"),
    [
        (Footprint(None, "bf16"), Footprint(None, "bf16"), True),
        (Footprint(None, "bf16"), Footprint(None, "awq"), False),
        (Footprint(7_000_000_000, "bf16"), Footprint(None, "bf16"), False),
        (Footprint(7_000_000_000, "bf16"), Footprint(7_001_000_000, "bf16"), True),
        (Footprint(7_000_000_000, "bf16"), Footprint(9_000_000_000, "bf16"), False),
    ],
)
def test_a_release_that_needs_as_much_memory_is_no_other_reading(
    new: Footprint, old: Footprint, alike: bool
) -> None:
    footprints = {"a/Foo-3-7B-Instruct": new, "a/Foo-2-7B-Instruct": old}
    reading = Names(footprints).read("foo 7b", footprints.__getitem__)
    assert reading is not None
    assert reading.id == "a/Foo-3-7B-Instruct"
    assert reading.others == (() if alike else ("a/Foo-2-7B-Instruct",))


def test_a_generation_is_never_another() -> None:
    names = Names(("a/Foo1.5-14B-Chat", "a/Foo2-14B-Instruct", "b/Foo3-14B-NVFP4"))
    footprint = SNAPSHOT._footprint
    assert names.read("foo-14b-chat", footprint) is None
    assert names.read("foo 3 14b", footprint) is None
    assert names.read("foo 4 14b", footprint) is None


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("8", ("8b", "")),
        ("13B", ("13b", "")),
        ("a 13B model", ("13b", "")),
        ("7b的模型", ("7b", "")),
        ("0.5b", ("0.5b", "")),
        ("65B 4-bits", ("65b", "int4")),
        ("14B Q6_K", ("14b", "q6_k")),
        ("30B+ models", ("30b", "")),
        ("foo 13b", None),
        ("llama 13b", None),
        ("2 7b models and 13b", None),
        ("4090", None),
        ("", None),
    ],
)
def test_a_size_alone_is_a_size(text: str, expected: tuple[str, str] | None) -> None:
    assert named_size(text) == expected


def _spellings(model_id: str) -> set[str]:
    """Return a name in other cases, separators and orders."""
    name = model_id.partition("/")[2]
    words = name.split("-")
    return {
        name.upper(), name.lower(), " ".join(words), "_".join(words),
        " ".join(reversed(words)), " ".join(words[1:] + words[:1]),
    }  # fmt: skip


NAMED = [
    model_id
    for model_id in SNAPSHOT.named_ids()
    if not re.search(r"[12]_\d+b|1\.5-16k|/qwen-(?:7|14|72)b$", model_id, re.IGNORECASE)
]
"""All but those whose size is written with an underscore, one whose numbers an underscore joins,
and those whose words mean a newer one (data/nicknames.tsv)."""


@pytest.mark.parametrize("model_id", NAMED)
def test_order_case_spaces_and_separators_do_not_matter(model_id: str) -> None:
    expected = SNAPSHOT.read(model_id.partition("/")[2])
    assert expected is not None
    for spelling in _spellings(model_id):
        reading = SNAPSHOT.read(spelling)
        assert reading is not None, spelling
        assert reading.id == expected.id, spelling


@pytest.mark.parametrize("piece", ["llama ", "1", "7b-", "a1", "q4_k_", "的"])
def test_work_on_nonsense_grows_with_its_length_and_not_faster(piece: str) -> None:
    def read(length: int) -> int:
        text = piece * (length // len(piece))
        return calls(lambda: (SNAPSHOT.read(text), named_size(text)))

    read(500)  # fills the caches of names
    assert read(2000) <= 2.2 * read(1000)


def test_a_repository_in_another_format_is_meant_by_its_name_alone():
    for model_id in ("Qwen/Qwen3-235B-A22B-Thinking-2507-FP8", "zai-org/GLM-4.5V-FP8"):
        assert SNAPSHOT.read(model_id.partition("/")[2]) == ModelReading(model_id)


def test_a_model_trained_with_quantization_is_meant_in_four_bits():
    assert SNAPSHOT.read("gemma-3-27b-it-qat").format == "int4"
    assert SNAPSHOT.read("gemma-3-27b-it-qat-GGUF").format == "q4_0"


@pytest.mark.parametrize("text", ["qwen3 0b", "llama 0.0b", "qwen3-0m"])
def test_a_family_of_no_parameters_is_no_model(text):
    assert SNAPSHOT.read(text) is None
