"""Contexts beyond a config's positions, which a publisher says YaRN reaches.

The derived context is what both engines' own code makes of the overrides (vllm 0.33.0
get_config and derived_max_model_len_and_key, sglang 0.5.23 get_config and get_context_length:
131,072 for Qwen3-8B and Qwen3-30B-A3B)."""

import shlex

import pytest
from msgspec import json

from bundled_models import spec_of
from fitgauge.engine.serving.rope_scaling import stretched, yarn
from notes import codes

ASKED = {"model": "Qwen/Qwen3-8B", "gpu": "H100"}
OVERRIDES = {
    "max_position_embeddings": 131072,
    "rope_scaling": {
        "rope_type": "yarn",
        "rope_theta": 1e6,
        "factor": 4.0,
        "original_max_position_embeddings": 32768,
    },
}


@pytest.mark.parametrize(
    ("engine", "flag"), [("vllm", "--hf-overrides"), ("sglang", "--json-model-override-args")]
)
def test_the_command_overrides_the_config(check_fit, engine, flag):
    answer = check_fit(**ASKED, engine=engine, context_length=131072)
    assert answer.verdict == "fits"
    words = shlex.split(answer.launch.command)
    assert json.decode(words[words.index(flag) + 1]) == OVERRIDES
    assert ("positions-scaled", "context_length") in codes(answer.warnings)
    assert answer.limits.max_context_length == 131072


def test_llama_cpp_takes_flags_of_its_own(check_fit):
    answer = check_fit(**ASKED, engine="llama.cpp", context_length=60000)
    assert "--rope-scaling yarn --rope-scale 2 --yarn-orig-ctx 32768" in answer.launch.command


@pytest.mark.parametrize(
    ("model", "context_length", "factor"),
    [
        ("Qwen/Qwen3-8B", 40960, None),
        ("Qwen/Qwen3-8B", 40961, 2),
        ("Qwen/Qwen3-30B-A3B", 70000, 3),
        ("Qwen/Qwen3-8B", 131073, None),
        ("Qwen/Qwen3-4B-Instruct-2507", 300000, None),
        ("meta-llama/Llama-2-7b-chat-hf", 8192, None),
    ],
)
def test_the_factor_is_no_larger_than_the_context_needs(model, context_length, factor):
    scaling = yarn(spec_of(model), context_length)
    assert (scaling and scaling.factor) == factor


def test_the_tables_of_rotations_grow():
    spec = spec_of("Qwen/Qwen3-8B")
    scaling = yarn(spec, 131072)
    assert scaling is not None
    assert [table.positions for table in stretched(spec, scaling).rotary_tables] == [131072]


def test_beyond_what_is_stated_it_is_refused(check_fit):
    assert check_fit(**ASKED, context_length=131073).verdict == "unsupported"


def test_an_engine_without_such_flags_names_one_that_has_them(check_fit):
    answer = check_fit(**ASKED, engine="ollama", context_length=65536)
    assert answer.verdict == "unsupported"
    assert {"engine": "llama.cpp"} in [one.request for one in answer.suggestions]
