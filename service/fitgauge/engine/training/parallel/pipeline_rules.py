"""Pipeline layouts that a framework runs, with the nearest values that work."""

from collections.abc import Iterable

from msgspec.structs import replace

from fitgauge.engine.model.spec import ModelSpec
from fitgauge.engine.training.parallel.pipeline import stage_layers
from fitgauge.engine.training.workload import TrainingWorkload
from fitgauge.errors import InvalidRequestError


def check_pipeline(spec: ModelSpec, workload: TrainingWorkload) -> None:
    """Megatron wants stages alike but for the first and the last
    (megatron/core/transformer/transformer_block.py, get_num_layers_to_build), and whole groups
    of micro-batches when it interleaves (megatron/core/pipeline_parallel/schedules.py,
    forward_backward_pipelining_with_interleaving)."""
    stages, layers = workload.pipeline_parallel, max(1, spec.layers)
    _check_stage_settings(workload)
    if stages == 1:
        return
    if stages > layers:
        raise InvalidRequestError(
            f"{stages} pipeline stages are more than the {layers} layers.",
            hint=f"Send pipeline_parallel {layers} or less.",
            field="pipeline_parallel",
            code="impossible-degrees",
        )
    if workload.framework == "transformers":
        detail = "Pipeline parallelism under transformers is not sized here."
        hint = "Send framework megatron, deepspeed or fsdp, or pipeline_parallel 1."
        raise InvalidRequestError(
            detail,
            hint=hint,
            field="pipeline_parallel",
            code="impossible-degrees",
        )
    if workload.framework == "fsdp":
        _check_torch_pipeline(spec, workload)
    if (
        workload.framework == "deepspeed" and workload.pipeline_schedule != "1f1b"
    ):  # deepspeed/runtime/pipe/schedule.py, TrainSchedule
        detail = f"DeepSpeed's pipelines run 1f1b alone, not {workload.pipeline_schedule}."
        raise InvalidRequestError(
            detail,
            hint="Send pipeline_schedule 1f1b, or framework megatron.",
            field="pipeline_schedule",
            code="impossible-degrees",
        )
    _check_layer_split(layers, workload)
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
            code="impossible-degrees",
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
                f"Send pipeline_parallel {listed(even)}, or pipeline_schedule 1f1b."
                if even
                else "Send pipeline_schedule 1f1b."
            ),
            field="pipeline_schedule",
            code="impossible-degrees",
        )


def _check_torch_pipeline(spec: ModelSpec, workload: TrainingWorkload) -> None:
    """PyTorch's stages know FSDP2 alone (torch/distributed/pipelining/stage.py), and no
    zero-bubble schedule of one stage a rank (schedules.py, get_schedule_class); torchtitan ties
    no weights over them (torchtitan/models/common/decoder.py)."""
    if workload.fsdp_version == 1:
        detail = "PyTorch's pipelines run FSDP2 alone."
        raise InvalidRequestError(
            detail,
            hint="Send fsdp_version 2, or pipeline_parallel 1.",
            field="fsdp_version",
            code="impossible-degrees",
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
            code="impossible-degrees",
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
            code="impossible-degrees",
        )
    if spec.tied_embeddings:
        detail = "torchtitan has no pipelines for a model whose embedding is its head."
        raise InvalidRequestError(
            detail,
            hint="Send framework megatron, or pipeline_parallel 1.",
            field="pipeline_parallel",
            code="impossible-degrees",
        )


def _check_stage_settings(workload: TrainingWorkload) -> None:
    """Raise InvalidRequestError for settings of Megatron's pipelines where there is none that
    has them."""
    piped = workload.framework == "megatron" and workload.pipeline_parallel > 1
    if workload.last_stage_layers is not None and not piped:
        detail = "last_stage_layers belongs to a pipeline of two stages or more under Megatron."
        hint = "Send framework megatron and pipeline_parallel, or leave last_stage_layers out."
        raise InvalidRequestError(
            detail,
            hint=hint,
            field="last_stage_layers",
            code="impossible-degrees",
        )


def _check_layer_split(layers: int, workload: TrainingWorkload) -> None:
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
                detail,
                hint="Leave last_stage_layers out, or send less.",
                field="last_stage_layers",
                code="impossible-degrees",
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
            code="impossible-degrees",
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
    return listed(sorted(sorted(possible, key=lambda value: abs(value - wanted))[:12]))


def listed(values: Iterable[int]) -> str:
    """'1, 2, 4 or 8'; of many, the first twelve."""
    *most, last = [str(value) for value in values][:12]
    return f"{', '.join(most)} or {last}" if most else last
