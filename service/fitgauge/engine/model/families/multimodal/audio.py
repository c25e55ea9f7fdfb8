"""Audio towers: Whisper's encoder (Qwen2-Audio) and the conformer of Gemma 4.

Sources: transformers 5.23, models/{qwen2_audio,gemma4}; division: vLLM 0.33,
models/{qwen2_audio,whisper,gemma4_mm}.py, where Gemma 4's conformer is transformers' own module,
whole on every rank."""

from fitgauge.engine.model.config import Config
from fitgauge.engine.model.families import parts
from fitgauge.engine.model.families.multimodal.vit import patches, whole
from fitgauge.engine.model.mixers import plain_attention
from fitgauge.engine.model.spec import Block, Kind, Mlp, Part, Split, Tensor


def whisper(audio: Config, hidden: int) -> tuple[Block, ...]:
    """Whisper's encoder behind Qwen2-Audio: two convolutions, learned positions, layers whose
    keys have no bias, one linear."""
    audio = audio.with_defaults(WHISPER_DEFAULTS)
    width = audio.integer("d_model", low=1)
    heads = audio.integer("encoder_attention_heads", low=1)
    inner = audio.integer("encoder_ffn_dim")
    name = "audio_tower"
    layer = whisper_layer(width, heads, inner)
    tower = (
        *patches(f"{name}.conv1", width, audio.integer("num_mel_bins", low=1), 3),
        *patches(f"{name}.conv2", width, width, 3),
        whole(
            f"{name}.embed_positions.weight", audio.integer("max_source_positions", low=1), width
        ),
        *parts.norm(f"{name}.layer_norm", width, bias=True),
    )
    return (
        parts.single(Part.AUDIO, tower),
        *parts.blocks(Part.AUDIO, f"{name}.layers.{{}}.", [layer] * audio.layers("encoder_layers")),
        parts.single(
            Part.PROJECTOR, parts.linear("multi_modal_projector.linear", hidden, width, bias=True)
        ),
    )


def whisper_layer(width: int, heads: int, inner: int, *, key_bias: bool = False) -> parts.Layer:
    """Return a layer of Whisper's encoder."""
    return parts.Layer(
        tensors=(
            *[
                tensor
                for projection in ("q_proj", "k_proj", "v_proj")
                for tensor in parts.linear(
                    f"self_attn.{projection}",
                    width,
                    width,
                    Split.COLUMN,
                    units=heads,
                    bias=key_bias or projection != "k_proj",
                )
            ],
            *parts.linear("self_attn.out_proj", width, width, Split.ROW, units=heads, bias=True),
            *parts.norm("self_attn_layer_norm", width, bias=True),
            *parts.plain_mlp(width, inner, "fc1", "fc2"),
            *parts.norm("final_layer_norm", width, bias=True),
        ),
        mixers=(plain_attention(heads, width // heads, causal=False),),
        mlp=Mlp(intermediate_size=inner, gated=False),
    )


def conformer(audio: Config, hidden: int) -> tuple[Block, ...]:
    """Gemma 4's conformer: two convolutions, layers of MLP, attention, convolution and MLP, two
    linears to the language model."""
    audio = audio.with_defaults(CONFORMER_DEFAULTS)
    width = audio.integer("hidden_size", low=1)
    heads = audio.integer("num_attention_heads", low=1)
    kernel = audio.integer("conv_kernel_size")
    first, second = (
        Config({"channels": size}, audio.where).integer("channels", low=1)
        for size in audio.items("subsampling_conv_channels", length=2)
    )
    out, name = audio.integer("output_proj_dims", low=1), "model.audio_tower"
    front = f"{name}.subsample_conv_projection"
    tower = (
        *patches(f"{front}.layer0.conv", first, 1, 3, 3, bias=False),
        *parts.norm(f"{front}.layer0.norm", first),
        *patches(f"{front}.layer1.conv", second, first, 3, 3, bias=False),
        *parts.norm(f"{front}.layer1.norm", second),
        *parts.linear(f"{front}.input_proj_linear", width, first // 4 * second),
        *parts.linear(f"{name}.output_proj", out, width, bias=True),
    )
    mixer = plain_attention(heads, width // heads, causal=False)
    layer = parts.Layer(
        conformer_tensors(width, heads, kernel),
        (mixer,),
        Mlp(intermediate_size=4 * width, gated=False),
    )
    return (
        parts.single(Part.AUDIO, tower),
        *parts.blocks(Part.AUDIO, f"{name}.layers.{{}}.", [layer] * audio.layers()),
        parts.single(
            Part.PROJECTOR, parts.linear("model.embed_audio.embedding_projection", hidden, out)
        ),
    )


def conformer_tensors(width: int, heads: int, kernel: int) -> tuple[Tensor, ...]:
    """Return one conformer layer."""
    attention = (
        "self_attn.q_proj.linear",
        "self_attn.k_proj.linear",
        "self_attn.v_proj.linear",
        "self_attn.post.linear",
    )
    norms = (
        "lconv1d.pre_layer_norm",
        "lconv1d.conv_norm",
        "norm_pre_attn",
        "norm_post_attn",
        "norm_out",
    )
    return (
        *[
            tensor
            for name in ("feed_forward1", "feed_forward2")
            for tensor in conformer_mlp(name, width)
        ],
        whole("self_attn.per_dim_scale", width // heads),
        *parts.linears((*attention, "self_attn.relative_k_proj"), width, width),
        *parts.linear("lconv1d.linear_start.linear", 2 * width, width),
        *parts.linear("lconv1d.linear_end.linear", width, width),
        Tensor("lconv1d.depthwise_conv1d.weight", (width, 1, kernel), Kind.CONV),
        *parts.norms(norms, width),
    )


def conformer_mlp(name: str, width: int, *, inner: str = ".linear") -> tuple[Tensor, ...]:
    """Return two linears, four times as wide between them, and a norm before and after. `inner`:
    what the linears' names end in."""
    return (
        *parts.linear(f"{name}.ffw_layer_1{inner}", 4 * width, width),
        *parts.linear(f"{name}.ffw_layer_2{inner}", width, 4 * width),
        *parts.norm(f"{name}.pre_layer_norm", width),
        *parts.norm(f"{name}.post_layer_norm", width),
    )


WHISPER_DEFAULTS = {
    "num_mel_bins": 128, "encoder_layers": 32, "encoder_attention_heads": 20,
    "encoder_ffn_dim": 5120, "d_model": 1280, "max_source_positions": 1500,
}  # fmt: skip
"""transformers 5.23, Qwen2AudioEncoderConfig."""

CONFORMER_DEFAULTS = {
    "hidden_size": 1024, "num_hidden_layers": 12, "num_attention_heads": 8,
    "subsampling_conv_channels": [128, 32], "conv_kernel_size": 5, "output_proj_dims": 1536,
}  # fmt: skip
"""transformers 5.23, Gemma4AudioConfig."""
