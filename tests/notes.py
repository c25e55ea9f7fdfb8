"""Warnings and assumptions of an answer, as tests compare them: by code and field, not by prose."""

from collections.abc import Iterable, Mapping
from typing import Any

from fitgauge.engine.note import Note
from fitgauge.services.common.schemas import Assumption


def codes(notes: Iterable[Note | Mapping[str, Any]]) -> set[tuple[str, str | None]]:
    """Return (code, field) of every warning, as structs or as decoded JSON."""
    return {
        (note.code, note.field) if isinstance(note, Note) else (note["code"], note["field"])
        for note in notes
    }


def values(assumed: Iterable[Assumption]) -> dict[str, str | int | float | bool]:
    """Return the assumed value of every field."""
    return {assumption.field: assumption.value for assumption in assumed}
