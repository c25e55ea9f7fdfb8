"""Google's own types take the manifest as it is, and send it unchanged."""

import pytest
from google.genai import types
from pydantic import ValidationError

from fitgauge.api.manifests import manifests

(TOOL,) = manifests()["gemini"]


def test_the_api_takes_it_and_sends_it_unchanged():
    tool = types.Tool.model_validate(TOOL)
    assert tool.model_dump(mode="json", by_alias=True, exclude_none=True) == TOOL


def test_an_unknown_key_is_refused():
    first = TOOL["functionDeclarations"][0]
    with pytest.raises(ValidationError):
        types.Tool.model_validate({"functionDeclarations": [first | {"strict": True}]})
