"""Kimi Linear: three Kimi delta attention layers (KDA) to one of multi-head latent attention,
mixtures from the second layer on.

Source: transformers 5.23, models/kimi_linear; what Kimi K3 adds (full-rank gate, output gate,
experts behind a latent, attention residuals): vLLM 0.33,
models/kimi_k3/nvidia/{model,kda,mla}.py, which also gives division and states. Names are the
checkpoint's."""

import msgspec

from fitgauge.engine.model.config import Config
from fitgauge.engine.model.families import parts
from fitgauge.engine.model.families.dense.dense import Reader
from fitgauge.engine.model.families.mixture.latent import attention_tensors, latent_attention
from fitgauge.engine.model.families.stack import convolution, correction, decoder, kinds, vector
from fitgauge.engine.model.mixers import LatentAttention, Recurrent, State
from fitgauge.engine.model.spec import Kind, Mlp, ModelSpec, Part, Split, Tensor


def read_kimi_linear(config: Config) -> ModelSpec:
    """Kimi Linear, and the language model of Kimi K3. No layer has a rotary embedding, and the
    head is never tied."""
    config = config.with_defaults(DEFAULTS).with_values(tie_word_embeddings=False)
    hidden = config.integer("hidden_size", low=1)
    stack = [layer(config, hidden, kind, index) for index, kind in enumerate(layer_kinds(config))]
    spec = decoder(config, stack)
    if not config.has("attn_res_block_size"):
        return spec
    residual = (
        *parts.norm("model.output_attn_res_norm", hidden),
        *parts.linear("model.output_attn_res_proj", 1, hidden),
    )
    return msgspec.structs.replace(
        spec, blocks=(*spec.blocks, parts.single(Part.LANGUAGE, residual))
    )


def layer_kinds(config: Config) -> list[str]:
    """`layer_types`; or the lists of `linear_attn_config`, which count from 1; or full attention
    in every fourth layer but the first."""
    count, section = config.layers(), config.section("linear_attn_config")
    layer_types = kinds(config, "layer_types", layers=count)
    if layer_types:
        return layer_types
    if section.has("full_attn_layers") and section.has("kda_layers"):
        full = section.items("full_attn_layers")
        return [
            "full_attention" if index + 1 in full else "linear_attention" for index in range(count)
        ]
    return [
        "full_attention" if index and index % 4 == 0 else "linear_attention"
        for index in range(count)
    ]


def layer(config: Config, hidden: int, kind: str, index: int) -> parts.Layer:
    """Norms, KDA or latent attention, MLP or mixture, and what the attention residuals of Kimi
    K3 add."""
    tensors, mlp = feed_forward(config, hidden, index)
    residuals = attention_residuals(hidden) if config.has("attn_res_block_size") else ()
    feed = ((*tensors, *residuals), mlp)
    if kind == "linear_attention":
        mixing = kda_tensors(config, hidden)
        return parts.decoder_layer(hidden, kda_mixer(config), mixing, feed)
    latent = latent_attention(config)
    mixing = latent_tensors(config, hidden, latent)
    return parts.decoder_layer(hidden, latent, mixing, feed)


def attention_residuals(hidden: int) -> tuple[Tensor, ...]:
    """Return a norm and a score for each of the two residual streams of a layer."""
    return (
        *parts.norm("self_attention_res_norm", hidden),
        *parts.norm("mlp_res_norm", hidden),
        *parts.linear("self_attention_res_proj", 1, hidden),
        *parts.linear("mlp_res_proj", 1, hidden),
    )


def kda_sizes(config: Config) -> tuple[int, int, int]:
    """Return heads, their width and the kernel of the convolution: `linear_attn_config` before
    the flat keys."""
    section = config.section("linear_attn_config")
    return (
        section.integer("num_heads", default=config.integer("linear_num_heads", low=1), low=1),
        section.integer("head_dim", default=config.integer("linear_head_dim", low=1), low=1),
        section.integer(
            "short_conv_kernel_size", default=config.integer("linear_conv_kernel_dim", low=1), low=1
        ),
    )


def kda_tensors(config: Config, hidden: int) -> tuple[Tensor, ...]:
    """q, k, v with a convolution each, the decay through a rank of one head's width, beta, and
    the output gate: of full rank in Kimi K3, else through the same narrow rank. vLLM keeps
    A_log, dt_bias and the convolutions in F32 and f_a whole on every rank."""
    count, width, kernel = kda_sizes(config)
    inner = count * width
    full_rank = config.section("linear_attn_config").flag("use_full_rank_gate")
    gate = (
        parts.linear("self_attn.g_proj", inner, hidden, Split.COLUMN, units=count)
        if full_rank
        else (
            *parts.linear("self_attn.g_a_proj", width, hidden),
            *parts.linear("self_attn.g_b_proj", inner, width, Split.COLUMN, units=count),
        )
    )
    return (
        *parts.linears(
            (f"self_attn.{name}_proj" for name in "qkv"), inner, hidden, Split.COLUMN, units=count
        ),
        *[
            t
            for name in "qkv"
            for t in convolution(
                f"self_attn.{name}_conv1d", inner, kernel, units=count, dtype="F32"
            )
        ],
        vector("self_attn.A_log", count, dtype="F32"),
        vector("self_attn.dt_bias", inner, dtype="F32"),
        *parts.linear("self_attn.f_a_proj", width, hidden),
        *parts.linear("self_attn.f_b_proj", inner, width, Split.COLUMN, units=count),
        *parts.linear("self_attn.b_proj", count, hidden, Split.COLUMN, units=count),
        *gate,
        *parts.norm("self_attn.o_norm", width),
        *parts.linear("self_attn.o_proj", hidden, inner, Split.ROW, units=count),
    )


def kda_mixer(config: Config) -> Recurrent:
    """Return its states: kernel - 1 past inputs of q, k and v in the cache's dtype, and a matrix
    width x width a head in F32."""
    count, width, kernel = kda_sizes(config)
    states = (
        State("conv", count, 3 * width * (kernel - 1)),
        State("ssm", count, width * width, "F32"),
    )
    bounded = config.section("linear_attn_config").has("gate_lower_bound")
    return Recurrent(kind="kimi_delta", states=states, bounded_gate=bounded)


def latent_tensors(config: Config, hidden: int, mixer: LatentAttention) -> tuple[Tensor, ...]:
    """Return the projections of latent attention, none of them with a bias; Kimi K3 gates the
    output."""
    count = mixer.query_heads
    gate = (
        parts.linear("self_attn.g_proj", count * mixer.value_dim, hidden, Split.COLUMN, units=count)
        if config.flag("mla_use_output_gate")
        else ()
    )
    return (*attention_tensors(config.with_values(attention_bias=False), mixer), *gate)


def feed_forward(config: Config, hidden: int, index: int) -> parts.Feed:
    """Return the MLP of the first `first_k_dense_replace` layers, the mixture of the others."""
    types = kinds(config, "mlp_layer_types", layers=config.layers())
    sparse = (
        types[index] == "sparse"
        if types
        else index >= config.integer("first_k_dense_replace", default=1)
    )
    if not sparse:
        return parts.gated_feed(hidden, config.integer("intermediate_size"))
    experts = config.integer("num_experts", "num_local_experts")
    width = config.integer("moe_intermediate_size")
    shared = width * config.integer("num_shared_experts", default=0)
    latent = config.maybe_integer("routed_expert_hidden_size", low=1)
    around = (
        latent_projections(hidden, latent, normed=config.flag("latent_moe_use_norm"))
        if latent
        else ()
    )
    name = "block_sparse_moe"
    tensors = (
        parts.router(hidden, experts, name=f"{name}.gate"),
        correction(f"{name}.gate.e_score_correction_bias", experts),
        *parts.experts(
            latent or hidden, width, experts, name=f"{name}.experts.*", names=("w1", "w3", "w2")
        ),
        *around,
        *(parts.gated_mlp(hidden, shared, name=f"{name}.shared_experts") if shared else ()),
    )
    visited = config.integer("num_experts_per_token", "num_experts_per_tok")
    return tensors, Mlp(
        intermediate_size=width,
        experts=experts,
        experts_per_token=visited,
        shared_intermediate_size=shared,
        latent_size=latent,
    )


def latent_projections(hidden: int, latent: int, *, normed: bool) -> tuple[Tensor, ...]:
    """Return what stands around experts that work in a narrower space; whole on every rank."""
    name = "block_sparse_moe.routed_expert"
    return (
        Tensor(f"{name}_down_proj.weight", (latent, hidden), Kind.LINEAR),
        *(parts.norm(f"{name}_norm", latent) if normed else ()),
        Tensor(f"{name}_up_proj.weight", (hidden, latent), Kind.LINEAR),
    )


DEFAULTS = {
    "vocab_size": 163840, "hidden_size": 2304, "intermediate_size": 9216, "num_hidden_layers": 27,
    "num_attention_heads": 32, "kv_lora_rank": 512, "qk_nope_head_dim": 128, "qk_rope_head_dim": 64,
    "v_head_dim": 128, "moe_intermediate_size": 1024, "num_experts": 256,
    "num_experts_per_token": 8, "num_shared_experts": 1, "linear_head_dim": 128,
    "linear_num_heads": 32, "linear_conv_kernel_dim": 4, "max_position_embeddings": 1048576,
    "tie_word_embeddings": False,
}  # fmt: skip
"""transformers 5.23, KimiLinearConfig."""

READERS: dict[str, Reader] = {"kimi_linear": read_kimi_linear}
