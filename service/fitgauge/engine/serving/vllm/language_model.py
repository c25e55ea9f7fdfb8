"""A model that reads more than text, of which vLLM serves the language model alone."""

from msgspec import json, structs

from fitgauge.engine.model.spec import ModelSpec, Part
from fitgauge.engine.serving.vllm import releases
from fitgauge.engine.serving.workload import Workload
from fitgauge.engine.unsupported import UnsupportedError
from fitgauge.engine.weights.sharding import TOWERS

_LEFT_OUT = (*TOWERS, Part.PROJECTOR)
_NO_ITEMS = json.encode({"image": 0, "video": 0, "audio": 0}).decode()


def language_model(spec: ModelSpec) -> ModelSpec:
    """Return the model without towers and projectors, which are not loaded; nothing of images or
    sound is profiled, and no token attends to those after it.

    Source: vllm/model_executor/models/interfaces.py, _mark_tower_model; config/multimodal.py,
    get_limit_per_prompt; config/model.py, _supports_multimodal_for_mm_prefix (0.33)."""
    return structs.replace(
        spec,
        blocks=tuple(block for block in spec.blocks if block.part not in _LEFT_OUT),
        rotary_tables=tuple(table for table in spec.rotary_tables if not table.tower),
        image_prefix=False,
    )


def flags(workload: Workload) -> list[str]:
    """Return what starts a release so."""
    if not workload.language_model_only:
        return []
    if workload.engine_version >= releases.LANGUAGE_MODEL_ONLY:
        return ["--language-model-only"]
    return ["--limit-mm-per-prompt", _NO_ITEMS]


def refusal(workload: Workload) -> UnsupportedError | None:
    """Return why a release does not serve the language model alone; None where it does."""
    if not workload.language_model_only or workload.engine_version >= releases.TOWERS_LEFT_OUT:
        return None
    return UnsupportedError(
        "language_model_only",
        "Before 0.15 vLLM is not estimated without encoders.",
        ({"engine_version": ("0.15.0",)}, {"language_model_only": (None,)}),
    )
