"""Memory of merging adapters into their base."""

from typing import NamedTuple

from fitgauge.engine.model.dtypes import size_of
from fitgauge.engine.model.spec import ModelSpec
from fitgauge.engine.quantity import exactly
from fitgauge.engine.training.states.parameters import Unit, units
from fitgauge.engine.training.workload import TrainingWorkload

_COPIES = {"lora": 2, "qlora": 2, "dora": 3}
"""What stands of one linear's update at once, in the adapters' format: the product and its scaled
copy; of DoRA the update, its sum with the weight and the scaled sum. Source: peft
tuners/lora/layer.py, get_delta_weight; tuners/lora/variants.py, DoraLinearVariant.merge_unsafe."""


class Merge(NamedTuple):
    """What a merge takes, on a GPU or in host memory alike: wherever the base is loaded."""

    required: int
    """Base, adapters, and the update of the largest linear [bytes]."""
    merged: int
    """The merged model, which is saved [bytes]."""
    formula: str
    """What `required` is the sum of."""


def merge_bytes(spec: ModelSpec, workload: TrainingWorkload) -> Merge:
    """Return what merge_and_unload takes over a base in 16 bit: layer by layer each linear gets its
    update in place. A base that was trained in 4 bit is loaded again in 16."""
    base = adapters = update = 0
    for unit in units(spec, workload):
        number = len(unit.layers)
        for parameter in unit.parameters:
            if parameter.adapter:
                adapters += number * parameter.bytes
            else:
                base += number * size_of(parameter.elements, "BF16")
        update = max(update, _largest_update(unit))
    copies = _COPIES[workload.method]
    return Merge(
        base + adapters + copies * update,
        base,
        f"base {exactly(base)} + adapters {exactly(adapters)} + {copies} x update of the largest"
        f" linear {exactly(update)}",
    )


def _largest_update(unit: Unit) -> int:
    """Return the bytes of the largest product of two low-rank matrices of a layer."""
    rows = {
        parameter.name.removesuffix(_B): parameter
        for parameter in unit.parameters
        if parameter.adapter and parameter.name.endswith(_B)
    }
    return max(
        (
            size_of(row.count * row.shape[0] * column.shape[1], row.dtype)
            for column in unit.parameters
            if column.adapter and (row := rows.get(column.name.removesuffix(_A))) is not None
        ),
        default=0,
    )


_A, _B = ".lora_A.weight", ".lora_B.weight"
