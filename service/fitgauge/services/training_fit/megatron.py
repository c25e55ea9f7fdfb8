"""Settings of Megatron only: recomputed modules, sequence parallelism of experts, and layers per
stage."""

from collections.abc import Iterator

from fitgauge.engine.model.spec import ModelSpec
from fitgauge.engine.note import Note
from fitgauge.engine.training.parallel.pipeline import DEFAULT_CHUNKS, stage_layers
from fitgauge.engine.training.workload import Framework, TrainingWorkload, recomputed_modules
from fitgauge.errors import InvalidRequestError
from fitgauge.services.training_fit.schemas import TrainingRequest

MODULES = ("core_attn", "mlp", "moe", "moe_act", "layernorm", "mla_up_proj", "shared_experts")
"""What --recompute-modules takes. Source: megatron/core/transformer/transformer_config.py,
recompute_modules."""


def modules(request: TrainingRequest, framework: Framework) -> tuple[str, ...]:
    """Return the requested modules. Raises InvalidRequestError for unknown ones, and without
    selective checkpointing under Megatron."""
    if request.recompute_modules is None:
        return ()
    field = "recompute_modules"
    names = tuple(part.strip() for part in request.recompute_modules.split(","))
    if framework != "megatron" or request.activation_checkpointing != "selective":
        detail = "recompute_modules requires selective checkpointing under Megatron."
        raise InvalidRequestError(
            detail,
            hint="Send framework megatron and activation_checkpointing selective.",
            field=field,
        )
    unknown = [word for word in names if word not in MODULES]
    if unknown:
        raise InvalidRequestError(
            f"Megatron does not recompute {unknown[0]!r}.",
            hint=f"Send some of {', '.join(MODULES)}.",
            field=field,
            code="unknown-value",
        )
    return tuple(dict.fromkeys(names))


def sequence_parallel(
    request: TrainingRequest, spec: ModelSpec, framework: Framework, tensor: int
) -> bool:
    """Return the requested value; by default on for experts with tensor parallelism, which Megatron
    requires."""
    if request.sequence_parallel is not None:
        return request.sequence_parallel
    return framework == "megatron" and tensor > 1 and spec.routed_experts > 0


def chunks(request: TrainingRequest) -> int:
    """Return the chunks of a rank's layers. Raises InvalidRequestError for other schedules."""
    if request.pipeline_chunks is not None and request.pipeline_schedule != "interleaved":
        detail = "pipeline_chunks requires the interleaved schedule."
        raise InvalidRequestError(
            detail,
            hint="Send pipeline_schedule interleaved, or leave it out.",
            field="pipeline_chunks",
        )
    return request.pipeline_chunks or DEFAULT_CHUNKS


def uneven(workload: TrainingWorkload, spec: ModelSpec) -> tuple[int, ...]:
    """Return the layers of every stage of an uneven Megatron pipeline; empty for an even one."""
    if workload.framework != "megatron" or workload.pipeline_parallel == 1:
        return ()
    sizes = tuple(len(each) for each in stage_layers(max(1, spec.layers), workload))
    return sizes if len(set(sizes)) > 1 else ()


def understood(workload: TrainingWorkload, spec: ModelSpec) -> dict[str, str | int]:
    """Return the fields of this module for understood_as."""
    fields: dict[str, str | int] = {}
    if modules := recomputed_modules(workload):
        fields["recompute_modules"] = ",".join(modules)
    if workload.pipeline_parallel > 1 and workload.pipeline_schedule == "interleaved":
        fields["pipeline_chunks"] = workload.pipeline_chunks
    if sizes := uneven(workload, spec):
        fields["last_stage_layers"] = sizes[-1]
    return fields


def notes(request: TrainingRequest, workload: TrainingWorkload, spec: ModelSpec) -> Iterator[Note]:
    """Yield warnings about uneven stages and modules without effect."""
    sizes = uneven(workload, spec)
    if sizes and request.last_stage_layers is None:
        first, *middle, last = sizes
        between = f", {len(middle)} x {middle[0]}" if middle else ""
        yield Note(
            "stages-uneven",
            "last_stage_layers",
            f"{spec.layers} layers do not divide into {workload.pipeline_parallel} stages:"
            f" using {first}{between} and {last} (last_stage_layers).",
        )
    if recomputed_modules(workload) == ("core_attn",) and workload.attention != "eager":
        more = "layernorm, with moe_act for experts" if spec.routed_experts else "layernorm and mlp"
        yield Note(
            "recompute-without-effect",
            "recompute_modules",
            f"Recomputing core_attn saves nothing under {workload.attention}, which keeps no"
            f" scores: send recompute_modules {more}.",
        )
