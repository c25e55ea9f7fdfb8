"""Fallback reader for unsupported architectures: a config by its usual key names, basis
`assumed`.

A known language model inside an unknown one, or a known class under an unknown `model_type`, is
read by its own reader. All else is read as a pre-norm decoder: grouped, latent or linear
attention by the keys that each needs, a gated or plain MLP by its activation, a mixture by its
number of experts, sliding windows by `layer_types`, a vision tower as a plain transformer."""

from collections.abc import Iterator, Mapping

import msgspec

from fitgauge.engine.model.config import Config
from fitgauge.engine.model.families import experts, parts, schedules
from fitgauge.engine.model.families.dense.defaults import SYNONYMS, completed
from fitgauge.engine.model.families.dense.dense import (
    Dialect,
    Reader,
    architecture_name,
    grouped_attention,
    layer_windows,
    read_stack,
)
from fitgauge.engine.model.families.mixture import latent
from fitgauge.engine.model.families.multimodal import vit
from fitgauge.engine.model.families.recurrent import gated_delta
from fitgauge.engine.model.families.stack import is_recurrent
from fitgauge.engine.model.mixers import Mixer
from fitgauge.engine.model.spec import Block, Mlp, ModelSpec, Part, Tensor
from fitgauge.engine.note import Note
from fitgauge.errors import MalformedModelError

LANGUAGE_SECTIONS = (
    "text_config",
    "llm_config",
    "language_config",
    "language_model_config",
    "thinker_config",
)
VISION_SECTIONS = ("vision_config", "visual", "vision_tower_config", "vit_config")
PLAIN_ACTIVATIONS = frozenset({
    "gelu", "gelu_new", "gelu_fast", "gelu_python", "quick_gelu", "relu", "relu2", "relu_squared",
    "squared_relu", "xielu",
})  # fmt: skip
"""Activations of MLPs without a gate. Source: `hidden_act` of transformers' dense decoders;
gated ones say silu or gelu_pytorch_tanh."""

MIXTURE_SYNONYMS: Mapping[str, tuple[str, ...]] = {
    "num_experts": (
        "n_routed_experts",
        "num_local_experts",
        "moe_num_experts",
        "num_routed_experts",
        "n_experts",
    ),
    "num_experts_per_tok": (
        "moe_topk",
        "moe_k",
        "top_k_experts",
        "experts_per_token",
        "num_experts_per_token",
        "moe_top_k",
    ),
    "moe_intermediate_size": (
        "expert_intermediate_size",
        "moe_ffn_hidden_size",
        "expert_ffn_hidden_size",
        "ffn_dim_per_expert",
    ),
    "n_shared_experts": ("num_shared_experts", "num_shared_expert", "moe_num_shared_experts"),
    "shared_expert_intermediate_size": (
        "moe_shared_expert_intermediate_size",
        "shared_intermediate_size",
    ),
}
LOOKALIKES: Mapping[str, str] = {
    "mamba_num_heads": "nemotron_h",
    "block_configs": "nemotron-nas",
    "linear_attn_config": "kimi_linear",
    "compress_ratios": "deepseek_v4",
}
"""Keys that only one family uses: whoever has them is read as that family."""

_SUFFIXES = (
    "ForCausalLM",
    "LMHeadModel",
    "ForConditionalGeneration",
    "ForSequenceClassification",
    "Model",
)


def read_fallback(config: Config, readers: Mapping[str, Reader]) -> ModelSpec:
    """Return the ModelSpec of an architecture without a reader. Raises MalformedModelError where
    a size that decides is missing."""
    name = config.text("model_type") or "of this config"
    named = config if known_class(config, readers) else language_section(config)
    inner = with_tie(named, config)
    family = similar_family(inner, readers)
    try:
        spec = readers[family](inner) if family else usual_decoder(inner)
    except MalformedModelError as error:
        raise MalformedModelError(
            f"The architecture {name!r} is not modelled, nor can its config be read as a usual"
            f" decoder's: {error.detail}",
            hint=error.hint,
        ) from None
    how = f"as {family}" if family else "as a usual decoder by its config's names"
    seeing = () if spec.sees_images else vision_blocks(config, spec.hidden_size)
    notes = [
        Note(
            "architecture-unknown",
            "model",
            f"The architecture {name!r} is not known here: its language model was read {how}.",
        )
    ]
    if seeing:
        notes.append(
            Note(
                "vision-tower-assumed",
                "model",
                "Its vision tower was assumed to be a plain vision transformer with a two-layer"
                " projector.",
            )
        )
    return msgspec.structs.replace(
        spec,
        model_type=config.text("model_type"),
        architecture=architecture_name(config),
        blocks=(*seeing, *spec.blocks),
        basis="assumed",
        notes=(*spec.notes, *notes),
    )


def language_section(config: Config) -> Config:
    """Return where the language model's sizes stand: the whole config, or a section of it, or a
    section of that."""
    if not config.has("hidden_size", *SYNONYMS["hidden_size"]):
        for name in LANGUAGE_SECTIONS:
            if config.section(name).values:
                return language_section(config.section(name))
    nested = config.section(*LANGUAGE_SECTIONS)
    return nested if nested.has("hidden_size", *SYNONYMS["hidden_size"]) else config


def with_tie(inner: Config, config: Config) -> Config:
    """Return the section with `tie_word_embeddings` from the whole config where only that says it.

    True where neither does: it was the default of transformers' PretrainedConfig up to 4.57,
    which does not write defaults out."""
    if inner.has("tie_word_embeddings"):
        return inner
    return inner.with_values(tie_word_embeddings=config.flag("tie_word_embeddings", default=True))


def similar_family(config: Config, readers: Mapping[str, Reader]) -> str:
    """Return the model type to read a config as: its own, that of the class it names, or that of
    a key it has; empty where none is known."""
    by_key = [model_type for key, model_type in LOOKALIKES.items() if config.has(key)]
    candidates = (config.text("model_type"), known_class(config, readers), *by_key)
    return next((candidate for candidate in candidates if candidate in readers), "")


def known_class(config: Config, readers: Mapping[str, Reader]) -> str:
    """Return the model type of the class that the config names; empty where none is known."""
    name = architecture_name(config)
    for suffix in _SUFFIXES:
        name = name.removesuffix(suffix)
    by_class = {model_type.replace("_", "").replace("-", ""): model_type for model_type in readers}
    return by_class.get(name.lower(), "")


def usual_decoder(config: Config) -> ModelSpec:
    """Return a pre-norm decoder by its config's names."""
    full = renamed(completed(config))
    for name in ("hidden_size", "num_hidden_layers", "num_attention_heads", "vocab_size"):
        if not full.has(name):
            synonyms = ", ".join((name, *SYNONYMS.get(name, ())))
            raise MalformedModelError(
                f"{config.where} has no {name}.",
                hint=f"A decoder's config.json names it as one of: {synonyms}.",
                field=name,
            )
    count = full.layers()
    windows, sparse = layer_windows(full, window_rule(full), count), sparse_layers(full, count)
    kinds = [str(kind) for kind in full.items("layer_types", length=count)] or [
        "full_attention"
    ] * count
    plan = list(zip(kinds, windows, sparse, strict=True))
    blocks_by_kind = {how: layer(full, how[0], how[1], routed=how[2]) for how in set(plan)}
    spec = read_stack(full, Dialect(), [blocks_by_kind[how] for how in plan])
    return msgspec.structs.replace(spec, notes=(*spec.notes, *notes_on(full)))


def renamed(config: Config) -> Config:
    """Return the config with the mixture's sizes under one name each."""
    values = {
        name: next(config.values[other] for other in others if config.values.get(other) is not None)
        for name, others in MIXTURE_SYNONYMS.items()
        if not config.has(name) and config.has(*others)
    }
    return config.with_values(**values)


def layer(config: Config, kind: str, window: int | None, *, routed: bool) -> parts.Layer:
    """Return two norms, a mixer, and an MLP or mixture."""
    hidden = config.integer("hidden_size", low=1)
    tensors, mixer = mixing(config, hidden, kind, window)
    return parts.decoder_layer(hidden, mixer, tensors, feed_forward(config, hidden, routed=routed))


def mixing(
    config: Config, hidden: int, kind: str, window: int | None
) -> tuple[tuple[Tensor, ...], Mixer]:
    """Gated delta for a recurrent layer that says its heads, latent attention where there is a
    `kv_lora_rank`, else grouped."""
    if is_recurrent(kind) and config.has("linear_num_value_heads"):
        return gated_delta.delta_tensors(config, "apart", hidden), gated_delta.delta_mixer(config)
    if config.has("kv_lora_rank"):
        mixer = latent.latent_attention(config, indexed=config.has("index_topk"))
        return latent.attention_tensors(config, mixer), mixer
    single = config.flag("multi_query") and not config.has("num_key_value_heads")
    grouped = grouped_attention(
        config.with_values(num_key_value_heads=1) if single else config, window=window
    )
    grouped = msgspec.structs.replace(
        grouped, value_dim=config.integer("v_head_dim", default=grouped.head_dim)
    )
    bias = config.flag(
        "attention_bias", "qkv_bias", "use_qkv_bias", "add_qkv_bias", "use_bias", "bias"
    )
    gated = config.flag("attn_output_gate")
    return parts.attention(hidden, grouped, qkv_bias=bias, gated=gated), grouped


def feed_forward(config: Config, hidden: int, *, routed: bool) -> parts.Feed:
    """Return a mixture where the layer is `routed`, else an MLP that has a gate unless its
    activation says otherwise."""
    if routed:
        width = config.integer("moe_intermediate_size", "intermediate_size")
        shared = config.integer("shared_expert_intermediate_size", default=width) * config.integer(
            "n_shared_experts", default=1 if config.has("shared_expert_intermediate_size") else 0
        )
        mlp = experts.sizes(config, width, experts=0, shared=shared)
        return experts.mixture(hidden, mlp), mlp
    width = config.integer("intermediate_size", default=0) or implied_width(config, hidden)
    if is_plain(config):
        return parts.plain_mlp(hidden, width, "mlp.up_proj", "mlp.down_proj"), Mlp(
            intermediate_size=width, gated=False
        )
    return parts.gated_feed(hidden, width)


def implied_width(config: Config, hidden: int) -> int:
    """Four hidden sizes where the activation is of GPT-2's time. Raises MalformedModelError for
    a gated MLP, which has no usual width."""
    if is_plain(config):
        return 4 * hidden
    synonyms = ", ".join(("intermediate_size", *SYNONYMS["intermediate_size"]))
    raise MalformedModelError(
        f"{config.where} has no intermediate_size.",
        hint=f"A decoder's config.json names it as one of: {synonyms}.",
        field="intermediate_size",
    )


def is_plain(config: Config) -> bool:
    """Return whether an MLP has no gate: by its activation, and by GPT-2's name for the key,
    under which every GELU is plain."""
    name = config.text(
        "hidden_act",
        "hidden_activation",
        "activation_function",
        "mlp_hidden_act",
        "activation",
        default="silu",
    ).lower()
    return name in PLAIN_ACTIVATIONS or (config.has("activation_function") and "gelu" in name)


def sparse_layers(config: Config, layers: int) -> list[bool]:
    """Return which layers have a mixture, by whichever schedule the config has keys for."""
    if config.integer("num_experts", default=0) < 2 or not config.flag("is_moe", default=True):
        return [False] * layers
    if config.has("decoder_sparse_step", "mlp_only_layers"):
        return schedules.stepped(config, layers)
    if config.has("moe_layer_start_index", "moe_layer_interval"):
        return schedules.ernie(config, layers)
    if config.has("interleave_moe_layer_step"):
        step = config.integer("interleave_moe_layer_step", low=1)
        return [index % step == 0 for index in range(1, layers + 1)]
    return schedules.after_dense(config, layers)


def window_rule(config: Config) -> str:
    """Return how windows are laid out: by a pattern, by a switch, or, where only a size is
    given, nowhere, which errs on the safe side."""
    if config.has("use_sliding_window"):
        return "if_used"
    return (
        "pattern" if config.has("layer_types") or config.has("sliding_window_pattern") else "never"
    )


def notes_on(config: Config) -> Iterator[Note]:
    """Yield what was assumed where the config leaves a choice open."""
    if config.has("sliding_window") and window_rule(config) == "never":
        yield Note(
            "sliding-window-unused",
            "model",
            "sliding_window is given without the layers that use it: every layer was counted"
            " with full attention.",
        )
    if any(is_recurrent(str(kind)) for kind in config.items("layer_types")) and not config.has(
        "linear_num_value_heads"
    ):
        yield Note(
            "recurrent-layers-as-attention",
            "model",
            "Its recurrent layers were counted as attention, because their sizes go by names"
            " that are not known.",
        )
    if config.has("num_nextn_predict_layers"):
        yield Note("layers-omitted", "model", "Layers that predict further tokens were left out.")


def vision_blocks(config: Config, hidden: int) -> tuple[Block, ...]:
    """Return a vision section as a plain transformer: patches, layers, and a projector of two
    linears to `hidden` features; or nothing."""
    vision = config.section(*VISION_SECTIONS)
    width = vision.maybe_integer("hidden_size", "embed_dim", "width", "vt_hidden_size")
    layers = vision.maybe_integer(
        "num_hidden_layers", "depth", "layers", "num_layers", "vt_num_hidden_layers", high=1024
    )
    if not width or not layers:
        return ()
    heads = vision.integer(
        "num_attention_heads",
        "num_heads",
        "heads",
        "vt_num_attention_heads",
        default=max(width // 64, 1),
        low=1,
    )
    ratio = vision.number("mlp_ratio", default=4.0)
    inner = vision.integer("intermediate_size", "vt_intermediate_size", default=int(width * ratio))
    merged = width * vision.integer("spatial_merge_size", "merge_size", default=1, low=1) ** 2
    patch = vision.integer("patch_size", default=14)
    joined = (
        *vit.patches(
            "vision.patch_embed",
            width,
            vision.integer("num_channels", "in_channels", default=3),
            patch,
            patch,
        ),
        *parts.plain_mlp(merged, merged, "projector.linear_1", "projector.act")[:2],
        *parts.linear("projector.linear_2", hidden, merged),
    )
    tower = vit.vit(
        vit.Vit(prefix="vision.layers.{}."), hidden=width, heads=heads, width=inner, layers=layers
    )
    return (*tower, parts.single(Part.PROJECTOR, joined))
