"""Mixtures of experts.

READERS: model_type -> function(Config) -> ModelSpec, of every family here."""

from fitgauge.engine.model.families.mixture import (
    bailing,
    deepseek_v4,
    fused_experts,
    hy_v4,
    interleaved_attention,
    laguna,
    latent,
    longcat,
    minimax_m3,
    mixture,
    per_layer_heads,
    step3,
)

READERS = {
    **bailing.READERS,
    **deepseek_v4.READERS,
    **fused_experts.READERS,
    **hy_v4.READERS,
    **interleaved_attention.READERS,
    **laguna.READERS,
    **latent.READERS,
    **longcat.READERS,
    **minimax_m3.READERS,
    **mixture.READERS,
    **per_layer_heads.READERS,
    **step3.READERS,
}
