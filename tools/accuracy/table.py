"""Tables of docs/ACCURACY.md."""


def table(head: tuple[str, ...], rows: list[tuple[object, ...]]) -> str:
    """Return a table in Markdown."""
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    lines += [
        "| "
        + " | ".join(f"{cell:g}" if isinstance(cell, float) else str(cell) for cell in row)
        + " |"
        for row in rows
    ]
    return "\n".join(lines)
