"""Recurrent and hybrid decoders.

READERS: model_type -> function(Config) -> ModelSpec, of every family here."""

from fitgauge.engine.model.families.recurrent import (
    gated_delta,
    griffin,
    hybrid,
    kimi_linear,
    lightning,
    mamba,
    nemotron_h,
    qwen4_exp,
    rwkv,
    short_conv,
    zamba,
)

READERS = {
    **gated_delta.READERS,
    **griffin.READERS,
    **hybrid.READERS,
    **kimi_linear.READERS,
    **lightning.READERS,
    **mamba.READERS,
    **nemotron_h.READERS,
    **qwen4_exp.READERS,
    **rwkv.READERS,
    **short_conv.READERS,
    **zamba.READERS,
}
