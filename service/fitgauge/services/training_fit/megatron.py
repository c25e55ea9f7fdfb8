"""What Megatron alone is asked: modules that run again, sequence parallelism of experts, and how
layers are spread over stages."""

from fitgauge.engine.model.spec import ModelSpec
from fitgauge.engine.training.parallel.pipeline import DEFAULT_CHUNKS, stage_layers
from fitgauge.engine.training.parallel.validate import experts
from fitgauge.engine.training.workload import Framework, TrainingWorkload, recomputed_modules
from fitgauge.errors import InvalidRequestError
from fitgauge.services.training_fit.schemas import TrainingRequest

MODULES = ("core_attn", "mlp", "moe", "moe_act", "layernorm", "mla_up_proj", "shared_experts")
"""What --recompute-modules takes. Source: megatron/core/transformer/transformer_config.py,
recompute_modules."""


def modules(request: TrainingRequest, framework: Framework) -> tuple[str, ...]:
    """Return the modules asked for. Raises InvalidRequestError for words that Megatron has not,
    and where nothing would be run again by module."""
    if request.recompute_modules is None:
        return ()
    asked, field = (
        tuple(part.strip() for part in request.recompute_modules.split(",")),
        "recompute_modules",
    )
    if framework != "megatron" or request.activation_checkpointing != "selective":
        detail = "recompute_modules belongs to selective checkpointing under Megatron."
        raise InvalidRequestError(
            detail,
            hint="Send framework megatron and activation_checkpointing selective.",
            field=field,
        )
    unknown = [word for word in asked if word not in MODULES]
    if unknown:
        raise InvalidRequestError(
            f"Megatron does not recompute {unknown[0]!r}.",
            hint=f"Send some of {', '.join(MODULES)}.",
            field=field,
        )
    return tuple(dict.fromkeys(asked))


def sequence_parallel(
    request: TrainingRequest, spec: ModelSpec, framework: Framework, tensor: int
) -> bool:
    """As asked; where nothing is said, on for experts beside divided layers, which Megatron
    trains no other way."""
    if request.sequence_parallel is not None:
        return request.sequence_parallel
    return framework == "megatron" and tensor > 1 and experts(spec) > 0


def chunks(request: TrainingRequest) -> int:
    """Pieces of a rank's layers. Raises InvalidRequestError where the schedule takes them whole."""
    if request.pipeline_chunks is not None and request.pipeline_schedule != "interleaved":
        detail = "pipeline_chunks belongs to the interleaved schedule."
        raise InvalidRequestError(
            detail,
            hint="Send pipeline_schedule interleaved, or leave it out.",
            field="pipeline_chunks",
        )
    return request.pipeline_chunks or DEFAULT_CHUNKS


def uneven(workload: TrainingWorkload, spec: ModelSpec) -> tuple[int, ...]:
    """Return the layers of every stage of a Megatron pipeline whose stages are not alike; empty
    where they are."""
    if workload.framework != "megatron" or workload.pipeline_parallel == 1:
        return ()
    sizes = tuple(len(each) for each in stage_layers(max(1, spec.layers), workload))
    return sizes if len(set(sizes)) > 1 else ()


def understood(workload: TrainingWorkload, spec: ModelSpec) -> dict[str, str | int]:
    """Return the fields of this room, as what was taken for them."""
    found: dict[str, str | int] = {}
    if modules := recomputed_modules(workload):
        found["recompute_modules"] = ",".join(modules)
    if workload.pipeline_parallel > 1 and workload.pipeline_schedule == "interleaved":
        found["pipeline_chunks"] = workload.pipeline_chunks
    if sizes := uneven(workload, spec):
        found["last_stage_layers"] = sizes[-1]
    return found


def notes(request: TrainingRequest, workload: TrainingWorkload, spec: ModelSpec) -> list[str]:
    """Return what was taken, and what is asked for in vain, as sentences."""
    found = []
    sizes = uneven(workload, spec)
    if sizes and request.last_stage_layers is None:
        first, *middle, last = sizes
        between = f", {len(middle)} x {middle[0]}" if middle else ""
        said = (
            f"{spec.layers} layers do not divide into {workload.pipeline_parallel} stages:"
            f" {first}{between} and {last} were taken"
        )
        found.append(f"{said} (last_stage_layers).")
    if recomputed_modules(workload) == ("core_attn",) and workload.attention != "eager":
        more = "layernorm, with moe_act for experts" if experts(spec) else "layernorm and mlp"
        found.append(
            f"core_attn keeps no less under {workload.attention}, which keeps no scores:"
            f" recompute_modules {more} would."
        )
    return found
