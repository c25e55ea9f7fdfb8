"""How to start what was estimated: the command with the settings of the answer, flags only where
they differ from the engine's defaults."""

from msgspec import structs

from fitgauge.engine.model.spec import Model
from fitgauge.engine.note import Note
from fitgauge.engine.quantization.requested import UNQUANTIZED, canonical_name
from fitgauge.engine.serving.launch import Launch
from fitgauge.engine.serving.registry import ENGINES
from fitgauge.engine.serving.workload import EngineName, Workload
from fitgauge.engine.weights.sharding import ShardedWeights
from fitgauge.services.common.schemas import FitRequest


def launch_command(
    model: Model,
    request: FitRequest,
    workload: Workload,
    *,
    pool_tokens: int | None = None,
    laid: ShardedWeights | None = None,
) -> str:
    """Return the command line of the engine. pool_tokens: of a pool given outright, which some
    engines take in tokens; laid: the weights, for an engine that takes layers in host memory by
    their number."""
    pinned = model.revision and model.source == "hub" and "@" in request.model
    row = ENGINES[workload.engine]
    return row.command(
        Launch(
            model=structs.replace(model, id="MODEL") if model.source == "size" else model,
            settings=request,
            workload=workload,
            revision=model.revision if pinned else None,
            quantization=_online_format(request, workload.engine),
            kv_cache_dtype=(row.cache_dtypes or {}).get(workload.kv_cache_dtype),
            pool_tokens=pool_tokens,
            weights=laid,
        )
    )


def unsupported_flags(request: FitRequest, workload: Workload) -> list[Note]:
    """Return what the request sets and the command does not, with what to do instead."""
    row, notes = ENGINES[workload.engine], list[Note]()
    for name, instead in row.unsupported_flags:
        value = getattr(request, name)
        if value and value != "auto" and not (name == "data_parallel" and value == 1):
            message = f"{row.name}'s command has no flag for {name}: {instead}."
            notes.append(Note("command-lacks-flag", name, message))
    dtypes = row.cache_dtypes
    if dtypes is not None and workload.kv_cache_dtype not in ("auto", *dtypes):
        message = (
            f"{row.name}'s command has no flag for a cache in {request.kv_cache_dtype}: it takes"
            f" {', '.join(dict.fromkeys(dtypes.values()))}."
        )
        notes.append(Note("command-lacks-flag", "kv_cache_dtype", message))
    return notes


def loads_asked_format(request: FitRequest, engine: EngineName) -> bool:
    """Return whether the command loads the weights in the requested format, and not as they are
    published."""
    name = request.quantization
    return (
        name is None
        or canonical_name(name) in UNQUANTIZED
        or _online_format(request, engine) is not None
    )


def _online_format(request: FitRequest, engine: EngineName) -> str | None:
    """Return the engine's word for the requested format; None where it does not quantize to it
    while it loads."""
    formats, name = ENGINES[engine].online_formats, request.quantization
    return formats.get(canonical_name(name)) if name else None
