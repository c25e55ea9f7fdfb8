"""Serving with vLLM: what every rank holds before the first request, and the pool its requests
need.

Source: vllm/v1/worker/gpu_worker.py, determine_available_memory: pool = total x
gpu_memory_utilization - weights - non-torch - peak of the profiling pass (- CUDA graphs, from
0.21).
"""

from collections.abc import Iterable
from functools import partial
from typing import NamedTuple

from msgspec import structs

from fitgauge.engine.accelerator import Accelerator, shared
from fitgauge.engine.memo import Memo, MixedMemo, WeakMemo
from fitgauge.engine.model.spec import ModelSpec
from fitgauge.engine.quantity import Bytes, Term, exact_term, exactly
from fitgauge.engine.serving.estimate import Estimate, StageMemory, stage_estimates
from fitgauge.engine.serving.kv_cache import given_pool
from fitgauge.engine.serving.profile import EngineProfile
from fitgauge.engine.serving.runtime import (
    as_measured,
    captures_graphs,
    communication_term,
    graph_term,
    runtime_bytes,
)
from fitgauge.engine.serving.vllm.compute_capability import (
    accelerator_kind,
    padded_for,
    shares_memory,
)
from fitgauge.engine.serving.vllm.cuda_graphs import captured, latent_layers
from fitgauge.engine.serving.vllm.kv_cache.groups import Members, on_stage
from fitgauge.engine.serving.vllm.kv_cache.layout import (
    KvCacheConfig,
    batches_in_flight,
    model_groups,
    stage_layout,
)
from fitgauge.engine.serving.vllm.lora import check_lora, lora_term
from fitgauge.engine.serving.vllm.model_loading import loaded_terms
from fitgauge.engine.serving.vllm.pipeline import check_pipeline
from fitgauge.engine.serving.vllm.profile_run import profiling_terms, runs_second
from fitgauge.engine.serving.vllm.quantized import check_checkpoint
from fitgauge.engine.serving.vllm.speculative import check_draft, draft_term, drafted_layers
from fitgauge.engine.serving.vllm.weights import check_parallel
from fitgauge.engine.serving.weights import Stage, stages_of
from fitgauge.engine.serving.workload import Workload
from fitgauge.engine.weights.sharding import ShardedWeights

_OTHER_SETTINGS = 64
"""Passes and groups of layers of one model: a search asks for some twenty."""

_DERIVED: WeakMemo[ModelSpec, int, tuple[EngineProfile, MixedMemo]] = WeakMemo(16)
"""What the estimates of one model and profile share, as those of one search do."""

_PLANNER = "vllm 0.33 vllm/v1/core/kv_cache_planning.py; kv_cache_utils.py before"


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
    return Estimate(
        accelerator=accelerator,
        stages=stage_estimates(loaded, stage_memory(spec, workload, accelerator, profile, memo)),
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
    newer); and what others hold, as vLLM refuses to start where less is free than its share of
    the whole GPU.

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
        latent = min(layers, latent_layers(spec, range(spec.layers)))
        graphs = graph_term(profile, layers, captured(workload), latent)
        terms.append(structs.replace(graphs, low=0))
    ranks = communicating_ranks(workload)
    if ranks > 1:
        seen = communication_term(profile, ranks=ranks, symmetric=shares_memory(accelerator))
        terms.append(structs.replace(seen, low=0, bytes=0, high=seen.high - seen.bytes))
    return tuple(terms)


def loaded_stages(
    spec: ModelSpec, sharded: ShardedWeights, workload: Workload, accelerator: Accelerator
) -> tuple[tuple[Term, ...], ...]:
    """Return what every stage holds once the model is loaded, before anything is asked of it.
    Raises UnsupportedError where vLLM refuses."""
    deployed = (
        accelerator_kind(accelerator),
        workload.engine_version,
        workload.tensor_parallel,
        workload.pipeline_parallel,
        workload.data_parallel,
        workload.expert_parallel,
        workload.cpu_offload_bytes,
        workload.lora_slots,
        workload.lora_rank,
        workload.speculative_tokens > 0,
    )
    return sharded.once(deployed, lambda: _loaded(spec, sharded, workload, accelerator))


def _loaded(
    spec: ModelSpec, sharded: ShardedWeights, workload: Workload, accelerator: Accelerator
) -> tuple[tuple[Term, ...], ...]:
    check_parallel(
        spec,
        sharded,
        tensor_parallel=workload.tensor_parallel,
        expert_parallel=workload.expert_parallel,
        data_parallel=workload.data_parallel,
        version=workload.engine_version,
    )
    check_pipeline(spec, workload.pipeline_parallel)
    check_checkpoint(spec, sharded.scheme, workload.engine_version)
    check_lora(spec, workload)
    check_draft(spec, workload)
    here = padded_for(sharded, spec, accelerator.compute_capability)
    return tuple(
        (
            *loaded_terms(spec, here, workload, accelerator, stage),
            *requested_terms(spec, sharded, workload, accelerator, stage),
        )
        for stage in stages_of(spec, workload)
    )


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


class ProfileCache(NamedTuple):
    """What stages of one tensor degree hold, computed once."""

    groups: tuple[Members, ...]
    """The model's layers, equal ones together."""
    passes: dict[tuple[bool, bool], tuple[Term, ...]]
    """The profiling pass of a stage by whether it is the first and whether the last."""
    caches: dict[tuple[int, range | tuple[int, ...] | None], KvCacheConfig]
    """The cache of a stage by batches in flight and layers; caches of the same layers are one."""


def stage_memory(
    spec: ModelSpec,
    workload: Workload,
    accelerator: Accelerator,
    profile: EngineProfile,
    memo: MixedMemo,
) -> tuple[StageMemory, ...]:
    """Return what every stage holds in addition to what is loaded: the pass that measures what is
    left, the process, and the pool.

    `memo`: of this model and profile; passes and groups of layers depend on the number of
    stages only in whether there are several."""
    stages, drafted = (
        stages_of(spec, workload),
        drafted_layers(spec) if workload.speculative_tokens else 0,
    )
    ranks, symmetric = communicating_ranks(workload), shares_memory(accelerator)
    graphs = (
        graphs_in_budget(spec, profile)
        and not workload.enforce_eager
        and captures_graphs(accelerator)
    )
    held = memo.get_or_compute(
        (_of_the_pass(workload, len(stages)), accelerator_kind(accelerator).alone),
        lambda: ProfileCache(_groups(spec, workload, accelerator, memo), {}, {}),
    )
    processes: dict[tuple[int, int], tuple[Term, ...]] = {}
    places, caches = [], []
    for stage in stages:
        place, layers = (stage.first, stage.last), len(stage.layers)
        alike = layers, latent_layers(spec, stage.layers)
        if place not in held.passes:
            held.passes[place] = profiling_terms(
                spec, profile, workload, accelerator, first=stage.first, last=stage.last
            )
        if alike not in processes:
            process = runtime_bytes(
                profile,
                layers=layers,
                ranks=ranks,
                graphs=graphs,
                captured=captured(workload),
                latent=alike[1],
                unified_memory=accelerator.unified_memory,
                symmetric=symmetric,
            )
            processes[alike] = as_measured(process, accelerator)
        places.append((layers, (*held.passes[place], *processes[alike])))
        cached_layers = stage.span
        if cached_layers is not None and stage.last:
            cached_layers = range(cached_layers.start, cached_layers.stop + drafted)
        caches.append(_cache(held, workload, cached_layers))
    pools = _pools(caches, workload)
    return tuple(
        StageMemory(layers=layers, fixed=fixed, cache=(pools[id(cache)],), layout=cache)
        for (layers, fixed), cache in zip(places, caches, strict=True)
    )


def _of_the_pass(workload: Workload, stages: int) -> Workload:
    """Return the workload without what decides neither the profiling pass nor the groups of layers:
    more than two stages, the share of the GPU, and bytes in host memory or of others."""
    return structs.replace(
        workload,
        pipeline_parallel=min(stages, 2),
        gpu_memory_utilization=1.0,
        cpu_offload_bytes=0,
        other_memory_bytes=0,
    )


def _groups(
    spec: ModelSpec, workload: Workload, accelerator: Accelerator, memo: MixedMemo
) -> tuple[Members, ...]:
    make = partial(
        model_groups,
        spec,
        tensor_parallel=workload.tensor_parallel,
        kv_cache_dtype=workload.kv_cache_dtype,
        max_model_len=workload.context_length,
        max_batched_tokens=workload.max_batched_tokens,
        compute_capability=accelerator.compute_capability,
        version=workload.engine_version,
        speculative_tokens=workload.speculative_tokens,
        float32=workload.float32,
    )
    groups: tuple[Members, ...] = memo.get_or_compute(tuple(make.keywords.values()), make)
    return groups


def _cache(held: ProfileCache, workload: Workload, layers: range | None) -> KvCacheConfig:
    """Return the cache of the stage that holds `layers`, None for all: the same for stages whose
    layers are alike."""
    batches = batches_in_flight(workload.pipeline_parallel, workload.engine_version)
    layout = held.caches.get((batches, layers))
    if layout is None:
        members = on_stage(held.groups, layers)
        alike = batches, tuple(len(numbers) for group in members for _, numbers in group)
        layout = held.caches.get(alike)
        if layout is None:
            sequences = 0 if workload.enforce_eager else workload.max_num_seqs
            in_flight = batches * workload.max_batched_tokens
            layout = stage_layout(
                members,
                workload.context_length,
                in_flight,
                max_num_seqs=sequences,
                version=workload.engine_version,
            )
            held.caches[alike] = layout
        held.caches[batches, layers] = layout
    return layout


def with_concurrency(
    other_memory: tuple[StageMemory, ...], workload: Workload
) -> tuple[StageMemory, ...]:
    """Return what every stage holds for `workload`, from what it holds for one with another
    concurrency."""
    layouts = (stage.layout for stage in other_memory)
    pools = _pools((one for one in layouts if isinstance(one, KvCacheConfig)), workload)
    return tuple(stage._replace(cache=(pools[id(stage.layout)],)) for stage in other_memory)


def _pools(caches: Iterable[KvCacheConfig], workload: Workload) -> dict[int, Term]:
    """Return the `cache_term` of every cache, by its identity: stages alike share theirs."""
    return {
        number: cache_term(cache, workload)
        for number, cache in {id(cache): cache for cache in caches}.items()
    }


def communicating_ranks(workload: Workload) -> int:
    """Return the ranks that reduce together in every layer; pipeline stages only hand tensors
    on, which needs no buffers worth a term."""
    return max(workload.tensor_parallel, workload.expert_parallel)


def graphs_in_budget(spec: ModelSpec, profile: EngineProfile) -> bool:
    """Return whether the CUDA graphs are taken off the pool of this model."""
    return (
        profile.second_graphs_in_budget
        if runs_second(spec, profile.second_runner)
        else profile.graphs_in_budget
    )


def cache_term(cache: KvCacheConfig, workload: Workload) -> Term:
    """Return the pool: given outright, else the blocks of the requests asked for."""
    if workload.kv_cache_memory_bytes is not None:
        return exact_term(
            "kv_cache",
            workload.kv_cache_memory_bytes,
            "exact",
            given_pool(workload.kv_cache_memory_bytes),
            "the question",
        )
    requests = workload.requests_per_replica
    return exact_term(
        "kv_cache",
        cache.pool_bytes(requests, workload.context_length),
        "computed",
        cache.pool_formula(requests, workload.context_length),
        _PLANNER,
    )
