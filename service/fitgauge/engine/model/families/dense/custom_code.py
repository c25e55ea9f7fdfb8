"""Dense decoders whose code stands in their own repositories, not in transformers.

Source: vLLM 0.33,
`model_executor/models/{internlm2,exaone,minicpm,chatglm,orion,solar,mimo_mtp,nemotron_nas}.py`.
Baichuan, InternLM, Qwen and XVERSE, which vLLM dropped in 0.23: the shapes of their checkpoints.
A family is `exact` where its count equals one that was printed in public (the tests name where),
else `assumed`."""

from collections.abc import Mapping
from dataclasses import replace

import msgspec

from fitgauge.engine.model.config import Config
from fitgauge.engine.model.families import parts
from fitgauge.engine.model.families.dense.defaults import completed
from fitgauge.engine.model.families.dense.dense import (
    Dialect,
    Reader,
    dense_layer,
    mlp_width,
    read_dense,
    read_stack,
)
from fitgauge.engine.model.families.dense.dialects import LLAMA, QWEN2, UNBIASED, reader
from fitgauge.engine.model.families.dense.gpt2_era import BLOOM
from fitgauge.engine.model.families.experts import Naming
from fitgauge.engine.model.families.mixture.mixture import Family, read_mixture
from fitgauge.engine.model.spec import Block, ModelSpec, Part
from fitgauge.engine.note import Note

BAICHUAN = replace(UNBIASED, qkv=("W_pack",))
INTERNLM = Dialect(qkv_bias="bias", out_bias="bias")
INTERNLM2 = Dialect(
    embed="tok_embeddings", attention="attention", qkv=("wqkv",), out="wo",
    norms=("attention_norm", "ffn_norm"), head="output",
    mlp=("feed_forward.w1", "feed_forward.w3", "feed_forward.w2"), qkv_bias="bias", out_bias="bias",
)  # fmt: skip
QWEN = Dialect(
    stem="transformer", layers="h", embed="wte", attention="attn", qkv=("c_attn",), out="c_proj",
    norms=("ln_1", "ln_2"),
    mlp=("mlp.w1", "mlp.w2", "mlp.c_proj"), final="ln_f", qkv_bias=True, out_bias=False,
)  # fmt: skip
CHATGLM = Dialect(
    stem="transformer", layers="encoder.layers", embed="embedding.word_embeddings",
    attention="self_attention",
    qkv=("query_key_value",), out="dense", mlp=("mlp.dense_h_to_4h", "mlp.dense_4h_to_h"),
    final="encoder.final_layernorm",
    head="transformer.output_layer", out_bias="add_bias_linear", mlp_bias="add_bias_linear",
)  # fmt: skip
CHATGLM_6B = replace(
    BLOOM, layers="layers", attention="attention", final="final_layernorm", rotary="tables"
)
EXAONE = Dialect(
    stem="transformer", layers="h", embed="wte", attention="attn.attention", out="out_proj",
    norms=("ln_1", "ln_2"), final="ln_f",
    mlp=("mlp.c_fc_0", "mlp.c_fc_1", "mlp.c_proj"), mlp_bias="mlp_bias",
)  # fmt: skip
ORION = replace(UNBIASED, layer_norm=True)
MINICPM_MOE = Family(
    defaults={"num_experts_per_tok": 2},
    experts=8,
    naming=Naming(projections=parts.NUMBERED),
    bias=None,
    width="intermediate_size",
)


def read_baichuan(config: Config) -> ModelSpec:
    """Baichuan 1 and 2: 7B rotates, 13B (ALiBi) knows its length as `model_max_length` and
    registers no table."""
    alibi = not config.has("max_position_embeddings")
    positions = config.integer("max_position_embeddings", "model_max_length", default=4096)
    return read_dense(
        config.with_values(max_position_embeddings=positions),
        replace(BAICHUAN, rotary="none" if alibi else "tables"),
    )


def read_qwen(config: Config) -> ModelSpec:
    """Qwen 1: `intermediate_size` is the two halves of the gated MLP together; `kv_channels` is
    the head."""
    full = completed(config)
    with_width = full.with_values(
        intermediate_size=full.integer("intermediate_size") // 2,
        head_dim=full.integer("kv_channels", default=128),
    )
    return read_dense(with_width, QWEN)


def read_chatglm(config: Config) -> ModelSpec:
    """ChatGLM 2 and 3, GLM-4-9B with its own code: fused projections, two or as many KV groups,
    half of a head rotated."""
    full = completed(config)
    if full.has("inner_hidden_size"):
        return read_chatglm_6b(full)
    heads = full.integer("num_attention_heads", low=1)
    groups = heads
    if full.flag("multi_query_attention"):
        groups = full.integer("multi_query_group_num", default=1, low=1)
    with_width = full.with_values(
        num_key_value_heads=groups,
        head_dim=full.integer("kv_channels", default=128),
        partial_rotary_factor=0.5,
    )
    qkv_bias = full.flag("add_bias_linear") or full.flag("add_qkv_bias")
    final = CHATGLM.final if full.flag("post_layer_norm", default=True) else ""
    return read_dense(
        with_width,
        replace(
            CHATGLM,
            qkv_bias=qkv_bias,
            final=final,
            layer_norm=not full.flag("rmsnorm", default=True),
        ),
    )


def read_chatglm_6b(config: Config) -> ModelSpec:
    """Return the first ChatGLM-6B: LayerNorms with a shift, a plain MLP, biases everywhere, tied
    words; positions in two dimensions rotate half of a head each."""
    sized = config.with_values(
        intermediate_size=config.integer("inner_hidden_size"),
        max_position_embeddings=config.integer("max_sequence_length", default=2048),
        tie_word_embeddings=True,
    )
    return read_dense(sized, CHATGLM_6B)


def read_minicpm(config: Config) -> ModelSpec:
    """MiniCPM, and MiniCPM-MoE, whose experts Mixtral's blocks hold."""
    full = completed(config)
    if not full.integer("num_experts", default=0):
        return read_dense(full, UNBIASED)
    return read_mixture(full, MINICPM_MOE)


def read_mimo(config: Config) -> ModelSpec:
    """MiMo 7B: Qwen 2 with layers that predict several tokens."""
    full = completed(config)
    hidden, intermediate = full.integer("hidden_size", low=1), mlp_width(full, QWEN2)
    layer = dense_layer(full, QWEN2, hidden, intermediate, None)
    joined = [
        *parts.norm("token_layernorm", hidden),
        *parts.norm("hidden_layernorm", hidden),
        *parts.norm("final_layernorm", hidden),
    ]
    heads = Block(
        part=Part.MTP,
        prefix="model.mtp_layers.{}.",
        tensors=(*joined, *parts.linear("input_proj", hidden, 2 * hidden), *layer.tensors),
        layers=tuple(range(full.integer("num_nextn_predict_layers", default=0, high=64))),
        mixers=layer.mixers,
        mlp=layer.mlp,
    )
    spec = read_dense(full, QWEN2)
    return msgspec.structs.replace(spec, blocks=(*spec.blocks, heads)) if heads.layers else spec


def read_deci(config: Config) -> ModelSpec:
    """DeciLM and Nemotron-NAS: Llama whose blocks were searched: each has KV groups and an MLP
    of its own, or lacks either."""
    full = completed(config)
    hidden, heads = full.integer("hidden_size", low=1), full.integer("num_attention_heads", low=1)
    stack = [
        searched_layer(full, Config(block, f"{config.where}: block_configs"), hidden, heads)
        for block in block_configs(full)
    ]
    return read_stack(full, LLAMA, stack)


def block_configs(config: Config) -> list[dict[str, object]]:
    """Return one entry a layer; DeciLM 7B says its KV heads alone, as
    `num_key_value_heads_per_layer`."""
    layers = config.layers()
    if config.has("block_configs"):
        return [
            block if isinstance(block, dict) else {}
            for block in config.items("block_configs", length=layers)
        ]
    return [
        {"kv_heads": kv_heads}
        for kv_heads in config.items("num_key_value_heads_per_layer", length=layers)
    ]


def searched_layer(config: Config, block: Config, hidden: int, heads: int) -> parts.Layer:
    """Return one block: a part that is a `no_op` has neither tensors nor norm, one replaced by a
    linear is a square matrix."""
    attention, ffn = block.section("attention"), block.section("ffn")
    kv_heads = block.integer(
        "kv_heads", default=heads // attention.integer("n_heads_in_group", default=1, low=1), low=1
    )
    intermediate = ffn_width(config, ffn, hidden)
    whole = dense_layer(
        config.with_values(num_key_value_heads=kv_heads), LLAMA, hidden, intermediate, None
    )
    dropped = [
        *(("self_attn.", "input_layernorm.") if attention.flag("no_op") else ()),
        *(("mlp.", "post_attention_layernorm.") if ffn.flag("no_op") else ()),
    ]
    return parts.Layer(
        tensors=tuple(
            tensor for tensor in whole.tensors if not tensor.name.startswith(tuple(dropped))
        ),
        mixers=() if attention.flag("no_op") else whole.mixers,
        mlp=None if ffn.flag("no_op") else whole.mlp,
    )


def ffn_width(config: Config, ffn: Config, hidden: int) -> int:
    """Return the width of a searched MLP [features]: 2/3 of `ffn_mult` hidden sizes, rounded up to
    a multiple of 256.

    Source: vLLM 0.33, nemotron_nas.py, `_ffn_mult_to_intermediate_size`.
    """
    if not ffn.has("ffn_mult"):
        return ffn.integer(
            "intermediate_size", default=config.integer("intermediate_size", default=4 * hidden)
        )
    width = int(2 * ffn.number("ffn_mult", default=1.0) * hidden / 3)
    return -(-width // 256) * 256


def assumed(read: Reader) -> Reader:
    """Return a reader whose counts no published figure confirms."""

    def reading(config: Config) -> ModelSpec:
        note = Note(
            "architecture-unverified",
            "model",
            "Read as an inference engine reads it; no published parameter count was at hand to"
            " check against.",
        )
        spec = read(config)
        return msgspec.structs.replace(spec, basis="assumed", notes=(*spec.notes, note))

    return reading


CONFIRMED: Mapping[str, Dialect] = {"internlm2": INTERNLM2}
UNCONFIRMED: Mapping[str, Dialect] = {
    "aquila": UNBIASED, "exaone": EXAONE, "internlm": INTERNLM, "orion": ORION, "solar": LLAMA,
    "xverse": UNBIASED, "yi": UNBIASED, "Yi": UNBIASED,
}  # fmt: skip

READERS: dict[str, Reader] = {
    **{model_type: reader(dialect) for model_type, dialect in CONFIRMED.items()},
    **{model_type: assumed(reader(dialect)) for model_type, dialect in UNCONFIRMED.items()},
    "baichuan": read_baichuan,
    "chatglm": read_chatglm,
    "minicpm": read_minicpm,
    "mimo": assumed(read_mimo),
    "deci": assumed(read_deci),
    "nemotron-nas": assumed(read_deci),
}
