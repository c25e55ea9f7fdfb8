"""Tables of words, each a file with tabs."""

from importlib.resources import files


def rows(name: str) -> list[list[str]]:
    """Return the cells of each row of a table; lines with a number sign are comments."""
    text = (files("fitgauge.services.ask") / f"{name}.tsv").read_text("utf-8")
    return [line.split("\t") for line in text.splitlines() if not line.startswith("#")]
