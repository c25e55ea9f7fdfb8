"""One whole conversation, as docs/SLACK.md shows it."""

import json
import re
from pathlib import Path

from slack_stand_in.transcript import STEPS, transcript

PAGE = Path(__file__).parents[2] / "docs" / "SLACK.md"
PNG = b"\x89PNG\r\n\x1a\n"


def headings(text):
    """Return the verdicts and names that a conversation shows, without figures."""
    return re.findall(r"^\s*\*([^*]+)\*(?: · ([^\n]+))?$", text, re.MULTILINE)


def test_the_conversation_of_the_page_is_what_the_bot_says(bot, slack, tmp_path):
    text = transcript(bot, slack)
    told = PAGE.read_text("utf-8").partition("```text\n")[2].partition("```")[0]
    assert headings(told) == headings(text)
    assert [line for line in told.splitlines() if line.startswith("> ")] == [
        line for line in text.splitlines() if line.startswith("> ")
    ]
    pictures = slack.wait("files.completeUploadExternal", slack.count("/upload/F1"))
    assert pictures["thread_ts"]
    assert all(picture.startswith(PNG) for picture in slack.pictures)
    row = json.loads((tmp_path / "truth.jsonl").read_text("utf-8"))
    assert row["outcome"] == "served"
    assert row["question"]["concurrency"] == 2
    assert {"U1", "C1"} & set(json.dumps(row).replace('"', " ").split()) == set()
    assert len(STEPS) == text.count("\n> ") + 1
