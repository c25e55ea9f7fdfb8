"""What SGLang keeps back of a GPU for activations and CUDA graphs, which come after the pools.

Source: sglang 0.5.23, srt/mem_cache/kv_cache_configurator.py, _profile_available_bytes."""

from msgspec import structs

from fitgauge.engine.accelerator import Accelerator
from fitgauge.engine.model.spec import ModelSpec
from fitgauge.engine.quantity import Term, exact_term, exactly
from fitgauge.engine.serving.activations import activation_bytes
from fitgauge.engine.serving.profile import EngineProfile
from fitgauge.engine.serving.runtime import as_measured, captures_graphs, graph_term
from fitgauge.engine.serving.sglang.mem_fraction import captures_decode, step_tokens
from fitgauge.engine.serving.workload import Workload


def memory_in_reserve(
    spec: ModelSpec,
    profile: EngineProfile,
    workload: Workload,
    layers: range,
    accelerator: Accelerator,
    *,
    last: bool,
) -> tuple[Term, ...]:
    """Return what comes after the pools are taken and lives in what is kept back."""
    terms = activation_bytes(
        spec,
        profile,
        tokens=step_tokens(workload),
        sequences=workload.max_num_seqs,
        tensor_parallel=workload.tensor_parallel,
        samples=last and spec.task != "encode",
    )
    captures = captures_decode(workload) and captures_graphs(accelerator)
    if workload.enforce_eager or not captures:
        return terms
    return (*terms, *as_measured([graph_term(profile, len(layers))], accelerator))


def reserve_term(after: tuple[Term, ...], reserved: int, workload: Workload) -> tuple[Term, ...]:
    """Return the terms that come after the pools, and `reserve`, what `reserved` bytes hold beyond
    them.

    As long as they stay within what is kept back, their doubt changes nothing of what has to
    fit: only an excess has a spread."""
    spare = reserved - sum(term.bytes for term in after)
    risk = sum(term.high - term.bytes for term in after)
    excess = max(0, risk - max(0, spare)) / risk if risk else 0.0
    terms = [
        structs.replace(
            term,
            low=term.low if spare < 0 else term.bytes,
            high=term.bytes + int((term.high - term.bytes) * excess),
        )
        for term in after
    ]
    formula = (
        f"max(0, {exactly(reserved)} - {exactly(sum(term.bytes for term in after))}); of what is"
        f" free before loading, 1 - mem_fraction_static {workload.gpu_memory_utilization:g}, less"
        " what comes after the pools"
    )
    source = "sglang 0.5.23 sglang/srt/mem_cache/kv_cache_configurator.py, _profile_available_bytes"
    return (*terms, exact_term("reserve", max(0, spare), "computed", formula, source))
