"""Contexts beyond the positions of a config, where the model's publisher states that YaRN reaches
them and the engine's command can ask for it."""

import msgspec
from msgspec import json

from fitgauge.engine.model.spec import ModelSpec, Yarn

_POSITIONS = 40960
"""What Qwen3's configs have: 32,768 positions to read and 8,192 to answer."""

_QWEN3 = Yarn(factor=4, positions=32768, base=1000000.0)

_PUBLISHED = {"qwen3": _QWEN3, "qwen3_moe": _QWEN3}
"""The largest scaling that a publisher states, by model type. Source: QwenLM/Qwen3
docs/source/run_locally/llama.cpp.md (131,072 tokens, --rope-scale 4 --yarn-orig-ctx 32768) and
docs/source/inference/transformers.md, "Enabling long context", which also says to take no larger
factor than the context needs."""


def yarn(spec: ModelSpec, context_length: int) -> Yarn | None:
    """Return the scaling with which the model reads the context; None where it reads it as it is,
    or no publisher states one."""
    most = _PUBLISHED.get(spec.model_type)
    if most is None or spec.max_context_length != _POSITIONS or context_length <= _POSITIONS:
        return None
    factor = -(-context_length // most.positions)
    return None if factor > most.factor else msgspec.structs.replace(most, factor=factor)


def stretched(spec: ModelSpec, scaling: Yarn) -> ModelSpec:
    """Return `spec` with its positions scaled: the context that it reads, and the rows of the
    tables that an engine registers."""
    return msgspec.structs.replace(
        spec,
        max_context_length=scaling.reach,
        rotary_tables=tuple(
            msgspec.structs.replace(table, positions=scaling.reach) for table in spec.rotary_tables
        ),
        yarn=scaling,
    )


def config_overrides(scaling: Yarn) -> str:
    """Return what of config.json is replaced, as vLLM and SGLang take it: before the factor is
    counted both read `max_position_embeddings`.

    Source: vllm 0.33 config/model.py, _get_and_verify_max_len; sglang 0.5.23
    srt/utils/hf_transformers/common.py, get_context_length."""
    rope = {
        "rope_type": "yarn",
        "rope_theta": scaling.base,
        "factor": float(scaling.factor),
        "original_max_position_embeddings": scaling.positions,
    }
    overrides = {"max_position_embeddings": scaling.reach, "rope_scaling": rope}
    return json.encode(overrides).decode()
