"""LFM2: gated short convolutions with a few attention layers between.

Source: transformers 5.23, models/{lfm2,lfm2_moe}; division and states: vLLM 0.33,
layers/mamba/short_conv.py."""

from fitgauge.engine.model.config import Config
from fitgauge.engine.model.families import parts
from fitgauge.engine.model.families.dense.dense import Reader
from fitgauge.engine.model.families.stack import (
    convolution,
    correction,
    decoder,
    heads,
    is_recurrent,
    kinds,
    rotary,
)
from fitgauge.engine.model.mixers import Recurrent, State
from fitgauge.engine.model.spec import Mlp, ModelSpec, Split, Tensor

_NORMS = ("operator_norm", "ffn_norm")


def read_lfm2(config: Config) -> ModelSpec:
    """LFM2; a mixture from layer `num_dense_layers` on where it has experts. `tie_embedding` and
    `block_ff_dim` are its older keys."""
    experts = config.text("model_type") == "lfm2_moe"
    config = config.with_defaults(MOE_DEFAULTS if experts else DEFAULTS)
    if config.has("tie_embedding"):
        config = config.with_values(tie_word_embeddings=config.values["tie_embedding"])
    hidden, count = config.integer("hidden_size", low=1), config.layers()
    attends = config.items("full_attn_idxs") if config.has("full_attn_idxs") else range(count)
    types = kinds(config, "layer_types", layers=count) or [
        "full_attention" if index in attends else "conv" for index in range(count)
    ]
    attention = heads(config, head_dim=hidden // config.integer("num_attention_heads", low=1))
    dense = config.integer("num_dense_layers", default=count)

    def layer(index: int, kind: str) -> parts.Layer:
        feed = mixture(config, hidden) if experts and index >= dense else mlp_layer(config, hidden)
        if is_recurrent(kind):
            mixing, mixer = conv_tensors(config, hidden), conv_mixer(config, hidden)
            return parts.decoder_layer(hidden, mixer, mixing, feed, names=_NORMS)
        mixing = (
            *parts.attention(hidden, attention, out="out_proj"),
            *parts.norms(("self_attn.q_layernorm", "self_attn.k_layernorm"), attention.head_dim),
        )
        return parts.decoder_layer(hidden, attention, mixing, feed, names=_NORMS)

    stack = [layer(index, kind) for index, kind in enumerate(types)]
    return decoder(
        config, stack, final_norm="embedding_norm", rotary_tables=rotary(config, attention.head_dim)
    )


def conv_tensors(config: Config, hidden: int) -> tuple[Tensor, ...]:
    """Return a gated short convolution: in_proj makes B, C and x."""
    bias = config.flag("conv_bias")
    return (
        *convolution("conv.conv", hidden, config.integer("conv_L_cache", low=1), bias=bias),
        *parts.linear("conv.in_proj", 3 * hidden, hidden, Split.COLUMN, bias=bias),
        *parts.linear("conv.out_proj", hidden, hidden, Split.ROW, bias=bias),
    )


def conv_mixer(config: Config, hidden: int) -> Recurrent:
    """Return its state: kernel - 1 past inputs of every channel."""
    return Recurrent(
        kind="short_conv",
        states=(State("conv", hidden, config.integer("conv_L_cache", low=1) - 1),),
    )


def mlp_width(config: Config) -> int:
    """Return the width of the MLP: two thirds of `intermediate_size`, scaled and rounded up,
    where `block_auto_adjust_ff_dim`."""
    width = config.integer("block_ff_dim", "intermediate_size")
    if not config.flag("block_auto_adjust_ff_dim"):
        return width
    step = config.integer("block_multiple_of", low=1)
    scaled = int(config.number("block_ffn_dim_multiplier", default=1.0) * int(2 * width / 3))
    return step * ((scaled + step - 1) // step)


def mlp_layer(config: Config, hidden: int) -> parts.Feed:
    """Return the gated MLP."""
    width = mlp_width(config)
    tensors = parts.gated_mlp(hidden, width, name="feed_forward", names=parts.NUMBERED)
    return tensors, Mlp(intermediate_size=width)


def mixture(config: Config, hidden: int) -> parts.Feed:
    """Router and experts."""
    experts, width = config.integer("num_experts"), config.integer("moe_intermediate_size")
    tensors = (
        parts.router(hidden, experts, name="feed_forward.gate"),
        *(
            (correction("feed_forward.expert_bias", experts),)
            if config.flag("use_expert_bias", default=True)
            else ()
        ),
        *parts.experts(hidden, width, experts, name="feed_forward.experts.*", names=parts.NUMBERED),
    )
    return tensors, Mlp(
        intermediate_size=width,
        experts=experts,
        experts_per_token=config.integer("num_experts_per_tok"),
    )


DEFAULTS = {
    "vocab_size": 65536, "hidden_size": 2560, "intermediate_size": 12288, "num_hidden_layers": 32,
    "num_attention_heads": 32, "num_key_value_heads": 8, "max_position_embeddings": 128000,
    "conv_bias": False, "conv_L_cache": 3, "block_multiple_of": 256,
    "block_ffn_dim_multiplier": 1.0, "block_auto_adjust_ff_dim": True, "tie_word_embeddings": True,
}  # fmt: skip
"""transformers 5.23, Lfm2Config."""

MOE_DEFAULTS = {
    "vocab_size": 65536, "hidden_size": 2048, "intermediate_size": 7168,
    "moe_intermediate_size": 1792, "num_hidden_layers": 32,
    "num_attention_heads": 32, "num_key_value_heads": 8, "max_position_embeddings": 128000,
    "conv_bias": False, "conv_L_cache": 3,
    "num_dense_layers": 2, "num_experts": 32, "num_experts_per_tok": 4, "tie_word_embeddings": True,
}  # fmt: skip
"""transformers 5.23, Lfm2MoeConfig."""

READERS: dict[str, Reader] = {"lfm2": read_lfm2, "lfm2_moe": read_lfm2}
