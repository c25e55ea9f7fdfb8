"""Answers as plain text for a chat: bytes become prose and a picture here."""

from typing import Any

_GIB = 2**30
_SIGNS = {"fits": "✓", "tight": "~", "does_not_fit": "✗", "unsupported": "✗"}
_BAR = 24


def fit_text(answer: dict[str, Any]) -> str:
    """Return a FitAnswer in a few lines: the verdict, a bar for each of the largest terms, what
    to change; without a GPU what the model needs."""
    if answer["verdict"] is None:
        return str(answer["summary"])
    lines = [f"{_SIGNS[answer['verdict']]} {answer['summary']}"]
    per_gpu = answer["per_gpu"]
    if per_gpu is not None:
        whole = max(per_gpu["budget_bytes"], per_gpu["required_bytes"]["expected"])
        lines += [
            f"{term['name']:<14} {'█' * round(_BAR * term['bytes'] / whole):<{_BAR}}"
            f" {term['bytes'] / _GIB:8.2f} GiB"
            for term in answer["terms"][:5]
        ]
    lines += [
        f"→ {suggestion['change']}: {suggestion['verdict'].replace('_', ' ')}"
        for suggestion in answer["suggestions"]
    ]
    return "\n".join(lines)
