"""LongCat Flash: every layer holds two latent attentions and two dense MLPs, with a mixture
alongside them.

Sizes: transformers 5.23, models/longcat_flash, but for the routed experts: the checkpoints, like
vLLM 0.33, keep `n_routed_experts` of them, where transformers' class sets aside gate and up
projections for the `zero_expert_num` that compute nothing as well. Names, formats and
multi-token prediction: vLLM 0.33, model_executor/models/longcat_flash.py and
longcat_flash_mtp.py."""

from collections.abc import Mapping
from typing import Any

import msgspec

from fitgauge.engine.model.config import Config
from fitgauge.engine.model.families import experts, mtp, parts, stack
from fitgauge.engine.model.families.dense.dense import Reader
from fitgauge.engine.model.families.mixture.latent import attention_tensors, latent_attention
from fitgauge.engine.model.families.rotary_tables import table
from fitgauge.engine.model.spec import Block, Kind, Mlp, ModelSpec, Tensor

DEFAULTS: Mapping[str, Any] = {
    "vocab_size": 131072, "hidden_size": 6144, "ffn_hidden_size": 12288,
    "expert_ffn_hidden_size": 2048, "num_layers": 28, "num_attention_heads": 64,
    "q_lora_rank": 1536, "kv_lora_rank": 512, "qk_nope_head_dim": 128, "qk_rope_head_dim": 64,
    "v_head_dim": 128, "max_position_embeddings": 131072, "moe_topk": 12, "zero_expert_num": 256,
}  # fmt: skip


def read_longcat(config: Config) -> ModelSpec:
    """Return the ModelSpec of a LongCat Flash. Raises MalformedModelError where a size is
    missing or absurd."""
    config = config.with_defaults(DEFAULTS)
    layers = [layer(config)] * config.layers("num_layers")
    tables = (table(config, config.integer("qk_rope_head_dim")),)
    return stack.decoder(config, layers, rotary_tables=tables, more=prediction_heads(config))


def layer(config: Config) -> parts.Layer:
    """Return one layer: everything twice but the mixture. vLLM keeps the router in F32."""
    hidden = config.integer("hidden_size", low=1)
    dense = config.integer("ffn_hidden_size", "intermediate_size")
    mixer = latent_attention(config)
    mlp = Mlp(
        intermediate_size=config.integer("expert_ffn_hidden_size", "moe_intermediate_size"),
        experts=config.integer("n_routed_experts", "num_local_experts", default=512),
        experts_per_token=config.integer("moe_topk", "num_experts_per_tok"),
        shared_intermediate_size=2 * dense,
    )
    twice = [tensor for index in (0, 1) for tensor in half(config, hidden, dense, index)]
    return parts.Layer(
        tensors=(
            *twice,
            *routing(
                hidden,
                mlp.experts + config.integer("zero_expert_num", default=0),
                biased=config.flag("router_bias"),
            ),
            *parts.experts(hidden, mlp.intermediate_size, mlp.experts),
        ),
        mixers=(mixer, mixer),
        mlp=mlp,
    )


def half(config: Config, hidden: int, dense: int, index: int) -> tuple[Tensor, ...]:
    """Return one of a layer's two halves: norm, latent attention, norm, gated MLP."""
    return (
        *parts.norm(f"input_layernorm.{index}", hidden),
        *parts.norm(f"post_attention_layernorm.{index}", hidden),
        *attention_tensors(config, latent_attention(config), f"self_attn.{index}"),
        *parts.gated_mlp(hidden, dense, name=f"mlps.{index}"),
    )


def routing(hidden: int, outputs: int, *, biased: bool) -> tuple[Tensor, ...]:
    """Return the router over routed and zero experts, its bias and its score correction."""
    bias = (
        (Tensor("mlp.router.classifier.bias", (outputs,), Kind.BIAS, dtype="F32"),)
        if biased
        else ()
    )
    return (
        *experts.routing(
            hidden,
            outputs,
            experts.Naming(
                router="router.classifier",
                correction="router.e_score_correction_bias",
                router_dtype="F32",
            ),
        ),
        *bias,
    )


def prediction_heads(config: Config) -> tuple[Block, ...]:
    """Multi-token prediction: a layer with one attention and one gated MLP, its joints, a copy
    of the embedding and a last norm."""
    heads = config.integer(*mtp.COUNT, default=0, high=64)
    if not heads:
        return ()
    hidden = config.integer("hidden_size", low=1)
    dense = config.integer("ffn_hidden_size", "intermediate_size")
    mixer = latent_attention(config)
    tensors = (
        *parts.norm("enorm.m", hidden),
        *parts.norm("hnorm.m", hidden),
        *parts.linear("eh_proj", hidden, 2 * hidden),
        *parts.norms(parts.NORMS, hidden),
        *attention_tensors(config, mixer),
        *parts.gated_mlp(hidden, dense, name="transformer_layer.mlp"),
    )
    inner = parts.Layer(tensors=tensors, mixers=(mixer,), mlp=Mlp(intermediate_size=dense))
    single = (
        *parts.embedding(config.integer("vocab_size", low=1), hidden).tensors,
        *parts.norm("norm", hidden),
    )
    shared = tuple(
        msgspec.structs.replace(tensor, name=tensor.name.removeprefix("model."))
        for tensor in single
    )
    return (
        mtp.block("model.mtp.layers.{}.", tensors, inner, range(heads)),
        mtp.block("model.mtp.", shared, parts.Layer(shared), range(1)),
    )


READERS: dict[str, Reader] = {"longcat_flash": read_longcat}
