"""Which layouts a framework can run at all: each refusal names the field and the values that
work."""

from math import gcd

from fitgauge.engine.memo import WeakMemo
from fitgauge.engine.model.mixers import Attention, Recurrent
from fitgauge.engine.model.spec import ModelSpec, Part
from fitgauge.engine.training.parallel.pipeline_rules import check_pipeline
from fitgauge.engine.training.parallel.zero_rules import (
    check_host,
    check_optimizer,
    check_replicas,
    check_secondary_partition,
    check_zero,
)
from fitgauge.engine.training.states.parameters import base_scheme
from fitgauge.engine.training.workload import TrainingWorkload
from fitgauge.engine.unsupported import UnsupportedError, nearest

MOST_TENSOR = 8
"""Tensor parallelism stays within a node (arXiv 2104.04473, section 5.4.1)."""


def check(spec: ModelSpec, workload: TrainingWorkload) -> None:
    """Raise UnsupportedError for a layout that this model or this framework forbids."""
    _tensor(spec, workload)
    check_pipeline(spec, workload)
    _experts(spec, workload)
    check_optimizer(workload)
    check_zero(workload)
    check_host(workload)
    check_replicas(workload)
    check_secondary_partition(workload)
    _sequence(workload)
    _context(spec, workload)
    _accumulation(workload)
    _base(spec, workload)
    _gradients(workload)


def runs(spec: ModelSpec, workload: TrainingWorkload) -> bool:
    """Return whether `check` has nothing against it."""
    try:
        check(spec, workload)
    except UnsupportedError:
        return False
    return True


def tensor_widths(spec: ModelSpec, most: int = 64) -> list[int]:
    """Return the degrees of tensor parallelism that divide the attention heads, and KV heads or
    are divided by them; 1 alone of a model without attention, which no framework here divides."""
    return _WIDTHS.get_or_compute(spec, most, lambda: _widths(spec, most))


_WIDTHS: WeakMemo[ModelSpec, int, list[int]] = WeakMemo(128)


def _widths(spec: ModelSpec, most: int) -> list[int]:
    query_heads = spec.query_heads
    mixers = [m for b in spec.blocks if b.part is Part.LANGUAGE for m in b.mixers]
    if all(isinstance(m, Recurrent) for m in mixers):
        return [1]
    kv_heads = {m.kv_heads for m in mixers if isinstance(m, Attention)}
    return [
        width
        for width in range(1, most + 1)
        if query_heads % width == 0
        and all(heads % width == 0 or width % heads == 0 for heads in kv_heads)
    ]


def _tensor(spec: ModelSpec, workload: TrainingWorkload) -> None:
    widths = tensor_widths(spec)
    if workload.tensor_parallel not in widths:
        heads = "a model without attention heads"
        if len(widths) > 1:
            heads = f"{spec.query_heads} attention heads and their KV heads"
        detail = f"tensor_parallel {workload.tensor_parallel} does not divide {heads}."
        raise UnsupportedError(
            "tensor_parallel",
            detail,
            ({"tensor_parallel": nearest(widths, workload.tensor_parallel)},),
        )


def _experts(spec: ModelSpec, workload: TrainingWorkload) -> None:
    degree, count = workload.expert_parallel, spec.routed_experts
    if (
        count
        and workload.framework == "megatron"
        and workload.tensor_parallel > 1
        and not workload.sequence_parallel
    ):
        # moe_layer.py, MoELayer.forward
        detail = "Megatron trains experts under tensor parallelism with sequence parallelism alone."
        raise UnsupportedError(
            "sequence_parallel",
            detail,
            ({"sequence_parallel": (True,)}, {"sequence_parallel": (None,)}),
        )
    _expert_ways(spec, workload, count)
    if degree == 1:
        return
    if not count:
        raise UnsupportedError(
            "expert_parallel", "The model has no experts.", ({"expert_parallel": (1,)},)
        )
    ranks = _expert_ranks(workload) // (
        workload.expert_tensor_parallel or 1 if workload.framework == "megatron" else 1
    )
    if degree > count or count % degree or ranks % degree:
        possible = [
            width for width in range(1, count + 1) if count % width == 0 and ranks % width == 0
        ]
        detail = (
            f"expert_parallel {degree} does not divide {count} experts and {ranks} ranks that could"
            " share them."
        )
        raise UnsupportedError(
            "expert_parallel", detail, ({"expert_parallel": nearest(possible, degree)},)
        )


def _expert_ranks(workload: TrainingWorkload) -> int:
    """Return the ranks of a pipeline stage among which experts are divided: Megatron divides its
    tensor-parallel ranks again."""
    return (
        workload.data_parallel
        * workload.context_parallel
        * (workload.tensor_parallel if workload.framework == "megatron" else 1)
    )


def _expert_ways(spec: ModelSpec, workload: TrainingWorkload, count: int) -> None:
    """Check a tensor-parallel degree of experts alone, which only Megatron has: with expert
    parallelism it divides a stage's ranks, and it divides an expert's width
    (megatron/core/parallel_state.py, expert groups; transformer/moe/experts.py)."""
    ways, field = workload.expert_tensor_parallel, "expert_tensor_parallel"
    if ways is None or (ways == 1 and not count):
        return
    if not count:
        raise UnsupportedError(field, "The model has no experts.", ({field: (None,)},))
    if workload.framework != "megatron":
        if ways != workload.tensor_parallel:
            detail = (
                f"Experts are divided by tensor_parallel under {workload.framework}, not by a"
                " degree of their own."
            )
            raise UnsupportedError(field, detail, ({"framework": ("megatron",)}, {field: (None,)}))
        return
    ranks, inner = _expert_ranks(workload), _expert_width(spec)
    possible = [
        width
        for width in range(1, max(1, min(ranks, inner)) + 1)
        if ranks % width == 0 and inner % width == 0
    ]
    fitting = [
        width for width in possible if ranks % (width * workload.expert_parallel) == 0
    ] or possible
    if ways not in possible:
        detail = (
            f"expert_tensor_parallel {ways} does not divide {ranks} ranks of a stage and experts of"
            f" width {inner}."
        )
        raise UnsupportedError(field, detail, ({field: nearest(fitting, ways)},))


def _expert_width(spec: ModelSpec) -> int:
    """Return what all experts' widths can be divided by."""
    return gcd(
        *(
            block.mlp.intermediate_size
            for block in spec.blocks
            if block.part is Part.LANGUAGE and block.mlp and block.mlp.experts
        )
    )


def _sequence(workload: TrainingWorkload) -> None:
    if workload.sequence_length % workload.context_parallel:
        ranks, tokens = workload.context_parallel, workload.sequence_length
        possible = [count for count in range(1, ranks) if tokens % count == 0]
        raise UnsupportedError(
            "context_parallel",
            f"context_parallel {ranks} does not divide {tokens} tokens.",
            ({"context_parallel": nearest(possible, ranks)},),
        )
    if workload.sequence_parallel and workload.framework in ("transformers", "deepspeed"):
        detail = (
            f"Tensor parallelism under {workload.framework} does not cut the stream between its"
            " linears."
        )
        raise UnsupportedError(
            "sequence_parallel",
            detail,
            ({"sequence_parallel": (False,)}, {"framework": ("megatron", "fsdp")}),
        )
    if workload.sequence_parallel and workload.tensor_parallel == 1:
        detail = (
            "Sequence parallelism divides what tensor parallelism leaves whole; there is no tensor"
            " parallelism."
        )
        raise UnsupportedError(
            "sequence_parallel",
            detail,
            ({"sequence_parallel": (False,)}, {"tensor_parallel": (2,)}),
        )


def _context(spec: ModelSpec, workload: TrainingWorkload) -> None:
    """No framework divides attention whose scores are written out (transformers trainer.py,
    _prepare_context_parallel_inputs; deepspeed/runtime/sequence_parallel/ulysses_sp.py,
    register_with_transformers; Transformer Engine pytorch/attention/utils.py, "Filter: Context
    parallelism", with its two pieces a rank). DeepSpeed gives every rank whole heads
    (UlyssesSPAttentionHF); accelerate runs PyTorch's ring under FSDP2
    (accelerate/commands/launch.py)."""
    ranks, field = workload.context_parallel, "context_parallel"
    if ranks == 1:
        return
    if workload.attention in ("eager", "flex"):
        detail = f"Context parallelism does not divide {workload.attention} attention."
        raise UnsupportedError(
            "attention", detail, ({"attention": ("sdpa", "flash")}, {field: (1,)})
        )
    if workload.framework == "transformers":
        detail = "transformers' Trainer divides sequences under FSDP2 or DeepSpeed alone."
        raise UnsupportedError(
            field, detail, ({"framework": ("fsdp", "deepspeed", "megatron")}, {field: (1,)})
        )
    if workload.framework == "fsdp" and workload.fsdp_version == 1:
        detail = "Context parallelism runs with FSDP2, not with FSDP1."
        raise UnsupportedError("fsdp_version", detail, ({"fsdp_version": (2,)}, {field: (1,)}))
    if workload.framework == "megatron" and workload.sequence_length % (2 * ranks):
        detail = (
            f"Megatron gives each of {ranks} ranks two pieces of a sequence;"
            f" {workload.sequence_length} tokens do not divide so."
        )
        rounded_up = -(-workload.sequence_length // (2 * ranks)) * 2 * ranks
        raise UnsupportedError(
            "sequence_length", detail, ({"sequence_length": (rounded_up,)}, {field: (1,)})
        )
    if workload.framework == "deepspeed" and ranks not in (
        widths := tensor_widths(spec, max(64, spec.query_heads))
    ):
        detail = (
            f"DeepSpeed gives each of {ranks} ranks whole heads; {spec.query_heads} and their KV"
            " heads do not divide so."
        )
        raise UnsupportedError(
            field, detail, ({field: nearest(widths, ranks)}, {"framework": ("fsdp",)})
        )


def _accumulation(workload: TrainingWorkload) -> None:
    """FSDP1 takes the newest gradient for the sum of all where gradients go to the host as they
    are reduced (torch/distributed/fsdp/fully_sharded_data_parallel.py, note on CPU offloading
    outside no_sync)."""
    if (
        workload.framework == "fsdp"
        and workload.fsdp_version == 1
        and workload.offload != "none"
        and workload.micro_batches > 1
    ):
        detail = (
            f"FSDP1 does not add up gradients of {workload.micro_batches} micro-batches that it"
            " offloads."
        )
        raise UnsupportedError(
            "micro_batches",
            detail,
            ({"micro_batches": (1,)}, {"fsdp_version": (2,)}, {"offload": ("none",)}),
        )


def _base(spec: ModelSpec, workload: TrainingWorkload) -> None:
    """Megatron's linears hold no packed weights: adapters are trained on 16-bit ones
    (ms-swift's Command-line-parameters.md of Megatron-SWIFT; Megatron-Bridge
    src/megatron/bridge/models/README.md, "Future Enhancements")."""
    scheme = base_scheme(spec, workload) if workload.framework == "megatron" else None
    if scheme is not None and scheme.form is not None:
        detail = f"Megatron trains adapters on 16-bit weights, not on {scheme.name}."
        raise UnsupportedError(
            "framework",
            detail,
            (
                {"method": ("lora",), "quantization": (None,)},
                {"framework": ("transformers", "deepspeed", "fsdp")},
            ),
        )


def _gradients(workload: TrainingWorkload) -> None:
    """Check the gradients' dtype: transformers' Trainer reduces gradients as autograd makes them
    (DDP), and only mixed precision has two formats to choose from."""
    if workload.gradient_dtype == "bf16" and (
        workload.framework == "transformers" or workload.precision in ("fp32", "int8")
    ):
        detail = (
            f"The format of gradients is not chosen under {workload.framework} in"
            f" {workload.precision}."
        )
        raise UnsupportedError(
            "gradient_dtype",
            detail,
            (
                {"framework": ("fsdp", "deepspeed", "megatron"), "precision": ("mixed_bf16",)},
                {"gradient_dtype": (None,)},
            ),
        )
