"""What people of a chat said happened, as rows of truth without their names."""

from collections.abc import Iterable, Iterator
from hashlib import sha256
from typing import Any, Literal

import msgspec

from fitgauge.catalog.catalog import Catalog
from fitgauge.catalog.snapshot import Snapshot
from fitgauge.services.public_rows import public_question


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
    outcome: Literal["served", "failed"]
    """What happened."""


def exported(
    lines: Iterable[str], snapshot: Snapshot, catalog: Catalog
) -> Iterator[dict[str, Any]]:
    """Yield the rows of a file, which `make accuracy TRUTH=` takes. Raises
    msgspec.ValidationError where a line is none."""
    for number, line in enumerate(lines):
        if not line.strip():
            continue
        row = msgspec.json.decode(line, type=OutcomeRow)
        taken = (row.model, row.parameters or 0) if row.model is not None else None
        case = {
            "operation": row.operation,
            "question": public_question(row.question, taken, row.gpu, snapshot, catalog),
            "outcome": row.outcome,
            "measured": {},
            "scores": ["outcome"],
            "answered": {
                name: getattr(row, name)
                for name in (
                    "date",
                    "verdict",
                    "fit_probability",
                    "required_bytes",
                    "available_bytes",
                )
            },
        }
        content = msgspec.json.encode([number, case], order="deterministic")
        digest = sha256(content).hexdigest()[:12]
        yield {"id": f"said-{digest}", **case, "source": f"local:{digest}"}
