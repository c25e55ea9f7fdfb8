"""The memory of one GPU as text, for messages without a picture."""

from typing import Any

_GIB = 2**30
_WIDTH = 24
_TERMS = 6
_NAME = 16


def gib(size_bytes: float) -> str:
    """Return a size in GiB."""
    return f"{size_bytes / _GIB:.2f}"


def percent(share: float) -> str:
    """Return a probability without decimals, no surer than runs can show."""
    return f"{min(99, max(1, round(100 * share)))} %"


def available(answer: dict[str, Any]) -> int:
    """Return what may be used of one GPU [bytes], as the picture has it."""
    per_gpu = answer["per_gpu"]
    return int(per_gpu.get("budget_bytes") or per_gpu["usable_bytes"])


def bar(answer: dict[str, Any]) -> str:
    """Return a line for each of the largest terms, and one of what is available."""
    terms = sorted(answer["terms"], key=lambda term: -int(term["bytes"]))[:_TERMS]
    limit = available(answer)
    whole = max(limit, answer["per_gpu"]["required_bytes"]["expected"], 1)
    rows = [(term["name"].replace("_", " "), int(term["bytes"]), "█") for term in terms]
    rows.append(("available", limit, "░"))
    return "\n".join(
        f"{name[:_NAME]:<{_NAME}} {_drawn(sign, size / whole)} {gib(size):>8} GiB"
        for name, size, sign in rows
    )


def _drawn(sign: str, share: float) -> str:
    return f"{sign * round(_WIDTH * share):<{_WIDTH}}"
