"""Merging trained adapters into their base."""

from msgspec import UNSET, UnsetType

from fitgauge.engine.accelerator import Accelerator
from fitgauge.engine.model.spec import ModelSpec
from fitgauge.engine.quantity import gib
from fitgauge.engine.training.states.merging import merge_bytes
from fitgauge.services.training_fit.result import TrainingEstimate
from fitgauge.services.training_fit.run_schemas import AdapterMerge
from fitgauge.services.training_fit.schemas import TrainingRequest

_SOURCE = "peft tuners/tuners_utils.py, merge_and_unload; tuners/lora/layer.py, merge"


def adapter_merge(
    request: TrainingRequest, trained: TrainingEstimate, spec: ModelSpec, accelerator: Accelerator
) -> AdapterMerge | UnsetType:
    """Return what merging takes, where the request asks for it and adapters are trained."""
    if not request.merge or not trained.workload.uses_adapters:
        return UNSET
    merge = merge_bytes(spec, trained.workload)
    process = sum(term.bytes for term in trained.fullest.terms if term.name == "runtime")
    return AdapterMerge(
        required_bytes=merge.required,
        fits_gpu=merge.required + process <= accelerator.usable.expected,
        disk_bytes=merge.merged,
        formula=merge.formula,
        source=_SOURCE,
    )


def merge_in_words(merge: AdapterMerge) -> str:
    """Return what merging takes, in a sentence."""
    return (
        f"Merging the adapters takes {gib(merge.required_bytes)} of host memory or of a GPU,"
        f" wherever the base is loaded, and {gib(merge.disk_bytes)} on disk."
    )
