"""Step 3: attention whose queries come from a narrow projection, one head of keys and values, a
mixture next to a shared expert.

Sizes: vLLM 0.33, transformers_utils/configs/step3_vl.py; tensors: model_executor/models/
step3_text.py, where what all heads share is whole on every rank."""

from collections.abc import Mapping
from typing import Any

from fitgauge.engine.model.config import Config
from fitgauge.engine.model.families import experts, parts, stack
from fitgauge.engine.model.families.dense.dense import Reader
from fitgauge.engine.model.families.experts import Naming
from fitgauge.engine.model.families.mixture.per_layer_heads import step_mixtures
from fitgauge.engine.model.mixers import plain_attention
from fitgauge.engine.model.spec import ModelSpec, Split

DEFAULTS: Mapping[str, Any] = {
    "vocab_size": 128815, "hidden_size": 7168, "intermediate_size": 18432,
    "moe_intermediate_size": 5120, "share_expert_dim": 5120, "num_hidden_layers": 61,
    "num_attention_heads": 64, "head_dim": 256, "share_q_dim": 2048,
}  # fmt: skip


def read_step3(config: Config) -> ModelSpec:
    """Return the language model of Step 3."""
    positions = config.integer("max_position_embedding", "max_seq_len", default=65536)
    config = config.with_defaults({**DEFAULTS, "max_position_embeddings": positions})
    count = config.layers()
    enumerated = config.has("moe_layers_enum")
    routed = step_mixtures(config, count) if enumerated else [index > 0 for index in range(count)]
    kinds = {mixes: _layer(config, mixes) for mixes in set(routed)}
    tables = stack.rotary(config, config.integer("head_dim", low=1))
    return stack.decoder(config, [kinds[mixes] for mixes in routed], rotary_tables=tables)


def _layer(config: Config, routed: bool) -> parts.Layer:
    hidden, head_dim = config.integer("hidden_size", low=1), config.integer("head_dim", low=1)
    shared = config.integer("share_q_dim", default=0) or head_dim
    mixer = plain_attention(config.integer("num_attention_heads", low=1), head_dim, kv_heads=1)
    heads, width = mixer.query_heads, mixer.query_heads * head_dim
    mixing = (
        *parts.linear("self_attn.q_proj", shared, hidden),
        *parts.linear("self_attn.k_proj", head_dim, hidden),
        *parts.linear("self_attn.v_proj", head_dim, hidden),
        *parts.norm("self_attn.inter_norm", shared),
        *parts.linear("self_attn.wq", width, shared, Split.COLUMN, units=heads),
        *parts.linear("self_attn.o_proj", hidden, width, Split.ROW, units=heads),
    )
    return parts.decoder_layer(hidden, mixer, mixing, _feed_forward(config, hidden, routed))


def _feed_forward(config: Config, hidden: int, routed: bool) -> parts.Feed:
    if not routed:
        return parts.gated_feed(hidden, config.integer("intermediate_size"))
    width = config.integer("moe_intermediate_size")
    shared_width = config.integer("share_expert_dim", low=1)
    mlp = experts.sizes(config, width, experts=48, shared=shared_width, per_token=3)
    tensors = (
        *experts.routing(hidden, mlp.experts, Naming(block="moe")),
        *parts.experts(hidden, width, mlp.experts, name="moe"),
        *parts.gated_mlp(hidden, shared_width, name="share_expert"),
    )
    return tensors, mlp


READERS: dict[str, Reader] = {"step3_text": read_step3}
