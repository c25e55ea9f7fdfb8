"""Pipeline layouts that a framework runs, with the nearest values that work."""

from msgspec.structs import replace

from fitgauge.engine.model.spec import ModelSpec
from fitgauge.engine.training.parallel.pipeline import stage_layers
from fitgauge.engine.training.workload import TrainingWorkload
from fitgauge.engine.unsupported import Alternative, UnsupportedError, nearest


def check_pipeline(spec: ModelSpec, workload: TrainingWorkload) -> None:
    """Megatron wants stages alike but for the first and the last
    (megatron/core/transformer/transformer_block.py, get_num_layers_to_build), and whole groups
    of micro-batches when it interleaves (megatron/core/pipeline_parallel/schedules.py,
    forward_backward_pipelining_with_interleaving)."""
    stages, layers = workload.pipeline_parallel, max(1, spec.layers)
    _check_stage_settings(workload)
    if stages == 1:
        return
    if workload.framework == "transformers":
        raise UnsupportedError(
            "pipeline_parallel",
            "Pipeline parallelism under transformers is not sized here.",
            ({"framework": ("megatron", "deepspeed")}, {"pipeline_parallel": (1,)}),
        )
    if stages > layers:
        raise UnsupportedError(
            "pipeline_parallel",
            f"{stages} pipeline stages are more than the {layers} layers.",
            (_stages_that_spread(layers, workload),),
        )
    if workload.framework == "fsdp":
        _check_torch_pipeline(spec, workload)
    if workload.framework == "deepspeed" and workload.pipeline_schedule != "1f1b":
        # deepspeed/runtime/pipe/schedule.py, TrainSchedule
        detail = f"DeepSpeed's pipelines run 1f1b alone, not {workload.pipeline_schedule}."
        raise UnsupportedError(
            "pipeline_schedule",
            detail,
            ({"pipeline_schedule": ("1f1b",)}, {"framework": ("megatron",)}),
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
        rounded_up = -(-workload.micro_batches // stages) * stages
        raise UnsupportedError(
            "micro_batches",
            detail,
            ({"micro_batches": (rounded_up,)}, {"pipeline_schedule": ("1f1b",)}),
        )
    chunks, sizes = workload.pipeline_chunks, {len(each) for each in stage_layers(layers, workload)}
    if (
        workload.framework != "fsdp"
        and workload.pipeline_schedule == "interleaved"
        and any(size % chunks for size in sizes)
    ):
        even = [count for count in range(2, layers + 1) if layers % (chunks * count) == 0]
        degrees: tuple[Alternative, ...] = (
            ({"pipeline_parallel": nearest(even, stages)},) if even else ()
        )
        raise UnsupportedError(
            "pipeline_schedule",
            f"The interleaved schedule needs {chunks} equal chunks on each of {stages} stages;"
            f" {layers} layers do not give them.",
            (*degrees, {"pipeline_schedule": ("1f1b",)}),
        )


def _check_torch_pipeline(spec: ModelSpec, workload: TrainingWorkload) -> None:
    """PyTorch's stages know FSDP2 alone (torch/distributed/pipelining/stage.py), and no
    zero-bubble schedule of one stage a rank (schedules.py, get_schedule_class); torchtitan ties
    no weights over them (torchtitan/models/common/decoder.py)."""
    stages = workload.pipeline_parallel
    enough: Alternative = {} if workload.micro_batches >= stages else {"micro_batches": (stages,)}
    if workload.fsdp_version == 1:
        raise UnsupportedError(
            "fsdp_version",
            "PyTorch's pipelines run FSDP2 alone.",
            ({"fsdp_version": (2,), **enough}, {"pipeline_parallel": (1,)}),
        )
    if workload.pipeline_schedule == "zero_bubble":
        detail = (
            "PyTorch's zero-bubble schedules have two stages on every rank, which is not sized"
            " here."
        )
        raise UnsupportedError(
            "pipeline_schedule",
            detail,
            ({"pipeline_schedule": ("1f1b",), **enough}, {"framework": ("megatron",)}),
        )
    if workload.pipeline_schedule == "1f1b" and workload.micro_batches < stages:
        # schedules.py, Schedule1F1B
        detail = (
            f"PyTorch's 1f1b takes a micro-batch a stage at least: {stages},"
            f" not {workload.micro_batches}."
        )
        raise UnsupportedError("micro_batches", detail, ({"micro_batches": (stages,)},))
    if spec.tied_embeddings:
        raise UnsupportedError(
            "pipeline_parallel",
            "torchtitan has no pipelines for a model whose embedding is its head.",
            ({"framework": ("megatron",)}, {"pipeline_parallel": (1,)}),
        )


def _check_stage_settings(workload: TrainingWorkload) -> None:
    """Raise UnsupportedError for settings of Megatron's pipelines where there is none that
    has them."""
    piped = workload.framework == "megatron" and workload.pipeline_parallel > 1
    if workload.last_stage_layers is not None and not piped:
        raise UnsupportedError(
            "last_stage_layers",
            "last_stage_layers belongs to a pipeline of two stages or more under Megatron.",
            (
                {"last_stage_layers": (None,)},
                {"framework": ("megatron",), "pipeline_parallel": (2,)},
            ),
        )


def _check_layer_split(layers: int, workload: TrainingWorkload) -> None:
    """Raise UnsupportedError for layers that Megatron's flags, or torchtitan, do not spread
    over these stages."""
    if not _spreads(layers, workload):
        stages, last = workload.pipeline_parallel, workload.last_stage_layers
        if last is not None:
            detail = (
                f"{last} of {layers} layers in the last of {stages} stages leave the first one"
                " none."
            )
            raise UnsupportedError("last_stage_layers", detail, ({"last_stage_layers": (None,)},))
        detail = f"{layers} layers cannot be spread over {stages} stages."
        raise UnsupportedError(
            "pipeline_parallel", detail, (_stages_that_spread(layers, workload),)
        )


def _stages_that_spread(layers: int, workload: TrainingWorkload) -> Alternative:
    possible = [
        count
        for count in range(1, layers + 1)
        if _spreads(layers, replace(workload, pipeline_parallel=count))
    ]
    return {"pipeline_parallel": nearest(possible, workload.pipeline_parallel)}


def _spreads(layers: int, workload: TrainingWorkload) -> bool:
    """Return whether the framework spreads so many layers over the stages, with a layer on each."""
    try:
        stage_layers(layers, workload)
    except ValueError:
        return False
    return True
