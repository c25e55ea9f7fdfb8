"""Towers whose features learned queries read before the language model does: BLIP-2's Q-Former
and Aria's cross attention.

Sources: transformers 5.20, models/{blip_2,aria}; division: vLLM 0.33, models of the same names,
where queries and their attention are whole on every rank."""

from fitgauge.engine.model.config import Config
from fitgauge.engine.model.families import parts
from fitgauge.engine.model.families.multimodal.vit import (
    Vit,
    patch_count,
    patches,
    sides,
    usual,
    whole,
)
from fitgauge.engine.model.spec import Block, Part, Split, Tensor


def blip2(vision: Config, config: Config, hidden: int) -> tuple[Block, ...]:
    """BLIP-2: a vision transformer with a class token, a Q-Former and one linear."""
    vision = vision.with_defaults(BLIP2_DEFAULTS)
    width, name = vision.integer("hidden_size", low=1), "vision_model"
    tower = (
        whole(f"{name}.embeddings.class_embedding", 1, 1, width),
        *patches(f"{name}.embeddings.patch_embedding", width, 3, *sides(vision, "patch_size")),
        whole(f"{name}.embeddings.position_embedding", 1, patch_count(vision) + 1, width),
        *parts.norm(f"{name}.post_layernorm", width, bias=True),
    )
    style = Vit(
        f"{name}.encoder.layers.{{}}.",
        qkv=("self_attn.qkv",),
        out="self_attn.projection",
        qkv_bias=vision.flag("qkv_bias", default=True),
    )
    former = config.section("qformer_config").with_defaults(QFORMER_DEFAULTS)
    inner = former.integer("hidden_size", low=1)
    joint = (
        whole("query_tokens", 1, config.integer("num_query_tokens", default=32, low=1), inner),
        *parts.norm("qformer.layernorm", inner, bias=True),
        *parts.linear("language_projection", hidden, inner, bias=True),
    )
    return (
        parts.single(Part.VISION, tower),
        *usual(vision, style),
        parts.single(Part.PROJECTOR, joint),
        *parts.blocks(Part.PROJECTOR, "qformer.encoder.layer.{}.", former_layers(former)),
    )


def former_layers(former: Config) -> list[parts.Layer]:
    """Return the layers of a Q-Former, of which every `cross_attention_frequency`-th reads the
    tower's features."""
    every = former.integer("cross_attention_frequency", low=1)
    return [
        parts.Layer(_former_layer(former, crosses=layer % every == 0))
        for layer in range(former.layers())
    ]


def _former_layer(former: Config, *, crosses: bool) -> tuple[Tensor, ...]:
    """Return one layer of a Q-Former: self attention, where it `crosses` attention to the
    tower's features, and an MLP of the queries."""
    hidden, width = former.integer("hidden_size", low=1), former.integer("intermediate_size")
    seen = former.integer("encoder_hidden_size", low=1)
    return (
        *_attention("attention", hidden, hidden),
        *(_attention("crossattention", hidden, seen) if crosses else ()),
        *parts.linear("intermediate_query.dense", width, hidden, bias=True),
        *parts.linear("output_query.dense", hidden, width, bias=True),
        *parts.norm("output_query.LayerNorm", hidden, bias=True),
    )


def _attention(name: str, hidden: int, seen: int) -> tuple[Tensor, ...]:
    return (
        *parts.linear(f"{name}.attention.query", hidden, hidden, bias=True),
        *parts.linear(f"{name}.attention.key", hidden, seen, bias=True),
        *parts.linear(f"{name}.attention.value", hidden, seen, bias=True),
        *parts.linear(f"{name}.output.dense", hidden, hidden, bias=True),
        *parts.norm(f"{name}.output.LayerNorm", hidden, bias=True),
    )


def aria(vision: Config, config: Config, hidden: int) -> tuple[Block, ...]:
    """Aria: the tower of Idefics 3, queries that attend to its features, an MLP."""
    vision = vision.with_defaults(ARIA_DEFAULTS)
    width, tower = vision.integer("hidden_size", low=1), "model.vision_tower"
    embeddings = (
        *patches(f"{tower}.embeddings.patch_embedding", width, 3, *sides(vision, "patch_size")),
        whole(f"{tower}.embeddings.position_embedding.weight", patch_count(vision), width),
        *parts.norm(f"{tower}.post_layernorm", width, bias=True),
    )
    queries = max(
        (
            count
            for count in config.section("projector_patch_to_query_dict").values.values()
            if isinstance(count, int)
        ),
        default=256,
    )
    name = "model.multi_modal_projector"
    attention = f"{name}.cross_attn"
    projector = (
        whole(f"{name}.query", queries, width),
        *parts.linears((f"{attention}.{letter}_proj" for letter in "qkv"), width, width),
        whole(f"{attention}.multihead_attn.in_proj_weight", 3 * width, width),
        whole(f"{attention}.multihead_attn.in_proj_bias", 3 * width),
        *parts.linear(f"{attention}.multihead_attn.out_proj", width, width, bias=True),
        *parts.linear(f"{attention}.linear", width, width, bias=True),
        *parts.norm(f"{attention}.layer_norm", width, bias=True),
        *parts.norm(f"{attention}.layer_norm_kv", width, bias=True),
        *parts.norm(f"{name}.layer_norm", width, bias=True),
        *parts.linear(f"{name}.feed_forward.linear_in", hidden, width, Split.COLUMN),
        *parts.linear(f"{name}.feed_forward.linear_out", hidden, hidden, Split.ROW),
    )
    return (
        parts.single(Part.VISION, embeddings),
        *usual(vision, Vit(f"{tower}.encoder.layers.{{}}.")),
        parts.single(Part.PROJECTOR, projector),
    )


BLIP2_DEFAULTS = {
    "hidden_size": 1408, "intermediate_size": 6144, "num_hidden_layers": 39,
    "num_attention_heads": 16, "image_size": 224, "patch_size": 14,
}  # fmt: skip
"""transformers 5.20, Blip2VisionConfig."""

QFORMER_DEFAULTS = {
    "hidden_size": 768, "num_hidden_layers": 12, "intermediate_size": 3072,
    "cross_attention_frequency": 2, "encoder_hidden_size": 1408,
}  # fmt: skip
"""transformers 5.20, Blip2QFormerConfig."""

ARIA_DEFAULTS = {
    "hidden_size": 1152, "intermediate_size": 3072, "num_hidden_layers": 12,
    "num_attention_heads": 16, "image_size": 224, "patch_size": 32,
}  # fmt: skip
"""transformers 5.20, Idefics3VisionConfig."""
