"""How far a rotary table reaches and how much of a head it turns.

Source: vLLM 0.33, model_executor/layers/rotary_embedding (`get_rope` and its classes).
"""

from fitgauge.engine.architecture import RotaryTable
from fitgauge.engine.families.config import Config


def table(config: Config, dim: int, *, dtype: str | None = None) -> RotaryTable:
    """The table of a model's one rotary embedding: positions x `dim`."""
    positions = config.integer("max_position_embeddings")
    return RotaryTable(positions=stretched(config.section("rope_parameters", "rope_scaling"), positions), dim=dim, dtype=dtype)


def stretched(scaling: Config, positions: int) -> int:
    """YaRN's table spans original_max_position_embeddings x factor positions, every other's max_position_embeddings."""
    if scaling.text("rope_type", "type") not in ("yarn", "deepseek_yarn"):
        return positions
    original = scaling.integer("original_max_position_embeddings", default=positions)
    return int(original * scaling.number("factor", default=1.0))


def partial_dim(config: Config, head_dim: int, *, fraction: float = 1.0) -> int:
    """Rotated numbers of a head: `rotary_dim`, or head_dim x partial_rotary_factor, `fraction` where the config is silent."""
    ropes = config.section("rope_parameters", "rope_scaling")
    part = ropes.number("partial_rotary_factor", default=config.number("partial_rotary_factor", "rotary_pct", default=fraction))
    return config.integer("rotary_dim", default=int(head_dim * part))
