"""A conversation with the bot as text: what people write and press, and what the bot posts."""

from typing import Any

from slack_stand_in.limits import shown
from slack_stand_in.sender import Sender
from slack_stand_in.server import SlackStandIn

STEPS = (
    ("command", "/fit pool 2x 4090", ""),
    ("command", "/fit llama 3.3 70b awq ctx 32k", ""),
    ("press", "Apply: lower", ""),
    ("mention", "and with 8k context for 2 users?", "thread"),
    ("press", "It ran", ""),
    ("press", "Recommend GPUs", ""),
    ("direct", "qwen3-8b", ""),
    ("direct", "4090 显卡上呢", "thread"),
    ("command", "/fit qlora llama 3.1 8b on a 4090", ""),
)
"""What happens: by whom, what is written or pressed, and whether in the thread of the last
answer."""


def transcript(sender: Sender, slack: SlackStandIn) -> str:
    """Hold the conversation; return it as text."""
    lines: list[str] = []
    last: dict[str, Any] = {}
    for way, text, where in STEPS:
        posted = slack.count("chat.postMessage")
        thread = {"thread_ts": last.get("thread_ts") or last["ts"]} if where else {}
        lines.append(f"> {'[' + text + ' …]' if way == 'press' else text}")
        if way == "command":
            sender.command(text.removeprefix("/fit "))
        elif way == "press":
            sender.press(last, text)
        elif way == "mention":
            sender.mention(text, **thread)
        else:
            sender.direct(text, **thread)
        if text.startswith("/fit pool"):
            message = slack.wait("/response/1", slack.count("/response/1") or 1)
        elif text.startswith("It "):
            message = slack.wait("/response/2")
        else:
            slack.wait("chat.postMessage", posted + 1)
            message = last = slack.messages[sender.channel][-1]
        text_shown = shown(message["blocks"]).split("\n")
        if text.startswith("It "):
            text_shown = text_shown[-1:]  # the rest stays as it was
        lines += [f"  {line}".rstrip() for line in text_shown]
        lines.append("")
    return "\n".join(lines)
