"""Mixtures whose sliding layers have other heads than their full ones: Step 3.5 and 3.7, MiMo V2.

Sizes: transformers 5.23, models/step3p7 and models/mimo_v2_flash. Names of tensors, formats and
multi-token prediction: vLLM 0.33, model_executor/models/step3p5.py, step3p5_mtp.py, mimo_v2.py and
mimo_v2_mtp.py.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from fitgauge.engine.model.config import Config
from fitgauge.engine.model.families import experts, mtp, parts, schedules, stack
from fitgauge.engine.model.families.dense.dense import Reader
from fitgauge.engine.model.families.experts import Naming
from fitgauge.engine.model.families.rotary_tables import table
from fitgauge.engine.model.mixers import Attention, plain_attention
from fitgauge.engine.model.spec import Block, Kind, Mlp, ModelSpec, RotaryTable, Split, Tensor

STEP: Mapping[str, Any] = {
    "vocab_size": 128815, "hidden_size": 4096, "intermediate_size": 11264,
    "moe_intermediate_size": 1280, "share_expert_dim": 1280, "num_hidden_layers": 45,
    "num_attention_heads": 64, "head_dim": 128, "max_position_embeddings": 128000,
}  # fmt: skip

MIMO: Mapping[str, Any] = {
    "vocab_size": 152576, "hidden_size": 4096, "intermediate_size": 16384,
    "moe_intermediate_size": 2048, "num_hidden_layers": 48, "num_attention_heads": 64,
    "num_key_value_heads": 4, "head_dim": 192, "v_head_dim": 128, "sliding_window": 129,
    "max_position_embeddings": 131072, "num_experts_per_tok": 8,
}  # fmt: skip

_MIMO_NAMING = Naming(correction="gate.e_score_correction_bias", router_dtype="F32")
"""vLLM keeps the router in F32."""


def read_step(config: Config) -> ModelSpec:
    """Return the ModelSpec of a Step 3.5 or 3.7 without its vision tower."""
    config = config.with_defaults(STEP)
    count = config.layers()
    ahead = config.integer(*mtp.COUNT, default=0, high=64)
    kinds = layer_kinds(config, count + ahead)
    routed = step_mixtures(config, count)
    layers = [step_layer(config, kind, mixes) for kind, mixes in zip(kinds, routed, strict=False)]
    tables = step_tables(config, kinds[:count])
    heads = mtp.nextn_heads(config, step_layer(config, kinds[-1], False)) if ahead else ()
    return stack.decoder(config, layers, rotary_tables=tables, more=heads)


def layer_kinds(config: Config, layers: int) -> list[str]:
    """`layer_types` of layers and prediction heads; the heads' may be left out, and all of them
    mean full attention."""
    own = stack.kinds(config, "layer_types", layers=config.layers()) or []
    ahead = [str(kind) for kind in config.items("layer_types")[len(own) :]]
    return [*own, *ahead, *["full_attention"] * layers][:layers]


def step_mixtures(config: Config, layers: int) -> list[bool]:
    """`mlp_layer_types`, else the numbers in `moe_layers_enum` (a list, or text with commas),
    else all from the fourth layer on."""
    if config.has("mlp_layer_types", "first_k_dense_replace"):
        return schedules.after_dense(config, layers)
    if not config.has("moe_layers_enum"):
        return [index >= 3 for index in range(layers)]
    written = config.values["moe_layers_enum"]
    chosen = (
        written.split(",")
        if isinstance(written, str)
        else [str(index) for index in config.items("moe_layers_enum")]
    )
    return [str(index) in (text.strip() for text in chosen) for index in range(layers)]


def step_heads(config: Config, kind: str) -> Attention:
    """Return the heads of a layer: sliding ones have `num_sliding_attention_heads`, formerly
    kept in `attention_other_setting`."""
    heads = config.integer("num_attention_heads", low=1)
    kv_heads = config.integer("num_key_value_heads", "num_attention_groups", default=8, low=1)
    sliding = "sliding" in kind
    if sliding:
        former = config.section("attention_other_setting").integer(
            "num_attention_heads", default=heads, low=1
        )
        heads = config.integer("num_sliding_attention_heads", default=former, low=1)
    head_dim = config.integer("head_dim", low=1)
    window = config.maybe_integer("sliding_window") if sliding else None
    return plain_attention(heads, head_dim, kv_heads=kv_heads, window=window or None)


def step_layer(config: Config, kind: str, routed: bool) -> parts.Layer:
    """Return one layer: norms, attention with a gate a head, a mixture with a shared expert
    where it is `routed`, else a gated MLP."""
    hidden, mixer = config.integer("hidden_size", low=1), step_heads(config, kind)
    bias = config.flag("attention_bias")
    gated = config.flag("use_head_wise_attn_gate", default=True)
    gate = (
        parts.linear(
            "self_attn.g_proj", mixer.query_heads, hidden, Split.COLUMN, units=mixer.query_heads
        )
        if gated
        else ()
    )
    return parts.decoder_layer(
        hidden,
        mixer,
        (
            *parts.attention(hidden, mixer, qkv_bias=bias, out_bias=bias),
            *parts.norms(parts.QK_NORMS, mixer.head_dim),
            *gate,
        ),
        step_feed_forward(config, hidden, routed),
    )


def step_feed_forward(config: Config, hidden: int, routed: bool) -> parts.Feed:
    """Return the MLP of a layer. Routed experts are packed, one tensor a projection; the shared
    expert runs next to the mixture."""
    if not routed:
        return parts.gated_feed(hidden, config.integer("intermediate_size"))
    width = config.integer("moe_intermediate_size")
    mlp = experts.sizes(
        config,
        width,
        experts=288,
        shared=config.integer("share_expert_dim", "share_expert_dims"),
        per_token=8,
    )
    tensors = (
        *experts.routing(hidden, mlp.experts, Naming(block="moe", correction="router_bias")),
        *parts.experts(hidden, width, mlp.experts, name="moe"),
        *parts.gated_mlp(hidden, mlp.shared_intermediate_size, name="share_expert"),
    )
    return tensors, mlp


def step_tables(config: Config, kinds: Sequence[str]) -> tuple[RotaryTable, ...]:
    """Return a table for each pair of base and rotated part that the layers have."""
    head_dim, count = config.integer("head_dim", low=1), len(kinds)
    bases = per_layer(config, "rope_theta", count)
    factors = per_layer(config, "partial_rotary_factors", count)
    parts_turned = [float(factor) if isinstance(factor, int | float) else 1.0 for factor in factors]
    pairs = dict.fromkeys(zip(map(str, bases), parts_turned, strict=True))
    return tuple(table(config, int(head_dim * part)) for _, part in pairs)


def per_layer(config: Config, name: str, layers: int) -> list[Any]:
    """Return a value for every layer: of a list, or None for each where `name` holds no list."""
    if isinstance(config.values.get(name), list):
        return config.items(name, length=layers)
    return [None] * layers


def read_mimo(config: Config) -> ModelSpec:
    """Return the ModelSpec of a MiMo V2: keys wider than values, sliding layers with twice the
    KV heads and a sink a head."""
    config = config.with_defaults(MIMO)
    count = config.layers()
    slides = mimo_slides(config, count)
    routed = mimo_mixtures(config, count)
    layers = [
        mimo_layer(config, sliding, mixes) for sliding, mixes in zip(slides, routed, strict=True)
    ]
    dim = int(config.integer("head_dim") * config.number("partial_rotary_factor", default=0.334))
    rows = table(config, dim)
    tables = tuple(
        msgspec.structs.replace(rows, windowed=sliding)
        for sliding in (False, True)
        if sliding in slides
    )
    return stack.decoder(config, layers, rotary_tables=tables, more=mimo_prediction_heads(config))


def mimo_slides(config: Config, layers: int) -> list[bool]:
    """`layer_types`, else `hybrid_layer_pattern` (1 slides), else all but the first and every
    sixth layer."""
    if config.has("layer_types"):
        return ["sliding" in str(kind) for kind in config.items("layer_types", length=layers)]
    if config.has("hybrid_layer_pattern"):
        return [bool(slides) for slides in config.items("hybrid_layer_pattern", length=layers)]
    return [index > 0 and (index + 1) % 6 != 0 for index in range(layers)]


def mimo_mixtures(config: Config, layers: int) -> list[bool]:
    """`mlp_layer_types` or `moe_layer_freq`, else all but the first layer."""
    if config.has("mlp_layer_types", "moe_layer_freq"):
        return schedules.after_dense(config, layers)
    return [index > 0 for index in range(layers)]


def mimo_heads(config: Config, sliding: bool) -> Attention:
    """Return the heads of a layer: `swa_*` keys for the sliding ones, which have twice the KV
    heads by default."""
    heads = config.integer("num_attention_heads", low=1)
    kv_heads = config.integer("num_key_value_heads", low=1)
    head_dim, value_dim = config.integer("head_dim", low=1), config.integer("v_head_dim", low=1)
    if not sliding:
        return Attention(
            query_heads=heads, kv_heads=kv_heads, head_dim=head_dim, value_dim=value_dim
        )
    return Attention(
        query_heads=config.integer("swa_num_attention_heads", default=heads, low=1),
        kv_heads=config.integer("swa_num_key_value_heads", default=2 * kv_heads, low=1),
        head_dim=config.integer("swa_head_dim", default=head_dim, low=1),
        value_dim=config.integer("swa_v_head_dim", default=value_dim, low=1),
        window=config.integer("sliding_window_size", "sliding_window"),
    )


def mimo_attention(config: Config, sliding: bool) -> tuple[tuple[Tensor, ...], Attention]:
    """Return the projections of a layer; a sliding one has a sink a head."""
    hidden, mixer = config.integer("hidden_size", low=1), mimo_heads(config, sliding)
    heads = mixer.query_heads
    sink = Tensor("self_attn.attention_sink_bias", (heads,), Kind.OTHER, Split.COLUMN, heads)
    tensors = parts.attention(hidden, mixer, qkv_bias=config.flag("attention_bias"))
    return (*tensors, *((sink,) if sliding else ())), mixer


def mimo_layer(config: Config, sliding: bool, routed: bool) -> parts.Layer:
    """Return one layer: norms, attention, a mixture where it is `routed`, else a gated MLP."""
    hidden = config.integer("hidden_size", low=1)
    attention, mixer = mimo_attention(config, sliding)
    feed = experts.feed(config, hidden, _MIMO_NAMING, routed=routed, experts=256)
    return parts.decoder_layer(hidden, mixer, attention, feed)


def mimo_prediction_heads(config: Config) -> tuple[Block, ...]:
    """Multi-token prediction: a sliding layer with a gated MLP, joined by norms and a
    projection; embedding and head are the model's."""
    heads = config.integer(*mtp.COUNT, default=0, high=64)
    if not heads:
        return ()
    hidden, width = config.integer("hidden_size", low=1), config.integer("intermediate_size")
    attention, mixer = mimo_attention(config, True)
    inner = parts.Layer(
        tensors=(
            *mtp.joints(hidden),
            *parts.norm("input_layernorm", hidden),
            *parts.norm("pre_mlp_layernorm", hidden),
            *attention,
            *parts.gated_mlp(hidden, width),
            *parts.norm("final_layernorm", hidden),
        ),
        mixers=(mixer,),
        mlp=Mlp(intermediate_size=width),
    )
    return (mtp.block("model.mtp.layers.{}.", inner.tensors, inner, range(heads)),)


READERS: dict[str, Reader] = {
    "step3p5": read_step,
    "mimo_v2_flash": read_mimo,
    "mimo_v2": read_mimo,
}
