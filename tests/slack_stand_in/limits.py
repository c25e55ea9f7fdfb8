"""What Slack takes: blocks by the SDK's own models, and the limits of
https://docs.slack.dev/reference/block-kit."""

import json
from typing import Any

from slack_sdk.models.blocks import Block, RichTextBlock

MOST_BLOCKS = 50
LONGEST_TEXT = 40_000
LONGEST_MESSAGE = 10_000
"""Characters of all texts: longer ones are refused as msg_blocks_too_long."""
KNOWN = {"section", "context", "actions", "rich_text"}


def check_message(message: dict[str, Any]) -> None:
    """Raise AssertionError or the SDK's own error where Slack would refuse a message."""
    assert message.get("text"), "a message without text"
    assert len(message["text"]) <= LONGEST_TEXT
    blocks = message.get("blocks") or []
    assert len(blocks) <= MOST_BLOCKS
    assert sum(map(len, texts(blocks))) <= LONGEST_MESSAGE
    parsed = Block.parse_all(blocks)
    assert [one.type for one in parsed] == [one["type"] for one in blocks]
    for block in parsed:
        assert block.type in KNOWN
        assert block.to_dict()  # validates
        if isinstance(block, RichTextBlock):
            assert all(element.to_dict() for element in block.elements)
    ids = [one["block_id"] for one in blocks if "block_id" in one]
    assert len(ids) == len(set(ids))
    for block in blocks:
        actions = [one["action_id"] for one in block.get("elements", []) if "action_id" in one]
        assert len(actions) == len(set(actions))
    assert len(json.dumps(message.get("metadata") or {})) < 8_000


def texts(node: Any) -> list[str]:
    """Return every text that a message shows."""
    if isinstance(node, list):
        return [text for one in node for text in texts(one)]
    if not isinstance(node, dict):
        return []
    own = [node["text"]] if isinstance(node.get("text"), str) else []
    return own + [
        text for key, one in node.items() if key != "text" or not own for text in texts(one)
    ]


def shown(blocks: list[dict[str, Any]]) -> str:
    """Return blocks as text, as a person reads them."""
    lines = []
    for block in blocks:
        if block["type"] == "section" and "text" in block:
            lines.append(block["text"]["text"])
        elif block["type"] == "section":
            lines += [one["text"].replace("*\n", ": ").lstrip("*") for one in block["fields"]]
        elif block["type"] == "context":
            lines += [f"  {line}" for one in block["elements"] for line in one["text"].split("\n")]
        elif block["type"] == "rich_text":
            lines += [f"    {line}" for text in texts(block) for line in text.split("\n")]
        elif block["type"] == "actions":
            lines.append(" ".join(f"[{one['text']['text']}]" for one in block["elements"]))
    return "\n".join(lines)
