"""OpenAI's own types and its own rule of strict mode take the manifests as they are."""

import copy

import pytest
from openai.lib._pydantic import _ensure_strict_json_schema
from openai.types.chat import ChatCompletionFunctionToolParam
from openai.types.responses import FunctionToolParam
from pydantic import TypeAdapter, ValidationError

from fitgauge.api.manifests import manifests

RESPONSES = manifests()["openai-responses"]
CHAT = manifests()["openai-chat"]
RESPONSES_TYPE = TypeAdapter(FunctionToolParam)
CHAT_TYPE = TypeAdapter(ChatCompletionFunctionToolParam)


@pytest.mark.parametrize("tool", RESPONSES, ids=lambda tool: tool["name"])
def test_the_responses_api_takes_it(tool):
    assert RESPONSES_TYPE.validate_python(tool) == tool
    assert set(tool) <= set(FunctionToolParam.__annotations__)


@pytest.mark.parametrize("tool", CHAT, ids=lambda tool: tool["function"]["name"])
def test_chat_completions_take_it(tool):
    assert CHAT_TYPE.validate_python(tool) == tool


@pytest.mark.parametrize("tool", RESPONSES, ids=lambda tool: tool["name"])
def test_the_strict_rule_changes_nothing(tool):
    schema = copy.deepcopy(tool["parameters"])
    assert _ensure_strict_json_schema(schema, path=(), root=schema) == tool["parameters"]


def test_the_form_of_the_other_api_is_refused():
    with pytest.raises(ValidationError):
        RESPONSES_TYPE.validate_python(CHAT[0])
    with pytest.raises(ValidationError):
        CHAT_TYPE.validate_python(RESPONSES[0])
