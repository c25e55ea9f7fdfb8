"""Serving with SGLang: a static share of what is free before loading, split into pools of tokens,
windows and states.

Source: sglang 0.5.23, srt/mem_cache/kv_cache_configurator.py (`_profile_available_bytes`): pool =
free after loading - free before loading x (1 - mem_fraction_static), whose automatic value is that
of mem_fraction.py; srt/model_executor/pool_configurator.py for the pools. "GB" in its logs is GiB.
"""

from collections.abc import Hashable, Sequence

from msgspec import structs

from fitgauge.engine.accelerator import Accelerator
from fitgauge.engine.memo import Memo, MixedMemo
from fitgauge.engine.model.spec import ModelSpec
from fitgauge.engine.quantity import Bytes, Term, exact_term, exactly, fitted
from fitgauge.engine.serving.estimate import Estimate, StageMemory, stage_estimates
from fitgauge.engine.serving.profile import EngineProfile
from fitgauge.engine.serving.rope_scaling import scaled_tables
from fitgauge.engine.serving.runtime import as_measured, communication_term, elsewhere
from fitgauge.engine.serving.sglang import hicache
from fitgauge.engine.serving.sglang.cache_dtype import cache_dtype, sparse_rows
from fitgauge.engine.serving.sglang.degrees import check_parallel
from fitgauge.engine.serving.sglang.gpus import Architecture, architecture, is_large_hopper
from fitgauge.engine.serving.sglang.host_tables import check_offload, host_tables
from fitgauge.engine.serving.sglang.mem_fraction import (
    mem_fraction_static,
    running_requests,
    size_class,
)
from fitgauge.engine.serving.sglang.multimodal import feature_bytes
from fitgauge.engine.serving.sglang.pools import cache_terms, radix_pool
from fitgauge.engine.serving.sglang.reserve import memory_in_reserve, reserve_term
from fitgauge.engine.serving.sglang.speculative import draft_term
from fitgauge.engine.serving.sglang.weights import buffer_bytes, lengthened_tables, on_gpu
from fitgauge.engine.serving.vllm.compute_capability import shares_memory
from fitgauge.engine.serving.vllm.speculative import check_draft
from fitgauge.engine.serving.weights import loading_degrees, stages_of, weights_term
from fitgauge.engine.serving.workload import Workload
from fitgauge.engine.weights.sharding import ShardedWeights


def with_engine_defaults(workload: Workload, spec: ModelSpec, accelerator: Accelerator) -> Workload:
    """Return the workload with `mem_fraction_static` and the cache's format filled in where they
    were left out."""
    return structs.replace(
        workload,
        kv_cache_dtype=cache_dtype(spec, workload, accelerator),
        gpu_memory_utilization=workload.gpu_memory_utilization
        or mem_fraction_static(spec, workload, accelerator),
    )


def accelerator_kind(accelerator: Accelerator) -> Hashable:
    """Return what decides what a GPU holds before `for_accelerator`: whether ranks share memory,
    its architecture and class of memory, whether it is a large Hopper GPU, whether its memory is
    the host's, and the vendor where its process was not measured."""
    return (
        shares_memory(accelerator),
        architecture(accelerator),
        is_large_hopper(accelerator),
        size_class(accelerator),
        accelerator.unified_memory,
        elsewhere(accelerator.vendor),
    )


def estimate(
    spec: ModelSpec,
    sharded: ShardedWeights,
    workload: Workload,
    accelerator: Accelerator,
    profile: EngineProfile,
) -> Estimate:
    """Return the Estimate of every pipeline stage."""
    loaded = loaded_stages(spec, sharded, workload, accelerator)
    other_memory = stage_memory(spec, workload, accelerator, profile, Memo())
    return Estimate(
        accelerator=accelerator,
        stages=stage_estimates(
            loaded, for_accelerator(loaded, other_memory, workload, accelerator)
        ),
        budget=budget_bytes(accelerator, workload),
        given_pool_bytes=workload.kv_cache_memory_bytes,
    )


def loaded_stages(
    spec: ModelSpec, sharded: ShardedWeights, workload: Workload, accelerator: Accelerator
) -> tuple[tuple[Term, ...], ...]:
    """Return what every stage loads: weights, rotary tables, the cache of images."""
    images = feature_bytes(spec, accelerator, running_requests(spec, workload, accelerator))
    stored = on_gpu(spec, sharded, architecture(accelerator))
    check_parallel(
        spec,
        stored,
        workload.tensor_parallel,
        workload.expert_parallel,
        accelerator.compute_capability,
    )
    check_draft(spec, workload)
    of_gpu = architecture(accelerator)
    tables = host_tables(spec, stored, workload, accelerator)
    check_offload(workload, tables)
    scaled = scaled_tables(spec, workload.rope_scaling_factor)
    lengthened = lengthened_tables(scaled, workload.context_length)
    return stored.once(
        (
            *loading_degrees(workload),
            tables,
            images,
            lengthened.rotary_tables,
            workload.speculative_tokens > 0,
        ),
        lambda: _loaded(spec, stored, workload, tables, images, of_gpu, lengthened),
    )


def _loaded(
    spec: ModelSpec,
    sharded: ShardedWeights,
    workload: Workload,
    tables: Sequence[int],
    images: int,
    of_gpu: Architecture,
    lengthened: ModelSpec,
) -> tuple[tuple[Term, ...], ...]:
    def buffers() -> Term:
        size = buffer_bytes(lengthened)
        return exact_term(
            "buffers",
            size,
            "computed",
            f"rotary tables of every layer: {exactly(size)}",
            "sglang 0.5.23 sglang/srt/layers/rotary_embedding/base.py",
        )

    return tuple(
        (
            weights_term(
                sharded,
                workload,
                stage,
                cpu_offload_bytes=workload.cpu_offload_bytes,
                on_host=on_host,
            ),
            buffers(),
            *(
                (draft_term(spec, sharded.scheme, workload, of_gpu),)
                if workload.speculative_tokens and stage.last
                else ()
            ),
            *(_multimodal(images) if images else ()),
        )
        for stage, on_host in zip(stages_of(spec, workload), tables, strict=True)
    )


def stage_memory(
    spec: ModelSpec,
    workload: Workload,
    accelerator: Accelerator,
    profile: EngineProfile,
    memo: MixedMemo,
) -> tuple[StageMemory, ...]:
    """Return what every stage holds in addition: the process, there before SGLang measures what
    is free, the pools, and what comes after them."""
    before = [
        profile.runtime_bytes.term(
            "runtime",
            1,
            0,
            "CUDA context and libraries, there before SGLang measures what is free:"
            f" {fitted(profile.runtime_bytes.expected)}",
        )
    ]
    ranks = workload.communicating_ranks
    if ranks > 1:
        before.append(
            communication_term(profile, ranks=ranks, symmetric=shares_memory(accelerator))
        )
    process = as_measured(before, accelerator)
    stages = []
    for stage in stages_of(spec, workload):
        pool = radix_pool(
            spec,
            workload,
            stage.span,
            rows=sparse_rows(spec, workload, accelerator),
            requests=running_requests(spec, workload, accelerator),
        )
        later: tuple[Term, ...] = ()
        if workload.kv_cache_memory_bytes is None:
            later = memory_in_reserve(
                spec, profile, workload, stage.layers, accelerator, last=stage.last
            ) + hicache.staging_terms(spec, pool, workload, accelerator)
        stages.append(
            StageMemory(
                len(stage.layers),
                fixed=process,
                cache=cache_terms(pool, workload),
                layout=pool,
                in_reserve=later,
            )
        )
    return tuple(stages)


def for_accelerator(
    loaded: Sequence[tuple[Term, ...]],
    other_memory: Sequence[StageMemory],
    workload: Workload,
    accelerator: Accelerator,
) -> tuple[StageMemory, ...]:
    """Return what every stage holds in addition to the loaded weights on this GPU, by its
    memory: what is kept back of it, and what lives in that."""
    share, stages = static_share(workload), []
    for stage in other_memory:
        free = max(0, accelerator.usable.expected - sum(term.bytes for term in stage.fixed))
        before = (
            structs.replace(term, low=less.low, high=less.high)
            for term in stage.fixed
            if (less := damped(term, share))
        )
        reserve = (
            ()
            if workload.kv_cache_memory_bytes is not None
            else reserve_term(stage.in_reserve, int(free * (1 - share)), workload)
        )
        stages.append(stage._replace(fixed=(*before, *reserve), in_reserve=()))
    return tuple(stages)


def budget_bytes(accelerator: Accelerator, workload: Workload) -> Bytes:
    """Return all that is usable, with as much of its spread as changes weights and pools."""
    return damped(accelerator.usable, static_share(workload))


def static_share(workload: Workload) -> float:
    """Return how much of a byte that is free before loading goes to weights and pools:
    mem_fraction_static, all where the pool is given."""
    return 1.0 if workload.kv_cache_memory_bytes is not None else workload.gpu_memory_utilization


def damped(size: Bytes | Term, share: float) -> Bytes:
    """`size` with `share` of its spread: as the rest of what is free is kept back, a byte more
    or less of the GPU or of what is taken before loading changes weights and pools by that
    share alone."""
    expected = size.expected if isinstance(size, Bytes) else size.bytes
    return Bytes(
        low=int(expected - share * (expected - size.low)),
        expected=expected,
        high=int(expected + share * (size.high - expected)),
    )


def _multimodal(size: int) -> tuple[Term]:
    source = (
        "sglang 0.5.23 sglang/srt/mem_cache/kv_cache_configurator.py, mm_runtime_reservation_gb"
    )
    return (
        exact_term(
            "encoder_cache",
            size,
            "computed",
            f"features of images, by default: {exactly(size)}",
            source,
        ),
    )
