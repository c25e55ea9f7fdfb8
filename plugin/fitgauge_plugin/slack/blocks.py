"""Blocks of a message within Slack's limits (https://docs.slack.dev/reference/block-kit)."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from fitgauge_plugin.slack.markup import escaped, joined

Block = dict[str, Any]

SECTION = 3_000
"""Characters of a section's text; as many for preformatted text."""
FIELD = 2_000
"""Characters of a section's field."""
LABEL = 75
"""Characters of a button's label."""
VALUE = 2_000
"""Characters of a button's value."""
_CONTEXT = 1_200
_FIELDS = 10


def section(lines: Sequence[str]) -> Block:
    """Return a paragraph of lines in Slack's markup. Names in it make no links."""
    return {"type": "section", "text": _text(joined(list(lines), SECTION))}


def fields(pairs: Sequence[tuple[str, str]]) -> Block:
    """Return names with their values, in two columns."""
    texts = [_text(f"*{name}*\n{escaped(value, FIELD - 200)}") for name, value in pairs[:_FIELDS]]
    return {"type": "section", "fields": texts}


def context(lines: Sequence[str]) -> Block:
    """Return small print in Slack's markup."""
    return {"type": "context", "elements": [_text(joined(list(lines), _CONTEXT))]}


def preformatted(text: str) -> Block:
    """Return a text as it stands, in one width: nothing in it is markup."""
    element = {"type": "text", "text": text[:SECTION]}
    return {
        "type": "rich_text",
        "elements": [{"type": "rich_text_preformatted", "elements": [element]}],
    }


def button(label: str, action: str, value: Mapping[str, Any], style: str = "") -> Block | None:
    """Return a button; None where its value is too long for one."""
    packed = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    if len(packed) > VALUE:
        return None
    text = label if len(label) <= LABEL else f"{label[: LABEL - 1]}…"
    element: Block = {
        "type": "button",
        "action_id": action,
        "text": {"type": "plain_text", "text": text, "emoji": False},
        "value": packed,
    }
    return element | ({"style": style} if style else {})


def actions(block_id: str, buttons: Sequence[Block | None]) -> list[Block]:
    """Return a row of buttons; no row where there is none."""
    elements = [one for one in buttons if one is not None]
    return [{"type": "actions", "block_id": block_id, "elements": elements}] if elements else []


def _text(text: str) -> Block:
    # verbatim: channels, people and addresses in a name make no links
    return {"type": "mrkdwn", "text": text, "verbatim": True}
