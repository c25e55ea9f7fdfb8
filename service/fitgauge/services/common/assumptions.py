"""What an answer assumes where the request leaves a field out."""

from collections.abc import Iterator

from fitgauge.engine.model.model import Model
from fitgauge.engine.note import Note
from fitgauge.services.common.schemas import Assumption


def model_notes(model: Model) -> Iterator[Note]:
    """Yield the warnings about a model, without those that `size_assumed` returns."""
    yield from model.warnings
    yield from (note for note in model.spec.notes if note.code != "model-is-a-size")


def size_assumed(model: Model) -> Iterator[Assumption]:
    """Yield the shape assumed for a model that is only a size."""
    for note in model.spec.notes:
        if note.code == "model-is-a-size":
            yield Assumption("model", model.id, note.message)


def default_of(field: str, value: str | int | float | bool, why: str = "") -> Assumption:
    """Return the assumption of a default. why: its reason, as the end of the sentence."""
    shown = str(value).lower() if isinstance(value, bool) else value
    shown = f"{value:,}" if isinstance(value, int) and not isinstance(value, bool) else shown
    return Assumption(field, value, f"`{field}` not set: assuming {shown}{why}.")
