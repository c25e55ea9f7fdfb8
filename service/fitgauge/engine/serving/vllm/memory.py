"""Serving with vLLM: what every rank holds before the first request, and the pool its requests
need.

Source: vllm/v1/worker/gpu_worker.py, determine_available_memory: pool = total x
gpu_memory_utilization - weights - non-torch - peak of the profiling pass (- CUDA graphs, from
0.21).
"""

from functools import cache
from typing import NamedTuple, Self

from msgspec import structs

from fitgauge.engine.accelerator import Accelerator, shared
from fitgauge.engine.memo import Memo, MixedMemo, WeakMemo
from fitgauge.engine.model.spec import ModelSpec, count_within
from fitgauge.engine.quantity import Bytes, Term, exact_term, exactly
from fitgauge.engine.serving.estimate import Estimate, stage_estimates
from fitgauge.engine.serving.profile import EngineProfile
from fitgauge.engine.serving.runtime import captures_graphs, communication_term, graph_term
from fitgauge.engine.serving.vllm import releases
from fitgauge.engine.serving.vllm.compute_capability import (
    BLACKWELL,
    HOPPER,
    RTX_BLACKWELL,
    AcceleratorKind,
    accelerator_kind,
    padded_for,
    shares_memory,
)
from fitgauge.engine.serving.vllm.cuda_graphs import captured, captures_more
from fitgauge.engine.serving.vllm.kv_cache import turboquant
from fitgauge.engine.serving.vllm.kv_cache.specs import differs_by_generation
from fitgauge.engine.serving.vllm.lora import check_lora, lora_term
from fitgauge.engine.serving.vllm.model_loading import loaded_terms
from fitgauge.engine.serving.vllm.pipeline import check_pipeline
from fitgauge.engine.serving.vllm.profile_run import profiling_terms
from fitgauge.engine.serving.vllm.quantized import check_checkpoint
from fitgauge.engine.serving.vllm.quirks import quirks
from fitgauge.engine.serving.vllm.repacking import has_fp8_blocks
from fitgauge.engine.serving.vllm.second_runner import holds_states, sampler_states, warm_up_term
from fitgauge.engine.serving.vllm.shared_experts import with_whole_shared_experts
from fitgauge.engine.serving.vllm.speculative import check_draft, check_heads, draft_term
from fitgauge.engine.serving.vllm.stage_memory import (
    communicating_ranks,
    graphs_in_budget,
    stage_memory,
    states_in_budget,
    with_caches,
)
from fitgauge.engine.serving.vllm.weights import check_parallel
from fitgauge.engine.serving.vllm.workspaces import retained_workspace
from fitgauge.engine.serving.weights import Stage, has_tables, stages_of
from fitgauge.engine.serving.workload import Workload
from fitgauge.engine.unsupported import UnsupportedError
from fitgauge.engine.weights.sharding import ShardedWeights

_OTHER_SETTINGS = 128
"""Passes, processes and caches of one model: a search asks for some forty."""

_DERIVED: WeakMemo[ModelSpec, int, tuple[EngineProfile, MixedMemo]] = WeakMemo(16)
"""What the estimates of one model and profile share, as those of one search do."""

_BY_GENERATION: WeakMemo[ModelSpec, None, bool] = WeakMemo(1024)
"""Whether the cache of a model differs between Hopper and Blackwell."""


def estimate(
    spec: ModelSpec,
    sharded: ShardedWeights,
    workload: Workload,
    accelerator: Accelerator,
    profile: EngineProfile,
) -> Estimate:
    """Return the Estimate of every pipeline stage. Raises UnsupportedError where vLLM refuses
    the parallelism."""
    loaded = loaded_stages(spec, sharded, workload, accelerator)
    # with its profile, whose identity no other can then have
    _, memo = _DERIVED.get_or_compute(spec, id(profile), lambda: (profile, Memo(_OTHER_SETTINGS)))
    idle = stage_memory(spec, workload, accelerator, profile, memo)
    return Estimate(
        accelerator=accelerator,
        stages=stage_estimates(loaded, with_caches(idle, workload)),
        budget=budget_bytes(accelerator, workload),
        given_pool_bytes=workload.kv_cache_memory_bytes,
    )


def terms_outside_budget(
    spec: ModelSpec,
    profile: EngineProfile,
    workload: Workload,
    accelerator: Accelerator,
    *,
    layers: int,
) -> tuple[Term, ...]:
    """Return what is held beyond total x gpu_memory_utilization.

    CUDA's context, taken before vLLM looks at what is free, and of unified memory all that the
    system holds by then; the CUDA graphs of releases that do not take them off the pool, from
    nothing (few sizes to capture) to what the profile says; what NCCL opens after the pass beyond
    what the pass saw, as it connects each algorithm at first use (NCCL_RUNTIME_CONNECT, 2.22 and
    newer); the states of the second runner's sampler where nothing counts them, and its warm-up
    where it takes more than the pass left; and what others hold, as vLLM refuses to start where
    less is free than its share of the whole GPU.

    Source: v1/worker/gpu_worker.py, init_device (the snapshot) and determine_available_memory
    (what is taken off); v1/worker/utils.py, request_memory ("Free memory on device ... is less
    than desired GPU memory utilization")."""
    terms = []
    if workload.other_memory_bytes:
        terms.append(
            exact_term(
                "others",
                workload.other_memory_bytes,
                "exact",
                f"{exactly(workload.other_memory_bytes)}; other_memory_gib",
                "the question",
            )
        )
    # Where AMD's driver shares memory, what a process sees leaves the system's part out.
    whole = accelerator.unified_memory and accelerator.vendor == "NVIDIA"
    share = profile.unified_share if whole else profile.context_share
    if share is not None:
        size = accelerator.usable.expected
        formula = f"{share.expected:.6g} x {exactly(size)} of the GPU"
        if whole:
            formula += "; the system, its page cache and CUDA"
        terms.append(share.term("context", size, 0, formula))
    if (
        not graphs_in_budget(spec, profile)
        and not workload.enforce_eager
        and captures_graphs(accelerator)
    ):
        latent = min(layers, count_within(spec.latent_layers, range(spec.layers)))
        graphs = graph_term(profile, layers, captured(workload, accelerator), latent)
        terms.append(structs.replace(graphs, low=0))
    if holds_states(spec, profile) and not states_in_budget(spec, workload, profile):
        terms.append(sampler_states(spec, workload))
    if holds_states(spec, profile) and workload.engine_version < releases.SAMPLER_WARMED:
        held = profiling_terms(spec, profile, workload, accelerator, first=True, last=True)
        terms.append(warm_up_term(spec, workload, accelerator, sum(term.bytes for term in held)))
    if workload.kv_cache_dtype in turboquant.PRESETS:
        seen_bytes = retained_workspace(spec, workload, accelerator)
        terms += turboquant.workspace_terms(spec, workload, seen_bytes)
    ranks = communicating_ranks(workload)
    if ranks > 1:
        seen = communication_term(profile, ranks=ranks, symmetric=shares_memory(accelerator))
        terms.append(structs.replace(seen, low=0, bytes=0, high=seen.high - seen.bytes))
    return tuple(terms)


def workload_kind(spec: ModelSpec, accelerator: Accelerator, workload: Workload) -> AcceleratorKind:
    """Return the kind of an accelerator as far as it decides what this workload holds in addition
    to what is loaded: without its links under one rank, what its matrix units multiply, and from
    Hopper on its generation where no kernel is another and as many graphs are captured."""
    differs = (
        spec.has_experts
        or workload.speculative_tokens > 0
        or captures_more(workload, accelerator)
        or _BY_GENERATION.get_or_compute(spec, None, lambda: differs_by_generation(spec))
    )
    return _of_workload(accelerator_kind(accelerator), communicating_ranks(workload) > 1, differs)


@cache
def _of_workload(kind: AcceleratorKind, communicates: bool, differs: bool) -> AcceleratorKind:
    newer = kind.generation in (BLACKWELL, RTX_BLACKWELL)
    return kind._replace(
        generation=HOPPER if newer and not differs else kind.generation,
        symmetric=kind.symmetric and communicates,
        multiplies_fp8=True,
    )


def loading_kind(
    accelerator: Accelerator, workload: Workload, sharded: ShardedWeights
) -> AcceleratorKind:
    """Return the kind of an accelerator as far as it decides what is loaded: neither links nor
    age, nor the vendor where it is not NVIDIA; its generation where there are experts, whose tiles
    differ, or a draft; whether its memory is the host's where tables are kept there."""
    differences = sharded.once("differences", lambda: LoadingDifferences.of(sharded))
    drafts = workload.speculative_tokens > 0
    return _of_loading(accelerator_kind(accelerator), differences, drafts)


class LoadingDifferences(NamedTuple):
    """What of a model is loaded otherwise on another kind of accelerator."""

    has_experts: bool
    """Experts, whose tiles differ by generation."""
    has_blocks: bool
    """FP8 weights whose rows share scales."""
    has_tables: bool
    """Tables that may stay in the host's memory."""

    @classmethod
    def of(cls, sharded: ShardedWeights) -> Self:
        """Return those of a model's weights."""
        return cls(
            any(share.experts for share in sharded.shares),
            has_fp8_blocks(sharded),
            has_tables(sharded),
        )


@cache
def _of_loading(
    kind: AcceleratorKind, differences: LoadingDifferences, drafts: bool
) -> AcceleratorKind:
    experts, blocks, tables = differences
    return kind._replace(
        generation=kind.generation if experts or drafts else 0,
        symmetric=False,
        unified_memory=kind.unified_memory and tables,
        early=False,
        measured=True,
        graphs=True,
        multiplies_fp8=kind.multiplies_fp8 or not blocks,
    )


def loaded_stages(
    spec: ModelSpec, sharded: ShardedWeights, workload: Workload, accelerator: Accelerator
) -> tuple[tuple[Term, ...], ...]:
    """Return what every stage holds once the model is loaded, before anything is asked of it.
    Raises UnsupportedError where vLLM refuses."""
    deployed = (
        loading_kind(accelerator, workload, sharded),
        workload.engine_version,
        workload.tensor_parallel,
        workload.pipeline_parallel,
        workload.data_parallel,
        workload.expert_parallel,
        workload.cpu_offload_bytes,
        workload.lora_slots,
        workload.lora_rank,
        workload.speculative_tokens > 0,
        workload.rope_scaling_factor,
        workload.context_length if quirks(spec).tables_as_started else 0,
    )
    loaded = sharded.once(deployed, lambda: _loaded(spec, sharded, workload, accelerator))
    if isinstance(loaded, UnsupportedError):
        raise loaded.with_traceback(None)  # it would hold the frames of whoever was refused before
    return loaded


def _loaded(
    spec: ModelSpec, sharded: ShardedWeights, workload: Workload, accelerator: Accelerator
) -> tuple[tuple[Term, ...], ...] | UnsupportedError:
    """Return `loaded_stages`, or why vLLM refuses: searches ask for what it refuses as often."""
    try:
        _check(spec, sharded, workload, accelerator)
    except UnsupportedError as refusal:
        return refusal
    whole = with_whole_shared_experts(sharded, spec, workload)
    here = padded_for(whole, spec, accelerator.compute_capability)
    return tuple(
        (
            *loaded_terms(spec, here, workload, accelerator, stage),
            *requested_terms(spec, sharded, workload, accelerator, stage),
        )
        for stage in stages_of(spec, workload)
    )


def _check(
    spec: ModelSpec, sharded: ShardedWeights, workload: Workload, accelerator: Accelerator
) -> None:
    """Raise UnsupportedError where vLLM refuses to load the model so."""
    check_parallel(
        spec,
        sharded,
        tensor_parallel=workload.tensor_parallel,
        expert_parallel=workload.expert_parallel,
        data_parallel=workload.data_parallel,
        version=workload.engine_version,
    )
    check_pipeline(spec, workload.pipeline_parallel)
    check_checkpoint(spec, sharded, workload.engine_version, accelerator.compute_capability)
    check_lora(spec, workload)
    check_draft(spec, workload)
    check_heads(spec, workload.speculative_tokens)


def requested_terms(
    spec: ModelSpec,
    sharded: ShardedWeights,
    workload: Workload,
    accelerator: Accelerator,
    stage: Stage,
) -> tuple[Term, ...]:
    """`draft_weights` and `lora_slots` of one pipeline stage, where they are asked for."""
    terms: list[Term] = []
    if workload.speculative_tokens and stage.last:
        terms.append(draft_term(spec, sharded.scheme, workload, accelerator.compute_capability))
    if workload.lora_slots:
        terms.append(lora_term(spec, workload, stage))
    return tuple(terms)


def budget_bytes(accelerator: Accelerator, workload: Workload) -> Bytes:
    """usable x gpu_memory_utilization [bytes]; all that is free where the pool is given
    outright, as vLLM then ignores the share."""
    if workload.kv_cache_memory_bytes is not None:
        return shared(accelerator, workload.other_memory_bytes).usable
    share, usable = workload.gpu_memory_utilization, accelerator.usable
    return Bytes(
        low=int(usable.low * share),
        expected=int(usable.expected * share),
        high=int(usable.high * share),
    )
