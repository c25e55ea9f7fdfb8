"""Mixtures of experts: router, routed experts, shared experts, and how families name and size them.

Shapes are per expert, whether the checkpoint keeps one tensor an expert or one for all. Source
of names: the checkpoints, as vLLM 0.33's loaders read them; of sizes: transformers 5.23,
`models/<model_type>/modeling_<model_type>.py`."""

from collections.abc import Callable
from dataclasses import dataclass

from fitgauge.engine.model.config import Config
from fitgauge.engine.model.families import parts
from fitgauge.engine.model.spec import Kind, Mlp, Split, Tensor


@dataclass(frozen=True)
class Naming:
    """How a family names the parts of its mixture."""

    block: str = "mlp"
    """The module that holds them all."""
    router: str = "gate"
    """The router's linear."""
    experts: str = "experts"
    """The list of routed experts."""
    projections: tuple[str, str, str] = parts.GATED
    """Gate, up and down of a routed expert."""
    correction: str | None = None
    """The router's score correction bias (F32); None: it has none."""
    correction_learned: bool = False
    """Whether that bias is a parameter; else a buffer."""
    shared: str = "shared_experts"
    """The shared experts."""
    shared_gate: str | None = None
    """A linear that weighs the shared experts; None: it has none."""
    router_dtype: str | None = None
    """Canonical dtype of the router where the engine stores it in another one than the model's."""
    shared_bias: bool = False
    """Whether the shared experts have biases."""


def sizes(config: Config, width: int, *, experts: int, shared: int = 0, per_token: int = 0) -> Mlp:
    """Return the mixture's sizes by the names its families use; `width` of one expert, `shared`
    of all shared ones together [features]."""
    return Mlp(
        intermediate_size=width,
        experts=config.integer(
            "num_experts",
            "num_local_experts",
            "n_routed_experts",
            "moe_num_experts",
            default=experts,
        ),
        experts_per_token=config.integer(
            "num_experts_per_tok",
            "experts_per_token",
            "moe_k",
            "moe_top_k",
            "moe_topk",
            default=per_token,
        ),
        shared_intermediate_size=shared,
    )


def shared_width(key: str, count: str | None = None) -> Callable[[Config], int]:
    """Return the width of the shared experts: `key` x the number of them under `count` (1
    without it)."""
    return lambda config: (
        config.integer(key, default=0) * (config.integer(count, default=0) if count else 1)
    )


def feed(
    config: Config,
    hidden: int,
    naming: Naming,
    *,
    routed: bool,
    experts: int,
    width: str = "moe_intermediate_size",
    shared: Callable[[Config], int] = lambda config: 0,
) -> parts.Feed:
    """Return the feed-forward part of a layer: a mixture where it is `routed`, else one gated MLP
    of `intermediate_size`, with biases where the shared experts have them. width: the key of one
    expert's width; shared: the width of the shared ones together."""
    if not routed:
        intermediate = config.integer("intermediate_size")
        return parts.gated_feed(hidden, intermediate, bias=naming.shared_bias)
    mlp = sizes(config, config.integer(width), experts=experts, shared=shared(config))
    return mixture(hidden, mlp, naming), mlp


def mixture(hidden: int, mlp: Mlp, naming: Naming = Naming()) -> tuple[Tensor, ...]:
    """Router, `mlp.experts` routed experts and the shared expert of
    `mlp.shared_intermediate_size`, where it is not 0."""
    return (
        *routing(hidden, mlp.experts, naming),
        *parts.experts(
            hidden,
            mlp.intermediate_size,
            mlp.experts,
            name=f"{naming.block}.{naming.experts}.*",
            names=naming.projections,
        ),
        *shared_expert(hidden, mlp.shared_intermediate_size, naming),
    )


def routing(hidden: int, experts: int, naming: Naming) -> tuple[Tensor, ...]:
    """Return the router's weight (experts, hidden) and its score correction bias (experts,)."""
    router = parts.router(
        hidden, experts, name=f"{naming.block}.{naming.router}", dtype=naming.router_dtype
    )
    if naming.correction is None:
        return (router,)
    name = f"{naming.block}.{naming.correction}"
    return (
        router,
        Tensor(name, (experts,), Kind.OTHER, dtype="F32", buffer=not naming.correction_learned),
    )


def shared_expert(hidden: int, width: int, naming: Naming) -> tuple[Tensor, ...]:
    """Return the expert every token visits, with the linear that weighs it where the family has
    one; nothing where `width` is 0."""
    if not width:
        return ()
    gate = (
        ()
        if naming.shared_gate is None
        else (parts.router(hidden, 1, name=f"{naming.block}.{naming.shared_gate}"),)
    )
    return (
        *parts.gated_mlp(
            hidden, width, name=f"{naming.block}.{naming.shared}", bias=naming.shared_bias
        ),
        *gate,
    )


def fused_experts(
    hidden: int, mlp: Mlp, gate_up: str, down: str, *, bias: bool = False
) -> tuple[Tensor, ...]:
    """Routed experts kept in two tensors for all of them: gate and up projections together, and
    down projections.

    `bias` (gpt-oss): one for each output of each expert, under the tensor's name with `_bias`.
    """
    count, width = mlp.experts, mlp.intermediate_size
    weights = (
        Tensor(gate_up, (2 * width, hidden), Kind.EXPERT, Split.COLUMN, 0, count),
        Tensor(down, (hidden, width), Kind.EXPERT, Split.ROW, 0, count),
    )
    if not bias:
        return weights
    return (
        *weights,
        Tensor(f"{gate_up}_bias", (2 * width,), Kind.BIAS, Split.COLUMN, 0, count),
        Tensor(f"{down}_bias", (hidden,), Kind.BIAS, Split.NONE, 0, count),
    )
