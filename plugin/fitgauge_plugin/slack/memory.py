"""What a thread remembers: it stands in the metadata of the bot's own messages, not in a store."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from fitgauge_plugin.slack.texts import LANGUAGES, Language

EVENT = "fitgauge_question"
"""Type of the metadata."""

_LONGEST_ID = 2_000
_LONGEST_TEXT = 500


class Memory(NamedTuple):
    """The question that a message answers."""

    answer_id: str = ""
    """Permalink of the answer, which holds the question."""
    text: str = ""
    """The question in words, where something of it is missing."""
    language: Language = "en"
    """Of the conversation."""

    def metadata(self) -> dict[str, Any]:
        """Return the metadata of a message that answers this question."""
        payload = {
            "answer_id": self.answer_id if len(self.answer_id) <= _LONGEST_ID else "",
            "text": self.text[-_LONGEST_TEXT:],
            "language": self.language,
        }
        return {"event_type": EVENT, "event_payload": payload}


def memory_in(messages: Sequence[Mapping[str, Any]]) -> Memory | None:
    """Return the question of the last message of a thread that has one. messages: of
    conversations.replies, in their order."""
    for message in reversed(messages):
        metadata = message.get("metadata") or {}
        if metadata.get("event_type") != EVENT:
            continue
        payload = metadata.get("event_payload") or {}
        language = payload.get("language")
        return Memory(
            answer_id=str(payload.get("answer_id") or "")[:_LONGEST_ID],
            text=str(payload.get("text") or "")[:_LONGEST_TEXT],
            language=language if language in LANGUAGES else "en",
        )
    return None
