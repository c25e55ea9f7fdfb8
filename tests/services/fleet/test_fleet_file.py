"""A fleet's file: entries with their lines, and what is wrong with those that are not read."""

import pytest

from fitgauge.errors import InvalidRequestError
from fitgauge.services.fleet import fleet_file
from fitgauge.services.fleet.fleet_file import read_fleet

TOML = """engine = "vllm"

[[models]]
model = "Qwen/Qwen3-8B"
replicas = 2

[[models]]
model = "7b"
loads = ["chat"]

[[gpus]]
gpu = "H100"

[[loads]]
name = "chat"
context_length = 8192
"""
YAML = """engine: vllm
models:
  - model: Qwen/Qwen3-8B
    replicas: 2
  - model: 7b
    loads: [chat]
gpus:
  - H100
loads:
  - name: chat
    context_length: 8192
"""


def faults(text, **options):
    return [(fault.line, fault.code) for fault in read_fleet(text, **options).faults]


def test_toml_and_yaml_say_the_same():
    toml, yaml = read_fleet(TOML), read_fleet(YAML, is_yaml=True)
    assert (toml.models, toml.gpus, toml.loads) == (yaml.models, yaml.gpus, yaml.loads)
    assert toml.engine == yaml.engine == "vllm"
    assert toml.faults == yaml.faults == []


def test_entries_know_their_lines():
    assert read_fleet(TOML).lines["models"] == {"Qwen/Qwen3-8B": 3, "7b": 7}
    assert read_fleet(YAML, is_yaml=True).lines["models"] == {"Qwen/Qwen3-8B": 3, "7b": 5}


def test_names_alone_are_entries_and_a_fleet_without_loads_has_one():
    fleet = read_fleet('models = [\n  "7b",\n  "13b",\n]\ngpus = ["8x H100"]\n')
    assert [entry.model for entry in fleet.models] == ["7b", "13b"]
    assert fleet.lines["models"] == {"7b": 2, "13b": 3}
    assert [(load.context_length, load.concurrency) for load in fleet.loads] == [(None, 1)]


@pytest.mark.parametrize(
    "old, new, expected",
    [
        ("replicas = 2", "replica = 2", [(5, "unknown-value")]),
        ("replicas = 2", "replicas = 0", [(5, "invalid-value")]),
        ("replicas = 2", 'replicas = "many"', [(5, "invalid-value")]),
        ('model = "7b"', 'name = "seven"', [(7, "missing-field")]),
        ('model = "7b"', 'model = "Qwen/Qwen3-8B"', [(7, "conflicting-fields")]),
        ('loads = ["chat"]', 'loads = ["chats"]', [(7, "unknown-value")]),
        ('loads = ["chat"]', 'gpus = ["A100"]', [(7, "unknown-value")]),
        ('engine = "vllm"', 'engine = "vlm2"', [(1, "unknown-engine")]),
        ('engine = "vllm"', 'settings = "best"', [(1, "invalid-value")]),
        ('engine = "vllm"', 'engine_version = "new"', [(1, "invalid-value")]),
        ('engine = "vllm"', "price = 1", [(1, "unknown-value")]),
        ("context_length = 8192", 'context_length = "long"', None),
    ],
)
def test_an_entry_that_is_wrong_is_a_fault_with_its_line(old, new, expected):
    text = TOML.replace(old, new)
    if expected is None:  # its load is not read, so that the model that names it is a fault too
        expected = [(7, "unknown-value"), (16, "invalid-value")]
    assert faults(text) == expected


def test_thousands_of_tokens_are_of_1024():
    fleet = read_fleet(TOML.replace("context_length = 8192", 'context_length = "32k"'))
    assert (fleet.faults, fleet.loads[0].context_length) == ([], 32768)


def test_a_load_that_cannot_be_read_is_told_from_one_that_is_missing():
    fleet = read_fleet(TOML.replace("context_length = 8192", 'context_length = "long"'))
    first, _ = fleet.faults
    assert first.message.endswith("loads 'chat' cannot be read.")


def test_a_fault_in_yaml_has_its_line_too():
    assert faults(YAML.replace("replicas: 2", "replica: 2"), is_yaml=True) == [(4, "unknown-value")]


def test_the_other_entries_are_read():
    fleet = read_fleet(TOML.replace("replicas = 2", "replica = 2"))
    assert [entry.model for entry in fleet.models] == ["7b"]
    assert fleet.faults[0].matches == ["replicas"]


@pytest.mark.parametrize(
    "text, code",
    [
        ("models = [", "invalid-value"),
        ('gpus = ["H100"]', "missing-field"),
        ('models = ["7b"]', "missing-field"),
        (f"models = {[f'{number}b' for number in range(1, 2003)]}\ngpus = ['H100']", None),
        ("limit = " + "9" * 5000, "invalid-value"),
    ],
)
def test_a_file_that_cannot_be_read_is_an_error(text, code):
    with pytest.raises(InvalidRequestError) as refused:
        read_fleet(text)
    assert refused.value.code == (code or "invalid-value")


def test_files_and_fleets_are_bounded(monkeypatch):
    with pytest.raises(InvalidRequestError) as refused:
        read_fleet("#" * (fleet_file.LONGEST + 1))
    assert refused.value.code == "question-too-large"
    monkeypatch.setattr(fleet_file, "MOST_ROWS", 1)
    with pytest.raises(InvalidRequestError) as refused:
        read_fleet(TOML)
    assert refused.value.code == "too-many-cells"
