"""Models that hear: the towers of Qwen's Omni and ASR models, Ultravox, GLM-ASR and Granite Speech.

Sources: transformers 5.20, models/{qwen2_5_omni,qwen3_omni_moe,qwen3_asr,glmasr,granite_speech};
division: vLLM 0.33, models/{qwen2_5_omni_thinker,qwen3_omni_moe_thinker,ultravox,glmasr,
granite_speech}.py."""

from fitgauge.engine.model.config import Config
from fitgauge.engine.model.families import parts
from fitgauge.engine.model.families.multimodal import qwen_vision
from fitgauge.engine.model.families.multimodal.audio import WHISPER_DEFAULTS, whisper, whisper_layer
from fitgauge.engine.model.families.multimodal.resamplers import former_layers
from fitgauge.engine.model.families.multimodal.vit import patches, whole
from fitgauge.engine.model.mixers import plain_attention
from fitgauge.engine.model.spec import Block, Kind, Mlp, Part, Split, Tensor

_QWEN3_AUDIO = WHISPER_DEFAULTS | {
    "output_dim": 3584, "downsample_hidden_size": 480,
}  # fmt: skip
_GLM_AUDIO = {
    "hidden_size": 1280, "intermediate_size": 5120, "num_hidden_layers": 32,
    "num_attention_heads": 20, "num_mel_bins": 128,
}  # fmt: skip
"""transformers 5.20, GlmAsrEncoderConfig."""
_CONFORMER = {
    "input_dim": 160, "num_layers": 10, "hidden_dim": 1024, "feedforward_mult": 4, "num_heads": 8,
    "dim_head": 128, "output_dim": 42, "context_size": 200, "max_pos_emb": 512,
    "conv_kernel_size": 15, "conv_expansion_factor": 2,
}  # fmt: skip
"""transformers 5.20, GraniteSpeechEncoderConfig."""
_FORMER = {
    "hidden_size": 768, "num_hidden_layers": 12, "num_attention_heads": 12,
    "intermediate_size": 3072, "cross_attention_frequency": 2, "encoder_hidden_size": 1408,
}  # fmt: skip
"""transformers 5.20, Blip2QFormerConfig."""


def qwen2_5_omni(vision: Config, config: Config, hidden: int) -> tuple[Block, ...]:
    """Return the towers of Qwen2.5-Omni's thinker: that of Qwen2.5-VL, and Whisper's encoder with
    two learned tokens and one linear."""
    audio = config.section("audio_config").with_defaults(WHISPER_DEFAULTS | {"output_dim": 3584})
    width, out = audio.integer("d_model", low=1), audio.integer("output_dim", low=1)
    name = "audio_tower"
    own = (
        *patches(f"{name}.conv1", width, audio.integer("num_mel_bins", low=1), 3),
        *patches(f"{name}.conv2", width, width, 3),
        _sinusoids(audio, width),
        whole(f"{name}.audio_bos_eos_token.weight", 2, out),
        *parts.norm(f"{name}.ln_post", width, bias=True),
        *parts.linear(f"{name}.proj", out, width, bias=True),
    )
    return (
        *qwen_vision.qwen2_5(vision, config, hidden),
        parts.single(Part.AUDIO, own),
        *_encoder(audio, key_bias=False),
    )


def qwen3_omni(vision: Config, config: Config, hidden: int) -> tuple[Block, ...]:
    """Return the towers of Qwen3-Omni's thinker: the tower of Qwen3-VL and an encoder of sound."""
    return (*qwen_vision.qwen3(vision, config, hidden), *qwen3_asr(vision, config, hidden))


def qwen3_asr(_vision: Config, config: Config, _hidden: int) -> tuple[Block, ...]:
    """Qwen3-ASR: three convolutions in two dimensions, Whisper's layers, two linears."""
    audio = config.section("audio_config").with_defaults(_QWEN3_AUDIO)
    width, out = audio.integer("d_model", low=1), audio.integer("output_dim", low=1)
    channels, bins = audio.integer("downsample_hidden_size", low=1), audio.integer("num_mel_bins")
    for _ in range(3):
        bins = (bins + 1) // 2
    name = "audio_tower"
    own = (
        *patches(f"{name}.conv2d1", channels, 1, 3, 3),
        *patches(f"{name}.conv2d2", channels, channels, 3, 3),
        *patches(f"{name}.conv2d3", channels, channels, 3, 3),
        *parts.linear(f"{name}.conv_out", width, channels * bins),
        _sinusoids(audio, width),
        *parts.norm(f"{name}.ln_post", width, bias=True),
        *parts.linear(f"{name}.proj1", width, width, bias=True),
        *parts.linear(f"{name}.proj2", out, width, bias=True),
    )
    return parts.single(Part.AUDIO, own), *_encoder(audio, key_bias=True)


def _sinusoids(audio: Config, width: int) -> Tensor:
    """Return the positions that are computed: a buffer in F32."""
    positions = audio.integer("max_source_positions", low=1)
    name = "audio_tower.positional_embedding.positional_embedding"
    return Tensor(name, (positions, width), Kind.OTHER, dtype="F32", buffer=True)


def _encoder(audio: Config, *, key_bias: bool) -> tuple[Block, ...]:
    layer = whisper_layer(
        audio.integer("d_model", low=1),
        audio.integer("encoder_attention_heads", low=1),
        audio.integer("encoder_ffn_dim"),
        key_bias=key_bias,
    )
    layers = [layer] * audio.layers("encoder_layers")
    return parts.blocks(Part.AUDIO, "audio_tower.layers.{}.", layers)


def ultravox(_vision: Config, config: Config, hidden: int) -> tuple[Block, ...]:
    """Ultravox: Whisper's encoder, and two linears over `stack_factor` positions with a norm before
    and one after either."""
    encoder = whisper(config.section("audio_config"), hidden)
    audio = config.section("audio_config").with_defaults(WHISPER_DEFAULTS)
    width = audio.integer("d_model", low=1)
    stacked = width * config.integer("stack_factor", default=8, low=1)
    inner = config.integer("hidden_size", default=4096, low=2)
    middle = inner // 2 if config.text("projector_act", default="swiglu") == "swiglu" else inner
    after = config.flag("projector_ln_mid")
    name = "multi_modal_projector"
    projector = (
        *parts.norm(f"{name}.ln_pre", stacked),
        *parts.linear(f"{name}.linear_1", inner, stacked),
        *parts.norm(f"{name}.{'ln_mid' if after else 'ln_post'}", middle if after else hidden),
        *parts.linear(f"{name}.linear_2", hidden, middle),
    )
    return (*encoder[:-1], parts.single(Part.PROJECTOR, projector))


def glm_asr(_vision: Config, config: Config, hidden: int) -> tuple[Block, ...]:
    """GLM-ASR: Whisper's convolutions and layers with rotary positions, two linears over as many
    frames as an MLP is wide."""
    audio = config.section("audio_config").with_defaults(_GLM_AUDIO)
    width, wide = audio.integer("hidden_size", low=1), audio.integer("intermediate_size", low=1)
    name, joint = "audio_tower", "multi_modal_projector"
    own = (
        *patches(f"{name}.conv1", width, audio.integer("num_mel_bins", low=1), 3),
        *patches(f"{name}.conv2", width, width, 3),
        *parts.norm(f"{name}.norm", width, bias=True),
    )
    heads = audio.integer("num_attention_heads", low=1)
    layers = [whisper_layer(width, heads, wide, key_bias=True)] * audio.layers()
    projector = (
        *parts.linear(f"{joint}.linear_1", 2 * hidden, wide, Split.COLUMN, bias=True),
        *parts.linear(f"{joint}.linear_2", hidden, 2 * hidden, Split.ROW, bias=True),
    )
    return (
        parts.single(Part.AUDIO, own),
        *parts.blocks(Part.AUDIO, "audio_tower.layers.{}.", layers),
        parts.single(Part.PROJECTOR, projector),
    )


def granite_speech(_vision: Config, config: Config, hidden: int) -> tuple[Block, ...]:
    """Granite Speech: a conformer, and queries of a Q-Former that read windows of it."""
    audio = config.section("encoder_config").with_defaults(_CONFORMER)
    width, out = audio.integer("hidden_dim", low=1), audio.integer("output_dim", low=1)
    own = (
        *parts.linear("encoder.input_linear", width, audio.integer("input_dim", low=1), bias=True),
        *parts.linear("encoder.out", out, width, Split.COLUMN, bias=True),
        *parts.linear("encoder.out_mid", width, out, Split.ROW, bias=True),
    )
    layers = [_conformer_layer(audio, width)] * audio.layers("num_layers")
    former = config.section("projector_config").with_defaults(_FORMER)
    inner = former.integer("hidden_size", low=1)
    queries = config.integer("window_size", default=15, low=1) // config.integer(
        "downsample_rate", default=5, low=1
    )
    joint = (
        whole("projector.query", 1, queries, inner),
        *parts.norm("projector.qformer.layernorm", inner, bias=True),
        *parts.linear("projector.linear", hidden, inner, bias=True),
    )
    return (
        parts.single(Part.AUDIO, own),
        *parts.blocks(Part.AUDIO, "encoder.layers.{}.", layers),
        parts.single(Part.PROJECTOR, joint),
        *parts.blocks(Part.PROJECTOR, "projector.qformer.encoder.layer.{}.", former_layers(former)),
    )


def _conformer_layer(audio: Config, width: int) -> parts.Layer:
    """Return a layer of Granite Speech's conformer: an MLP, attention with relative positions, a
    convolution, an MLP."""
    heads, size = audio.integer("num_heads", low=1), audio.integer("dim_head", low=1)
    inner = width * audio.integer("conv_expansion_factor", low=1)
    wide = width * audio.integer("feedforward_mult", low=1)
    kernel = audio.integer("conv_kernel_size", low=1)
    distances = 2 * audio.integer("max_pos_emb", low=1) + 1
    tensors = (
        *_feed_forward("ff1", width, wide),
        *parts.norm("attn.pre_norm", width, bias=True),
        *parts.linear("attn.to_q", heads * size, width),
        *parts.linear("attn.to_kv", 2 * heads * size, width),
        *parts.linear("attn.to_out", width, heads * size, bias=True),
        whole("attn.rel_pos_emb.weight", distances, size),
        *parts.norm("conv.norm", width, bias=True),
        *patches("conv.up_conv", 2 * inner, width, 1),
        Tensor("conv.depth_conv.conv.weight", (inner, 1, kernel), Kind.CONV),
        *_batch_norm("conv.batch_norm", inner),
        *patches("conv.down_conv", width, inner, 1),
        *_feed_forward("ff2", width, wide),
        *parts.norm("post_norm", width, bias=True),
    )
    mixer = plain_attention(heads, size, causal=False)
    return parts.Layer(tensors, (mixer,), Mlp(intermediate_size=wide, gated=False))


def _feed_forward(name: str, width: int, wide: int) -> tuple[Tensor, ...]:
    return (
        *parts.norm(f"{name}.pre_norm", width, bias=True),
        *parts.plain_mlp(width, wide, f"{name}.up_proj", f"{name}.down_proj"),
    )


def _batch_norm(name: str, width: int) -> tuple[Tensor, ...]:
    """Return a norm over a batch, with its running statistics and their count (int64)."""
    return (
        *parts.norm(name, width, bias=True),
        Tensor(f"{name}.running_mean", (width,), Kind.OTHER, buffer=True),
        Tensor(f"{name}.running_var", (width,), Kind.OTHER, buffer=True),
    )
