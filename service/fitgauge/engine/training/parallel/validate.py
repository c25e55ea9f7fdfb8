"""Which layouts a framework can run at all: each refusal names the field and the values that
work."""

from collections.abc import Iterable
from math import gcd

from msgspec.structs import replace

from fitgauge.engine.model.spec import Attention, ModelSpec, Part
from fitgauge.engine.training.parallel.pipeline import stage_layers
from fitgauge.engine.training.states.parameters import base_scheme
from fitgauge.engine.training.workload import TrainingWorkload
from fitgauge.errors import InvalidRequestError

MOST_TENSOR = 8
"""Tensor parallelism stays within a node (arXiv 2104.04473, section 5.4.1)."""

EIGHT_BIT = ("adamw_8bit", "paged_adamw_8bit", "lion_8bit")
"""Optimizers of bitsandbytes with quantized states."""


def check(spec: ModelSpec, workload: TrainingWorkload) -> None:
    """Raise InvalidRequestError for a layout that this model or this framework forbids."""
    _tensor(spec, workload)
    _pipeline(spec, workload)
    _experts(spec, workload)
    _zero(workload)
    _replicas(workload)
    _secondary(workload)
    _sequence(workload)
    _context(spec, workload)
    _accumulation(workload)
    _base(spec, workload)
    _gradients(workload)


def runs(spec: ModelSpec, workload: TrainingWorkload) -> bool:
    """Return whether `check` has nothing against it."""
    try:
        check(spec, workload)
    except InvalidRequestError:
        return False
    return True


def tensor_widths(spec: ModelSpec, most: int = 64) -> list[int]:
    """Return the degrees of tensor parallelism that divide the attention heads, and KV heads or
    are divided by them."""
    query_heads = spec.query_heads
    kv_heads = {
        m.kv_heads
        for b in spec.blocks
        if b.part is Part.LANGUAGE
        for m in b.mixers
        if isinstance(m, Attention)
    }
    return [
        width
        for width in range(1, most + 1)
        if query_heads % width == 0
        and all(heads % width == 0 or width % heads == 0 for heads in kv_heads)
    ]


def experts(spec: ModelSpec) -> int:
    """Routed experts of a layer, 0 for a dense model."""
    return max(
        (block.mlp.experts for block in spec.blocks if block.mlp and block.part is Part.LANGUAGE),
        default=0,
    )


def _tensor(spec: ModelSpec, workload: TrainingWorkload) -> None:
    widths = tensor_widths(spec)
    if workload.tensor_parallel not in widths:
        heads = (
            f"{spec.query_heads} attention heads and their KV heads"
            if spec.query_heads > 1
            else "a model without attention heads"
        )
        detail = f"tensor_parallel {workload.tensor_parallel} does not divide {heads}."
        raise InvalidRequestError(
            detail, hint=f"Send tensor_parallel {_listed(widths)}.", field="tensor_parallel"
        )


def _pipeline(spec: ModelSpec, workload: TrainingWorkload) -> None:
    """Megatron wants stages alike but for the first and the last
    (megatron/core/transformer/transformer_block.py, get_num_layers_to_build), and whole groups
    of micro-batches when it interleaves (megatron/core/pipeline_parallel/schedules.py,
    forward_backward_pipelining_with_interleaving)."""
    stages, layers = workload.pipeline_parallel, max(1, spec.layers)
    _asked_of_a_pipeline(workload)
    if stages == 1:
        return
    if stages > layers:
        raise InvalidRequestError(
            f"{stages} pipeline stages are more than the {layers} layers.",
            hint=f"Send pipeline_parallel {layers} or less.",
            field="pipeline_parallel",
        )
    if workload.framework == "transformers":
        detail = "Pipeline parallelism under transformers is not sized here."
        hint = "Send framework megatron, deepspeed or fsdp, or pipeline_parallel 1."
        raise InvalidRequestError(detail, hint=hint, field="pipeline_parallel")
    if workload.framework == "fsdp":
        _torch_pipeline(spec, workload)
    if (
        workload.framework == "deepspeed" and workload.pipeline_schedule != "1f1b"
    ):  # deepspeed/runtime/pipe/schedule.py, TrainSchedule
        detail = f"DeepSpeed's pipelines run 1f1b alone, not {workload.pipeline_schedule}."
        raise InvalidRequestError(
            detail,
            hint="Send pipeline_schedule 1f1b, or framework megatron.",
            field="pipeline_schedule",
        )
    _split(layers, workload)
    if (
        workload.pipeline_schedule == "interleaved"
        and workload.micro_batches > 1
        and workload.micro_batches % stages
    ):
        detail = (
            f"The interleaved schedule takes micro-batches in groups of {stages}, one a stage;"
            f" {workload.micro_batches} leave a rest."
        )
        nearest = -(-workload.micro_batches // stages) * stages
        raise InvalidRequestError(
            detail,
            hint=f"Send micro_batches {nearest}, or pipeline_schedule 1f1b.",
            field="micro_batches",
        )
    chunks, sizes = workload.pipeline_chunks, {len(each) for each in stage_layers(layers, workload)}
    if (
        workload.framework != "fsdp"
        and workload.pipeline_schedule == "interleaved"
        and any(size % chunks for size in sizes)
    ):
        even = [count for count in range(2, layers + 1) if layers % (chunks * count) == 0]
        raise InvalidRequestError(
            f"The interleaved schedule needs {chunks} equal chunks on each of {stages} stages;"
            f" {layers} layers do not give them.",
            hint=(
                f"Send pipeline_parallel {_listed(even)}, or pipeline_schedule 1f1b."
                if even
                else "Send pipeline_schedule 1f1b."
            ),
            field="pipeline_schedule",
        )


def _torch_pipeline(spec: ModelSpec, workload: TrainingWorkload) -> None:
    """PyTorch's stages know FSDP2 alone (torch/distributed/pipelining/stage.py), and no
    zero-bubble schedule of one stage a rank (schedules.py, get_schedule_class); torchtitan ties
    no weights over them (torchtitan/models/common/decoder.py)."""
    if workload.fsdp_version == 1:
        detail = "PyTorch's pipelines run FSDP2 alone."
        raise InvalidRequestError(
            detail, hint="Send fsdp_version 2, or pipeline_parallel 1.", field="fsdp_version"
        )
    if workload.pipeline_schedule == "zero_bubble":
        detail = (
            "PyTorch's zero-bubble schedules have two stages on every rank, which is not sized"
            " here."
        )
        raise InvalidRequestError(
            detail,
            hint="Send pipeline_schedule 1f1b, or framework megatron.",
            field="pipeline_schedule",
        )
    if (
        workload.pipeline_schedule == "1f1b" and workload.micro_batches < workload.pipeline_parallel
    ):  # schedules.py, Schedule1F1B
        detail = (
            f"PyTorch's 1f1b takes a micro-batch a stage at least: {workload.pipeline_parallel},"
            f" not {workload.micro_batches}."
        )
        raise InvalidRequestError(
            detail,
            hint=f"Send micro_batches {workload.pipeline_parallel}, or more.",
            field="micro_batches",
        )
    if spec.tied_embeddings:
        detail = "torchtitan has no pipelines for a model whose embedding is its head."
        raise InvalidRequestError(
            detail,
            hint="Send framework megatron, or pipeline_parallel 1.",
            field="pipeline_parallel",
        )


def _asked_of_a_pipeline(workload: TrainingWorkload) -> None:
    """Raise InvalidRequestError for settings of Megatron's pipelines where there is none that
    has them."""
    piped = workload.framework == "megatron" and workload.pipeline_parallel > 1
    if workload.last_stage_layers is not None and not piped:
        detail = "last_stage_layers belongs to a pipeline of two stages or more under Megatron."
        hint = "Send framework megatron and pipeline_parallel, or leave last_stage_layers out."
        raise InvalidRequestError(detail, hint=hint, field="last_stage_layers")


def _split(layers: int, workload: TrainingWorkload) -> None:
    """Raise InvalidRequestError for layers that Megatron's flags, or torchtitan, do not spread
    over these stages."""
    if not _spreads(layers, workload):
        stages, last = workload.pipeline_parallel, workload.last_stage_layers
        if last is not None:
            detail = (
                f"{last} of {layers} layers in the last of {stages} stages leave the first one"
                " none."
            )
            raise InvalidRequestError(
                detail, hint="Leave last_stage_layers out, or send less.", field="last_stage_layers"
            )
        detail = f"{layers} layers cannot be spread over {stages} stages."
        possible = [
            count
            for count in range(1, layers + 1)
            if _spreads(layers, replace(workload, pipeline_parallel=count))
        ]
        raise InvalidRequestError(
            detail,
            hint=f"Send pipeline_parallel {_nearest(possible, stages)}.",
            field="pipeline_parallel",
        )


def _spreads(layers: int, workload: TrainingWorkload) -> bool:
    """Return whether the framework spreads so many layers over the stages, with a layer on each."""
    try:
        stage_layers(layers, workload)
    except ValueError:
        return False
    return True


def _nearest(possible: list[int], wanted: int) -> str:
    """Return the possible values on either side of the one that was wanted, the nearest twelve."""
    return _listed(sorted(sorted(possible, key=lambda value: abs(value - wanted))[:12]))


def _experts(spec: ModelSpec, workload: TrainingWorkload) -> None:
    degree, count = workload.expert_parallel, experts(spec)
    if (
        count
        and workload.framework == "megatron"
        and workload.tensor_parallel > 1
        and not workload.sequence_parallel
    ):
        # moe_layer.py, MoELayer.forward
        detail = "Megatron trains experts under tensor parallelism with sequence parallelism alone."
        raise InvalidRequestError(
            detail, hint="Send sequence_parallel true, or leave it out.", field="sequence_parallel"
        )
    _expert_ways(spec, workload, count)
    if degree == 1:
        return
    if not count:
        raise InvalidRequestError(
            "The model has no experts.",
            hint="Send expert_parallel 1 or leave it out.",
            field="expert_parallel",
        )
    ranks = _expert_ranks(workload) // (
        workload.expert_tensor_parallel or 1 if workload.framework == "megatron" else 1
    )
    possible = [width for width in range(1, count + 1) if count % width == 0 and ranks % width == 0]
    if degree not in possible:
        detail = (
            f"expert_parallel {degree} does not divide {count} experts and {ranks} ranks that could"
            " share them."
        )
        raise InvalidRequestError(
            detail, hint=f"Send expert_parallel {_listed(possible)}.", field="expert_parallel"
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
        raise InvalidRequestError(
            "The model has no experts.", hint="Leave expert_tensor_parallel out.", field=field
        )
    if workload.framework != "megatron":
        if ways != workload.tensor_parallel:
            detail = (
                f"Experts are divided by tensor_parallel under {workload.framework}, not by a"
                " degree of their own."
            )
            raise InvalidRequestError(
                detail,
                hint="Send framework megatron, or leave expert_tensor_parallel out.",
                field=field,
            )
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
        raise InvalidRequestError(
            detail, hint=f"Send expert_tensor_parallel {_listed(fitting)}.", field=field
        )


def _expert_width(spec: ModelSpec) -> int:
    """Return what all experts' widths can be divided by."""
    return gcd(
        *(
            block.mlp.intermediate_size
            for block in spec.blocks
            if block.part is Part.LANGUAGE and block.mlp and block.mlp.experts
        )
    )


def _zero(workload: TrainingWorkload) -> None:
    """DeepSpeed's pipeline engine asserts ZeRO below 2 (deepspeed/runtime/pipe/engine.py);
    Megatron's distributed optimizer is ZeRO-1; bitsandbytes' 8-bit states cannot be cut as
    ZeRO-3 cuts them; parameters are offloaded only where they are sharded."""
    stage = workload.zero_stage
    if workload.framework == "deepspeed" and workload.pipeline_parallel > 1 and stage > 1:
        detail = f"DeepSpeed forbids ZeRO-{stage} with pipeline parallelism."
        raise InvalidRequestError(
            detail, hint="Send zero_stage 0 or 1, or pipeline_parallel 1.", field="zero_stage"
        )
    if workload.framework == "megatron" and stage > 1:
        detail = f"Megatron's distributed optimizer is ZeRO-1; it has no stage {stage}."
        raise InvalidRequestError(
            detail,
            hint="Send zero_stage 0 or 1, or framework deepspeed or fsdp.",
            field="zero_stage",
        )
    if workload.framework == "deepspeed" and stage == 3 and workload.optimizer in EIGHT_BIT:
        detail = (
            f"{workload.optimizer} does not run under ZeRO-3: its quantized states cannot be cut."
        )
        raise InvalidRequestError(
            detail,
            hint="Send optimizer adamw with offload optimizer, or zero_stage 2.",
            field="optimizer",
        )
    if (
        workload.framework == "deepspeed"
        and stage < 3
        and workload.offload in ("parameters", "nvme")
    ):
        raise InvalidRequestError(
            "Parameters are offloaded by ZeRO-3 alone.",
            hint="Send zero_stage 3, or offload optimizer.",
            field="offload",
        )


def _replicas(workload: TrainingWorkload) -> None:
    degree, replicas = workload.data_parallel, workload.data_parallel_replicate
    if degree % replicas:
        possible = [count for count in range(1, degree + 1) if degree % count == 0]
        detail = f"{replicas} replicas do not divide {degree} data-parallel ranks."
        raise InvalidRequestError(
            detail,
            hint=f"Send data_parallel_replicate {_listed(possible)}.",
            field="data_parallel_replicate",
        )
    if replicas > 1 and workload.framework != "fsdp":
        detail = f"Hybrid sharding is FSDP's; {workload.framework} has none here."
        raise InvalidRequestError(
            detail,
            hint="Send framework fsdp, or leave data_parallel_replicate out.",
            field="data_parallel_replicate",
        )


def _secondary(workload: TrainingWorkload) -> None:
    """ZeRO++'s second copy belongs to ZeRO-3 (deepspeed/runtime/zero/config.py,
    zero_hpz_partition_size)."""
    size = workload.zero_hpz_partition_size
    if size == 1:
        return
    if workload.framework != "deepspeed" or workload.zero_stage != 3:
        detail = "zero_hpz_partition_size belongs to ZeRO-3 under DeepSpeed."
        raise InvalidRequestError(
            detail,
            hint="Send framework deepspeed and zero_stage 3, or leave it out.",
            field="zero_hpz_partition_size",
        )
    if workload.data_parallel % size:
        possible = [
            count
            for count in range(1, workload.data_parallel + 1)
            if workload.data_parallel % count == 0
        ]
        detail = (
            f"zero_hpz_partition_size {size} does not divide {workload.data_parallel} data-parallel"
            " ranks."
        )
        raise InvalidRequestError(
            detail, hint=f"Send {_listed(possible)}.", field="zero_hpz_partition_size"
        )


def _sequence(workload: TrainingWorkload) -> None:
    if workload.sequence_length % workload.context_parallel:
        raise InvalidRequestError(
            f"context_parallel {workload.context_parallel} does not divide"
            f" {workload.sequence_length} tokens.",
            hint="Send a context_parallel that divides sequence_length.",
            field="context_parallel",
        )
    if workload.sequence_parallel and workload.framework in ("transformers", "deepspeed"):
        detail = (
            f"Tensor parallelism under {workload.framework} does not cut the stream between its"
            " linears."
        )
        raise InvalidRequestError(
            detail,
            hint="Send sequence_parallel false, or framework megatron or fsdp.",
            field="sequence_parallel",
        )
    if workload.sequence_parallel and workload.tensor_parallel == 1:
        detail = (
            "Sequence parallelism divides what tensor parallelism leaves whole; there is no tensor"
            " parallelism."
        )
        raise InvalidRequestError(
            detail,
            hint="Send tensor_parallel above 1, or sequence_parallel false.",
            field="sequence_parallel",
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
    if workload.attention == "eager":
        detail = "Context parallelism does not divide eager attention."
        raise InvalidRequestError(
            detail, hint="Send attention sdpa or flash, or context_parallel 1.", field="attention"
        )
    if workload.framework == "transformers":
        detail = "transformers' Trainer divides sequences under FSDP2 or DeepSpeed alone."
        raise InvalidRequestError(
            detail,
            hint="Send framework fsdp, deepspeed or megatron, or context_parallel 1.",
            field=field,
        )
    if workload.framework == "fsdp" and workload.fsdp_version == 1:
        detail = "Context parallelism runs with FSDP2, not with FSDP1."
        raise InvalidRequestError(
            detail, hint="Send fsdp_version 2, or context_parallel 1.", field="fsdp_version"
        )
    if workload.framework == "megatron" and workload.sequence_length % (2 * ranks):
        detail = (
            f"Megatron gives each of {ranks} ranks two pieces of a sequence;"
            f" {workload.sequence_length} tokens do not divide so."
        )
        nearest = -(-workload.sequence_length // (2 * ranks)) * 2 * ranks
        raise InvalidRequestError(
            detail,
            hint=f"Send sequence_length {nearest}, or context_parallel 1.",
            field="sequence_length",
        )
    if workload.framework == "deepspeed" and ranks not in (
        widths := tensor_widths(spec, max(64, spec.query_heads))
    ):
        detail = (
            f"DeepSpeed gives each of {ranks} ranks whole heads; {spec.query_heads} and their KV"
            " heads do not divide so."
        )
        raise InvalidRequestError(
            detail, hint=f"Send context_parallel {_listed(widths)}, or framework fsdp.", field=field
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
        hint = (
            "Send micro_batches 1 with a larger micro_batch_size, fsdp_version 2, or offload none."
        )
        raise InvalidRequestError(detail, hint=hint, field="micro_batches")


def _base(spec: ModelSpec, workload: TrainingWorkload) -> None:
    """Megatron's linears hold no packed weights: adapters are trained on 16-bit ones
    (ms-swift's Command-line-parameters.md of Megatron-SWIFT; Megatron-Bridge
    src/megatron/bridge/models/README.md, "Future Enhancements")."""
    scheme = base_scheme(spec, workload) if workload.framework == "megatron" else None
    if scheme is not None and scheme.form is not None:
        detail = f"Megatron trains adapters on 16-bit weights, not on {scheme.name}."
        raise InvalidRequestError(
            detail,
            hint="Send method lora, or framework transformers, deepspeed or fsdp.",
            field="framework",
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
        hint = (
            "Send framework fsdp, deepspeed or megatron with precision mixed_bf16, or leave"
            " gradient_dtype out."
        )
        raise InvalidRequestError(detail, hint=hint, field="gradient_dtype")


def _listed(values: Iterable[int]) -> str:
    """'1, 2, 4 or 8'; of many, the first twelve."""
    *most, last = [str(value) for value in values][:12]
    return f"{', '.join(most)} or {last}" if most else last
