"""What people of a chat said happened, as rows that may leave the house: no name of a person, a
channel, a machine or a model that is not public."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import msgspec

from fitgauge.catalog.catalog import Catalog
from fitgauge.catalog.snapshot import Snapshot

_BILLION = 1e9
_WORDS = frozenset(
    {
        "activation_checkpointing",
        "attention",
        "engine",
        "engine_version",
        "framework",
        "kv_cache_dtype",
        "loss",
        "method",
        "optimizer",
        "precision",
        "quantization",
        "settings",
        "trainer",
    }
)
"""Fields whose text is a word of the contract. Any other text may hold a name and is left out."""


class OutcomeRow(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A row as the bot appends it."""

    date: str
    """When it was noted, such as 2026-11-23."""
    operation: str
    """Of the question."""
    question: dict[str, Any]
    """Fields that were sent."""
    model: str | None = None
    """Hub ID of the model that was taken."""
    parameters: int | None = None
    """Of that model."""
    gpu: str | None = None
    """Id of the GPU that was taken."""
    verdict: str | None = None
    """That the message shows."""
    fit_probability: float | None = None
    """That the message shows."""
    required_bytes: int | None = None
    """Of the fullest GPU, expected."""
    available_bytes: int | None = None
    """Of one GPU."""
    outcome: str
    """What happened: served or failed."""


def exported(
    lines: Iterable[str], snapshot: Snapshot, catalog: Catalog
) -> Iterator[dict[str, Any]]:
    """Yield the rows of a file. Raises msgspec.ValidationError where a line is none."""
    public_gpus = {accelerator.id for accelerator in catalog.all()}
    for line in lines:
        if not line.strip():
            continue
        row = msgspec.json.decode(line, type=OutcomeRow)
        yield {
            "date": row.date,
            "operation": row.operation,
            "question": _scrubbed(row, snapshot, public_gpus),
            "verdict": row.verdict,
            "fit_probability": row.fit_probability,
            "required_bytes": row.required_bytes,
            "available_bytes": row.available_bytes,
            "outcome": row.outcome,
        }


def _scrubbed(row: OutcomeRow, snapshot: Snapshot, public_gpus: set[str]) -> Mapping[str, Any]:
    """Return the fields of a question: a model that is not bundled as its size, a GPU that is
    not of the catalog left out."""
    fields = {
        name: value
        for name, value in row.question.items()
        if isinstance(value, int | float) or (name in _WORDS and isinstance(value, str))
    }
    if row.model is not None and snapshot.get(row.model) is not None:
        fields["model"] = row.model
    elif row.parameters:
        fields["model"] = f"{row.parameters / _BILLION:.3g}b"
    if row.gpu in public_gpus:
        fields["gpu"] = row.gpu
    return fields
