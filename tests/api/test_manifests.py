"""The tool manifests of the usual hosts: the same seven tools, in the form each host takes."""

import json
import re

import pytest
from jsonschema import Draft202012Validator

from fitgauge.api.manifests import manifests
from fitgauge.api.tools_document import answer_schema, arguments_schema
from fitgauge.services.tools.faces import TOOLS

MADE = manifests()
ARGUMENTS = {name: arguments_schema(tool) for name, tool in TOOLS.items()}
RESPONSES = {tool["name"]: tool for tool in MADE["openai-responses"]}
CHAT = {tool["function"]["name"]: tool["function"] for tool in MADE["openai-chat"]}
ANTHROPIC = {tool["name"]: tool for tool in MADE["anthropic"]}
GEMINI = {tool["name"]: tool for tool in MADE["gemini"][0]["functionDeclarations"]}
MCP = {tool["name"]: tool for tool in MADE["mcp"]["tools"]}
MOST_TOKENS = 2_200
MOST_STRICT_TOKENS = 2_400
CHARACTERS_A_TOKEN = 3.6


def loosened(schema):
    """Return a strict schema as that of a host without strictness."""
    nullable = {
        name for name, field in schema["properties"].items() if isinstance(field["type"], list)
    }
    return {
        "type": "object",
        "properties": {
            name: field | {"type": field["type"][0]} if name in nullable else field
            for name, field in schema["properties"].items()
        },
        "required": [name for name in schema["required"] if name not in nullable],
    }


@pytest.mark.parametrize("listed", [RESPONSES, CHAT, ANTHROPIC, GEMINI, MCP])
def test_every_host_gets_the_seven_tools(listed):
    assert list(listed) == list(TOOLS)
    assert {name: tool["description"] for name, tool in listed.items()} == {
        name: tool.description for name, tool in TOOLS.items()
    }


def test_every_host_gets_the_same_arguments():
    assert {name: tool["parametersJsonSchema"] for name, tool in GEMINI.items()} == ARGUMENTS
    assert {name: tool["inputSchema"] for name, tool in MCP.items()} == ARGUMENTS
    assert {
        name: tool["input_schema"] | {"additionalProperties": False}
        for name, tool in ANTHROPIC.items()
    } == {name: schema | {"additionalProperties": False} for name, schema in ARGUMENTS.items()}
    assert {name: loosened(tool["parameters"]) for name, tool in RESPONSES.items()} == {
        name: {key: schema[key] for key in ("type", "properties", "required")}
        for name, schema in ARGUMENTS.items()
    }
    assert {name: tool["parameters"] for name, tool in CHAT.items()} == {
        name: tool["parameters"] for name, tool in RESPONSES.items()
    }


@pytest.mark.parametrize("tool", [*RESPONSES.values(), *CHAT.values()])
def test_openai_strict_mode_takes_it(tool):
    """Every property required, nothing else allowed, no default, one type beside null."""
    schema = tool["parameters"]
    assert tool["strict"] is True
    assert schema["additionalProperties"] is False
    assert schema["required"] == list(schema["properties"])
    for field in schema["properties"].values():
        assert set(field) == {"type", "description"}
        kinds = field["type"] if isinstance(field["type"], list) else [field["type"], "null"]
        assert len(kinds) == 2
        assert kinds[1] == "null"


@pytest.mark.parametrize("name", TOOLS)
def test_the_examples_are_valid(name):
    for schema in (ARGUMENTS[name], ANTHROPIC[name]["input_schema"]):
        Draft202012Validator.check_schema(schema)
        Draft202012Validator(schema).validate(dict(TOOLS[name].example))
    for example in ANTHROPIC[name]["input_examples"]:
        Draft202012Validator(ANTHROPIC[name]["input_schema"]).validate(example)


@pytest.mark.parametrize("name", TOOLS)
def test_names_and_descriptions_fit_every_host(name):
    tool = MCP[name]
    assert re.fullmatch("[a-zA-Z][a-zA-Z0-9_]{0,63}", name)
    assert 1 <= len(tool["description"]) <= 300
    for argument, field in tool["inputSchema"]["properties"].items():
        assert re.fullmatch("[a-zA-Z][a-zA-Z0-9_]{0,63}", argument)
        assert 1 <= len(field["description"]) <= 700


@pytest.mark.parametrize(
    "host,most",
    [
        ("openai-responses", MOST_STRICT_TOKENS),
        ("openai-chat", MOST_STRICT_TOKENS),
        ("anthropic", MOST_TOKENS),
        ("gemini", MOST_TOKENS),
    ],
)
def test_a_manifest_takes_little_of_a_context(host, most):
    assert len(json.dumps(MADE[host], separators=(",", ":"))) / CHARACTERS_A_TOKEN <= most


def test_search_words_stand_in_the_descriptions():
    """Hosts with many tools search their descriptions."""
    every = " ".join(tool.description for tool in TOOLS.values())
    assert all(word in every for word in ("VRAM", "OOM", "GPU memory", "fine-tune"))


@pytest.mark.parametrize("name", MCP)
def test_a_tool_of_mcp_says_that_it_only_reads_and_what_it_answers(name):
    hints = MCP[name]["annotations"]
    assert hints["readOnlyHint"]
    assert hints["idempotentHint"]
    assert not hints["destructiveHint"]
    assert MCP[name]["outputSchema"] == answer_schema()
    assert MCP[name]["title"]


def test_only_answers_about_one_gpu_have_a_picture():
    drawn = {name for name, tool in MCP.items() if "_meta" in tool}
    assert drawn == {"check_fit", "check_training_fit"}


def test_the_service_gives_the_manifest_of_each_host(http):
    for host, manifest in MADE.items():
        assert http.get(f"/tools/{host}.json").json() == manifest
