"""The files of data/: tables of cells, and records a line."""

from importlib.resources import files
from importlib.resources.abc import Traversable
from typing import TypeVar

import msgspec

DATA: Traversable = files("fitgauge.catalog") / "data"
"""The folder of these files."""

Record = TypeVar("Record")


def rows(name: str) -> list[list[str]]:
    """Return the cells of each row of data/NAME.tsv; lines with a number sign are comments."""
    return cells(DATA / f"{name}.tsv")


def cells(table: Traversable) -> list[list[str]]:
    """Return the cells of each row of a table of any folder."""
    lines = table.read_text("utf-8").splitlines()
    return [line.split("\t") for line in lines if not line.startswith("#")]


def records(name: str, of: type[Record]) -> list[Record]:
    """Return the lines of data/NAME.jsonl. Raises msgspec.ValidationError for fields that are
    missing or of another type."""
    lines = (DATA / f"{name}.jsonl").read_bytes().splitlines()
    return list(map(msgspec.json.Decoder(of).decode, lines))
