"""What was understood: a question with every default filled in, as fields to send again."""

from fitgauge.engine.model.model import Model
from fitgauge.engine.serving.options import sent_options
from fitgauge.engine.serving.registry import ENGINES
from fitgauge.engine.serving.workload import Workload
from fitgauge.errors import InvalidRequestError
from fitgauge.hub.reference import Reference, parse_reference
from fitgauge.services.common.parsing import AS_PUBLISHED, release_name
from fitgauge.services.fit.query import FitEstimate

OF_THE_SPEED = frozenset((
    "prompt_tokens",
    "output_tokens",
    "prefix_cache_hit_rate",
    "min_tokens_per_second_per_request",
    "max_seconds_to_first_token",
))  # fmt: skip
"""Fields that only `speed` depends on: its `load` says what is taken where they are left out."""


def understood_as(checked: FitEstimate) -> dict[str, str | int | float | bool]:
    """Return the question with every default and every chosen setting filled in, as fields to
    send."""
    workload, model, request = checked.workload, checked.query.model, checked.query.request
    filled: dict[str, str | int | float | bool] = {
        "model": named(model, request.model),
        "gpu": checked.query.match.name,
        "gpu_count": checked.count,
        "engine": workload.engine,
        "engine_version": release_name(workload.engine_version, request.engine_version),
        "quantization": request.quantization or AS_PUBLISHED,
        "context_length": workload.context_length,
        "concurrency": workload.concurrency,
        "kv_cache_dtype": workload.kv_cache_dtype.lower(),
        "tensor_parallel": workload.tensor_parallel,
        "pipeline_parallel": workload.pipeline_parallel,
        "data_parallel": workload.data_parallel,
        "expert_parallel": workload.expert_parallel,
    }
    filled |= {
        "gpu_memory_utilization": workload.gpu_memory_utilization,
        "max_batched_tokens": workload.max_batched_tokens,
        "max_num_seqs": workload.max_num_seqs,
        "settings": "defaults",
    }
    if request.cpu_offload_gib:
        filled["cpu_offload_gib"] = request.cpu_offload_gib
    if request.host_memory_gib:
        filled["host_memory_gib"] = request.host_memory_gib
    if request.other_memory_gib:
        filled["other_memory_gib"] = request.other_memory_gib
    if request.kv_cache_memory_gib:
        filled["kv_cache_memory_gib"] = request.kv_cache_memory_gib
    filled |= {
        name: value
        for name in sorted(OF_THE_SPEED)
        if (value := getattr(request, name)) is not None
    }
    filled |= _options(workload)
    if request.draft_model:
        filled["draft_model"] = request.draft_model
    without_effect = ENGINES[workload.engine].ignored
    return {name: value for name, value in filled.items() if name not in without_effect}


def _options(workload: Workload) -> dict[str, str | int | float | bool]:
    """Return the engine's options that are on, and whether CUDA graphs are not captured."""
    options = sent_options(workload)
    if not workload.lora_slots:
        options.pop("lora_rank")
    off = ("enforce_eager", "n_gpu_layers")
    return {name: value for name, value in options.items() if value or name in off}


def named(model: Model, text: str) -> str:
    """Return the model's id, with the revision and the file that `text` asks for."""
    try:
        query = parse_reference(text)
    except InvalidRequestError:
        return model.id
    return str(Reference(model.id, query.revision, query.file))
