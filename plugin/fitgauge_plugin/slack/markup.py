"""Text of strangers in Slack's markup: literal, bounded, and without a mention."""

import re
from collections.abc import Iterator

_ENTITIES = {"&": "&amp;", "<": "&lt;", ">": "&gt;"}
"""What Slack reads as markup of mentions and links
(https://docs.slack.dev/messaging/formatting-message-text)."""

_ENTITY = {entity: character for character, entity in _ENTITIES.items()}
_MENTION = re.compile(r"<[@#!][^>\s]{0,200}>")
_LINK = re.compile(r"<(?:https?://|mailto:)[^|>\s]{1,2000}(?:\|([^>]{0,2000}))?>")
_BLANKS = re.compile(r"\s+")


def escaped(text: str, longest: int) -> str:
    """Return a text in which nothing is markup of Slack's, in at most so many characters."""
    parts: list[str] = []
    length = 0
    for character in text:
        part = _ENTITIES.get(character, character)
        length += len(part)
        if length > longest - 1:
            return "".join(parts) + "…"
        parts.append(part)
    return "".join(parts)


def line(text: str, longest: int) -> str:
    """Return a text on one line, escaped, in at most so many characters."""
    return escaped(_BLANKS.sub(" ", text[: longest * 2]).strip(), longest)


def joined(lines: Iterator[str] | list[str], longest: int) -> str:
    """Return as many of the escaped lines as fit into so many characters."""
    fitting: list[str] = []
    length = 0
    for one in lines:
        length += len(one) + 1
        if length > longest:
            break
        fitting.append(one)
    return "\n".join(fitting)


def plain(text: str) -> str:
    """Return what a person typed, from the text of a message: links as shown, no mentions."""
    text = _LINK.sub(lambda link: link[1] or link[0].strip("<>"), _MENTION.sub(" ", text))
    for entity, character in _ENTITY.items():
        text = text.replace(entity, character)
    return text.strip()
