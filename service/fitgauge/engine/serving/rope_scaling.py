"""Contexts beyond what a config says: YaRN scales rotary positions by a factor, where the command
asks an engine for it.

Source of the rows of a table: vllm 0.33 model_executor/layers/rotary_embedding/
yarn_scaling_rope.py and sglang 0.5.23 srt/layers/rotary_embedding/yarn.py
(`_compute_cos_sin_cache`: trained positions x factor)."""

from math import ceil

import msgspec
from msgspec import json

from fitgauge.engine.model.families.long_contexts import long_context
from fitgauge.engine.model.spec import ModelSpec, RotaryTable

OPTION = "rope_scaling_factor"
"""The option of a request; an engine that has it can be asked to scale positions."""


def farthest_context(spec: ModelSpec) -> int:
    """Return the longest context that a publisher states for the model with its positions scaled,
    else what its config says [tokens]."""
    stated = long_context(spec)
    return spec.max_context_length if stated is None else stated.reach


def usual_factor(spec: ModelSpec, context_length: int) -> float:
    """Return the least whole factor with which the model reads a context, 0 where it reads it as it
    is, or where no publisher states that it can.

    The least, as a factor costs quality on short texts (QwenLM/Qwen3
    docs/source/deployment/vllm.md: 2 for 65,536 tokens of 32,768)."""
    stated = long_context(spec) if context_length > spec.max_context_length else None
    if stated is None or context_length > stated.reach:
        return 0.0
    return float(ceil(context_length / stated.positions))


def scaled_context(spec: ModelSpec, factor: float) -> int:
    """Return the longest context under a factor [tokens]: what is stated, unless a greater factor
    than that takes is asked for."""
    if factor <= 1:
        return spec.max_context_length
    stated, scaled = long_context(spec), int(factor * trained_positions(spec))
    if stated is not None and factor <= ceil(stated.reach / stated.positions):
        scaled = min(scaled, stated.reach)
    return max(scaled, spec.max_context_length)


def trained_positions(spec: ModelSpec) -> int:
    """Return the positions that a factor multiplies: what the publisher states, else all that the
    config has."""
    stated = long_context(spec)
    return stated.positions if stated is not None else spec.max_context_length


def scaled_tables(spec: ModelSpec, factor: float) -> ModelSpec:
    """Return `spec` with the tables that an engine registers under a factor."""
    if factor <= 1:
        return spec
    rows = int(factor * trained_positions(spec))
    tables = (
        msgspec.structs.replace(table, positions=rows) if _reaches(spec, table) else table
        for table in spec.rotary_tables
    )
    return msgspec.structs.replace(spec, rotary_tables=tuple(tables))


def _reaches(spec: ModelSpec, table: RotaryTable) -> bool:
    """Return whether a table has a row for every position of the language model."""
    return not table.tower and table.positions >= spec.max_context_length


def scaling(spec: ModelSpec, factor: float) -> dict[str, object]:
    """Return the `rope_parameters` that a factor makes of the config's own."""
    return {
        **spec.rope_parameters,
        "rope_type": "yarn",
        "factor": factor,
        "original_max_position_embeddings": trained_positions(spec),
    }


def config_overrides(
    spec: ModelSpec, factor: float, *, name: str = "rope_parameters"
) -> str | None:
    """Return what of config.json an engine replaces so that it takes a context under a factor;
    None without one. name: that of the rotary settings.

    Newer releases do not count the factor in, only `max_position_embeddings`; older ones count
    trained positions x factor, which is the same (vllm 0.33 and 0.12 config/model.py,
    _get_and_verify_max_len; sglang 0.5.23 srt/utils/hf_transformers/common.py,
    get_context_length)."""
    if factor <= 1:
        return None
    overrides: dict[str, object] = {
        name: scaling(spec, factor),
        "max_position_embeddings": int(factor * trained_positions(spec)),
    }
    return json.encode({"text_config": overrides} if spec.language_type else overrides).decode()
