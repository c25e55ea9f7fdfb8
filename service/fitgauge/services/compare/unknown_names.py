"""Rows of a table whose model or GPU is unknown: the other rows are answered all the same."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

from fitgauge.catalog.gpu_match import GpuMatch
from fitgauge.engine.model.model import Model
from fitgauge.engine.serving.workload import EngineName
from fitgauge.errors import FitgaugeError
from fitgauge.services.compare.schemas import CompareRequest, CompareRow, RowError


class Setting(NamedTuple):
    """How the models of a table are launched."""

    engine: EngineName | None
    """None: the first usual one that runs the cell."""
    quantization: str | None
    """Format of the weights; None: as published."""
    context_length: int | None
    """Tokens of a request; None: the usual number."""


@dataclass(frozen=True, slots=True)
class UnknownName:
    """A name of the table that cannot be answered, and why."""

    text: str
    """As it was sent."""
    error: FitgaugeError
    """What it would raise alone."""


def unknown_row(
    number: int,
    total: int,
    request: CompareRequest,
    model: Model | UnknownName,
    gpu: GpuMatch | UnknownName,
    setting: Setting,
    concurrency: int,
) -> CompareRow:
    """Return a cell with the error of its model, else of its GPU."""
    fault = model if isinstance(model, UnknownName) else gpu
    assert isinstance(fault, UnknownName)
    return CompareRow(
        number=number,
        of=total,
        model=model.text if isinstance(model, UnknownName) else model.id,
        gpu=gpu.text if isinstance(gpu, UnknownName) else gpu.accelerator.name,
        gpu_count=None if isinstance(gpu, UnknownName) else gpu.count,
        engine=setting.engine,
        quantization=setting.quantization if request.quantizations is not None else None,
        context_length=setting.context_length,
        concurrency=concurrency,
        verdict=None,
        error=RowError(
            code=fault.error.code,
            detail=fault.error.detail,
            hint=fault.error.hint or "See the detail.",
            field="models" if fault is model else "gpus",
            matches=list(fault.error.matches),
            send=_in_lists(fault.error.send) or None,
        ),
    )


def _in_lists(send: Mapping[str, str | int | bool | None]) -> dict[str, str]:
    """Return the fields to send instead as a table takes them."""
    fields = {name: str(value) for name, value in send.items() if value is not None}
    count = fields.pop("gpu_count", "1")
    listed = {
        f"{name}s": fields[name] for name in ("model", "gpu", "quantization") if name in fields
    }
    if "gpus" in listed and count != "1":
        listed["gpus"] = f"{count}x {listed['gpus']}"
    return listed
