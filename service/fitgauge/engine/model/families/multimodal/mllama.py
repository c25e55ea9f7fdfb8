"""Llama 3.2 Vision: cross attention layers to the image between the layers of a Llama, and a
two-stage vision tower.

Source: transformers 5.23, models/mllama. vLLM 0.33 does not serve it.
"""

from msgspec.structs import replace

from fitgauge.engine.model.config import Config
from fitgauge.engine.model.families import parts, rotary_tables
from fitgauge.engine.model.families.dense.dense import Reader
from fitgauge.engine.model.families.multimodal.vit import Vit, patch_count, patches, vit, whole
from fitgauge.engine.model.families.stack import decoder, heads
from fitgauge.engine.model.mixers import CrossAttention
from fitgauge.engine.model.spec import Block, Mlp, ModelSpec, Part, Split

_EXTRA_ROWS = 8
"""Rows of the embedding beyond the vocabulary: the image token and what pads it."""


def read_text(config: Config) -> ModelSpec:
    """Return the language model; `cross_attention_layers` read the image, of `source_tokens`
    tokens, instead of the text."""
    config = config.with_defaults(TEXT_DEFAULTS)
    hidden = config.integer("hidden_size", low=1)
    width = config.integer("intermediate_size")
    vocabulary = config.integer("vocab_size", low=1)
    attention = heads(config, head_dim=hidden // config.integer("num_attention_heads", low=1))
    cross = CrossAttention(
        query_heads=attention.query_heads,
        kv_heads=attention.kv_heads,
        head_dim=attention.head_dim,
        source_tokens=config.integer("source_tokens", default=0),
    )
    common = (*parts.norms(parts.NORMS, hidden), *parts.gated_mlp(hidden, width))
    looks = (
        *parts.attention(hidden, attention, name="cross_attn"),
        *parts.norm("cross_attn.q_norm", attention.head_dim),
        *parts.norm("cross_attn.k_norm", attention.head_dim),
        whole("cross_attn_attn_gate", 1),
        whole("cross_attn_mlp_gate", 1),
    )
    mlp, crossing = Mlp(intermediate_size=width), config.items("cross_attention_layers")
    reading = parts.Layer((*common, *parts.attention(hidden, attention)), (attention,), mlp)
    looking = parts.Layer((*common, *looks), (cross,), mlp)
    stack = [looking if index in crossing else reading for index in range(config.layers())]
    untied = config.with_values(tie_word_embeddings=False)
    spec = decoder(untied, stack, rotary_tables=(rotary_tables.table(config, attention.head_dim),))
    table = parts.word_table("model.embed_tokens", vocabulary + _EXTRA_ROWS, hidden)
    return replace(spec, blocks=(parts.single(Part.EMBEDDING, (table,)), *spec.blocks[1:]))


def image_tokens(vision: Config) -> int:
    """Return the tokens of one image: tiles x (patches + class token)."""
    vision = vision.with_defaults(VISION_DEFAULTS)
    return vision.integer("max_num_tiles", low=1) * (patch_count(vision) + 1)


def tower(vision: Config, _config: Config, hidden: int) -> tuple[Block, ...]:
    """Return patches, positions for every arrangement of tiles, local layers, gated global
    layers; one linear to the language model."""
    vision = vision.with_defaults(VISION_DEFAULTS)
    width = vision.integer("hidden_size", low=1)
    count = patch_count(vision) + 1
    tiles = vision.integer("max_num_tiles", low=1)
    arrangements = (len(vision.items("supported_aspect_ratios")) or 8) + 1
    name = "vision_model"
    tensors = (
        whole(f"{name}.class_embedding", width),
        *[
            replace(tensor, split=Split.COLUMN)  # SGLang's ColumnParallelConv2dPatch
            for tensor in patches(
                f"{name}.patch_embedding",
                width,
                vision.integer("num_channels"),
                *[vision.integer("patch_size", low=1)] * 2,
                bias=False,
            )
        ],
        whole(f"{name}.gated_positional_embedding.gate", 1),
        whole(f"{name}.gated_positional_embedding.embedding", count, width),
        whole(
            f"{name}.gated_positional_embedding.tile_embedding.weight",
            arrangements,
            tiles * count * width,
        ),
        *[
            tensor
            for place in ("pre", "post")
            for tensor in (
                whole(f"{name}.{place}_tile_positional_embedding.gate", 1),
                whole(
                    f"{name}.{place}_tile_positional_embedding.embedding.weight",
                    arrangements,
                    tiles * width,
                ),
                *parts.norm(f"{name}.layernorm_{place}", width, bias=True),
            )
        ],
    )
    return (
        parts.single(Part.VISION, tensors),
        *stage(vision, f"{name}.transformer.layers.{{}}.", vision.layers()),
        *stage(
            vision,
            f"{name}.global_transformer.layers.{{}}.",
            vision.layers("num_global_layers"),
            gated=True,
        ),
        parts.single(
            Part.PROJECTOR,
            parts.linear(
                "multi_modal_projector",
                hidden,
                vision.integer("vision_output_dim"),
                Split.COLUMN,
                bias=True,
            ),
        ),
    )


def stage(vision: Config, prefix: str, layers: int, *, gated: bool = False) -> tuple[Block, ...]:
    """Return one stage of the tower; the layers of a gated one end in two learned scalars."""
    style = Vit(
        prefix,
        out="self_attn.o_proj",
        norms=("input_layernorm", "post_attention_layernorm"),
        qkv_bias=False,
        out_bias=False,
        extras=(whole("gate_attn", 1), whole("gate_ffn", 1)) if gated else (),
    )
    return vit(
        style,
        hidden=vision.integer("hidden_size", low=1),
        heads=vision.integer("attention_heads", "num_attention_heads", low=1),
        width=vision.integer("intermediate_size"),
        layers=layers,
    )


TEXT_DEFAULTS = {
    "vocab_size": 128256, "hidden_size": 4096, "num_hidden_layers": 40, "num_attention_heads": 32,
    "num_key_value_heads": 8, "intermediate_size": 14336, "max_position_embeddings": 131072,
    "cross_attention_layers": [3, 8, 13, 18, 23, 28, 33, 38],
}  # fmt: skip
"""transformers 5.23, MllamaTextConfig."""

VISION_DEFAULTS = {
    "hidden_size": 1280, "num_hidden_layers": 32, "num_global_layers": 8, "attention_heads": 16,
    "num_channels": 3, "intermediate_size": 5120, "vision_output_dim": 7680, "image_size": 448,
    "patch_size": 14, "max_num_tiles": 4,
}  # fmt: skip
"""transformers 5.23, MllamaVisionConfig."""

READERS: dict[str, Reader] = {"mllama_text_model": read_text}
