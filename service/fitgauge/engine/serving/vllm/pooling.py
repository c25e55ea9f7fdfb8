"""A generating model that vLLM serves as an embedding model."""

from msgspec import structs

from fitgauge.engine.model.spec import ModelSpec, Part


def with_pooling(spec: ModelSpec) -> ModelSpec:
    """Return the model without its head, which is not loaded; nothing is sampled.

    Source: vllm/model_executor/models/adapters.py, _create_pooling_model_cls (lm_head and
    logits_processor are left out)."""
    blocks = tuple(block for block in spec.blocks if block.part is not Part.HEAD)
    return structs.replace(spec, task="encode", blocks=blocks)
