"""What every pipeline stage of vLLM holds in addition to what is loaded: the pass that measures
what is left, the process, and the pool of the requests.

Each is computed once for all workloads that do not differ in what decides it."""

from collections.abc import Hashable, Iterable
from typing import cast

from msgspec import structs

from fitgauge.engine.accelerator import Accelerator
from fitgauge.engine.memo import Memo, MixedMemo
from fitgauge.engine.model.spec import ModelSpec, count_within
from fitgauge.engine.quantity import Term, exact_term
from fitgauge.engine.serving.estimate import CacheLayout, StageMemory
from fitgauge.engine.serving.kv_cache import given_pool
from fitgauge.engine.serving.profile import EngineProfile
from fitgauge.engine.serving.runtime import as_measured, captures_graphs, runtime_bytes
from fitgauge.engine.serving.vllm import releases
from fitgauge.engine.serving.vllm.compute_capability import accelerator_kind
from fitgauge.engine.serving.vllm.cuda_graphs import captured
from fitgauge.engine.serving.vllm.kv_cache.groups import Members, on_stage
from fitgauge.engine.serving.vllm.kv_cache.layout import (
    KvCacheConfig,
    batches_in_flight,
    model_groups,
    page_reads_context,
    stage_layout,
)
from fitgauge.engine.serving.vllm.profile_run import context_in_pass, profiling_terms
from fitgauge.engine.serving.vllm.second_runner import holds_states, runs_second, sampler_states
from fitgauge.engine.serving.vllm.speculative import drafted_layers
from fitgauge.engine.serving.weights import Stage, stages_of
from fitgauge.engine.serving.workload import Workload

_PLANNER = "vllm 0.33 vllm/v1/core/kv_cache_planning.py; kv_cache_utils.py before"

Processes = dict[tuple[int, int], tuple[Term, ...]]
"""What the process of a stage holds, by its layers and those of them of latent attention."""

Passes = dict[tuple[bool, bool], tuple[Term, ...]]
"""The profiling pass of a stage, by whether it is the first and whether the last."""

Layouts = dict[Hashable, KvCacheConfig]
"""The cache of a stage, by its layers or by how many it holds of every group."""


def stage_memory(
    spec: ModelSpec,
    workload: Workload,
    accelerator: Accelerator,
    profile: EngineProfile,
    memo: MixedMemo,
) -> tuple[StageMemory, ...]:
    """Return what every stage holds in addition to what is loaded: the pass that measures what is
    left, the process, and how its pool is laid out. `memo`: of this model and profile.

    Where the same was asked for another context that is read alike, only layouts differ."""
    one = structs.replace(workload, context_length=1, concurrency=1)
    gpu = accelerator_kind(accelerator), accelerator.compute_capability
    read = context_read(spec, workload, accelerator)
    stages = memo.get_or_compute(
        ("stages", one, gpu, read),
        lambda: of_any_context(spec, workload, accelerator, profile, memo),
    )
    layouts = {id(stage.layout): stage.layout for stage in stages}
    longest = {
        name: layout.with_longest(workload.context_length) for name, layout in layouts.items()
    }
    return tuple([stage._replace(layout=longest[id(stage.layout)]) for stage in stages])


def of_any_context(
    spec: ModelSpec,
    workload: Workload,
    accelerator: Accelerator,
    profile: EngineProfile,
    memo: MixedMemo,
) -> tuple[StageMemory, ...]:
    """Return `stage_memory` of any context that is read alike: layouts do not know the longest
    request."""
    alone = accelerator_kind(accelerator).alone
    read = context_in_pass(spec, workload, accelerator)
    held = _of_context(memo) if read else memo
    passes: Passes = held.get_or_compute((_of_the_pass(workload), read, alone), dict)
    processes = _processes(spec, workload, accelerator, profile, memo)
    stages = stages_of(spec, workload)
    caches = _caches(spec, workload, accelerator, stages, memo)
    memories: dict[Hashable, StageMemory] = {}
    drafted = drafted_layers(spec) if workload.speculative_tokens else 0
    each = []
    for stage, cache in zip(stages, caches, strict=True):
        place, layers = (stage.first, stage.last), len(stage.layers)
        captured_layers = layers + (drafted if stage.last else 0)
        alike = captured_layers, count_within(spec.latent_layers, stage.layers)
        key = place, alike, id(cache)
        memory = memories.get(key)
        if memory is None:
            if place not in passes:
                passes[place] = profiling_terms(
                    spec, profile, workload, accelerator, first=stage.first, last=stage.last
                )
                if stage.last and states_in_budget(spec, workload, profile):
                    passes[place] += (sampler_states(spec, workload),)
            if alike not in processes:
                processes[alike] = _process(spec, workload, accelerator, profile, *alike)
            fixed = (*passes[place], *processes[alike])
            memory = memories[key] = StageMemory(layers, fixed=fixed, cache=(), layout=cache)
        each.append(memory)
    return tuple(each)


def context_read(spec: ModelSpec, workload: Workload, accelerator: Accelerator) -> Hashable:
    """Return what the profiling pass and a page of the cache read of the context, which decides
    the number of pages too."""
    longest = workload.context_length if page_reads_context(spec) else 1
    return longest, context_in_pass(spec, workload, accelerator)


def _of_context(memo: MixedMemo) -> MixedMemo:
    """Return the memo of what depends on the longest request: a few, so that questions of many
    lengths displace nothing else."""
    of_context: MixedMemo = memo.get_or_compute(
        "of one context", lambda: Memo(max(1, min(64, memo.limit // 4)))
    )
    return of_context


def with_caches(stages: Iterable[StageMemory], workload: Workload) -> tuple[StageMemory, ...]:
    """Return the stages with the pool of the requests; stages alike share its term."""
    terms: dict[int, tuple[Term, ...]] = {}
    whole = []
    for stage in stages:
        number = id(stage.layout)
        if number not in terms:
            terms[number] = (cache_term(cast(KvCacheConfig, stage.layout), workload),)
        whole.append(StageMemory(stage.layers, stage.fixed, terms[number], stage.layout))
    return tuple(whole)


def _of_the_pass(workload: Workload) -> Workload:
    """Return the workload without what does not decide the profiling pass: how many stages there
    are beyond two, replicas, the requests and the format of their cache, the share of the GPU,
    CUDA graphs, bytes in host memory or of others, and the context but for `context_in_pass`."""
    return structs.replace(
        workload,
        context_length=1,
        concurrency=1,
        kv_cache_dtype="auto",
        pipeline_parallel=min(workload.pipeline_parallel, 2),
        data_parallel=1,
        gpu_memory_utilization=1.0,
        enforce_eager=False,
        cpu_offload_bytes=0,
        kv_offload_gib=0.0,
        kv_cache_memory_bytes=None,
        other_memory_bytes=0,
    )


def _processes(
    spec: ModelSpec,
    workload: Workload,
    accelerator: Accelerator,
    profile: EngineProfile,
    memo: MixedMemo,
) -> Processes:
    """Return what the processes of workloads hold that do not differ in what decides it."""
    graphs = takes_graphs(spec, workload, accelerator, profile)
    key = (
        "processes",
        accelerator_kind(accelerator),
        communicating_ranks(workload),
        graphs,
        graphs and captured(workload, accelerator),
    )
    processes: Processes = memo.get_or_compute(key, dict)
    return processes


def _process(
    spec: ModelSpec,
    workload: Workload,
    accelerator: Accelerator,
    profile: EngineProfile,
    layers: int,
    latent: int,
) -> tuple[Term, ...]:
    """Return what the process of a stage of `layers` holds, `latent` of them of latent
    attention."""
    terms = runtime_bytes(
        profile,
        layers=layers,
        ranks=communicating_ranks(workload),
        graphs=takes_graphs(spec, workload, accelerator, profile),
        captured=captured(workload, accelerator),
        latent=latent,
        unified_memory=accelerator.unified_memory,
        symmetric=accelerator_kind(accelerator).symmetric,
    )
    return as_measured(terms, accelerator)


def _caches(
    spec: ModelSpec,
    workload: Workload,
    accelerator: Accelerator,
    stages: Iterable[Stage],
    memo: MixedMemo,
) -> list[KvCacheConfig]:
    """Return the cache of every stage: the same one for stages whose layers are alike."""
    by_context = page_reads_context(spec)
    longest = workload.context_length if by_context else 1
    encoded = workload.max_batched_tokens if spec.reads_source else 0
    decides = (
        workload.tensor_parallel,
        workload.kv_cache_dtype,
        longest,
        encoded,
        accelerator_kind(accelerator).generation,
        workload.engine_version,
        workload.speculative_tokens,
        workload.float32,
        workload.requantized,
    )
    held = _of_context(memo) if by_context else memo
    groups: tuple[Members, ...] = held.get_or_compute(
        ("groups", *decides),
        lambda: model_groups(
            spec,
            tensor_parallel=workload.tensor_parallel,
            kv_cache_dtype=workload.kv_cache_dtype,
            max_model_len=longest,
            max_batched_tokens=encoded,
            compute_capability=accelerator.compute_capability,
            version=workload.engine_version,
            speculative_tokens=workload.speculative_tokens,
            float32=workload.float32,
            requantized=workload.requantized,
        ),
    )
    # only the graphs of states ask how many requests run at once
    sequences = workload.max_num_seqs if spec.keeps_states and not workload.enforce_eager else 0
    batches = batches_in_flight(workload.pipeline_parallel, workload.engine_version)
    in_flight = batches * workload.max_batched_tokens
    layouts: Layouts = held.get_or_compute(("layouts", *decides, in_flight, sequences), dict)
    drafted = drafted_layers(spec) if workload.speculative_tokens else 0
    each = []
    for stage in stages:
        layers = stage.span
        if layers is not None and stage.last:  # which holds the model's own heads
            layers = range(layers.start, layers.stop + drafted)
        layout = layouts.get(layers)
        if layout is None:
            layout = layouts[layers] = _layout(
                on_stage(groups, layers), layouts, in_flight, sequences, workload.engine_version
            )
        each.append(layout)
    return each


def _layout(
    members: tuple[Members, ...],
    layouts: Layouts,
    in_flight: int,
    sequences: int,
    version: tuple[int, ...],
) -> KvCacheConfig:
    """Return the cache of the layers of a stage, whatever the longest request."""
    alike = tuple(len(numbers) for group in members for _, numbers in group)
    layout = layouts.get(alike)
    if layout is None:
        layout = layouts[alike] = stage_layout(
            members, 1, in_flight, max_num_seqs=sequences, version=version
        )
    return layout


def communicating_ranks(workload: Workload) -> int:
    """Return the ranks that reduce together in every layer; pipeline stages only hand tensors
    on, which needs no buffers worth a term."""
    return max(workload.tensor_parallel, workload.expert_parallel)


def graphs_in_budget(spec: ModelSpec, profile: EngineProfile) -> bool:
    """Return whether the CUDA graphs are taken off the pool of this model."""
    if runs_second(spec, profile.second_runner):
        return profile.second_graphs_in_budget
    return profile.graphs_in_budget


def states_in_budget(spec: ModelSpec, workload: Workload, profile: EngineProfile) -> bool:
    """Return whether the sampler's states are taken off the pool: before
    `releases.CONSUMPTION_MEASURED` nothing counts them."""
    return holds_states(spec, profile) and workload.engine_version >= releases.CONSUMPTION_MEASURED


def takes_graphs(
    spec: ModelSpec, workload: Workload, accelerator: Accelerator, profile: EngineProfile
) -> bool:
    """Return whether CUDA graphs are captured and taken off the pool."""
    return (
        graphs_in_budget(spec, profile)
        and not workload.enforce_eager
        and captures_graphs(accelerator)
    )


def cache_bytes(layout: CacheLayout, workload: Workload) -> int:
    """Return the pool [bytes]: given outright, else the blocks of the requests asked for."""
    if workload.kv_cache_memory_bytes is not None:
        return workload.kv_cache_memory_bytes
    return layout.pool_bytes(workload.requests_per_replica, workload.context_length)


def cache_term(cache: KvCacheConfig, workload: Workload) -> Term:
    """Return the pool as a term."""
    size = cache_bytes(cache, workload)
    if workload.kv_cache_memory_bytes is not None:
        return exact_term("kv_cache", size, "exact", given_pool(size), "the question")
    requests = workload.requests_per_replica
    formula = cache.pool_formula(requests, workload.context_length)
    return exact_term("kv_cache", size, "computed", formula, _PLANNER)
