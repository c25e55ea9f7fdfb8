"""Answers that are lists or ledgers, as lines in Slack's markup."""

from collections.abc import Mapping
from typing import Any

from fitgauge_plugin.slack.bar import gib
from fitgauge_plugin.slack.markup import line
from fitgauge_plugin.slack.texts import Language, say

_ROWS = 8
_NAME = 100
_LINE = 300
_SUMMARY = 1_200


def list_lines(answer: Mapping[str, Any], language: Language) -> list[str]:
    """Return a list, a table, a plan or the ledger of a log in lines."""
    lines = []
    if gpu := answer.get("gpu"):
        lines.append(f"*{gpu['count']} x {line(gpu['name'], _NAME)}*")
    if answer.get("summary"):
        lines.append(line(answer["summary"], _SUMMARY))
    rows = next(
        (answer[name] for name in ("options", "training_options", "plans") if answer.get(name)),
        answer.get("items") or [],
    )
    lines += [f"• {_row(row, language)}" for row in rows[:_ROWS]]
    summary = str(answer.get("summary"))
    causes = [cause for cause in answer.get("causes") or [] if cause not in summary]
    lines += [f"• {line(cause, _LINE)}" for cause in causes[:_ROWS]]
    for fix in (answer.get("fixes") or [])[:_ROWS]:
        lines.append(f"→ {line(fix['change'], _LINE)}")
    return lines or [say(language, "not_understood")]


def _row(row: Mapping[str, Any], language: Language) -> str:
    """Return a row: what it is about, the verdict and the need."""
    gpu = row.get("gpu")
    where = f"{gpu['count']} x {gpu['name']}" if isinstance(gpu, Mapping) else gpu
    parts = [
        row.get("model"),
        where,
        row.get("layout"),
        row.get("engine") or row.get("framework"),
        row.get("quantization") or row.get("method"),
        say(language, row["verdict"]) if row.get("verdict") else row.get("error"),
        f"{gib(row['required_bytes']['expected'])} GiB" if row.get("required_bytes") else None,
        _price(row.get("cost")),
        row.get("reason") if language == "en" else None,
    ]
    return line(" · ".join(str(part) for part in parts if part), _LINE)


def _price(cost: Mapping[str, Any] | None) -> str | None:
    price = (cost or {}).get("usd_per_hour_low")
    return None if price is None else f"{price:.2f} USD/h"
