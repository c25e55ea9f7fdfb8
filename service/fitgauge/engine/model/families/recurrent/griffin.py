"""RecurrentGemma (Griffin): real-gated linear recurrent units with local attention in every third
layer.

Source: transformers 5.23, models/recurrent_gemma. vLLM 0.33 does not serve it.
"""

from fitgauge.engine.model.config import Config
from fitgauge.engine.model.families import parts
from fitgauge.engine.model.families.dense.dense import Reader
from fitgauge.engine.model.families.stack import convolution, decoder, heads, rotary, vector
from fitgauge.engine.model.mixers import Recurrent, State
from fitgauge.engine.model.spec import Kind, Mlp, ModelSpec, Split, Tensor


def read_recurrent_gemma(config: Config) -> ModelSpec:
    """RecurrentGemma: `block_types` is repeated over the layers; the MLP is half of
    `intermediate_size` wide."""
    config = config.with_defaults(DEFAULTS)
    hidden, width = config.integer("hidden_size", low=1), config.integer("intermediate_size") // 2
    attention = heads(
        config,
        window=config.maybe_integer("attention_window_size"),
        head_dim=hidden // config.integer("num_attention_heads", low=1),
    )
    feed = (
        *parts.norm("temporal_pre_norm", hidden),
        *parts.norm("channel_pre_norm", hidden),
        *parts.gated_mlp(hidden, width, name="mlp_block", bias=True),
    )
    projections = parts.attention(
        hidden,
        attention,
        name="temporal_block",
        qkv_bias=config.flag("attention_bias"),
        out_bias=True,
    )
    units, state = recurrent_block(config, hidden)
    mlp = Mlp(intermediate_size=width)
    recurrent = parts.Layer((*units, *feed), (state,), mlp)
    attending = parts.Layer((*projections, *feed), (attention,), mlp)
    pattern = config.items("block_types") or ["recurrent", "recurrent", "attention"]
    stack = [
        recurrent if pattern[index % len(pattern)] == "recurrent" else attending
        for index in range(config.layers())
    ]
    return decoder(
        config,
        stack,
        final_norm="final_norm",
        rotary_tables=rotary(config, attention.head_dim, fraction=0.5),
    )


def recurrent_block(config: Config, hidden: int) -> tuple[tuple[Tensor, ...], Recurrent]:
    """Return two projections, a convolution, the recurrent unit with block-diagonal gates, and
    the output projection; their state is kernel - 1 past inputs and one number a channel, in
    F32."""
    name, count = "temporal_block", config.integer("num_attention_heads", low=1)
    width = config.integer("lru_width", default=hidden, low=1)
    kernel = config.integer("conv1d_width", low=1)
    block = width // count
    gates = [
        Tensor(f"{name}.rg_lru.{gate}_{what}", shape, kind, Split.COLUMN, count)
        for gate in ("input_gate", "recurrent_gate")
        for what, shape, kind in (
            ("weight", (count, block, block), Kind.OTHER),
            ("bias", (count, block), Kind.BIAS),
        )
    ]
    tensors = (
        *parts.linear(f"{name}.linear_y", width, hidden, Split.COLUMN, bias=True),
        *parts.linear(f"{name}.linear_x", width, hidden, Split.COLUMN, bias=True),
        *parts.linear(f"{name}.linear_out", hidden, width, Split.ROW, bias=True),
        *convolution(f"{name}.conv_1d", width, kernel, bias=True),
        vector(f"{name}.rg_lru.recurrent_param", width),
        *gates,
    )
    return tensors, Recurrent(
        kind="linear", states=(State("conv", width, kernel - 1), State("ssm", width, 1, "F32"))
    )


DEFAULTS = {
    "num_hidden_layers": 26, "vocab_size": 256000, "hidden_size": 2560, "intermediate_size": 7680,
    "num_attention_heads": 10, "conv1d_width": 4, "attention_window_size": 2048,
    "tie_word_embeddings": True, "max_position_embeddings": 8192,
}  # fmt: skip
"""transformers 5.23, RecurrentGemmaConfig; the context is what the checkpoints were trained on."""

READERS: dict[str, Reader] = {"recurrent_gemma": read_recurrent_gemma}
