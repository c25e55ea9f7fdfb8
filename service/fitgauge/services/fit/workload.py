"""Build a Workload from a request: fill in defaults, and refuse impossible degrees with those that
work."""

from collections.abc import Sequence
from math import ceil

from msgspec import structs

from fitgauge.engine.accelerator import USUAL_NODE, Accelerator
from fitgauge.engine.model.spec import ModelSpec
from fitgauge.engine.quantity import GIB
from fitgauge.engine.quantization.requested import UNQUANTIZED, canonical_name
from fitgauge.engine.quantization.same_format import holds_format
from fitgauge.engine.serving.engine import Engine
from fitgauge.engine.serving.ladders import tensor_widths
from fitgauge.engine.serving.options import sent_options
from fitgauge.engine.serving.profile import EngineProfile
from fitgauge.engine.serving.registry import ENGINES
from fitgauge.engine.serving.rope_scaling import OPTION, usual_factor
from fitgauge.engine.serving.workload import EngineName, Workload
from fitgauge.errors import InvalidRequestError
from fitgauge.services.common import parsing
from fitgauge.services.common.gpu_count import sent_count
from fitgauge.services.common.schemas import FitRequest
from fitgauge.services.common.unsupported import impossible_degrees
from fitgauge.services.fit.query import Settings

DEFAULT_CONTEXT = 8192


def context_length_of(request: FitRequest, spec: ModelSpec) -> int:
    """Return the tokens of one request: as requested, else the default within the model's
    maximum."""
    return request.context_length or min(
        DEFAULT_CONTEXT, spec.max_context_length or DEFAULT_CONTEXT
    )


def serving_workload(
    request: FitRequest,
    spec: ModelSpec,
    accelerator: Accelerator,
    count: int,
    profile: EngineProfile,
) -> Workload:
    """Return the Workload a request means on `count` GPUs. Raises InvalidRequestError where its
    degrees are impossible."""
    return ENGINES[profile.engine].with_defaults(
        base_workload(request, spec, accelerator, count, profile), spec, accelerator
    )


def base_workload(
    request: FitRequest,
    spec: ModelSpec,
    accelerator: Accelerator,
    count: int,
    profile: EngineProfile,
) -> Workload:
    """Return the same but for what the engine works out from the model and each GPU by itself
    (`Engine.with_defaults`)."""
    name, row = profile.engine, ENGINES[profile.engine]
    context = context_length_of(request, spec)
    tensor, pipeline, data = degrees(request, spec, count, name)
    replicated = attention_replicas(request, spec, count, name) > 1
    expert = request.expert_parallel or (tensor * data if replicated else 1)
    possible = _expert_degrees(row, tensor, data)
    if expert not in possible:
        if row.experts_over_all_ranks:
            hint = (
                f"{name} spreads experts over all tensor x data parallel ranks: send 1 (off) or"
                f" {tensor * data}."
            )
        else:
            hint = f"Send one of {', '.join(map(str, possible))}."
        raise impossible_degrees(
            f"`expert_parallel` {expert} is impossible with {tensor} x {data} ranks.",
            hint,
            "expert_parallel",
        )
    version = parsing.version(request.engine_version or profile.newest)
    if version < profile.since:  # another engine's release
        version = parsing.version(profile.newest)
    sequences, tokens = _batch(request, spec, accelerator, row, version, tensor, context)
    return Workload(
        engine=name,
        engine_version=version,
        between_releases=parsing.is_between_releases(request.engine_version),
        context_length=context,
        concurrency=request.concurrency or 1,
        kv_cache_dtype=parsing.kv_cache_dtype(request.kv_cache_dtype, name),
        tensor_parallel=tensor,
        pipeline_parallel=pipeline,
        data_parallel=data,
        expert_parallel=expert,
        gpu_memory_utilization=request.gpu_memory_utilization or profile.gpu_memory_utilization,
        max_batched_tokens=tokens,
        max_num_seqs=sequences,
        cpu_offload_bytes=_offloaded_bytes(request.cpu_offload_gib or 0, row),
        kv_cache_memory_bytes=(
            int(request.kv_cache_memory_gib * GIB)
            if request.kv_cache_memory_gib and row.preallocates_kv_cache
            else None
        ),
        other_memory_bytes=(
            int((request.other_memory_gib or 0) * GIB) if row.budget_is_device_share else 0
        ),
        float32=UNQUANTIZED.get(canonical_name(request.quantization or "")) == "F32",
        requantized=is_requantized(request, spec),
        **(
            _options(request, spec, row) | _rope_scaling(request, spec, row, context)  # type: ignore[arg-type]
        ),
    )


def is_requantized(request: FitRequest, spec: ModelSpec) -> bool:
    """Return whether the weights are in a format that the checkpoint is not published in."""
    form = request.quantization
    return bool(form and spec.quantization and not holds_format(spec, form))


def with_context(
    workload: Workload,
    request: FitRequest,
    spec: ModelSpec,
    accelerator: Accelerator,
    context_length: int,
) -> Workload:
    """Return `base_workload` of the request with another context. workload: with any."""
    row, version = ENGINES[workload.engine], workload.engine_version
    sequences, tokens = _batch(
        request, spec, accelerator, row, version, workload.tensor_parallel, context_length
    )
    return structs.replace(
        workload,
        context_length=context_length,
        max_batched_tokens=tokens,
        max_num_seqs=sequences,
        **_rope_scaling(request, spec, row, context_length),
    )


def _offloaded_bytes(amount_gib: float, row: Engine) -> int:
    """Return what is to stay in host memory of each GPU's weights, as the engine takes it
    [bytes]."""
    return int((ceil(amount_gib) if row.offloads_whole_gib else amount_gib) * GIB)


def _options(
    request: FitRequest, spec: ModelSpec, row: Engine
) -> dict[str, str | int | float | bool]:
    """Return the options that are sent and that the engine has, but for numbers of layers that
    leave none in host memory."""
    options = sent_options(request)
    if "n_gpu_layers" not in row.options or (request.n_gpu_layers or 0) > spec.layers:
        options.pop("n_gpu_layers", None)
    if "n_cpu_moe" not in row.options or not spec.has_experts:
        options.pop("n_cpu_moe", None)
    return options


def _rope_scaling(
    request: FitRequest, spec: ModelSpec, row: Engine, context_length: int
) -> dict[str, float]:
    """Return the factor of YaRN where the engine takes one: as sent, else as the context needs."""
    if OPTION not in row.options or not spec.max_context_length:
        return {}
    sent = request.rope_scaling_factor
    return {OPTION: usual_factor(spec, context_length) if sent is None else sent}


def _batch(
    request: FitRequest,
    spec: ModelSpec,
    accelerator: Accelerator,
    row: Engine,
    version: tuple[int, ...],
    tensor_parallel: int,
    context_length: int,
) -> tuple[int, int]:
    """Return (max_num_seqs, max_batched_tokens): as sent, else the engine's defaults, of which the
    latter is no more than so many requests fill, unless its chunks are fixed."""
    sequences, tokens = row.default_batch(
        accelerator, context_length, version, spec, tensor_parallel
    )
    sequences = request.max_num_seqs or sequences
    filled = tokens if row.fixed_chunks else min(tokens, sequences * context_length)
    return sequences, request.max_batched_tokens or filled


def with_settings(workload: Workload, settings: Settings, request: FitRequest) -> Workload:
    """Return `base_workload` of the request with these settings too, of which it sets none: lower
    limits of the scheduler, another share of the GPU.

    workload: that of the request. Fewer requests fill no more than so many contexts."""
    changed = dict(settings)
    may_fill_less = request.max_batched_tokens is None and not ENGINES[workload.engine].fixed_chunks
    if "max_batched_tokens" not in changed and may_fill_less:
        requests = settings.get("max_num_seqs", workload.max_num_seqs)
        filled = requests * workload.context_length
        changed["max_batched_tokens"] = min(workload.max_batched_tokens, filled)
    return structs.replace(workload, **changed)


def degrees(
    request: FitRequest, spec: ModelSpec, count: int, engine: EngineName
) -> tuple[int, int, int]:
    """Return (tensor, pipeline, data) parallel degrees on `count` GPUs.

    Defaults are the widest tensor parallelism within a node that divides the heads, then
    pipeline stages; `attention_replicas` where a narrower one was sent. Engines that split by layer
    have only stages, whatever the degree is called.
    """
    row = ENGINES[engine]
    data = request.data_parallel or attention_replicas(request, spec, count, engine)
    tensor, pipeline = request.tensor_parallel, request.pipeline_parallel
    if not row.pipeline_parallel:
        if (pipeline or 1) > 1:
            hint = "Send tensor_parallel (num_shard) alone, or another engine."
            raise impossible_degrees(
                f"{engine} has no pipeline parallelism.", hint, "pipeline_parallel"
            )
        if tensor is None:
            tensor = max(tensor_widths(spec, min(max(1, count // data), USUAL_NODE)))
        pipeline = 1
    if row.splits_layers and (tensor is None or not row.tensor_parallel_on_request):
        tensor, pipeline = 1, tensor * (pipeline or 1) if tensor else pipeline
    if tensor is None:
        free = max(1, count // ((pipeline or 1) * data))
        widths = tensor_widths(spec, min(free, USUAL_NODE))
        tensor = max(width for width in widths if free % width == 0)
    elif tensor not in tensor_widths(spec, tensor):
        possible = ", ".join(str(width) for width in tensor_widths(spec, 64))
        raise impossible_degrees(
            f"`tensor_parallel` {tensor} does not divide {spec.query_heads} heads.",
            f"Send a tensor_parallel that divides the {spec.query_heads} heads: {possible}.",
            "tensor_parallel",
        )
    if pipeline is None:
        pipeline = max(1, count // (tensor * data))
        pipeline = min(pipeline, max(1, spec.layers), row.most_gpus or pipeline)
    _refuse_degrees(spec, count, engine, (tensor, pipeline, data))
    return tensor, pipeline, data


def _refuse_degrees(
    spec: ModelSpec, count: int, engine: EngineName, ranks: tuple[int, int, int]
) -> None:
    """Raise InvalidRequestError where the model has fewer layers, the engine drives fewer GPUs, or
    the request has fewer. ranks: of tensor, pipeline and data parallelism."""
    (tensor, pipeline, data), most = ranks, ENGINES[engine].most_gpus
    if pipeline > max(1, spec.layers):
        raise impossible_degrees(
            f"`pipeline_parallel` {pipeline} exceeds the {spec.layers} layers of the model.",
            f"Send a pipeline_parallel of at most {max(1, spec.layers)}.",
            "pipeline_parallel",
        )
    if most is not None and pipeline > most:
        raise impossible_degrees(
            f"{engine} divides a model over {most} GPUs at most, not {pipeline}.",
            f"Send pipeline_parallel {most}, or another engine.",
            "pipeline_parallel",
        )
    needed = tensor * pipeline * data
    if needed > count:
        raise impossible_degrees(
            f"{tensor} x {pipeline} x {data} parallel ranks need {needed} GPUs, not {count}.",
            f"Send gpu_count {needed}, or smaller degrees: tensor x pipeline x data parallel is the"
            " number of GPUs.",
            "gpu_count",
        )


def over_unlike_gpus(workload: Workload, gpus: Sequence[Accelerator]) -> Workload:
    """Return the workload with its layers over GPUs of several kinds. Raises InvalidRequestError
    where it uses another number of GPUs, and where the engine takes GPUs of one kind."""
    if not gpus:
        raise InvalidRequestError(
            f"{workload.engine} takes GPUs of one kind.",
            hint="Send engine llama.cpp or ollama, or GPUs of one kind.",
            field="gpu",
            code="unlike-gpus",
        )
    if workload.gpus != len(gpus) or workload.pipeline_parallel != len(gpus):
        raise impossible_degrees(
            f"`gpu` names {len(gpus)} GPUs of several kinds, and {workload.gpus} are to be used.",
            f"Leave gpu_count and the parallel degrees out: layers go over all {len(gpus)}.",
            "gpu_count",
        )
    return structs.replace(workload, free_bytes=tuple(gpu.usable.expected for gpu in gpus))


def _expert_degrees(row: Engine, tensor: int, data: int) -> list[int]:
    """Return the degrees of expert parallelism over so many ranks."""
    ranks = tensor * data
    if row.experts_over_some_ranks:
        return [degree for degree in range(1, ranks + 1) if ranks % degree == 0]
    return sorted({1, ranks} if row.experts_over_all_ranks else {1, tensor, ranks})


def attention_replicas(request: FitRequest, spec: ModelSpec, count: int, engine: EngineName) -> int:
    """Return the data parallel degree that a tensor degree narrower than the node leaves: experts
    over all GPUs and attention repeated, where no other degree is sent; 1 elsewhere.

    Source: vLLM, docs/serving/expert_parallel_deployment.md; its recipes serve mixtures so."""
    tensor = request.tensor_parallel
    if (
        tensor is None
        or request.pipeline_parallel is not None
        or request.data_parallel is not None
        or request.expert_parallel is not None
        or not ENGINES[engine].experts_over_all_ranks
        or count > USUAL_NODE
        or count % tensor
        or not any(block.mlp and block.mlp.experts for block in spec.blocks)
    ):
        return 1
    return count // tensor


def gpu_count(request: FitRequest, named: int) -> int:
    """Return the number of GPUs: the larger of `gpu_count` and the count in the name ("2x4090"),
    else the product of the degrees."""
    return sent_count(request.gpu_count, named) or (
        (request.tensor_parallel or 1)
        * (request.pipeline_parallel or 1)
        * (request.data_parallel or 1)
    )
