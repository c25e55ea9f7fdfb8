"""Contexts beyond a config's positions, which a publisher says that YaRN reaches.

The lengths that engines take are what their own code makes of the overrides: vllm 0.11.1, 0.12.0
and 0.33.0 config/model.py (_apply_dict_overrides, _get_and_verify_max_len), sglang 0.5.23
srt/utils/hf_transformers (get_config, get_context_length)."""

import shlex

import pytest
from msgspec import json

from bundled_models import SNAPSHOT, spec_of
from fitgauge.engine.model.families import read_config
from fitgauge.engine.serving.rope_scaling import (
    config_overrides,
    scaled_context,
    scaled_tables,
    usual_factor,
)
from notes import codes

ASKED = {"model": "Qwen/Qwen3-8B", "gpu": "H100"}
ROPE = {
    "rope_theta": 1000000,
    "rope_type": "yarn",
    "factor": 4.0,
    "original_max_position_embeddings": 32768,
}
HYBRID = {
    "rope_theta": 10000000,
    "partial_rotary_factor": 0.25,
    "mrope_interleaved": True,
    "mrope_section": [11, 11, 10],
    "rope_type": "yarn",
    "factor": 4.0,
    "original_max_position_embeddings": 262144,
}
"""As vllm-project/recipes has it, models/Qwen/Qwen3.6-27B.yaml."""


def value_of(command, flag):
    words = shlex.split(command)
    return json.decode(words[words.index(flag) + 1])


@pytest.mark.parametrize(
    ("settings", "flag", "value"),
    [
        ({}, "--hf-overrides", {"rope_parameters": ROPE, "max_position_embeddings": 131072}),
        (
            {"engine_version": "0.11.1"},
            "--hf-overrides",
            {"rope_scaling": ROPE, "max_position_embeddings": 131072},
        ),
        ({"engine_version": "0.11.0"}, "--rope-scaling", ROPE),
        (
            {"engine": "sglang"},
            "--json-model-override-args",
            {"rope_scaling": ROPE, "max_position_embeddings": 131072},
        ),
    ],
)
def test_the_command_scales_as_its_release_does(check_fit, settings, flag, value):
    answer = check_fit(**ASKED, **settings, context_length=131072)
    assert answer.verdict == "fits"
    assert value_of(answer.launch.command, flag) == value


def test_a_language_model_within_another_keeps_its_own_rotation(check_fit):
    answer = check_fit(model="Qwen/Qwen3.6-27B", gpu="8xH100", context_length=1_000_000)
    assert value_of(answer.launch.command, "--hf-overrides") == {
        "text_config": {"rope_parameters": HYBRID, "max_position_embeddings": 1048576}
    }
    assert answer.limits.max_context_length == 1_010_000


def test_llama_cpp_takes_flags_of_its_own(check_fit):
    answer = check_fit(**ASKED, engine="llama.cpp", context_length=60000)
    assert "--rope-scaling yarn --rope-scale 2 --yarn-orig-ctx 32768" in answer.launch.command


def test_the_answer_says_what_is_assumed_and_costs(check_fit):
    answer = check_fit(**ASKED, context_length=131072)
    assumed = {one.field: one.value for one in answer.assumed}
    assert assumed["rope_scaling_factor"] == 4
    assert ("positions-scaled", "rope_scaling_factor") in codes(answer.warnings)
    assert answer.limits.max_context_length == 131072
    again = check_fit(**answer.understood_as)
    assert (again.per_gpu, again.launch) == (answer.per_gpu, answer.launch)


@pytest.mark.parametrize(
    ("model", "context_length", "factor"),
    [
        ("Qwen/Qwen3-8B", 40960, 0),
        ("Qwen/Qwen3-8B", 40961, 2),
        ("Qwen/Qwen3-30B-A3B-GPTQ-Int4", 70000, 3),
        ("Qwen/Qwen3-8B", 131073, 0),
        ("Qwen/Qwen2.5-7B-Instruct", 131072, 4),
        ("Qwen/Qwen2.5-72B-Instruct-AWQ", 131072, 4),
        ("Qwen/Qwen3-Next-80B-A3B-Instruct", 1_010_000, 4),
        ("Qwen/Qwen3-Coder-30B-A3B-Instruct", 1_000_000, 4),
        ("Qwen/Qwen3-Coder-480B-A35B-Instruct-FP8", 400_000, 2),
        # whose publisher states no such thing
        ("Qwen/Qwen3-1.7B", 65536, 0),
        ("Qwen/Qwen3-Embedding-8B", 65536, 0),
        ("Qwen/Qwen2.5-3B-Instruct", 65536, 0),
        ("Qwen/Qwen1.5-32B-Chat", 65536, 0),
        ("Qwen/Qwen3-4B-Instruct-2507", 300000, 0),
        ("Qwen/Qwen3.5-0.8B", 300000, 0),
        ("meta-llama/Llama-2-7b-chat-hf", 8192, 0),
    ],
)
def test_the_factor_is_no_larger_than_the_context_needs(model, context_length, factor):
    assert usual_factor(spec_of(model), context_length) == factor


@pytest.mark.parametrize(
    ("model", "factor"),
    [("Qwen/Qwen3-8B", 4.0), ("Qwen/Qwen3.5-27B", 2.0), ("Qwen/Qwen3-Next-80B-A3B-Instruct", 4.0)],
)
def test_tables_and_context_are_those_of_the_overridden_config(model, factor):
    config = SNAPSHOT.get(model).config
    overrides = json.decode(config_overrides(spec_of(model), factor))
    inner = overrides.get("text_config")
    changed = {**config, **overrides}
    if inner is not None:
        changed["text_config"] = {**config["text_config"], **inner}
    expected = read_config(changed)
    assert scaled_tables(spec_of(model), factor).rotary_tables == expected.rotary_tables
    assert scaled_context(spec_of(model), factor) <= expected.max_context_length


@pytest.mark.parametrize(
    ("engine", "term", "width"), [("vllm", "weights", 2), ("sglang", "buffers", 4)]
)
def test_an_engine_holds_the_longer_table(check_fit, engine, term, width):
    short, long = (
        next(
            one.bytes
            for one in check_fit(**ASKED, engine=engine, context_length=length).terms
            if one.name == term
        )
        for length in (40960, 131072)
    )
    assert long - short == (131072 - 40960) * 128 * width


def test_beyond_what_is_stated_it_is_refused(check_fit):
    answer = check_fit(**ASKED, context_length=131073)
    assert answer.verdict == "unsupported"
    assert [one.request for one in answer.suggestions] == [{"context_length": 131072}]


def test_without_scaling_it_is_refused(check_fit):
    answer = check_fit(**ASKED, context_length=131072, rope_scaling_factor=1)
    assert answer.verdict == "unsupported"
    assert {"rope_scaling_factor": 4} in [one.request for one in answer.suggestions]


def test_a_factor_that_is_sent_scales_any_model(check_fit):
    llama = {"model": "NousResearch/Llama-2-7b-chat-hf", "gpu": "H100", "context_length": 16384}
    assert check_fit(**llama).verdict == "unsupported"
    answer = check_fit(**llama, rope_scaling_factor=4)
    assert answer.verdict == "fits"
    assert value_of(answer.launch.command, "--hf-overrides")["max_position_embeddings"] == 16384


def test_an_engine_without_such_flags_names_one_that_has_them(check_fit):
    answer = check_fit(**ASKED, engine="ollama", context_length=65536, rope_scaling_factor=4)
    assert answer.verdict == "unsupported"
    assert {"engine": "llama.cpp"} in [one.request for one in answer.suggestions]


def test_the_next_engine_is_taken_where_the_first_has_none(check_fit):
    answer = check_fit(model="Qwen/Qwen3-8B", gpu="Apple M3 Max 128GB", context_length=65536)
    assert answer.understood_as["engine"] == "llama.cpp"
    assert answer.verdict == "fits"


def test_without_a_gpu_the_smallest_run_scaled(check_fit):
    answer = check_fit(model="Qwen/Qwen3-8B", context_length=131072)
    assert ("positions-scaled", "rope_scaling_factor") in codes(answer.warnings)
    assert all("yarn" in one.command for one in answer.smallest)
