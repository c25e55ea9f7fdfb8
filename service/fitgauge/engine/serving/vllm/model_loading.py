""" "Model loading took": everything vLLM holds once a model is loaded, as it logs it.

That line is what torch counts as allocated after loading: parameters, registered buffers, what
the allocator rounds up, what a kernel repacks and what a module allocates at import. `weights`
here holds parameters and registered buffers, as the line does, and the padding of releases whose
logs show it; the rest are terms of their own. Source: vllm/v1/worker/gpu_model_runner.py,
load_model."""

from fitgauge.engine.accelerator import Accelerator
from fitgauge.engine.model.mixers import LatentAttention
from fitgauge.engine.model.spec import TOWERS, ModelSpec, Part
from fitgauge.engine.quantity import MIB, Term, exact_term, exactly, plus
from fitgauge.engine.serving.rope_scaling import scaled_tables
from fitgauge.engine.serving.vllm import releases
from fitgauge.engine.serving.vllm.host_tables import on_host
from fitgauge.engine.serving.vllm.model_classes import as_started
from fitgauge.engine.serving.vllm.quirks import quirks
from fitgauge.engine.serving.vllm.repacking import padded_row_bytes, repacking_terms, rows_are_seen
from fitgauge.engine.serving.vllm.weights import buffer_bytes
from fitgauge.engine.serving.weights import Stage, allocator_term, weights_term
from fitgauge.engine.serving.workload import Workload
from fitgauge.engine.weights.sharding import ShardedWeights

_MLA_WORKSPACE = 128 * MIB
"""Allocated when the attention backends of MLA are imported."""
_MLA_SOURCE = (
    "vllm 0.33 vllm/v1/attention/backends/mla/cutlass_mla.py, g_sm100_workspace; logs of"
    " DeepSeek-V2-Lite at 1, 2 and 4 ranks"
)


def loaded_terms(
    spec: ModelSpec,
    sharded: ShardedWeights,
    workload: Workload,
    accelerator: Accelerator,
    stage: Stage,
) -> tuple[Term, ...]:
    """`weights`, `fragmentation`, and where there is any `workspace` and `repacking`, of one
    pipeline stage."""
    parameters = weights_term(
        sharded,
        workload,
        stage,
        cpu_offload_bytes=workload.cpu_offload_bytes,
        on_host=on_host(sharded, workload, accelerator, stage.layers),
    )
    extra_bytes = buffer_bytes(
        as_started(scaled_tables(spec, workload.rope_scaling_factor), workload.context_length),
        expert_parallel=workload.expert_parallel,
        layers=stage.span,
        first=stage.first,
        version=workload.engine_version,
    )
    extra_bytes += whole_tower_bytes(spec, workload) if stage.first else 0
    padding = 0
    if rows_are_seen(workload):
        padding = padded_row_bytes(sharded, workload, accelerator, stage.layers)
    extra_bytes += padding
    terms = [
        Term(
            name="weights",
            bytes=parameters.bytes + extra_bytes,
            low=parameters.low + extra_bytes,
            high=parameters.high + extra_bytes,
            basis="calibrated" if padding else parameters.basis,
            formula=plus(
                parameters.formula, f"{exactly(extra_bytes)} of registered buffers and padded rows"
            ),
            source=(
                f"{parameters.source}; vllm 0.33"
                " vllm/model_executor/layers/rotary_embedding/base.py"
            ),
        ),
        allocator_term(sharded, workload, stage),
    ]
    if accelerator.vendor == "NVIDIA" and any(
        isinstance(mixer, LatentAttention) for block in spec.blocks for mixer in block.mixers
    ):
        terms.append(
            exact_term(
                "workspace", _MLA_WORKSPACE, "computed", "128 MiB of MLA's backends", _MLA_SOURCE
            )
        )
    return (*terms, *repacking_terms(sharded, workload, accelerator, stage))


def whole_tower_bytes(spec: ModelSpec, workload: Workload) -> int:
    """Return what a rank holds more where a tower stands whole on every one of t ranks: its
    bytes x (1 - 1/t)."""
    if workload.engine_version >= releases.PIXTRAL_DIVIDED or not quirks(spec).tower_once_whole:
        return 0
    held = sum(
        2 * block.elements for block in spec.blocks if block.part in (*TOWERS, Part.PROJECTOR)
    )
    return held * (workload.tensor_parallel - 1) // workload.tensor_parallel
