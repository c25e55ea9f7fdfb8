"""The tables of cosines and sines that an engine registers for a decoder's rotary position
embeddings.

Source: vLLM 0.33, `model_executor/layers/rotary_embedding/__init__.py` (`get_rope`: one module
for each distinct set of arguments) and the `_compute_cos_sin_cache` of its classes."""

from collections.abc import Mapping
from typing import Any

import msgspec

from fitgauge.engine.model.config import Config
from fitgauge.engine.model.spec import RotaryTable

_LAYER_KINDS = ("full_attention", "sliding_attention")
_AXES = 4
"""Sections of the most axes of position that a model has."""


def rotary_tables(
    config: Config, head_dim: int, *, positions: int, local: bool = False
) -> tuple[RotaryTable, ...]:
    """Return one table for each distinct rotary embedding of a decoder.

    `head_dim`: what is rotated, before `partial_rotary_factor` [features]. `positions`: rows
    before scaling, as a rule max_position_embeddings. `local`: sliding layers rotate with a base
    of their own, without the scaling (Gemma 3)."""
    common = rope_section(config)
    by_kind = [common.section(kind) for kind in _LAYER_KINDS if common.has(kind)]
    distinct = list({repr(sorted(kind.values.items())): kind for kind in by_kind}.values()) or [
        common
    ]
    if local and not by_kind:
        distinct.append(Config({}, common.where))
    dim = rotated_dim(config, head_dim)
    windowed = (False, True) if len(distinct) > 1 else (None,)
    return tuple(
        msgspec.structs.replace(table, windowed=of)
        for kind, of in zip(distinct, windowed, strict=True)
        for table in _tables(config, kind, positions, _of_kind(kind, head_dim, dim))
    )


def _of_kind(kind: Config, head_dim: int, usual: int) -> int:
    """Return what a kind of layers rotates, where it has a factor of its own; else `usual`."""
    name = "partial_rotary_factor"
    return int(head_dim * kind.number(name, default=1.0)) if kind.has(name) else usual


def table(config: Config, dim: int, *, dtype: str | None = None) -> RotaryTable:
    """Return the table of one embedding that rotates `dim` features whatever factor the config
    holds (MLA's rope part), in `dtype`."""
    tables = _tables(config, rope_section(config), config.integer("max_position_embeddings"), dim)[
        -1
    ]
    return msgspec.structs.replace(tables, dtype=dtype)


def inverse_frequencies(config: Config, head_dim: int) -> RotaryTable:
    """Return what transformers' own code registers instead of tables: half as many frequencies
    as rotated features, twice, in F32."""
    return RotaryTable(positions=1, dim=rotated_dim(config, head_dim), dtype="F32")


def rope_section(config: Config) -> Config:
    """Return the rotary settings: `rope_parameters`, which older configs call `rope_scaling`."""
    return config.section("rope_parameters", "rope_scaling")


def stated_parameters(values: Mapping[str, Any]) -> dict[str, object]:
    """Return what a config.json, or the section of its language model, says of rotary positions
    besides their scaling: numbers, and the axes of sections."""
    text = values.get("text_config")
    text = text if isinstance(text, Mapping) else values
    rope = text.get("rope_parameters") or text.get("rope_scaling")
    stated = {**text, **rope} if isinstance(rope, Mapping) else text
    numbers = ("rope_theta", "partial_rotary_factor", "mrope_interleaved")
    result: dict[str, object] = {
        name: stated[name] for name in numbers if isinstance(stated.get(name), int | float)
    }
    axes = stated.get("mrope_section")
    if isinstance(axes, list) and len(axes) <= _AXES:
        result["mrope_section"] = axes
    return result


def rotated_dim(config: Config, head_dim: int) -> int:
    """Return the part of a head that is rotated [features]: all of it unless a factor (or
    GPT-J's `rotary_dim`) says less."""
    if config.has("rotary_dim"):
        return config.integer("rotary_dim")
    rope = rope_section(config)
    source = rope if rope.has("partial_rotary_factor") else config
    return int(
        head_dim * source.number("rotary_pct", "rope_pct", "partial_rotary_factor", default=1.0)
    )


def _tables(config: Config, rope: Config, rows: int, dim: int) -> tuple[RotaryTable, ...]:
    """Return the table of one embedding: YaRN stretches the trained length, linear scaling the
    whole one, LongRoPE keeps two tables."""
    kind = rope.text("rope_type", "type", default="default")
    axes = rope.has("mrope_section")
    factor = rope.number("factor", default=1.0)
    source = rope if rope.has("original_max_position_embeddings") else config
    trained = source.integer("original_max_position_embeddings", default=rows)
    if kind in {"longrope", "su"}:
        return RotaryTable(trained, dim), RotaryTable(rows, dim)
    if kind in {"yarn", "deepseek_yarn"}:
        return (RotaryTable(int(trained * factor), dim, axes=axes),)
    return (RotaryTable(int(rows * factor) if kind == "linear" else rows, dim, axes=axes),)
