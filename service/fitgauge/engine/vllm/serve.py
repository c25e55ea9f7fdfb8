"""Serving with vLLM: what every rank holds before the first request, and the pool its requests need.

Source: vllm/v1/worker/gpu_worker.py, determine_available_memory: pool = total x gpu_memory_utilization - weights - non-torch
- peak of the profiling pass (- CUDA graphs, from 0.21).
"""

from msgspec import structs

from fitgauge.engine.accelerator import Accelerator
from fitgauge.engine.architecture import ModelSpec
from fitgauge.engine.estimate import Estimate, StageEstimate, stage_estimate
from fitgauge.engine.fit import fit_probability, starting_probability
from fitgauge.engine.profile import EngineProfile
from fitgauge.engine.quantity import Bytes, Term, certain, total
from fitgauge.engine.runtime import communication_term, graph_term, runtime_bytes
from fitgauge.engine.vllm.cards import on_card
from fitgauge.engine.vllm.draft import check_draft, draft_term, drafted_layers
from fitgauge.engine.vllm.layout import check_parallel
from fitgauge.engine.vllm.loading import loaded_terms
from fitgauge.engine.vllm.lora import check_lora, lora_term
from fitgauge.engine.vllm.planner import KvLayout, kv_layout
from fitgauge.engine.vllm.profiling import profiling_terms, runs_second
from fitgauge.engine.weights import Laid, pipeline_stages
from fitgauge.engine.workload import Workload

_PLANNER = "vllm/v1/core/kv_cache_planning.py (0.33), kv_cache_utils.py before"


class PagedCache:
    """vLLM's pool of blocks behind the questions every engine's cache answers."""

    __slots__ = ("layout",)

    def __init__(self, layout: KvLayout) -> None:
        self.layout = layout

    @property
    def keeps(self) -> bool:
        """Whether this rank has blocks at all."""
        return self.layout.block_bytes > 0

    def pool_bytes(self, concurrency: int, context_length: int) -> int:
        """Bytes of the least pool that starts with this length as max_model_len and holds `concurrency` such requests.

        = (1 null block + concurrency x blocks of a request, at least a state block for each of max_num_seqs) x bytes of a block.
        """
        layout = self.layout
        if not layout.groups:
            return 0
        return max(concurrency * layout.request_blocks(context_length) + 1, layout.max_state_requests) * layout.block_bytes

    def tokens(self, pool_bytes: int) -> int:
        """ "GPU KV cache size" as vLLM logs it."""
        return self.layout.plan(pool_bytes).kv_tokens

    def requests(self, pool_bytes: int, context_length: int) -> int:
        """Whole requests of `context_length` tokens."""
        return self.layout.max_concurrent(pool_bytes, context_length)


def estimate(spec: ModelSpec, laid: Laid, workload: Workload, accelerator: Accelerator, profile: EngineProfile) -> Estimate:
    """The Estimate of every pipeline stage. Raises InvalidQuestion where vLLM refuses the parallelism."""
    stages = pipeline_stages(spec.layers, workload.pipeline_parallel)
    deployed = (
        accelerator.vendor,
        accelerator.compute_capability,
        workload.version,
        workload.tensor_parallel,
        workload.pipeline_parallel,
        workload.data_parallel,
        workload.expert_parallel,
        workload.cpu_offload_bytes,
        workload.lora_slots,
        workload.lora_rank,
        workload.speculative_tokens > 0,
    )
    loaded = laid.once(deployed, lambda: _loaded(stages, spec, laid, workload, accelerator))
    return Estimate(
        accelerator=accelerator,
        stages=tuple(_stage(number, stages, spec, loaded[number], workload, accelerator, profile) for number in range(len(stages))),
        budget=budget_bytes(accelerator, workload),
        given_pool_bytes=workload.cache_pool_bytes,
    )


def starts(estimate: Estimate, spec: ModelSpec, profile: EngineProfile, workload: Workload, accelerator: Accelerator) -> float:
    """The chance that vLLM starts on `accelerator`: its budget holds what the fullest stage requires, the card what lies outside it.

    A pool given outright is no share of the card: then what is required alone decides. Source: v1/worker/utils.py, request_memory.
    """
    required, budget = estimate.fullest.required, budget_bytes(accelerator, workload)
    if workload.cache_pool_bytes is not None:
        return fit_probability(required, budget)
    outside = total(outside_terms(spec, profile, workload, accelerator, layers=estimate.fullest.layers))
    return starting_probability(required, budget, outside, accelerator.usable)


def outside_terms(
    spec: ModelSpec, profile: EngineProfile, workload: Workload, accelerator: Accelerator, *, layers: int
) -> tuple[Term, ...]:
    """What is held beyond total x gpu_memory_utilization: CUDA's context, taken before vLLM looks at what is free; the CUDA graphs of
    releases that do not take them off the pool, from nothing (few sizes to capture) to what the profile says; and what NCCL opens
    after the pass beyond what the pass saw, as it connects each algorithm at first use (NCCL_RUNTIME_CONNECT, 2.22 and newer).

    Source: v1/worker/gpu_worker.py, init_device (the snapshot) and determine_available_memory (what is taken off).
    """
    terms = []
    if profile.context_share is not None:
        size = accelerator.usable.expected
        terms.append(profile.context_share.term("context", size, 0, f"{profile.context_share.expected:.4f} of the card's {size} B"))
    if not graphs_in_budget(spec, profile) and not workload.enforce_eager:
        terms.append(structs.replace(graph_term(profile, layers), low=0))
    ranks = communicating_ranks(workload)
    if ranks > 1:
        seen = communication_term(profile, ranks=ranks, symmetric=shares_memory(accelerator))
        terms.append(structs.replace(seen, low=0, bytes=0, high=seen.high - seen.bytes))
    return tuple(terms)


def _loaded(
    stages: tuple[range, ...], spec: ModelSpec, laid: Laid, workload: Workload, accelerator: Accelerator
) -> tuple[tuple[Term, ...], ...]:
    """What every stage holds once the model is loaded, before anything is asked of it. Raises InvalidQuestion where vLLM refuses."""
    check_parallel(
        spec,
        laid,
        tensor_parallel=workload.tensor_parallel,
        expert_parallel=workload.expert_parallel,
        data_parallel=workload.data_parallel,
        version=workload.version,
    )
    check_lora(spec, workload)
    check_draft(spec, workload)
    here, final = on_card(laid, spec, accelerator.compute_capability), len(stages) - 1
    return tuple(
        (
            *loaded_terms(spec, here, workload, accelerator, layers=layers, first=number == 0, last=number == final),
            *asked_terms(spec, laid, workload, accelerator, layers=layers, first=number == 0, last=number == final),
        )
        for number, layers in enumerate(stages)
    )


def asked_terms(
    spec: ModelSpec, laid: Laid, workload: Workload, accelerator: Accelerator, *, layers: range, first: bool, last: bool
) -> tuple[Term, ...]:
    """`draft_weights` and `lora_slots` of one pipeline stage, where they are asked for."""
    terms: list[Term] = []
    if workload.speculative_tokens and last:
        terms.append(draft_term(spec, laid.scheme, workload, accelerator.compute_capability))
    if workload.lora_slots:
        here = layers if workload.pipeline_parallel > 1 else None
        terms.append(lora_term(spec, workload, layers=here, first=first, last=last))
    return tuple(terms)


def budget_bytes(accelerator: Accelerator, workload: Workload) -> Bytes:
    """usable x gpu_memory_utilization [bytes]; all that is usable where the pool is given outright, as vLLM then ignores the share."""
    share = 1.0 if workload.cache_pool_bytes is not None else workload.gpu_memory_utilization
    usable = accelerator.usable
    return Bytes(low=int(usable.low * share), expected=int(usable.expected * share), high=int(usable.high * share))


def _stage(
    number: int,
    stages: tuple[range, ...],
    spec: ModelSpec,
    loaded: tuple[Term, ...],
    workload: Workload,
    accelerator: Accelerator,
    profile: EngineProfile,
) -> StageEstimate:
    layers, tensor_parallel = stages[number], workload.tensor_parallel
    first, last = number == 0, number == len(stages) - 1
    drafted = last and workload.speculative_tokens > 0
    here = range(layers.start, layers.stop + (drafted_layers(spec) if drafted else 0)) if len(stages) > 1 else None
    fixed = (
        *loaded,
        *profiling_terms(spec, profile, workload, accelerator, first=first, last=last),
        *runtime_bytes(
            profile,
            layers=len(layers),
            ranks=communicating_ranks(workload),
            graphs=graphs_in_budget(spec, profile) and not workload.enforce_eager,
            unified_memory=accelerator.unified_memory,
            symmetric=shares_memory(accelerator),
        ),
    )
    layout = kv_layout(
        spec,
        tensor_parallel=tensor_parallel,
        cache_dtype=workload.cache_dtype,
        max_model_len=workload.context_length,
        max_batched_tokens=workload.max_batched_tokens,
        max_num_seqs=0 if workload.enforce_eager else workload.max_num_seqs,
        layers=here,
        compute_capability=accelerator.compute_capability,
        version=workload.version,
        pipeline_parallel=workload.pipeline_parallel,
        speculative_tokens=workload.speculative_tokens,
    )
    cache = PagedCache(layout)
    return stage_estimate(stage=number, layers=len(layers), fixed=fixed, cache=(cache_term(layout, workload),), layout=cache)


def communicating_ranks(workload: Workload) -> int:
    """Ranks that reduce together in every layer; pipeline stages only hand tensors on, which needs no buffers worth a term."""
    return max(workload.tensor_parallel, workload.expert_parallel)


def shares_memory(accelerator: Accelerator) -> bool:
    """Whether ranks may map each other's memory as one (symmetric memory), which NVLink's switches alone offer; unknown cards may.

    Source: vllm/distributed/device_communicators/all_reduce_utils.py, SYMM_MEM_ALL_REDUCE_MAX_SIZES (capabilities 9.0 and 10.x alone),
    symm_mem.py (off without multicast), flashinfer_all_reduce.py. NCCL opens its channels, each with buffers, by the links it finds.
    """
    capability = accelerator.compute_capability
    return capability is None or (accelerator.nvlink is not False and not accelerator.unified_memory and capability[0] in (9, 10))


def graphs_in_budget(spec: ModelSpec, profile: EngineProfile) -> bool:
    """Whether the CUDA graphs are taken off the pool of this model."""
    return profile.second_graphs_in_budget if runs_second(spec, profile.second_runner) else profile.graphs_in_budget


def cache_term(layout: KvLayout, workload: Workload) -> Term:
    """The pool: given outright, else the blocks of the requests asked for."""
    if workload.cache_pool_bytes is not None:
        return certain("kv_cache", workload.cache_pool_bytes, "exact", "the pool given in kv_cache_memory_gib", "the question")
    requests = workload.requests_per_replica
    formula = f"{requests} requests x {workload.context_length} tokens in whole blocks, {workload.cache_dtype}"
    return certain("kv_cache", PagedCache(layout).pool_bytes(requests, workload.context_length), "computed", formula, _PLANNER)
