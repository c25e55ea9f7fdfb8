"""A model that reads more than text, of which an engine serves the language model alone."""

from msgspec import structs

from fitgauge.engine.model.spec import TOWERS, ModelSpec, Part

_LEFT_OUT = (*TOWERS, Part.PROJECTOR)


def language_model(spec: ModelSpec) -> ModelSpec:
    """Return the model without towers and projectors, which are not loaded; nothing of images or
    sound is profiled, and no token attends to those after it.

    Source: vllm/model_executor/models/interfaces.py, _mark_tower_model; config/multimodal.py,
    get_limit_per_prompt; config/model.py, _supports_multimodal_for_mm_prefix (0.33); of
    llama-server the option --no-mmproj."""
    return structs.replace(
        spec,
        blocks=tuple(block for block in spec.blocks if block.part not in _LEFT_OUT),
        rotary_tables=tuple(table for table in spec.rotary_tables if not table.tower),
        image_prefix=False,
    )
