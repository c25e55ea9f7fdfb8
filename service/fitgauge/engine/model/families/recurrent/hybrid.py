"""Attention and Mamba in one decoder: Jamba, Bamba, Falcon H1 and Granite 4.

Source: transformers 5.23, models/{jamba,bamba,falcon_h1,granitemoehybrid}; their configuration
classes give the defaults."""

from fitgauge.engine.model.config import Config
from fitgauge.engine.model.families import parts
from fitgauge.engine.model.families.dense.dense import Reader
from fitgauge.engine.model.families.experts import fused_experts
from fitgauge.engine.model.families.recurrent import mamba
from fitgauge.engine.model.families.recurrent.mamba import (
    Mamba1,
    Mamba2,
    mamba1_mixer,
    mamba1_tensors,
    mamba2_mixer,
    mamba2_tensors,
)
from fitgauge.engine.model.families.stack import decoder, heads, is_recurrent, kinds, rotary
from fitgauge.engine.model.mixers import Attention
from fitgauge.engine.model.spec import Kind, Mlp, ModelSpec, RotaryTable, Split, Tensor

_NORMS = ("input_layernorm", "pre_ff_layernorm")


def read_jamba(config: Config) -> ModelSpec:
    """Jamba: one attention layer in `attn_layer_period`, a mixture in every
    `expert_layer_period`-th layer, no rotary embedding."""
    config = config.with_defaults(JAMBA_DEFAULTS)
    hidden, intermediate = config.integer("hidden_size", low=1), config.integer("intermediate_size")
    experts, visited = config.integer("num_experts"), config.integer("num_experts_per_tok")
    sizes = Mamba1(
        hidden=hidden,
        channels=config.integer("mamba_expand", low=1) * hidden,
        state=config.integer("mamba_d_state"),
        rank=mamba.time_step_rank(config, "mamba_dt_rank"),
        kernel=config.integer("mamba_d_conv", low=1),
        bias=config.flag("mamba_proj_bias"),
        conv_bias=config.flag("mamba_conv_bias"),
        norms=True,
    )
    attention = heads(config)

    def layer(index: int) -> parts.Layer:
        attends = index % config.integer("attn_layer_period", low=1) == config.integer(
            "attn_layer_offset"
        )
        mixture = experts > 1 and index % config.integer(
            "expert_layer_period", low=1
        ) == config.integer("expert_layer_offset")
        feed = parts.gated_feed(hidden, intermediate, name="feed_forward")
        if mixture:
            tensors = (
                parts.router(hidden, experts, name="feed_forward.router"),
                *parts.experts(hidden, intermediate, experts, name="feed_forward.experts.*"),
            )
            feed = (
                tensors,
                Mlp(intermediate_size=intermediate, experts=experts, experts_per_token=visited),
            )
        if attends:
            mixing = parts.attention(hidden, attention)
            return parts.decoder_layer(hidden, attention, mixing, feed, names=_NORMS)
        mixing = mamba1_tensors("mamba", sizes)
        return parts.decoder_layer(hidden, mamba1_mixer(sizes), mixing, feed, names=_NORMS)

    return decoder(
        config, [layer(index) for index in range(config.layers())], final_norm="final_layernorm"
    )


def mamba2_sizes(config: Config) -> Mamba2:
    """Return the Mamba 2 mixer of Bamba, Falcon H1 and Granite 4 by their usual keys;
    `mamba_d_head` may be `auto`."""
    hidden = config.integer("hidden_size", low=1)
    count = config.integer("mamba_n_heads", low=1)
    width = config.maybe_integer("mamba_d_ssm") or config.integer("mamba_expand", low=1) * hidden
    automatic = config.values.get("mamba_d_head") in (None, "auto")
    return Mamba2(
        hidden=hidden,
        heads=count,
        head_dim=width // count if automatic else config.integer("mamba_d_head", low=1),
        groups=config.integer("mamba_n_groups", low=1),
        state=config.integer("mamba_d_state"),
        kernel=config.integer("mamba_d_conv", low=1),
        bias=config.flag("mamba_proj_bias"),
        conv_bias=config.flag("mamba_conv_bias", default=True),
    )


def read_bamba(config: Config) -> ModelSpec:
    """Bamba: attention in the layers of `attn_layer_indices`, Mamba 2 in the others; half of a
    head is rotated."""
    config = config.with_defaults(BAMBA_DEFAULTS)
    hidden, intermediate = config.integer("hidden_size", low=1), config.integer("intermediate_size")
    sizes, attention = mamba2_sizes(config), heads(config)
    attends = config.items("attn_layer_indices")
    feed = parts.gated_feed(hidden, intermediate, name="feed_forward", bias=config.flag("mlp_bias"))
    bias = config.flag("attention_bias")
    projections = parts.attention(hidden, attention, qkv_bias=bias, out_bias=bias)
    attending = parts.decoder_layer(hidden, attention, projections, feed, names=_NORMS)
    recurrent = parts.decoder_layer(
        hidden, mamba2_mixer(sizes), mamba2_tensors("mamba", sizes), feed, names=_NORMS
    )
    layers = [attending if index in attends else recurrent for index in range(config.layers())]
    return decoder(
        config,
        layers,
        final_norm="final_layernorm",
        rotary_tables=rotary(config, attention.head_dim, fraction=0.5),
    )


def read_falcon_h1(config: Config) -> ModelSpec:
    """Falcon H1: attention and Mamba 2 side by side in every layer."""
    config = config.with_defaults(FALCON_H1_DEFAULTS)
    hidden, intermediate = config.integer("hidden_size", low=1), config.integer("intermediate_size")
    sizes, attention = mamba2_sizes(config), heads(config)
    bias = config.flag("attention_bias")
    mixer = mamba2_tensors("mamba", sizes)
    if not config.flag("mamba_rms_norm"):
        mixer = tuple(tensor for tensor in mixer if tensor.name != "mamba.norm.weight")
    mixer = tuple(tensor for tensor in mixer if tensor.name != "mamba.out_proj.bias")
    if config.flag("projectors_bias"):
        mixer = (*mixer, Tensor("mamba.out_proj.bias", (hidden,), Kind.BIAS))
    layer = parts.Layer(
        tensors=(
            *parts.norms(_NORMS, hidden),
            *mixer,
            *parts.attention(hidden, attention, qkv_bias=bias, out_bias=bias),
            *parts.gated_mlp(
                hidden, intermediate, name="feed_forward", bias=config.flag("mlp_bias")
            ),
        ),
        mixers=(attention, mamba2_mixer(sizes)),
        mlp=Mlp(intermediate_size=intermediate),
    )
    tables = rotary(config, attention.head_dim)
    return decoder(
        config, [layer] * config.layers(), final_norm="final_layernorm", rotary_tables=tables
    )


def read_granite_hybrid(config: Config) -> ModelSpec:
    """Granite 4: attention or Mamba 2 by `layer_types`; a shared MLP in every layer and, where
    there are experts, a mixture alongside it."""
    config = config.with_defaults(GRANITE_DEFAULTS)
    hidden = config.integer("hidden_size", low=1)
    shared = config.integer("shared_intermediate_size")
    sizes = mamba2_sizes(config)
    attention = heads(config, head_dim=None)
    bias, mlp = config.flag("attention_bias"), granite_mlp(config, shared)
    fed = (
        *granite_mixture(hidden, mlp),
        *parts.linear("shared_mlp.input_linear", 2 * shared, hidden, Split.COLUMN),
        *parts.linear("shared_mlp.output_linear", hidden, shared, Split.ROW),
    )
    projections = parts.attention(hidden, attention, qkv_bias=bias, out_bias=bias)
    attending = parts.decoder_layer(hidden, attention, projections, (fed, mlp))
    mixing = mamba2_tensors("mamba", sizes)
    recurrent = parts.decoder_layer(hidden, mamba2_mixer(sizes), mixing, (fed, mlp))
    count = config.layers()
    types = (
        kinds(config, "layer_types", "layers_block_type", layers=count)
        or ["linear_attention"] * count
    )
    return decoder(
        config,
        [recurrent if is_recurrent(kind) else attending for kind in types],
        rotary_tables=granite_rotary(config, attention),
    )


def granite_mixture(hidden: int, mlp: Mlp) -> tuple[Tensor, ...]:
    """Router and stacked experts, gate and up in one matrix; nothing where there are no experts."""
    if not mlp.experts:
        return ()
    name = "block_sparse_moe"
    return (
        parts.router(hidden, mlp.experts, name=f"{name}.router.layer"),
        *fused_experts(hidden, mlp, f"{name}.input_linear.weight", f"{name}.output_linear.weight"),
    )


def granite_mlp(config: Config, shared: int) -> Mlp:
    """Return the widths of a Granite 4 layer: its mixture, or its shared MLP alone."""
    experts = config.integer("num_local_experts")
    if not experts:
        return Mlp(intermediate_size=shared)
    visited = config.integer("num_experts_per_tok")
    return Mlp(
        intermediate_size=config.integer("intermediate_size"),
        experts=experts,
        experts_per_token=visited,
        shared_intermediate_size=shared,
    )


def granite_rotary(config: Config, attention: Attention) -> tuple[RotaryTable, ...]:
    """Return a rotary table only where the config asks for it: Granite 4 hybrids have no
    position embedding."""
    if config.text("position_embedding_type") == "rope":
        return rotary(config, attention.head_dim)
    return ()


JAMBA_DEFAULTS = {
    "vocab_size": 65536, "tie_word_embeddings": False, "hidden_size": 4096,
    "intermediate_size": 14336, "num_hidden_layers": 32, "num_attention_heads": 32,
    "num_key_value_heads": 8, "max_position_embeddings": 262144, "num_experts_per_tok": 2,
    "num_experts": 16, "expert_layer_period": 2, "expert_layer_offset": 1, "attn_layer_period": 8,
    "attn_layer_offset": 4, "mamba_d_state": 16, "mamba_d_conv": 4, "mamba_expand": 2,
    "mamba_dt_rank": "auto", "mamba_conv_bias": True, "mamba_proj_bias": False,
}  # fmt: skip
"""transformers 5.23, JambaConfig."""

BAMBA_DEFAULTS = {
    "vocab_size": 128000, "tie_word_embeddings": False, "hidden_size": 4096,
    "intermediate_size": 14336, "num_hidden_layers": 32, "num_attention_heads": 32,
    "num_key_value_heads": 8, "max_position_embeddings": 262144, "mamba_n_heads": 128,
    "mamba_d_head": "auto", "mamba_n_groups": 1, "mamba_d_state": 256, "mamba_d_conv": 4,
    "mamba_expand": 2, "mamba_conv_bias": True, "mamba_proj_bias": False,
}  # fmt: skip
"""transformers 5.23, BambaConfig."""

FALCON_H1_DEFAULTS = {
    "vocab_size": 128000, "tie_word_embeddings": False, "hidden_size": 4096,
    "intermediate_size": 14336, "num_hidden_layers": 32, "num_attention_heads": 32,
    "num_key_value_heads": 8, "max_position_embeddings": 8192, "mamba_d_ssm": 1024,
    "mamba_n_heads": 128, "mamba_d_head": "auto", "mamba_n_groups": 1, "mamba_d_state": 256,
    "mamba_d_conv": 4, "mamba_expand": 2, "mamba_conv_bias": True, "mamba_proj_bias": False,
    "mamba_rms_norm": False,
}  # fmt: skip
"""transformers 5.23, FalconH1Config."""

GRANITE_DEFAULTS = {
    "vocab_size": 32000, "tie_word_embeddings": False, "hidden_size": 4096,
    "intermediate_size": 11008, "num_hidden_layers": 32, "num_attention_heads": 32,
    "max_position_embeddings": 2048, "num_local_experts": 8, "num_experts_per_tok": 2,
    "shared_intermediate_size": 1024, "mamba_n_heads": 128, "mamba_n_groups": 1,
    "mamba_d_state": 256, "mamba_d_head": "auto", "mamba_d_conv": 4, "mamba_expand": 2,
    "mamba_conv_bias": True, "mamba_proj_bias": False,
}  # fmt: skip
"""transformers 5.23, GraniteMoeHybridConfig."""

READERS: dict[str, Reader] = {
    "jamba": read_jamba,
    "bamba": read_bamba,
    "falcon_h1": read_falcon_h1,
    "granitemoehybrid": read_granite_hybrid,
}
