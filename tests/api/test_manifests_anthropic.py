"""Anthropic's own type and its own transformation of schemas take the manifest as it is."""

import copy

import pytest
from anthropic import transform_schema
from anthropic.types import ToolParam
from pydantic import TypeAdapter, ValidationError

from fitgauge.api.manifests import manifests

TOOLS = manifests()["anthropic"]
TYPE = TypeAdapter(ToolParam)


@pytest.mark.parametrize("tool", TOOLS, ids=lambda tool: tool["name"])
def test_the_messages_api_takes_it(tool):
    taken = TYPE.validate_python(tool)
    assert taken | {"input_examples": list(taken["input_examples"])} == tool
    assert set(tool) <= set(ToolParam.__annotations__)


@pytest.mark.parametrize("tool", TOOLS, ids=lambda tool: tool["name"])
def test_the_transformation_changes_nothing(tool):
    assert transform_schema(copy.deepcopy(tool["input_schema"])) == tool["input_schema"]


def test_a_tool_without_a_schema_is_refused():
    with pytest.raises(ValidationError):
        TYPE.validate_python({"name": "check_fit"})
