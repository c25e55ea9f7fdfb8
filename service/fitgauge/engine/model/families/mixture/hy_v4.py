"""HY V4: latent attention whose output is gated, with sinks and indexers that layers share, a
mixture behind one dense layer, and hyper-connections around both.

Source: vLLM 0.33, transformers_utils/configs/hy_v4.py and models/hy_v4/nvidia (attention.py,
hc.py, moe.py, model.py, mtp.py)."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from fitgauge.engine.model.config import Config
from fitgauge.engine.model.families import mtp, parts, schedules, stack
from fitgauge.engine.model.families.dense.dense import Reader
from fitgauge.engine.model.families.experts import Naming
from fitgauge.engine.model.families.mixture import deepseek_v4, latent
from fitgauge.engine.model.families.rotary_tables import table
from fitgauge.engine.model.spec import Kind, ModelSpec, Part, Split, Tensor

_DEFAULTS: Mapping[str, Any] = {
    "vocab_size": 120832, "hidden_size": 2816, "intermediate_size": 6912,
    "moe_intermediate_size": 768, "num_hidden_layers": 34, "num_attention_heads": 32,
    "max_position_embeddings": 262144, "n_shared_experts": 1, "num_experts_per_tok": 8,
    "q_lora_rank": 1536, "kv_lora_rank": 512, "qk_nope_head_dim": 192, "qk_rope_head_dim": 64,
    "v_head_dim": 256, "index_topk": 2048, "index_head_dim": 128, "index_n_heads": 16,
    "enable_ihc": True, "hc_mult": 4, "gated_mla": True, "gating_type": "elementwise",
    "learnable_sink": True, "first_k_dense_replace": 1,
}  # fmt: skip

_FAMILY = latent.Family(
    defaults=_DEFAULTS,
    experts=256,
    naming=Naming(correction="expert_bias", correction_learned=True, router_dtype="F32"),
    indexer=True,
)


def read(config: Config) -> ModelSpec:
    """Return the ModelSpec of a HY V4 config."""
    config = config.with_defaults(_DEFAULTS)
    count = config.layers()
    kinds = list(zip(schedules.after_dense(config, count), _indexers(config, count), strict=True))
    by_kind = {kind: _layer(config, *kind, mixes=True) for kind in dict.fromkeys(kinds)}
    tables = (table(config, config.integer("qk_rope_head_dim")),)
    outside = (
        (parts.single(Part.LANGUAGE, deepseek_v4.collapse(config), "model."),)
        if config.flag("enable_ihc")
        else ()
    )
    # the checkpoints' heads have no hyper-connections
    last = _layer(config, True, True, mixes=False)
    more = (*outside, *mtp.nextn_heads(config, last))
    layers = [by_kind[kind] for kind in kinds]
    return stack.decoder(config, layers, rotary_tables=tables, more=more)


def _indexers(config: Config, count: int) -> list[bool]:
    """Return which layers have an indexer of their own: as `indexer_types` says, else the first
    and every fourth from the second on; none in a layer that attends to all."""
    full = (
        latent.full_indexers(config, count)
        if config.has("indexer_types")
        else [index == 0 or index % 4 == 1 for index in range(count)]
    )
    if not config.has("layer_types"):
        return [False] * count
    kinds = config.items("layer_types", length=count)
    return [own and str(kind) != "full_attention" for own, kind in zip(full, kinds, strict=True)]


def _layer(config: Config, routed: bool, indexed: bool, *, mixes: bool) -> parts.Layer:
    """Return one layer. mixes: whether hyper-connections surround its two parts."""
    layer = latent.layer(config, _FAMILY, routed=routed, indexed=indexed)
    tensors = [*layer.tensors, *_gate(config), *_sinks(config)]
    if mixes and config.flag("enable_ihc"):
        tensors += [
            *_hyper_connection(config, "hc_attn_layer"),
            *_hyper_connection(config, "hc_mlp_layer"),
        ]
    return replace(layer, tensors=tuple(tensors))


def _gate(config: Config) -> tuple[Tensor, ...]:
    """Return what gates the attention's output: by number, or by head."""
    if not config.flag("gated_mla"):
        return ()
    heads = config.integer("num_attention_heads", low=1)
    each = 1 if config.text("gating_type") == "headwise" else config.integer("v_head_dim", low=1)
    return parts.linear(
        "self_attn.linear_gate",
        heads * each,
        config.integer("hidden_size", low=1),
        Split.COLUMN,
        units=heads,
    )


def _sinks(config: Config) -> tuple[Tensor, ...]:
    """Return one sink a head, in F32 as the kernels read them."""
    if not config.flag("learnable_sink"):
        return ()
    heads = config.integer("num_attention_heads", low=1)
    name = "self_attn.learnable_sink_param"
    return (Tensor(name, (heads,), Kind.OTHER, Split.COLUMN, heads, dtype="F32"),)


def _hyper_connection(config: Config, name: str) -> tuple[Tensor, ...]:
    """Return what mixes the `hc_mult` residual streams before and after a part of a layer: two
    weights a stream, in F32."""
    streams = config.integer("hc_mult", low=1)
    wide = streams * config.integer("hidden_size", low=1)
    return (
        Tensor(f"{name}.hc_pre.hc_fn", (2 * streams, wide), Kind.OTHER, dtype="F32"),
        Tensor(f"{name}.hc_pre.hc_base", (2 * streams,), Kind.OTHER, dtype="F32"),
        Tensor(f"{name}.hc_pre.hc_scale", (2,), Kind.OTHER, dtype="F32"),
    )


READERS: dict[str, Reader] = {"hy_v4": read}
