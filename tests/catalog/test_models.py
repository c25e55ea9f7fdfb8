"""The bundled models: every row, and what people call them."""

import re

import pytest

from fitgauge.catalog.snapshot import Snapshot
from fitgauge.engine.model.families import read_config
from fitgauge.engine.performance.flops import token_flops

SNAPSHOT = Snapshot()

UNREAD = {"inclusionAI/Ling-3.0-Flash", "Qwen/Qwen3.8-Flash-Next", "Zyphra/Zamba-7B-v1"}
"""Models whose family no reader was taught: the answer says `assumed`, and the count is not the
class's."""

SPELLINGS = """
llama 3.1 70b | meta-llama/Llama-3.1-70B-Instruct
llama-3.1-8b | meta-llama/Llama-3.1-8B-Instruct
LLAMA 3.1 8B INSTRUCT | meta-llama/Llama-3.1-8B-Instruct
llama 3.1 8b base | meta-llama/Meta-Llama-3.1-8B
llama3 8b | meta-llama/Meta-Llama-3-8B-Instruct
llama 3 70 b | meta-llama/Meta-Llama-3-70B-Instruct
llama 3.3 70b | meta-llama/Llama-3.3-70B-Instruct
llama3.2 1b | meta-llama/Llama-3.2-1B-Instruct
llama 3.2 90b | meta-llama/Llama-3.2-90B-Vision-Instruct
llama 4 scout | meta-llama/Llama-4-Scout-17B-16E-Instruct
llama 4 maverick | meta-llama/Llama-4-Maverick-17B-128E-Instruct
llama 2 70b chat | meta-llama/Llama-2-70b-chat-hf
llama 3.1 405b | meta-llama/Meta-Llama-3.1-405B-Instruct
llama 3.1 70b awq | hugging-quants/Meta-Llama-3.1-70B-Instruct-AWQ-INT4
llama 3.1 70b fp8 | nvidia/Llama-3.1-70B-Instruct-FP8
code llama 34b | codellama/CodeLlama-34b-Instruct-hf
tinyllama | TinyLlama/TinyLlama-1.1B-Chat-v1.0
qwen3 32b | Qwen/Qwen3-32B
qwen3-32b | Qwen/Qwen3-32B
qwen3 4b | Qwen/Qwen3-4B
qwen3 30b a3b | Qwen/Qwen3-30B-A3B
qwen3 235b | Qwen/Qwen3-235B-A22B
qwen3-coder 480b | Qwen/Qwen3-Coder-480B-A35B-Instruct
qwen3 next 80b | Qwen/Qwen3-Next-80B-A3B-Instruct
qwen3 32b awq | Qwen/Qwen3-32B-AWQ
qwen2.5 72b | Qwen/Qwen2.5-72B-Instruct
qwen 2.5 7b instruct | Qwen/Qwen2.5-7B-Instruct
qwen2.5 72b awq | Qwen/Qwen2.5-72B-Instruct-AWQ
qwen2.5 32b gptq int4 | Qwen/Qwen2.5-32B-Instruct-GPTQ-Int4
qwen2.5 coder 32b | Qwen/Qwen2.5-Coder-32B-Instruct
qwen2.5 vl 7b | Qwen/Qwen2.5-VL-7B-Instruct
qwq | Qwen/QwQ-32B
gpt-oss-20b | openai/gpt-oss-20b
gpt oss 120b | openai/gpt-oss-120b
deepseek r1 | deepseek-ai/DeepSeek-R1
deepseek v3 | deepseek-ai/DeepSeek-V3
deepseek v3 671b | deepseek-ai/DeepSeek-V3
deepseek r1 0528 | deepseek-ai/DeepSeek-R1-0528
deepseek r1 distill llama 70b | deepseek-ai/DeepSeek-R1-Distill-Llama-70B
deepseek-r1-distill-qwen-32b | deepseek-ai/DeepSeek-R1-Distill-Qwen-32B
deepseek v2 lite | deepseek-ai/DeepSeek-V2-Lite-Chat
mixtral 8x7b | mistralai/Mixtral-8x7B-Instruct-v0.1
mixtral 8x22b | mistralai/Mixtral-8x22B-Instruct-v0.1
mistral 7b | mistralai/Mistral-7B-Instruct-v0.3
mistral 7b instruct v0.2 | mistralai/Mistral-7B-Instruct-v0.2
mistral nemo 12b | mistralai/Mistral-Nemo-Instruct-2407
mistral large | mistralai/Mistral-Large-Instruct-2411
mistral small 3.1 | mistralai/Mistral-Small-3.1-24B-Instruct-2503
gemma 2 9b | google/gemma-2-9b-it
gemma3 27b | google/gemma-3-27b-it
phi4 | microsoft/phi-4
phi 4 14b | microsoft/phi-4
phi 3.5 mini | microsoft/Phi-3.5-mini-instruct
falcon 180b | tiiuae/falcon-180B-chat
bloom | bigscience/bloom
bloom 7b1 | bigscience/bloom-7b1
opt 13b | facebook/opt-13b
opt-175b | facebook/opt-175b
gpt2 | openai-community/gpt2
gpt-j 6b | EleutherAI/gpt-j-6b
gpt-neox 20b | EleutherAI/gpt-neox-20b
pythia 6.9b | EleutherAI/pythia-6.9b
flan-t5 xxl | google/flan-t5-xxl
whisper large v3 | openai/whisper-large-v3
whisper large v3 turbo | openai/whisper-large-v3-turbo
bert base | google-bert/bert-base-uncased
bert-base-uncased | google-bert/bert-base-uncased
all-minilm-l6-v2 | sentence-transformers/all-MiniLM-L6-v2
bge large | BAAI/bge-large-en-v1.5
command r v01 | CohereForAI/c4ai-command-r-v01
command-r+ | CohereForAI/c4ai-command-r-plus
command r plus 104b | CohereForAI/c4ai-command-r-plus
granite 3.1 8b | ibm-granite/granite-3.1-8b-instruct
mamba 2.8b | state-spaces/mamba-2.8b-hf
llava 1.5 7b | llava-hf/llava-1.5-7b-hf
qwen3 embedding 8b | Qwen/Qwen3-Embedding-8B
yi 34b | 01-ai/Yi-34B
smollm3 | HuggingFaceTB/SmolLM3-3B
starcoder2 15b | bigcode/starcoder2-15b
zephyr 7b | HuggingFaceH4/zephyr-7b-beta
kimi k2 1t | moonshotai/Kimi-K2-Instruct
glm 5 | zai-org/GLM-5
minimax m2.7 | MiniMaxAI/MiniMax-M2.7
meta-llama/meta-llama-3.1-8b-instruct | meta-llama/Llama-3.1-8B-Instruct
"""
CASES = [tuple(part.strip() for part in line.split("|")) for line in SPELLINGS.strip().splitlines()]

PUBLISHED = {
    "Qwen/Qwen2.5-72B-Instruct": 72_706_203_648,
    "google/gemma-3-27b-it": 27_432_406_640,
    "google/flan-t5-xl": 2_849_757_184,
    "openai/whisper-large-v3": 1_543_490_560,
    "deepseek-ai/DeepSeek-V2": 235_741_434_880,
    "mistralai/Mistral-Nemo-Instruct-2407": 12_247_782_400,
    "sentence-transformers/all-MiniLM-L6-v2": 22_713_216,
    "bigscience/bloom": 176_247_271_424,
    "microsoft/phi-4": 14_659_507_200,
}
"""Counts that the Hub shows for these repositories."""


def test_there_are_enough_models():
    """A thousand repositories are known without the Hub, each once."""
    ids = SNAPSHOT.ids()
    assert len(ids) >= 1000
    assert len({model_id.lower() for model_id in ids}) == len(ids)
    assert list(ids) == sorted(ids, key=str.lower)


@pytest.mark.parametrize("model_id", SNAPSHOT.ids())
def test_every_row_is_whole(model_id):
    """A row has its id, a config that says its family, a source and a date."""
    row = SNAPSHOT.get(model_id)
    assert row is not None
    assert row.id == model_id
    assert row.config["model_type"]
    assert len(row.source) > 8
    assert row.date.startswith("20")
    assert (row.parameters is None) == (row.counted == "")


@pytest.mark.parametrize("model_id", SNAPSHOT.ids())
def test_every_count_is_what_the_readers_compute(model_id):
    """The architecture read from the config has exactly the parameters that were counted
    on the built model."""
    row = SNAPSHOT.get(model_id)
    assert row is not None
    spec = read_config(row.config, row.quantization)
    if row.parameters is not None:
        assert (spec.parameters == row.parameters) is (model_id not in UNREAD)


@pytest.mark.parametrize("model_id", PUBLISHED)
def test_counts_equal_published_ones(model_id):
    """The counts are those that the Hub shows, to the last parameter; quoted from memory,
    so a difference may be the quotation's."""
    row = SNAPSHOT.get(model_id)
    assert row is not None
    assert row.parameters == PUBLISHED[model_id]


@pytest.mark.parametrize(("text", "model_id"), CASES, ids=[text for text, _ in CASES])
def test_people_find_the_model_they_mean(text, model_id):
    """A loose name finds the one model that is meant, the tuned one where there are two."""
    assert SNAPSHOT.find(text) == model_id


@pytest.mark.parametrize(
    "text", ["7b", "70b instruct", "gpt-4", "hello world", "", "!", "chat", "model"]
)
def test_what_names_no_family_is_not_guessed(text):
    """A size and a stranger find nothing."""
    assert SNAPSHOT.find(text) is None


@pytest.mark.parametrize(
    ("text", "model_id"),
    [
        ("meta-lama/Llama-3.1-8B-Instrct", "meta-llama/Llama-3.1-8B-Instruct"),
        ("Qwen/Qwen3-33B", "Qwen/Qwen3-32B"),
        ("mixtrall", "mistralai/Mixtral-8x7B-v0.1"),
        ("deepseek r2", "deepseek-ai/DeepSeek-R1"),
    ],
)
def test_near_misses_are_suggested(text, model_id):
    """A misspelled name finds the right one first, and at most five."""
    near = SNAPSHOT.near(text)
    assert near[0] == model_id
    assert len(near) <= 5


def test_nonsense_has_no_near_match():
    """What resembles nothing is answered with nothing."""
    assert SNAPSHOT.near("asdfgh") == ()


@pytest.mark.parametrize(
    ("alias", "model_id"),
    [
        ("meta-llama/Meta-Llama-3.1-8B-Instruct", "meta-llama/Llama-3.1-8B-Instruct"),
        ("META-LLAMA/LLAMA-3.1-8B", "meta-llama/Meta-Llama-3.1-8B"),
        ("gpt2", "openai-community/gpt2"),
        ("CohereLabs/c4ai-command-r-v01", "CohereForAI/c4ai-command-r-v01"),
        ("unsloth/gemma-3-27b-it", "google/gemma-3-27b-it"),
    ],
)
def test_renamed_and_mirrored_repositories_are_known(alias, model_id):
    """An older id and a mirror lead to the same row."""
    row = SNAPSHOT.get(alias)
    assert row is not None
    assert row.id == model_id


@pytest.mark.parametrize(
    ("text", "model_id"),
    [
        ("Mistral Large 2", "mistralai/Mistral-Large-Instruct-2407"),
        ("mistral large 2 123b", "mistralai/Mistral-Large-Instruct-2407"),
        ("Nemotron 3 Super 120B", "nvidia/NVIDIA-Nemotron-3-Super-120B-A12B-BF16"),
        ("Jamba 1.7 Mini", "ai21labs/AI21-Jamba-Mini-1.7"),
        ("jamba 1.5 mini", "ai21labs/AI21-Jamba-1.5-Mini"),
        ("GLM 4.7", "zai-org/GLM-4.7"),
        ("GLM 4.7 Flash", "zai-org/GLM-4.7-Flash"),
    ],
)
def test_nicknames_are_known(text, model_id):
    """What people call a model leads to its repository, also to one not bundled."""
    assert SNAPSHOT.find(text) == model_id


def test_a_family_and_a_size_in_words_mean_its_newest_and_the_whole_name_the_first():
    """What people mean by "qwen 7b" now, with the first generation named too."""
    reading = SNAPSHOT.read("qwen 7b")
    assert reading.id == "Qwen/Qwen2.5-7B-Instruct"
    assert "Qwen/Qwen-7B" in reading.others
    assert SNAPSHOT.read("Qwen-7B")[:3] == ("Qwen/Qwen-7B", None, ())
    assert SNAPSHOT.read("falcon 7b").others == ("tiiuae/Falcon3-7B-Instruct",)


def test_every_alias_leads_to_a_row_and_hides_none():
    """An alias points at a known id and is no id itself."""
    ids = {model_id.lower() for model_id in SNAPSHOT.ids()}
    for alias, model_id in SNAPSHOT._aliases.items():
        assert model_id.lower() in ids, alias
        assert alias not in ids


def test_a_stranger_is_unknown():
    """An id that is not bundled is None, not an error."""
    assert SNAPSHOT.get("nobody/nothing") is None


def test_nothing_is_read_before_it_is_asked_for():
    """A new snapshot holds no data."""
    assert vars(Snapshot()) == {}


def test_mixtures_activate_what_their_names_say():
    named = ((model_id, re.search(r"-A(\d+(?:\.\d+)?)B", model_id)) for model_id in SNAPSHOT.ids())
    far = {}
    for model_id, match in named:
        model = SNAPSHOT.model(model_id) if match else None
        if match is not None and model is not None:
            active = token_flops(model.spec, 1).forward / 2e9
            if abs(active / float(match[1]) - 1) > 0.3:
                far[model_id] = active
    assert not far
