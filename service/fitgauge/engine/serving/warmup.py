"""Engines that load, run one largest batch (TGI warms up, TensorRT-LLM profiles), and give a
share of what is then free to a flat pool."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

from fitgauge.engine.accelerator import Accelerator
from fitgauge.engine.memo import Memo, MixedMemo
from fitgauge.engine.model.spec import ModelSpec
from fitgauge.engine.quantity import Term, counted, exact_term, total
from fitgauge.engine.serving.activations import activation_bytes
from fitgauge.engine.serving.engine_facts import SplitEstimate
from fitgauge.engine.serving.estimate import Estimate, StageMemory, stage_estimates
from fitgauge.engine.serving.kv_cache import given_pool
from fitgauge.engine.serving.profile import EngineProfile
from fitgauge.engine.serving.runtime import runtime_bytes
from fitgauge.engine.serving.token_pool import block_pool, kv_cache_dtype
from fitgauge.engine.serving.weights import loading_degrees, stages_of, weights_term
from fitgauge.engine.serving.workload import Workload
from fitgauge.engine.weights.sharding import ShardedWeights

Reserve = Callable[[int, int, Workload], Term]
"""(bytes taken before the pool, bytes of the GPU) -> the term that is held back of the rest."""


def loaded_stages(
    spec: ModelSpec, sharded: ShardedWeights, workload: Workload, accelerator: Accelerator
) -> tuple[tuple[Term, ...], ...]:
    """Return the weights of every pipeline stage."""
    return sharded.once(
        loading_degrees(workload),
        lambda: tuple(
            (weights_term(sharded, workload, stage),) for stage in stages_of(spec, workload)
        ),
    )


def warmed_stages(
    spec: ModelSpec,
    workload: Workload,
    profile: EngineProfile,
    *,
    block: int,
    batch: tuple[Term, ...] = (),
) -> tuple[StageMemory, ...]:
    """Return what every stage holds in addition to its weights, but for what is held back.
    block: tokens of a block. batch: what the largest batch holds on every rank in addition to
    the usual."""
    requests, stages = workload.requests_per_replica, []
    for stage in stages_of(spec, workload):
        fixed = (
            *activation_bytes(
                spec,
                profile,
                tokens=workload.max_batched_tokens,
                sequences=workload.max_num_seqs,
                tensor_parallel=workload.tensor_parallel,
                samples=stage.last and spec.task != "encode",
                expert_parallel=workload.expert_parallel,
            ),
            *runtime_bytes(
                profile,
                layers=len(stage.layers),
                ranks=workload.communicating_ranks,
                graphs=profile.graphs_in_budget and not workload.enforce_eager,
            ),
            *batch,
        )
        pool = block_pool(
            spec,
            dtype=kv_cache_dtype(spec, workload.kv_cache_dtype),
            tensor_parallel=workload.tensor_parallel,
            block=block,
            layers=stage.span,
            context_length=workload.context_length,
        )
        size = workload.kv_cache_memory_bytes or pool.pool_bytes(requests, workload.context_length)
        blocks = -(-workload.context_length // block)
        formula = (
            f"{counted(requests, 'request')} x {blocks} blocks x {block} tokens x {pool.formula}"
        )
        if pool.state:
            formula += f" + {counted(requests, 'request')} x {pool.state} B of states"
        if workload.kv_cache_memory_bytes:
            formula = given_pool(workload.kv_cache_memory_bytes)
        cache = (exact_term("kv_cache", size, "computed", formula, profile.source),)
        stages.append(StageMemory(layers=len(stage.layers), fixed=fixed, cache=cache, layout=pool))
    return tuple(stages)


def warmed_estimate(
    accelerator: Accelerator,
    workload: Workload,
    loaded: Sequence[tuple[Term, ...]],
    other_memory: Sequence[StageMemory],
) -> Estimate:
    """Return the Estimate of stages whose reserve is among what they hold in addition to their
    weights."""
    return Estimate(
        accelerator=accelerator,
        stages=stage_estimates(loaded, other_memory),
        budget=accelerator.usable,
        given_pool_bytes=workload.kv_cache_memory_bytes,
    )


def no_terms(spec: ModelSpec, workload: Workload) -> tuple[Term, ...]:
    """Return no terms: the largest batch holds the usual."""
    return ()


class WarmupEstimate(NamedTuple):
    """The estimate of such an engine, by what differs between them."""

    block: Callable[[Workload], int]
    """Tokens of a block."""

    reserve: Reserve
    """What is held back of a GPU."""

    batch: Callable[[ModelSpec, Workload], tuple[Term, ...]] = no_terms
    """What the largest batch holds on every rank in addition to the usual."""

    def estimate(
        self,
        spec: ModelSpec,
        sharded: ShardedWeights,
        workload: Workload,
        accelerator: Accelerator,
        profile: EngineProfile,
    ) -> Estimate:
        """Return the Estimate of every pipeline stage."""
        loaded = loaded_stages(spec, sharded, workload, accelerator)
        other_memory = self.stage_memory(spec, workload, accelerator, profile, Memo())
        return warmed_estimate(
            accelerator,
            workload,
            loaded,
            self.for_accelerator(loaded, other_memory, workload, accelerator),
        )

    @property
    def split(self) -> SplitEstimate:
        """The same in two parts."""
        return SplitEstimate(loaded_stages, self.stage_memory, for_accelerator=self.for_accelerator)

    def stage_memory(
        self,
        spec: ModelSpec,
        workload: Workload,
        accelerator: Accelerator,
        profile: EngineProfile,
        memo: MixedMemo,
    ) -> tuple[StageMemory, ...]:
        """Return what every stage holds in addition to its weights, whatever the GPU."""
        block, batch = self.block(workload), self.batch(spec, workload)
        return warmed_stages(spec, workload, profile, block=block, batch=batch)

    def for_accelerator(
        self,
        loaded: Sequence[tuple[Term, ...]],
        other_memory: Sequence[StageMemory],
        workload: Workload,
        accelerator: Accelerator,
    ) -> tuple[StageMemory, ...]:
        """Return the same on this GPU: with what is held back of it, unless the pool is given
        outright."""
        if workload.kv_cache_memory_bytes is not None:
            return tuple(other_memory)
        usable = accelerator.usable.expected
        return tuple(
            stage._replace(
                fixed=(
                    *stage.fixed,
                    self.reserve(total((*terms, *stage.fixed)).expected, usable, workload),
                )
            )
            for terms, stage in zip(loaded, other_memory, strict=True)
        )
