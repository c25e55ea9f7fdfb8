"""CLIP and SigLIP: a text tower and a vision tower whose outputs are compared.

Both are encoders with norms before each half; CLIP projects each output, SigLIP pools the image
by attention to a learned probe. Source: transformers 5.23, `models/{clip,siglip}/modeling_*.py`
and the defaults of their configuration classes."""

from fitgauge.engine.model.config import Config
from fitgauge.engine.model.families import parts
from fitgauge.engine.model.families.dense.dense import Reader, architecture_name
from fitgauge.engine.model.families.encoder.dialects import Names, Sizes
from fitgauge.engine.model.families.encoder.encoders import encoder_layer
from fitgauge.engine.model.spec import Block, Kind, ModelSpec, Part, Split, Tensor

_NAMES = Names(
    attention=("self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj", "self_attn.out_proj"),
    attention_norm="layer_norm1",
    up="mlp.fc1",
    down="mlp.fc2",
    output_norm="layer_norm2",
)


def read_clip(config: Config) -> ModelSpec:
    """CLIP: causal text, a class token among the patches, one projection of each output without
    bias."""
    projection = config.integer("projection_dim", default=512)
    text, vision = towers(
        config, Sizes(vocabulary=49408, hidden=512, heads=8, intermediate=2048, positions=77)
    )
    patches = patch_tensors(config, vision, patch=32, bias=False)
    tokens = patch_count(config, patch=32) + 1
    inside = (
        Tensor("embeddings.class_embedding", (vision.hidden,), Kind.EMBEDDING),
        *patches,
        Tensor("embeddings.position_embedding.weight", (tokens, vision.hidden), Kind.EMBEDDING),
        *parts.norm("pre_layrnorm", vision.hidden, bias=True),
        *parts.norm("post_layernorm", vision.hidden, bias=True),
    )
    joined = (
        *parts.linear("visual_projection", projection, vision.hidden),
        *parts.linear("text_projection", projection, text.hidden),
        Tensor("logit_scale", (), Kind.OTHER),
    )
    return dual_encoder(config, text, vision, text_end=(), vision_outside=inside, joined=joined)


def read_siglip(config: Config) -> ModelSpec:
    """SigLIP: text in both directions with a head, patches alone, and a pooling head for the
    image."""
    text, vision = towers(config, Sizes(vocabulary=32000, positions=64))
    head = config.section("text_config").integer("projection_size", default=text.hidden)
    inside = (
        *patch_tensors(config, vision, patch=16, bias=True),
        Tensor(
            "embeddings.position_embedding.weight",
            (patch_count(config, patch=16), vision.hidden),
            Kind.EMBEDDING,
        ),
        *parts.norm("post_layernorm", vision.hidden, bias=True),
        *(
            pooling_head(vision)
            if config.section("vision_config").flag("vision_use_head", default=True)
            else ()
        ),
    )
    joined = (Tensor("logit_scale", (1,), Kind.OTHER), Tensor("logit_bias", (1,), Kind.OTHER))
    text_end = parts.linear("head", head, text.hidden, bias=True)
    return dual_encoder(
        config, text, vision, text_end=text_end, vision_outside=inside, joined=joined
    )


def towers(config: Config, defaults: Sizes) -> tuple[Sizes, Sizes]:
    """Return the sizes of the text tower and of the vision tower."""
    return tower_sizes(config.section("text_config"), defaults), tower_sizes(
        config.section("vision_config"), Sizes()
    )


def tower_sizes(config: Config, defaults: Sizes) -> Sizes:
    """Return the sizes of one tower."""
    hidden = config.integer("hidden_size", default=defaults.hidden, low=1)
    return Sizes(
        vocabulary=config.integer("vocab_size", default=defaults.vocabulary, low=1),
        hidden=hidden,
        embedding=hidden,
        layers=config.integer("num_hidden_layers", default=defaults.layers, high=4096),
        heads=config.integer("num_attention_heads", default=defaults.heads, low=1),
        intermediate=config.integer("intermediate_size", default=defaults.intermediate, low=1),
        positions=config.integer("max_position_embeddings", default=defaults.positions),
    )


def dual_encoder(
    config: Config,
    text: Sizes,
    vision: Sizes,
    *,
    text_end: tuple[Tensor, ...],
    vision_outside: tuple[Tensor, ...],
    joined: tuple[Tensor, ...],
) -> ModelSpec:
    """Return the two towers and what joins them."""
    tables = (
        parts.word_table("token_embedding", text.vocabulary, text.hidden),
        Tensor("position_embedding.weight", (text.positions, text.hidden), Kind.EMBEDDING),
    )
    return ModelSpec(
        model_type=config.text("model_type"),
        architecture=architecture_name(config),
        task="encode",
        dtype=config.dtype("F32"),
        hidden_size=text.hidden,
        vocabulary_size=text.vocabulary,
        max_context_length=text.positions,
        tied_embeddings=True,
        blocks=(
            parts.single(Part.EMBEDDING, tables, "text_model.embeddings."),
            *tower_blocks(Part.LANGUAGE, "text_model.", text),
            parts.single(
                Part.LANGUAGE,
                (*parts.norm("final_layer_norm", text.hidden, bias=True), *text_end),
                "text_model.",
            ),
            parts.single(Part.VISION, vision_outside, "vision_model."),
            *tower_blocks(Part.VISION, "vision_model.", vision),
            parts.single(Part.PROJECTOR, joined),
        ),
    )


def tower_blocks(part: Part, prefix: str, sizes: Sizes) -> tuple[Block, ...]:
    """Return the layers of one tower: attention and MLP with biases, a norm before each."""
    layers = [encoder_layer(sizes, _NAMES)]
    return parts.blocks(part, prefix + "encoder.layers.{}.", layers * sizes.layers)


def patch_tensors(config: Config, vision: Sizes, *, patch: int, bias: bool) -> tuple[Tensor, ...]:
    """Return the convolution that turns square patches into tokens."""
    section = config.section("vision_config")
    side = section.integer("patch_size", default=patch, low=1)
    weight = Tensor(
        "embeddings.patch_embedding.weight",
        (vision.hidden, section.integer("num_channels", default=3), side, side),
        Kind.CONV,
    )
    if bias:
        return (weight, Tensor("embeddings.patch_embedding.bias", (vision.hidden,), Kind.BIAS))
    return (weight,)


def patch_count(config: Config, *, patch: int) -> int:
    """Return the patches of a square image of `image_size` pixels a side."""
    section = config.section("vision_config")
    return int(
        (
            section.integer("image_size", default=224)
            // section.integer("patch_size", default=patch, low=1)
        )
        ** 2
    )


def pooling_head(vision: Sizes) -> tuple[Tensor, ...]:
    """Return a learned probe that attends to all patches, a norm and an MLP."""
    hidden = vision.hidden
    return (
        Tensor("head.probe", (1, 1, hidden), Kind.OTHER),
        *parts.linear(
            "head.attention.in_proj",
            3 * hidden,
            hidden,
            Split.COLUMN,
            units=vision.heads,
            bias=True,
        ),
        *parts.linear(
            "head.attention.out_proj", hidden, hidden, Split.ROW, units=vision.heads, bias=True
        ),
        *parts.norm("head.layernorm", hidden, bias=True),
        *parts.plain_mlp(hidden, vision.intermediate, "head.mlp.fc1", "head.mlp.fc2"),
    )


READERS: dict[str, Reader] = {"clip": read_clip, "siglip": read_siglip}
