"""GPT-2 and the decoders of its time: learned positions or ALiBi, LayerNorms with a shift, plain
MLPs, fused projections.

They are dialects too; only their names and switches lie further from Llama's. Source:
transformers 5.23, `models/<model_type>/modeling_<model_type>.py`. A weight that GPT-2 keeps as a
Conv1D is given as (out, in) like every linear."""

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
from fitgauge.engine.model.families.dense.dialects import reader
from fitgauge.engine.model.spec import Block, Kind, ModelSpec, Part, Split, Tensor
from fitgauge.errors import MalformedModelError

GPT2 = Dialect(
    stem="transformer", layers="h", embed="wte", positions=("wpe", 0), attention="attn",
    qkv=("c_attn",), out="c_proj",
    mlp=("mlp.c_fc", "mlp.c_proj"), gated=False, expansion=4, norms=("ln_1", "ln_2"), final="ln_f",
    layer_norm=True,
    qkv_bias=True, out_bias=True, mlp_bias=True, rotary="none",
)  # fmt: skip
GPTJ = replace(
    GPT2, positions=None, qkv=("q_proj", "k_proj", "v_proj"), out="out_proj",
    mlp=("mlp.fc_in", "mlp.fc_out"), norms=("ln_1",),
    qkv_bias=False, out_bias=False, head_bias=True, rotary="tables",
)  # fmt: skip
GPT_NEO = replace(
    GPT2,
    attention="attn.attention",
    qkv=("q_proj", "k_proj", "v_proj"),
    out="out_proj",
    qkv_bias=False,
)
GPT_NEOX = Dialect(
    stem="gpt_neox", embed="embed_in", attention="attention", qkv=("query_key_value",), out="dense",
    mlp=("mlp.dense_h_to_4h", "mlp.dense_4h_to_h"), gated=False, final="final_layer_norm",
    head="embed_out", layer_norm=True,
    mlp_bias=True, rotary="frequencies",
)  # fmt: skip
BLOOM = replace(
    GPT_NEOX, stem="transformer", layers="h", embed="word_embeddings", attention="self_attention",
    expansion=4, final="ln_f",
    head="lm_head", qkv_bias=True, out_bias=True, rotary="none",
)  # fmt: skip
FALCON = replace(BLOOM, qkv_bias="bias", out_bias="bias", mlp_bias="bias")
MPT = Dialect(
    stem="transformer", layers="blocks", embed="wte", attention="attn", qkv=("Wqkv",),
    out="out_proj",
    mlp=("ffn.up_proj", "ffn.down_proj"), gated=False, expansion=4, norms=("norm_1", "norm_2"),
    final="norm_f",
    qkv_bias=False, out_bias=False, rotary="none",
)  # fmt: skip
OPT = Dialect(
    stem="model.decoder", positions=("embed_positions", 2), out="out_proj", mlp=("fc1", "fc2"),
    gated=False,
    norms=("self_attn_layer_norm", "final_layer_norm"), final="final_layer_norm", layer_norm=True,
    qkv_bias="enable_bias",
    out_bias="enable_bias", mlp_bias="enable_bias", rotary="none",
)  # fmt: skip
XGLM = replace(
    OPT,
    stem="model",
    positions=None,
    final="layer_norm",
    qkv_bias=True,
    out_bias=True,
    mlp_bias=True,
)
CTRL = replace(
    GPT2, embed="w", positions=None, attention="multi_head_attention", qkv=("Wq", "Wk", "Wv"),
    out="dense",
    mlp=("ffn.0", "ffn.2"), norms=("layernorm1", "layernorm2"), final="layernorm", head_bias=True,
)  # fmt: skip


def read_gpt_neo(config: Config) -> ModelSpec:
    """GPT-Neo: layers that see everything and layers with a window of `window_size` take turns
    as `attention_types` says."""
    full = completed(config)
    types = [
        "sliding_attention" if kind == "local" else "full_attention"
        for kind in attention_kinds(full)
    ]
    return read_dense(
        full.with_values(layer_types=types, sliding_window=full.integer("window_size")),
        replace(GPT_NEO, window="pattern"),
    )


def attention_kinds(config: Config) -> list[str]:
    """`attention_types` written out: [[["global", "local"], 12]] is twelve times the two. Raises
    MalformedModelError where it does not fit."""
    kinds: list[str] = []
    layers = config.layers()
    for entry in config.items("attention_types") or [[["global", "local"], 12]]:
        match entry:
            case [[*names], int(times)] if 0 <= times * len(names) <= layers:
                kinds += [str(name) for name in names] * times
    if len(kinds) != layers:
        raise MalformedModelError(
            f"{config.where}: attention_types names {len(kinds)} layers, num_layers {layers}.",
            field="attention_types",
        )
    return kinds


def read_gpt_neox(config: Config) -> ModelSpec:
    """GPT-NeoX and Pythia; RedPajama runs attention and MLP one after the other."""
    full = completed(config)
    return msgspec.structs.replace(
        read_dense(full, GPT_NEOX), sequential_branches=not full.flag("use_parallel_residual")
    )


def read_gpt_neox_japanese(config: Config) -> ModelSpec:
    """GPT-NeoX Japanese: no biases, but one after the last layer's attention."""
    full = completed(config)
    hidden = full.integer("hidden_size", low=1)
    with_width = full.with_values(
        intermediate_size=full.integer("intermediate_multiple_size") * hidden
    )
    dialect = replace(
        GPT_NEOX, stem="gpt_neox_japanese", qkv_bias=False, out_bias=False, mlp_bias=False
    )
    layer = dense_layer(with_width, dialect, hidden, mlp_width(with_width, dialect), None)
    last = replace(
        layer, tensors=(*layer.tensors, Tensor("attention.dense_bias", (hidden,), Kind.BIAS))
    )
    return read_stack(with_width, dialect, [layer] * (full.layers() - 1) + [last])


def read_bloom(config: Config) -> ModelSpec:
    """BLOOM: a norm after the embedding, and ALiBi."""
    spec = read_dense(completed(config), BLOOM)
    after = parts.norm("transformer.word_embeddings_layernorm", spec.hidden_size, bias=True)
    return msgspec.structs.replace(
        spec, blocks=(spec.blocks[0], parts.single(Part.EMBEDDING, after), *spec.blocks[1:])
    )


def read_falcon(config: Config) -> ModelSpec:
    """Falcon 7B (one KV head), 40B and 180B (`new_decoder_architecture`: KV groups, two norms
    side by side), RW (ALiBi)."""
    full = completed(config)
    grouped, many = full.flag("new_decoder_architecture"), not full.flag("multi_query")
    kv_heads = 1
    if grouped or many:
        kv_heads = full.integer(
            "num_key_value_heads", default=full.integer("num_attention_heads", low=1)
        )
    parallel = full.flag("parallel_attn")
    two_norms = full.integer("num_ln_in_parallel_attn", default=2 if grouped else 1) == 2
    norms: tuple[str, ...] = parts.NORMS
    if parallel:
        norms = ("ln_attn", "ln_mlp") if two_norms else ("input_layernorm",)
    dialect = replace(FALCON, norms=norms, rotary="none" if full.flag("alibi") else "tables")
    return msgspec.structs.replace(
        read_dense(full.with_values(num_key_value_heads=kv_heads), dialect),
        sequential_branches=not (parallel or grouped),
    )


def read_gpt_bigcode(config: Config) -> ModelSpec:
    """SantaCoder and StarCoder: GPT-2 with one KV head for all query heads."""
    full = completed(config)
    return read_dense(
        full.with_values(num_key_value_heads=1 if full.flag("multi_query") else None), GPT2
    )


def read_opt(config: Config) -> ModelSpec:
    """OPT: 350M embeds narrower than it thinks (`word_embed_proj_dim`) and norms after, without
    a final norm."""
    full = completed(config)
    final = full.flag("do_layer_norm_before") and not full.flag("_remove_final_layer_norm")
    affine = full.flag("layer_norm_elementwise_affine")
    dialect = replace(
        OPT, norms=OPT.norms if affine else (), final=OPT.final if final and affine else ""
    )
    hidden = full.integer("hidden_size", low=1)
    width = full.integer("word_embed_proj_dim", default=full.integer("hidden_size"))
    spec = read_dense(full, dialect)
    if width == hidden:
        return spec
    return msgspec.structs.replace(
        spec, blocks=(*narrowed(spec.blocks, hidden, width), project(hidden, width))
    )


def narrowed(blocks: tuple[Block, ...], hidden: int, width: int) -> tuple[Block, ...]:
    """Return the blocks with token embedding and head `width` instead of `hidden` wide;
    positions keep their width."""
    return tuple(
        (
            msgspec.structs.replace(
                block, tensors=tuple(_narrow(tensor, hidden, width) for tensor in block.tensors)
            )
            if block.part in {Part.EMBEDDING, Part.HEAD}
            else block
        )
        for block in blocks
    )


def _narrow(tensor: Tensor, hidden: int, width: int) -> Tensor:
    vocabulary_rows = tensor.split is Split.VOCABULARY and tensor.shape[-1] == hidden
    if vocabulary_rows:
        return msgspec.structs.replace(tensor, shape=(tensor.shape[0], width))
    return tensor


def project(hidden: int, width: int) -> Block:
    """Return the projections between embedding and hidden width."""
    inward = parts.linear("model.decoder.project_in", hidden, width)
    return parts.single(
        Part.LANGUAGE, (*inward, *parts.linear("model.decoder.project_out", width, hidden))
    )


DIALECTS: Mapping[str, Dialect] = {
    "gpt2": GPT2,
    "gpt-sw3": GPT2,
    "openai-gpt": replace(GPT2, embed="tokens_embed", positions=("positions_embed", 0), final=""),
    "ctrl": CTRL,
    "gptj": GPTJ,
    "codegen": replace(GPTJ, qkv=("qkv_proj",), rotary="frequencies"),
    "mpt": MPT,
    "xglm": XGLM,
    "biogpt": replace(
        XGLM, stem="biogpt", positions=("embed_positions", 2), head="output_projection"
    ),
}

READERS: dict[str, Reader] = {
    **{model_type: reader(dialect) for model_type, dialect in DIALECTS.items()},
    "bloom": read_bloom,
    "falcon": read_falcon,
    "RefinedWeb": read_falcon,
    "RefinedWebModel": read_falcon,
    "gpt_bigcode": read_gpt_bigcode,
    "gpt_neo": read_gpt_neo,
    "gpt_neox": read_gpt_neox,
    "gpt_neox_japanese": read_gpt_neox_japanese,
    "opt": read_opt,
}
