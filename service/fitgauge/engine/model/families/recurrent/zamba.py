"""Zamba 2: Mamba 2 layers, and a few attention blocks that many layers share, each with low-rank
adapters of its own.

Source: transformers 5.23, models/zamba2; division: vLLM 0.33, models/zamba2.py.
"""

from fitgauge.engine.model.config import Config
from fitgauge.engine.model.families import parts
from fitgauge.engine.model.families.dense.dense import Reader
from fitgauge.engine.model.families.recurrent.mamba import Mamba2, mamba2_mixer, mamba2_tensors
from fitgauge.engine.model.families.stack import decoder, kinds, rotary
from fitgauge.engine.model.mixers import Attention, plain_attention
from fitgauge.engine.model.spec import Mlp, ModelSpec, Split, Tensor

_BLOCK = "shared_transformer"


def read_zamba2(config: Config) -> ModelSpec:
    """Zamba 2: a `hybrid` layer is a Mamba 2 layer behind a linear and one of `num_mem_blocks`
    shared blocks.

    A shared block's tensors stand with the first layer that uses it; every hybrid layer has a
    cache of its own."""
    config = config.with_defaults(DEFAULTS)
    hidden, count = config.integer("hidden_size", low=1), config.layers()
    types = kinds(config, "layers_block_type", "layer_types", layers=count) or default_kinds(
        config, count
    )
    width = config.integer("intermediate_size", default=4 * hidden) or 4 * hidden
    sizes = mamba_sizes(config, hidden)
    attention, mixer = shared_attention(config, hidden), mamba2_mixer(sizes)
    plain = parts.Layer(
        (*parts.norm("input_layernorm", hidden), *mamba2_tensors("mamba", sizes)), (mixer,)
    )
    own = (
        *parts.linear("linear", hidden, hidden),
        *parts.norm("mamba_decoder.input_layernorm", hidden),
        *mamba2_tensors("mamba_decoder.mamba", sizes),
        *adapters(config, hidden, width),
    )
    hybrid = parts.Layer(own, (mixer, attention), Mlp(intermediate_size=width))
    owner = parts.Layer(
        (*own, *shared_block(config, hidden, width, attention)), hybrid.mixers, hybrid.mlp
    )
    owners = [index for index, kind in enumerate(types) if kind == "hybrid"][
        : config.integer("num_mem_blocks", low=1)
    ]
    stack = [
        plain if kind != "hybrid" else owner if index in owners else hybrid
        for index, kind in enumerate(types)
    ]
    tables = rotary(config, attention.head_dim) if config.flag("use_mem_rope") else ()
    return decoder(config, stack, final_norm="final_layernorm", rotary_tables=tables)


def default_kinds(config: Config, count: int) -> list[str]:
    """Return the layers of Zamba2Config's own pattern: those of `hybrid_layer_ids`, else the
    ones of Zamba2-2.7B."""
    ids = config.items("hybrid_layer_ids") or [6, 12, 18, 24, 30, 36, 42, 47, 51]
    return ["hybrid" if index in ids else "linear_attention" for index in range(count)]


def mamba_sizes(config: Config, hidden: int) -> Mamba2:
    """Return the Mamba 2 mixer: heads of expand x hidden / `n_mamba_heads`."""
    count, bias = config.integer("n_mamba_heads", low=1), config.flag("add_bias_linear")
    return Mamba2(
        hidden=hidden,
        heads=count,
        head_dim=int(config.number("mamba_expand", default=2) * hidden) // count,
        groups=config.integer("mamba_ngroups", low=1),
        state=config.integer("mamba_d_state"),
        kernel=config.integer("mamba_d_conv", low=1),
        bias=bias,
        conv_bias=True,
    )


def shared_attention(config: Config, hidden: int) -> Attention:
    """Attention over hidden state and embedding together, twice the hidden size."""
    count = config.integer("num_attention_heads", low=1)
    width = 2 * hidden // count
    kv_heads = config.integer("num_key_value_heads", default=count, low=1)
    return plain_attention(count, width, kv_heads=kv_heads)


def shared_block(
    config: Config, hidden: int, width: int, attention: Attention
) -> tuple[Tensor, ...]:
    """Attention that takes 2 x hidden and gives hidden, a gated MLP, two norms."""
    count, bias = attention.query_heads, config.flag("add_bias_linear")
    query, keys = count * attention.head_dim, attention.kv_heads * attention.head_dim
    name = f"{_BLOCK}.self_attn"
    return (
        *parts.linear(f"{name}.q_proj", query, 2 * hidden, Split.COLUMN, units=count),
        *parts.linear(f"{name}.k_proj", keys, 2 * hidden, Split.KV, units=attention.kv_heads),
        *parts.linear(f"{name}.v_proj", keys, 2 * hidden, Split.KV, units=attention.kv_heads),
        *parts.linear(f"{name}.o_proj", hidden, query, Split.ROW, units=count),
        *parts.linear(
            f"{_BLOCK}.feed_forward.gate_up_proj", 2 * width, hidden, Split.COLUMN, bias=bias
        ),
        *parts.linear(f"{_BLOCK}.feed_forward.down_proj", hidden, width, Split.ROW, bias=bias),
        *parts.norm(f"{_BLOCK}.input_layernorm", 2 * hidden),
        *parts.norm(f"{_BLOCK}.pre_ff_layernorm", hidden),
    )


def adapters(config: Config, hidden: int, width: int) -> tuple[Tensor, ...]:
    """Return what one hybrid layer adds to the shared block: low-rank adapters of the MLP and,
    with `use_shared_attention_adapter`, of q, k, v."""
    rank, inner = config.integer("adapter_rank", low=1), 2 * hidden
    pairs = [(f"{_BLOCK}.feed_forward.gate_up_proj_adapter_list.*", hidden, 2 * width)]
    if config.flag("use_shared_attention_adapter"):
        pairs += [
            (f"{_BLOCK}.self_attn.linear_{name}_adapter_list.*", inner, inner) for name in "qkv"
        ]
    return tuple(
        tensor
        for name, inputs, out in pairs
        for tensor in (
            *parts.linear(f"{name}.0", rank, inputs, Split.COLUMN),
            *parts.linear(f"{name}.1", out, rank, Split.COLUMN),
        )
    )


DEFAULTS = {
    "vocab_size": 32000, "max_position_embeddings": 4096, "hidden_size": 2560,
    "num_hidden_layers": 54, "mamba_d_state": 64, "mamba_d_conv": 4, "mamba_expand": 2,
    "mamba_ngroups": 1, "n_mamba_heads": 8, "num_attention_heads": 32, "num_mem_blocks": 1,
    "adapter_rank": 128, "tie_word_embeddings": True,
}  # fmt: skip
"""transformers 5.23, Zamba2Config."""

READERS: dict[str, Reader] = {"zamba2": read_zamba2}
