"""Engines that load, run one largest batch, and give a share of what is then free to a flat pool of blocks."""

from collections.abc import Callable

from fitgauge.engine.accelerator import Accelerator
from fitgauge.engine.activations import activation_bytes
from fitgauge.engine.architecture import ModelSpec
from fitgauge.engine.estimate import Estimate, StageEstimate, stage_estimate
from fitgauge.engine.paged import cache_dtype, flat_pool
from fitgauge.engine.profile import EngineProfile
from fitgauge.engine.quantity import Term, certain, total
from fitgauge.engine.runtime import runtime_bytes
from fitgauge.engine.weights import Laid, pipeline_stages, weights_term
from fitgauge.engine.workload import Workload

Reserve = Callable[[int, int, Workload], Term]
"""(bytes taken before the pool, bytes of the card) -> the term that is held back of the rest."""


def profiled_estimate(
    spec: ModelSpec,
    laid: Laid,
    workload: Workload,
    accelerator: Accelerator,
    profile: EngineProfile,
    *,
    block: int,
    reserve: Reserve,
    beside: tuple[Term, ...] = (),
) -> Estimate:
    """The Estimate of every pipeline stage. block: tokens of a block. reserve: what the engine leaves free beside the pool.
    beside: what its largest batch holds on every rank beside the usual."""
    stages = pipeline_stages(spec.layers, workload.pipeline_parallel)

    def stage(number: int) -> StageEstimate:
        layers, first, last = stages[number], number == 0, number == len(stages) - 1
        fixed: tuple[Term, ...] = (
            weights_term(laid, workload, layers=layers, first=first, last=last),
            *activation_bytes(
                spec,
                profile,
                tokens=workload.max_batched_tokens,
                sequences=workload.max_num_seqs,
                tensor_parallel=workload.tensor_parallel,
                samples=last and spec.task != "encode",
                expert_parallel=workload.expert_parallel,
            ),
            *runtime_bytes(
                profile,
                layers=len(layers),
                ranks=workload.tensor_parallel * workload.pipeline_parallel,
                graphs=profile.graphs_in_budget and not workload.enforce_eager,
            ),
            *beside,
        )
        if workload.cache_pool_bytes is None:
            fixed = (*fixed, reserve(total(fixed).expected, accelerator.usable.expected, workload))
        pool = flat_pool(
            spec,
            dtype=cache_dtype(spec, workload.cache_dtype),
            tensor_parallel=workload.tensor_parallel,
            block=block,
            layers=layers if len(stages) > 1 else None,
            context_length=workload.context_length,
        )
        requests = workload.requests_per_replica
        size = workload.cache_pool_bytes or pool.pool_bytes(requests, workload.context_length)
        formula = f"{requests} requests x {workload.context_length} tokens in blocks of {block} x {pool.cell} B"
        cache = (certain("kv_cache", size, "computed", formula, profile.source),)
        return stage_estimate(stage=number, layers=len(layers), fixed=fixed, cache=cache, layout=pool)

    return Estimate(
        accelerator=accelerator,
        stages=tuple(stage(number) for number in range(len(stages))),
        budget=accelerator.usable,
        given_pool_bytes=workload.cache_pool_bytes,
    )
