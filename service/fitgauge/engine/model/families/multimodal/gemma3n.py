"""Gemma 3n: four parallel streams (AltUp), a low-rank side path (LAuReL), per-layer inputs and
shared caches; its two towers.

Source: transformers 5.23, models/gemma3n; the vision tower is timm's mobilenetv5_300m_enc;
division: vLLM 0.33, models/gemma3n.py and gemma3n_mm.py."""

import msgspec

from fitgauge.engine.model.config import Config
from fitgauge.engine.model.families import parts
from fitgauge.engine.model.families.dense.dense import Reader
from fitgauge.engine.model.families.multimodal.audio import conformer_mlp
from fitgauge.engine.model.families.multimodal.vit import patches, whole
from fitgauge.engine.model.families.rotary_tables import rotary_tables
from fitgauge.engine.model.families.stack import context_length, decoder, kinds
from fitgauge.engine.model.mixers import plain_attention
from fitgauge.engine.model.spec import Block, Kind, Mlp, ModelSpec, Part, Split, Tensor


def read_gemma3n(config: Config) -> ModelSpec:
    """Return the language model of Gemma 3n: full attention in every fifth layer, MLPs that may
    differ by layer."""
    config = config.with_defaults(DEFAULTS)
    hidden = config.integer("hidden_size", low=1)
    per_layer = config.integer("hidden_size_per_layer_input")
    count = config.layers()
    types = kinds(config, "layer_types", layers=count) or [
        "sliding_attention" if (n + 1) % 5 else "full_attention" for n in range(count)
    ]
    first_shared = count - config.integer("num_kv_shared_layers")
    stack = [
        layer(
            config,
            hidden,
            per_layer,
            slides=kind == "sliding_attention",
            shares=0 < first_shared <= index,
            width=mlp_width(config, index),
        )
        for index, kind in enumerate(types)
    ]
    tables = rotary_tables(
        config, config.integer("head_dim", low=1), positions=context_length(config), local=True
    )
    spec = decoder(config, stack, rotary_tables=tables)
    rows, width = config.integer("vocab_size_per_layer_input", low=1), count * per_layer
    table = parts.word_table("model.embed_tokens_per_layer", rows, width)
    streams = config.integer("altup_num_inputs", low=1, high=64) - 1
    joint = (
        *parts.linear("model.per_layer_model_projection", width, hidden, Split.COLUMN),
        *parts.norm("model.per_layer_projection_norm", per_layer),
    )
    turn = Tensor("weight", (hidden, hidden), Kind.LINEAR, Split.COLUMN)
    projections = [
        block
        for name in ("altup_projections", "altup_unembed_projections")
        for block in parts.blocks(
            Part.EMBEDDING, f"model.{name}.{{}}.", [parts.Layer((turn,))] * streams
        )
    ]
    added = (
        parts.single(Part.EMBEDDING, (table,)),
        parts.single(Part.LANGUAGE, joint),
        *projections,
    )
    return msgspec.structs.replace(spec, blocks=(*spec.blocks, *added))


def mlp_width(config: Config, index: int) -> int:
    """`intermediate_size` of layer `index`: one for all or one for each."""
    value = config.values.get("intermediate_size")
    if not isinstance(value, list):
        return config.integer("intermediate_size")
    sizes = config.items("intermediate_size", length=config.layers())
    return Config({"intermediate_size": sizes[index]}, config.where).integer("intermediate_size")


def layer(
    config: Config, hidden: int, per_layer: int, *, slides: bool, shares: bool, width: int
) -> parts.Layer:
    """Four norms, attention (queries alone where the cache is shared), MLP, AltUp, LAuReL,
    per-layer input."""
    mixer = plain_attention(
        config.integer("num_attention_heads", low=1),
        config.integer("head_dim", low=1),
        kv_heads=config.integer("num_key_value_heads", low=1),
        window=config.maybe_integer("sliding_window") if slides else None,
        shares_cache=shares,
    )
    bias = config.flag("attention_bias")
    attention = (
        *parts.attention(hidden, mixer, qkv_bias=bias, out_bias=bias),
        *parts.norms(parts.QK_NORMS, mixer.head_dim),
    )
    if shares:
        attention = tuple(
            tensor
            for tensor in attention
            if not tensor.name.startswith(("self_attn.k_", "self_attn.v_"))
        )
    return parts.Layer(
        tensors=(
            *parts.norms(parts.NORMS_AROUND, hidden),
            *attention,
            *parts.gated_mlp(hidden, width),
            *altup(config, hidden),
            *laurel(config, hidden),
            *parts.linear("per_layer_input_gate", per_layer, hidden),
            *parts.linear("per_layer_projection", hidden, per_layer),
            *parts.norm("post_per_layer_input_norm", hidden),
        ),
        mixers=(mixer,),
        mlp=Mlp(intermediate_size=width),
    )


def altup(config: Config, hidden: int) -> tuple[Tensor, ...]:
    """Alternating updates: small mixings of the streams, whole on every rank."""
    streams = config.integer("altup_num_inputs", low=1, high=64)
    return (
        whole("altup.correct_output_scale", hidden),
        *parts.linear("altup.correction_coefs", streams, streams),
        *parts.linear("altup.prediction_coefs", streams**2, streams),
        *parts.linear("altup.modality_router", streams, hidden),
        *parts.norm("altup.router_norm", hidden),
    )


def laurel(config: Config, hidden: int) -> tuple[Tensor, ...]:
    """Return the learned augmented residual: down to `laurel_rank` and up again."""
    rank = config.integer("laurel_rank", low=1)
    return (
        *parts.linear("laurel.linear_left", rank, hidden, Split.COLUMN),
        *parts.linear("laurel.linear_right", hidden, rank, Split.ROW),
        *parts.norm("laurel.post_laurel_norm", hidden),
    )


def towers(vision: Config, config: Config, hidden: int) -> tuple[Block, ...]:
    """Return both towers and what joins them to the language model. The vision tower has one
    size, and its tensors stand as one."""
    audio = config.section("audio_config").with_defaults(AUDIO_DEFAULTS)
    seen = vision.integer("hidden_size", default=2048, low=1)
    heard = audio.integer("hidden_size", low=1)
    tower = Tensor("model.vision_tower.timm_model", (MOBILENET_V5_300M,), Kind.OTHER)
    return (
        parts.single(Part.VISION, (tower,)),
        *conformer(audio, heard),
        parts.single(
            Part.PROJECTOR,
            (
                *embedder(
                    "model.embed_vision", vision.integer("vocab_size", default=128), seen, hidden
                ),
                *embedder("model.embed_audio", audio.integer("vocab_size"), heard, hidden),
            ),
        ),
    )


def embedder(name: str, vocabulary: int, width: int, hidden: int) -> tuple[Tensor, ...]:
    """Return a table of special tokens, two norms and a linear to the language model's width."""
    return (
        parts.word_table(f"{name}.embedding", vocabulary, width),
        *parts.norm(f"{name}.hard_embedding_norm", width),
        *parts.norm(f"{name}.soft_embedding_norm", width),
        *parts.linear(f"{name}.embedding_projection", hidden, width),
    )


def conformer(audio: Config, width: int) -> tuple[Block, ...]:
    """Gemma 3n's conformer: two convolutions over 128 frequencies, layers of MLP, attention,
    convolution and MLP."""
    heads = audio.integer("conf_num_attention_heads", low=1)
    kernel = audio.integer("conf_conv_kernel_size", low=1)
    sizes = audio.items("sscp_conv_channel_size", length=2)
    first, second = (
        Config({"channels": size}, audio.where).integer("channels", low=1) for size in sizes
    )
    front = "model.audio_tower.subsample_conv_projection"
    tower = (
        *patches(f"{front}.conv_0.conv", first, 1, 3, 3, bias=False),
        *parts.norm(f"{front}.conv_0.norm", first),
        *patches(f"{front}.conv_1.conv", second, first, 3, 3, bias=False),
        *parts.norm(f"{front}.conv_1.norm", second),
        *parts.linear(
            f"{front}.input_proj_linear",
            width,
            audio.integer("input_feat_size", low=1) // 4 * second,
        ),
    )
    norms = (
        "attention.pre_attn_norm",
        "attention.post_norm",
        "lconv1d.pre_layer_norm",
        "lconv1d.conv_norm",
        "norm",
    )
    squares = (
        "attn.relative_position_embedding.pos_proj",
        "attn.q_proj",
        "attn.k_proj",
        "attn.v_proj",
        "post",
    )
    tensors = (
        *[
            tensor
            for name in ("ffw_layer_start", "ffw_layer_end")
            for tensor in conformer_mlp(name, width, inner="")
        ],
        whole("attention.attn.per_dim_scale", width // heads),
        *parts.linears((f"attention.{name}" for name in squares), width, width),
        *parts.linear("lconv1d.linear_start", 2 * width, width),
        *parts.linear("lconv1d.linear_end", width, width),
        Tensor("lconv1d.depthwise_conv1d.weight", (width, 1, kernel), Kind.CONV),
        *parts.norms(norms, width),
    )
    mixer = plain_attention(heads, width // heads, causal=False)
    conformed = parts.Layer(tensors, (mixer,), Mlp(intermediate_size=4 * width, gated=False))
    return (
        parts.single(Part.AUDIO, tower),
        *parts.blocks(
            Part.AUDIO,
            "model.audio_tower.conformer.{}.",
            [conformed] * audio.layers("conf_num_hidden_layers"),
        ),
    )


MOBILENET_V5_300M = 294_126_912
"""Parameters of timm 1.0.31's mobilenetv5_300m_enc on the meta device, the only tower that Gemma
3n names."""

DEFAULTS = {
    "vocab_size": 262400, "hidden_size": 2048, "intermediate_size": 16384, "num_hidden_layers": 35,
    "num_attention_heads": 8, "num_key_value_heads": 2, "head_dim": 256,
    "max_position_embeddings": 32768, "tie_word_embeddings": True, "sliding_window": 512,
    "vocab_size_per_layer_input": 262144, "hidden_size_per_layer_input": 256, "altup_num_inputs": 4,
    "num_kv_shared_layers": 15, "laurel_rank": 64,
}  # fmt: skip
"""transformers 5.23, Gemma3nTextConfig."""

AUDIO_DEFAULTS = {
    "vocab_size": 128, "hidden_size": 1536, "input_feat_size": 128, "conf_num_attention_heads": 8,
    "conf_num_hidden_layers": 12, "conf_conv_kernel_size": 5, "sscp_conv_channel_size": [128, 32],
}  # fmt: skip
"""transformers 5.23, Gemma3nAudioConfig."""

READERS: dict[str, Reader] = {"gemma3n_text": read_gemma3n}
