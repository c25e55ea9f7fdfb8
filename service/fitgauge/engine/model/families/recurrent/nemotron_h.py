"""Nemotron H (Nano, Super, Ultra): every layer is one thing alone, Mamba 2, attention, a mixture or
an MLP.

Source: transformers 5.23, models/nemotron_h; the multi-token prediction head: vLLM 0.33,
models/nemotron_h_mtp.py."""

from collections.abc import Mapping

from fitgauge.engine.model.config import Config
from fitgauge.engine.model.families import parts
from fitgauge.engine.model.families.dense.dense import Reader
from fitgauge.engine.model.families.recurrent.mamba import (
    Mamba2,
    mamba2_mixer,
    mamba2_tensors,
    state_dtype,
)
from fitgauge.engine.model.families.stack import correction, decoder, heads
from fitgauge.engine.model.spec import Block, Mlp, ModelSpec, Part, Split, Tensor
from fitgauge.errors import MalformedModelError

_LETTERS: Mapping[str, str] = {"M": "mamba", "E": "moe", "*": "attention", "-": "mlp"}
_WORDS: Mapping[str, str] = {"linear_attention": "mamba", "full_attention": "attention"}


def read_nemotron_h(config: Config) -> ModelSpec:
    """Return layers by `layers_block_type` or the letters of `hybrid_override_pattern`; attention
    has no rotary embedding, and the head is never tied.

    Raises MalformedModelError where a layer is of a kind that is not known.
    """
    config = config.with_defaults(DEFAULTS).with_values(tie_word_embeddings=False)
    types = layer_kinds(
        config,
        ("layers_block_type", "layer_types"),
        "hybrid_override_pattern",
        ["mamba", "moe", "attention", "mlp"],
    )
    by_kind = {kind: single_layer(config, kind) for kind in dict.fromkeys(types)}
    return decoder(
        config,
        [by_kind[kind] for kind in types],
        base="backbone",
        embedding="embeddings",
        final_norm="norm_f",
        more=prediction_head(config),
    )


def layer_kinds(
    config: Config, names: tuple[str, ...], pattern: str, default: list[str]
) -> list[str]:
    """Return what each layer is: the list under `names`, else the letters of `pattern`, else
    `default`."""
    if config.has(*names):
        return [_WORDS.get(str(kind), str(kind)) for kind in config.items(*names)]
    letters = config.text(pattern)
    if not letters:
        return default
    if len(letters) > 4096 or not set(letters) <= set(_LETTERS):
        raise MalformedModelError(
            f"{config.where}: {pattern} may only contain M, E, * and -.", field=pattern
        )
    return [_LETTERS[letter] for letter in letters]


def single_layer(config: Config, kind: str) -> parts.Layer:
    """Return a norm and one mixer. Raises MalformedModelError for a kind that is not known."""
    hidden = config.integer("hidden_size", low=1)
    norm = parts.norm("norm", hidden)
    if kind == "mamba":
        sizes = mamba_sizes(config, hidden)
        return parts.Layer((*norm, *mamba2_tensors("mixer", sizes)), (mamba2_mixer(sizes),))
    if kind == "attention":
        attention = heads(config)
        return parts.Layer((*norm, *parts.attention(hidden, attention, name="mixer")), (attention,))
    if kind == "moe":
        return parts.Layer((*norm, *mixture(config, hidden)), mlp=mixture_widths(config))
    if kind == "mlp":
        width = config.integer("intermediate_size")
        return parts.Layer(
            (*norm, *squared_mlp(config, "mixer", width, hidden)),
            mlp=Mlp(intermediate_size=width, gated=False),
        )
    raise MalformedModelError(
        f"{config.where}: unknown layer kind {kind[:40]!r}.", field="layers_block_type"
    )


def mamba_sizes(config: Config, hidden: int) -> Mamba2:
    """Return the Mamba 2 mixer; its state is kept in `mamba_ssm_cache_dtype`, F32 where the
    config is silent (vLLM 0.33, models/config.py)."""
    return Mamba2(
        hidden=hidden,
        heads=config.integer("mamba_num_heads", low=1),
        head_dim=config.integer("mamba_head_dim", low=1),
        groups=config.integer("mamba_n_groups", "n_groups", low=1),
        state=config.integer("ssm_state_size"),
        kernel=config.integer("mamba_d_conv", "conv_kernel", low=1),
        bias=config.flag("use_bias"),
        conv_bias=config.flag("mamba_conv_bias", "use_conv_bias", default=True),
        state_dtype=state_dtype(config, "mamba_ssm_cache_dtype", default="F32"),
    )


def squared_mlp(config: Config, name: str, width: int, hidden: int) -> tuple[Tensor, ...]:
    """Up and down projections with a squared ReLU between them."""
    return parts.plain_mlp(
        hidden, width, f"{name}.up_proj", f"{name}.down_proj", bias=config.flag("mlp_bias")
    )


def mixture(config: Config, hidden: int) -> tuple[Tensor, ...]:
    """Router, experts without gate, shared expert; with `moe_latent_size` the experts work
    behind a down- and an up-projection, which vLLM keeps whole on every rank."""
    experts = config.integer("n_routed_experts", "num_local_experts")
    width = config.integer("moe_intermediate_size")
    latent = config.maybe_integer("moe_latent_size")
    bias = config.flag("mlp_bias")
    inside = latent if latent is not None else hidden
    routed = parts.experts(inside, width, experts, name="mixer.experts.*")[1:]
    around = (
        (
            *parts.linear("mixer.fc1_latent_proj", latent, hidden, bias=bias),
            *parts.linear("mixer.fc2_latent_proj", hidden, latent, bias=bias),
        )
        if latent is not None
        else ()
    )
    shared = config.integer("moe_shared_expert_intermediate_size")
    return (
        parts.router(hidden, experts, name="mixer.gate"),
        correction("mixer.gate.e_score_correction_bias", experts),
        *routed,
        *around,
        *squared_mlp(config, "mixer.shared_experts", shared, hidden),
    )


def mixture_widths(config: Config) -> Mlp:
    """Return the sizes of experts without a gate, and of the shared ones together."""
    return Mlp(
        intermediate_size=config.integer("moe_intermediate_size"),
        gated=False,
        experts=config.integer("n_routed_experts", "num_local_experts"),
        experts_per_token=config.integer("num_experts_per_tok"),
        shared_intermediate_size=config.integer("moe_shared_expert_intermediate_size"),
        latent_size=config.maybe_integer("moe_latent_size"),
    )


def prediction_head(config: Config) -> tuple[Block, ...]:
    """Return the multi-token prediction head: `num_nextn_predict_layers` runs of
    `mtp_layers_block_type`; the first layer of a run joins hidden state and next embedding, the
    last ends in a norm."""
    steps = config.integer("num_nextn_predict_layers", high=64)
    types = layer_kinds(
        config, ("mtp_layers_block_type",), "mtp_hybrid_override_pattern", ["attention", "moe"]
    )
    hidden = config.integer("hidden_size", low=1)
    layers = []
    for index, kind in enumerate(types * steps):
        layer = single_layer(config, kind)
        place = index % len(types)
        join = (
            *parts.norm("enorm", hidden),
            *parts.norm("hnorm", hidden),
            *parts.linear("eh_proj", hidden, 2 * hidden, Split.COLUMN),
        )
        end = parts.norm("final_layernorm", hidden)
        extra = (*(join if place == 0 else ()), *(end if place == len(types) - 1 else ()))
        layers.append(parts.Layer((*layer.tensors, *extra), layer.mixers, layer.mlp))
    return parts.blocks(Part.MTP, "mtp.layers.{}.", layers)


DEFAULTS = {
    "vocab_size": 131072, "hidden_size": 4096, "num_attention_heads": 32, "num_key_value_heads": 8,
    "head_dim": 128, "max_position_embeddings": 4096, "mamba_num_heads": 128, "mamba_head_dim": 64,
    "ssm_state_size": 128, "n_groups": 8, "conv_kernel": 4, "use_bias": False,
    "use_conv_bias": True, "intermediate_size": 21504, "mlp_bias": False, "n_routed_experts": 8,
    "num_experts_per_tok": 2, "moe_intermediate_size": 7688,
    "moe_shared_expert_intermediate_size": 7688, "num_nextn_predict_layers": 0,
    "tie_word_embeddings": False,
}  # fmt: skip
"""transformers 5.23, NemotronHConfig."""

READERS: dict[str, Reader] = {"nemotron_h": read_nemotron_h}
