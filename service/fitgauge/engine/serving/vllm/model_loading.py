""" "Model loading took": everything vLLM holds once a model is loaded, as it logs it.

That line is what torch counts as allocated after loading: parameters, registered buffers, what
the allocator rounds up, what a kernel repacks and what a module allocates at import. `weights`
here holds parameters and registered buffers, as the line does, and the padding of releases whose
logs show it; the rest are terms of their own. Source: vllm/v1/worker/gpu_model_runner.py,
load_model."""

from fitgauge.engine.accelerator import Accelerator
from fitgauge.engine.model.spec import LatentAttention, ModelSpec, Part, count_within
from fitgauge.engine.quantity import MIB, Term, exact_term, exactly, plus
from fitgauge.engine.serving.vllm import releases
from fitgauge.engine.serving.vllm.quirks import quirks
from fitgauge.engine.serving.vllm.weights import buffer_bytes
from fitgauge.engine.serving.weights import Stage, allocator_term, weights_term
from fitgauge.engine.serving.workload import Workload
from fitgauge.engine.weights.sharding import TOWERS, ShardedWeights

_MLA_WORKSPACE = 128 * MIB
"""Allocated when the attention backends of MLA are imported."""
_MLA_SOURCE = (
    "vllm 0.33 vllm/v1/attention/backends/mla/cutlass_mla.py, g_sm100_workspace; logs of"
    " DeepSeek-V2-Lite at 1, 2 and 4 ranks"
)

_ROW_MULTIPLE = 128
"""Bytes to which a row of packed MXFP4 experts is padded on Hopper, see `_PADDING_SOURCE`."""

_PADDING_SOURCE = (
    "logs of gpt-oss-20b (0.11, 13.47 GiB) and -120b (0.14, 64.38 GiB) on an H100, explained to 0.3"
    " %; no source line found (tools/accuracy/serving.jsonl)"
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
        sharded, workload, stage, cpu_offload_bytes=workload.cpu_offload_bytes
    )
    extra_bytes = buffer_bytes(
        spec,
        expert_parallel=workload.expert_parallel,
        layers=stage.span,
        first=stage.first,
        version=workload.engine_version,
    )
    extra_bytes += whole_tower_bytes(spec, workload) if stage.first else 0
    padding = repacked_bytes(sharded, workload, accelerator, stage.layers)
    seen = workload.engine_version < releases.MXFP4_PADDING_UNSEEN
    extra_bytes += padding if seen else 0
    terms = [
        Term(
            name="weights",
            bytes=parameters.bytes + extra_bytes,
            low=parameters.low + extra_bytes,
            high=parameters.high + extra_bytes,
            basis="calibrated" if padding and seen else parameters.basis,
            formula=plus(
                parameters.formula,
                f"{exactly(extra_bytes)} of registered buffers and padded rows",
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
    if padding and not seen:
        formula = (
            f"rows of packed MXFP4 padded to {_ROW_MULTIPLE} B, as until 0.16: {exactly(padding)}"
        )
        terms.append(
            Term(
                name="repacking",
                bytes=padding,
                low=0,
                high=padding,
                basis="assumed",
                formula=formula,
                source=_PADDING_SOURCE,
            )
        )
    return tuple(terms)


def whole_tower_bytes(spec: ModelSpec, workload: Workload) -> int:
    """Return what a rank holds more where a tower stands whole on every one of t ranks: its
    bytes x (1 - 1/t)."""
    if workload.engine_version >= releases.PIXTRAL_DIVIDED or not quirks(spec).tower_once_whole:
        return 0
    held = sum(
        2 * block.elements for block in spec.blocks if block.part in (*TOWERS, Part.PROJECTOR)
    )
    return held * (workload.tensor_parallel - 1) // workload.tensor_parallel


def repacked_bytes(
    sharded: ShardedWeights, workload: Workload, accelerator: Accelerator, layers: range
) -> int:
    """Return what Hopper's layout of MXFP4 experts takes beyond the parameters: rows x (K/2
    rounded up to 128 B - K/2) over the experts."""
    if accelerator.compute_capability is None or accelerator.compute_capability[0] != 9:
        return 0
    total = 0
    for share in sharded.shares:
        if not share.experts or share.form is None or share.form.name != "mxfp4":
            continue
        row = share.inputs // 2
        count = count_within(share.layers, layers) * -(-share.experts // workload.expert_parallel)
        ways = 1 if workload.expert_parallel > 1 else workload.tensor_parallel
        total += count * share.out * (-row % _ROW_MULTIPLE) // ways
    return total
