"""Gemma 4: sliding and full attention of different widths, layers that read another's cache,
per-layer inputs, mixtures; its towers.

Source: transformers 5.23, models/gemma4; division: vLLM 0.33, models/gemma4.py and gemma4_mm.py,
which load the keys of `attention_k_eq_v` layers into a value projection too."""

import re
from dataclasses import dataclass

import msgspec

from fitgauge.engine.model.config import Config
from fitgauge.engine.model.families import parts
from fitgauge.engine.model.families.dense.dense import Reader
from fitgauge.engine.model.families.multimodal.audio import conformer
from fitgauge.engine.model.families.multimodal.vit import Vit, vit, whole
from fitgauge.engine.model.families.stack import context_length, decoder, kinds, vector
from fitgauge.engine.model.mixers import Attention, plain_attention
from fitgauge.engine.model.spec import Block, Kind, Mlp, ModelSpec, Part, RotaryTable, Split, Tensor
from fitgauge.errors import MalformedModelError

_NUMBER = re.compile(r"[0-9]{1,4}")

_MIXTURE_NORMS = (
    "post_feedforward_layernorm_1",
    "post_feedforward_layernorm_2",
    "pre_feedforward_layernorm_2",
)


@dataclass(frozen=True)
class Place:
    """What sets one layer apart from the others."""

    slides: bool
    """Whether its attention slides."""
    shares: bool
    """Whether it reads the cache of an earlier layer."""
    kv_heads: int
    """Its heads of keys and values."""
    head_dim: int
    """Features of a head."""


def read_gemma4(config: Config) -> ModelSpec:
    """Return the language model of Gemma 4."""
    config = config.with_defaults(DEFAULTS)
    hidden = config.integer("hidden_size", low=1)
    per_layer = config.integer("hidden_size_per_layer_input", default=0)
    where = places(config)
    spec = decoder(
        config,
        [layer(config, hidden, per_layer, place) for place in where],
        rotary_tables=rotary_tables(config, where),
    )
    if not per_layer:
        return spec
    width = len(where) * per_layer
    table = parts.word_table(
        "model.embed_tokens_per_layer", config.integer("vocab_size_per_layer_input", low=1), width
    )
    joint = (
        *parts.linear("model.per_layer_model_projection", width, hidden, Split.COLUMN),
        *parts.norm("model.per_layer_projection_norm", per_layer),
    )
    added = (parts.single(Part.EMBEDDING, (table,)), parts.single(Part.LANGUAGE, joint))
    return msgspec.structs.replace(spec, blocks=(*spec.blocks, *added))


def places(config: Config) -> list[Place]:
    """Return every layer's place: full attention in every sixth layer and the last, the last
    `num_kv_shared_layers` share caches.

    Full attention has heads of `global_head_dim` and, where its keys are its values,
    `num_global_key_value_heads`; a newer config says both in `per_layer_config`."""
    count = config.layers()
    types = kinds(config, "layer_types", layers=count) or [
        "sliding_attention" if (n + 1) % 6 else "full_attention" for n in range(count)
    ]
    types = [*types[:-1], "full_attention"] if types else []
    first_shared = count - config.integer("num_kv_shared_layers", default=0)
    kv_heads = config.integer("num_key_value_heads", low=1)
    head_dim = config.integer("head_dim", low=1)
    full = {"head_dim": config.integer("global_head_dim", default=512, low=1)}
    if config.flag("attention_k_eq_v"):
        full["num_key_value_heads"] = config.integer(
            "num_global_key_value_heads", default=kv_heads, low=1
        )
    result = []
    for index, kind in enumerate(types):
        if config.has("per_layer_config"):
            own = own_sizes(config, index)
        else:
            own = Config({} if kind == "sliding_attention" else full)
        heads = own.integer("num_key_value_heads", default=kv_heads, low=1)
        width = own.integer("head_dim", default=head_dim, low=1)
        result.append(Place(kind == "sliding_attention", 0 < first_shared <= index, heads, width))
    return result


def own_sizes(config: Config, index: int) -> Config:
    """Return what `per_layer_config` says of layer `index`. Raises MalformedModelError where a
    key is no layer's number."""
    section = config.section("per_layer_config")
    for key, value in section.values.items():
        if not _numbers_layer(config, key) or not isinstance(value, dict):
            raise MalformedModelError(
                f"{section.where}: per_layer_config names an unknown layer {str(key)[:40]!r}.",
                field="per_layer_config",
            )
        if int(key) == index:
            return Config(value, section.where)
    return Config({}, section.where)


def _numbers_layer(config: Config, key: object) -> bool:
    """Return whether a key of `per_layer_config` is the number of a layer, padded to four digits
    at most."""
    return bool(_NUMBER.fullmatch(str(key))) and int(str(key)) < config.layers()


def layer(config: Config, hidden: int, per_layer: int, place: Place) -> parts.Layer:
    """Four norms, attention, an MLP (twice as wide where `use_double_wide_mlp` and the cache is
    shared), and next to it a mixture where `enable_moe_block`; the gate of the per-layer input."""
    width = config.integer("intermediate_size") * (
        2 if place.shares and config.flag("use_double_wide_mlp") else 1
    )
    mixer = plain_attention(
        config.integer("num_attention_heads", low=1),
        place.head_dim,
        kv_heads=place.kv_heads,
        window=config.maybe_integer("sliding_window") if place.slides else None,
        shares_cache=place.shares,
    )
    experts = config.integer("num_experts", default=0) if config.flag("enable_moe_block") else 0
    expert_width = config.integer("moe_intermediate_size", default=0)
    visited = config.integer("top_k_experts", default=0)
    mlp = Mlp(intermediate_size=width)
    if experts:
        mlp = Mlp(
            intermediate_size=expert_width,
            experts=experts,
            experts_per_token=visited,
            shared_intermediate_size=width,
        )
    return parts.Layer(
        tensors=(
            *parts.norms(parts.NORMS_AROUND, hidden),
            *attention_tensors(
                config,
                hidden,
                mixer,
                keys_are_values=config.flag("attention_k_eq_v") and not place.slides,
            ),
            *parts.gated_mlp(hidden, width),
            Tensor("layer_scalar", (1,), Kind.OTHER, buffer=True),
            *(per_layer_input(hidden, per_layer) if per_layer else ()),
            *(mixture(hidden, expert_width, experts) if experts else ()),
        ),
        mixers=(mixer,),
        mlp=mlp,
    )


def attention_tensors(
    config: Config, hidden: int, mixer: Attention, *, keys_are_values: bool
) -> tuple[Tensor, ...]:
    """Return projections and head norms; a layer that shares a cache has queries alone."""
    bias = config.flag("attention_bias")
    tensors = parts.attention(hidden, mixer, qkv_bias=bias, out_bias=bias)
    norms = (*parts.norms(parts.QK_NORMS, mixer.head_dim),)
    if mixer.shares_cache:
        unwanted = ("self_attn.k_", "self_attn.v_")
        return tuple(
            tensor for tensor in (*tensors, *norms) if not tensor.name.startswith(unwanted)
        )
    if keys_are_values:
        copy = msgspec.structs.replace
        tensors = tuple(
            copy(tensor, buffer=True) if tensor.name.startswith("self_attn.v_") else tensor
            for tensor in tensors
        )
    return (*tensors, *norms)


def per_layer_input(hidden: int, width: int) -> tuple[Tensor, ...]:
    """Return the gate and projection of a layer's own input embedding; whole on every rank."""
    return (
        *parts.linear("per_layer_input_gate", width, hidden),
        *parts.linear("per_layer_projection", hidden, width),
        *parts.norm("post_per_layer_input_norm", hidden),
    )


def mixture(hidden: int, width: int, experts: int) -> tuple[Tensor, ...]:
    """Return the router with its two scales, the experts, and the norms around them."""
    return (
        parts.router(hidden, experts, name="router.proj"),
        vector("router.scale", hidden, split=Split.NONE),
        vector("router.per_expert_scale", experts, split=Split.NONE),
        *parts.experts(hidden, width, experts, name="experts.*"),
        *parts.norms(_MIXTURE_NORMS, hidden),
    )


def rotary_tables(config: Config, where: list[Place]) -> tuple[RotaryTable, ...]:
    """Return one table for each width of head: a proportional rope pads its table to the whole
    head."""
    positions = context_length(config)
    widths = {place.slides: place.head_dim for place in where}
    return tuple(
        RotaryTable(positions=positions, dim=dim, windowed=slides) for slides, dim in widths.items()
    )


def towers(vision: Config, config: Config, hidden: int) -> tuple[Block, ...]:
    """Return the vision and audio towers of Gemma 4, each where the config has its section."""
    seen = vision_tower(vision, hidden) if config.has("vision_config") else ()
    heard = conformer(config.section("audio_config"), hidden) if config.has("audio_config") else ()
    return (*seen, *heard)


def diffusion(vision: Config, config: Config, hidden: int) -> tuple[Block, ...]:
    """Return the towers of DiffusionGemma, and the gated MLP that conditions a canvas on its last
    draft: PyTorch's own linears, in 16 bit and whole on every rank. Source: vLLM 0.33,
    models/diffusion_gemma.py."""
    text = config.section("text_config").with_defaults(DEFAULTS)
    inner = config.integer(
        "self_conditioning_size", default=text.integer("intermediate_size"), low=1
    )
    name = "model.self_conditioning"
    conditioning = (
        *parts.norm(f"{name}.pre_norm", hidden),
        whole(f"{name}.gate_proj.weight", inner, hidden),
        whole(f"{name}.up_proj.weight", inner, hidden),
        whole(f"{name}.down_proj.weight", hidden, inner),
    )
    return (*towers(vision, config, hidden), parts.single(Part.LANGUAGE, conditioning))


def vision_tower(vision: Config, hidden: int) -> tuple[Block, ...]:
    """Gemma 4's tower: patches by a linear, a table of positions for each axis, layers with four
    norms and head norms; one linear joins it to the language model. vLLM runs transformers' own
    module, whole on every rank."""
    vision = vision.with_defaults(VISION_DEFAULTS)
    width = vision.integer("hidden_size", low=1)
    heads = vision.integer("num_attention_heads", low=1)
    head_dim = vision.integer("head_dim", low=1)
    name = "model.vision_tower"
    style = Vit(
        f"{name}.encoder.layers.{{}}.",
        qkv=("self_attn.q_proj.linear", "self_attn.k_proj.linear", "self_attn.v_proj.linear"),
        out="self_attn.o_proj.linear",
        norms=parts.NORMS_AROUND,
        mlp=("mlp.gate_proj.linear", "mlp.up_proj.linear", "mlp.down_proj.linear"),
        norm_bias=False,
        qkv_bias=False,
        out_bias=False,
        mlp_bias=False,
        sharded=False,
        extras=(*parts.norms(parts.QK_NORMS, head_dim),),
    )
    tower = (
        *parts.linear(
            f"{name}.patch_embedder.input_proj", width, 3 * vision.integer("patch_size", low=1) ** 2
        ),
        whole(
            f"{name}.patch_embedder.position_embedding_table",
            2,
            vision.integer("position_embedding_size", low=1),
            width,
        ),
    )
    inner, layers = vision.integer("intermediate_size"), vision.layers()
    return (
        parts.single(Part.VISION, tower),
        *vit(style, hidden=width, heads=heads, width=inner, layers=layers, inner=heads * head_dim),
        parts.single(
            Part.PROJECTOR, parts.linear("model.embed_vision.embedding_projection", hidden, width)
        ),
    )


DEFAULTS = {
    "vocab_size": 262144, "hidden_size": 2304, "intermediate_size": 9216, "num_hidden_layers": 30,
    "num_attention_heads": 8, "num_key_value_heads": 4, "head_dim": 256,
    "max_position_embeddings": 131072, "tie_word_embeddings": True, "sliding_window": 512,
    "vocab_size_per_layer_input": 262144, "hidden_size_per_layer_input": 256,
    "num_kv_shared_layers": 0,
}  # fmt: skip
"""transformers 5.23, Gemma4TextConfig."""

VISION_DEFAULTS = {
    "hidden_size": 768, "intermediate_size": 3072, "num_hidden_layers": 16,
    "num_attention_heads": 12, "head_dim": 64, "patch_size": 16, "position_embedding_size": 10240,
}  # fmt: skip
"""transformers 5.23, Gemma4VisionConfig."""

READERS: dict[str, Reader] = {"gemma4_text": read_gemma4}
