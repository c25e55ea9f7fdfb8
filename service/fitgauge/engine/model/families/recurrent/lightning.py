"""MiniMax Text 01 and M1: lightning (linear) attention with full attention between, a mixture in
every layer.

Source: transformers 5.23, models/minimax; the state: vLLM 0.33,
layers/mamba/linear/minimax_linear_attn.py."""

from fitgauge.engine.model.config import Config
from fitgauge.engine.model.families import parts
from fitgauge.engine.model.families.dense.dense import Reader
from fitgauge.engine.model.families.stack import decoder, heads, is_recurrent, kinds, rotary
from fitgauge.engine.model.mixers import Recurrent, State
from fitgauge.engine.model.spec import Mlp, ModelSpec, Split


def read_minimax(config: Config) -> ModelSpec:
    """MiniMax by `layer_types`, or `attn_type_list` (0 lightning, 1 full) as the original
    repositories write it."""
    config = config.with_defaults(DEFAULTS)
    hidden, count = config.integer("hidden_size", low=1), config.layers()
    attention = heads(config)
    inner = attention.query_heads * attention.head_dim
    types = kinds(config, "layer_types", layers=count)
    if types is None and config.has("attn_type_list"):
        types = [
            "full_attention" if kind == 1 else "linear_attention"
            for kind in config.items("attn_type_list", length=count)
        ]
    types = types or [
        "linear_attention" if index % 2 else "full_attention" for index in range(count)
    ]
    experts, width = config.integer("num_local_experts", low=1), config.integer("intermediate_size")
    feed = (
        *parts.norms(parts.NORMS, hidden),
        parts.router(hidden, experts, name="block_sparse_moe.gate"),
        *parts.experts(
            hidden, width, experts, name="block_sparse_moe.experts.*", names=parts.NUMBERED
        ),
    )
    lightning = (
        *parts.linear(
            "self_attn.qkv_proj", 3 * inner, hidden, Split.COLUMN, units=attention.query_heads
        ),
        *parts.linear(
            "self_attn.output_gate", inner, hidden, Split.COLUMN, units=attention.query_heads
        ),
        *parts.linear("self_attn.out_proj", hidden, inner, Split.ROW, units=attention.query_heads),
        *parts.norm("self_attn.norm", inner),
    )
    mlp = Mlp(
        intermediate_size=width,
        experts=experts,
        experts_per_token=config.integer("num_experts_per_tok"),
    )
    state = Recurrent(
        kind="linear", states=(State("ssm", attention.query_heads, attention.head_dim**2, "F32"),)
    )
    recurrent = parts.Layer((*lightning, *feed), (state,), mlp)
    attending = parts.Layer((*parts.attention(hidden, attention), *feed), (attention,), mlp)
    stack = [recurrent if is_recurrent(kind) else attending for kind in types]
    return decoder(
        config,
        stack,
        rotary_tables=rotary(config, config.integer("rotary_dim", default=attention.head_dim)),
    )


DEFAULTS = {
    "vocab_size": 32000, "hidden_size": 4096, "intermediate_size": 14336, "num_hidden_layers": 32,
    "num_attention_heads": 32, "num_key_value_heads": 8, "max_position_embeddings": 131072,
    "num_experts_per_tok": 2, "num_local_experts": 8, "tie_word_embeddings": False,
}  # fmt: skip
"""transformers 5.23, MiniMaxConfig."""

READERS: dict[str, Reader] = dict.fromkeys(
    ("minimax", "minimax_text_01", "minimax_m1"), read_minimax
)
