"""MiniCPM3: Llama's stack around the projections of latent attention, whose keys and values are
cached expanded.

Source: transformers 5.23, models/minicpm3/modeling_minicpm3.py; vLLM 0.33, models/minicpm3.py
(an ordinary cache of all heads, values padded to the keys' width)."""

from fitgauge.engine.model.config import Config
from fitgauge.engine.model.families import parts
from fitgauge.engine.model.families.dense.defaults import completed
from fitgauge.engine.model.families.dense.dense import Dialect, Reader, read_stack
from fitgauge.engine.model.families.mixture import latent
from fitgauge.engine.model.mixers import plain_attention
from fitgauge.engine.model.spec import ModelSpec


def read_minicpm3(config: Config) -> ModelSpec:
    """Return the ModelSpec of a MiniCPM3. Raises MalformedModelError where a size is missing or
    absurd."""
    full = completed(config)
    hidden = full.integer("hidden_size", low=1)
    projected = latent.latent_attention(full)
    width = projected.nope_dim + projected.rope_dim
    heads = projected.query_heads
    layer = parts.decoder_layer(
        hidden,
        plain_attention(heads, width),
        latent.attention_tensors(full, projected),
        parts.gated_feed(hidden, full.integer("intermediate_size"), bias=full.flag("mlp_bias")),
    )
    rotated = full.with_values(head_dim=projected.rope_dim)
    return read_stack(rotated, Dialect(), [layer] * full.layers())


READERS: dict[str, Reader] = {"minicpm3": read_minicpm3}
