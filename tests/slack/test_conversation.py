"""One whole conversation, as docs/SLACK.md shows it."""

import json
from pathlib import Path

from slack_stand_in.transcript import STEPS, transcript

PAGE = Path(__file__).parents[2] / "docs" / "SLACK.md"
PNG = b"\x89PNG\r\n\x1a\n"


def test_the_conversation_of_the_page_is_what_the_bot_says(bot, slack, tmp_path):
    """Where it is not: `make slack`."""
    text = transcript(bot, slack)
    told = PAGE.read_text("utf-8").partition("```text\n")[2].partition("```")[0]
    assert told.strip() == text.strip()
    pictures = slack.wait("files.completeUploadExternal", slack.count("/upload/F1"))
    assert pictures["thread_ts"]
    assert all(picture.startswith(PNG) for picture in slack.pictures)
    row = json.loads((tmp_path / "truth.jsonl").read_text("utf-8"))
    assert row["outcome"] == "served"
    assert row["question"]["concurrency"] == 2
    assert {"U1", "C1"} & set(json.dumps(row).replace('"', " ").split()) == set()
    assert len(STEPS) == text.count("\n> ") + 1


def test_a_refusal_names_no_path_of_the_api(bot, slack):
    bot.mention("llama 3 8b on RTX 4900")
    slack.wait("chat.postMessage", 1)
    told = slack.messages[bot.channel][-1]["text"]
    assert "RTX 4090" in told
    assert "/v1/" not in told
