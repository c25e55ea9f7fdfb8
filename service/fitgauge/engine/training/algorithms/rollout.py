"""The rollout engine on the training GPUs: what it holds while it samples, and what is left of
it while the policy is trained."""

from collections.abc import Sequence
from math import gcd

from msgspec.structs import replace

from fitgauge.engine.quantity import Term, exact_term, exactly
from fitgauge.engine.serving.estimate import Estimate
from fitgauge.engine.training.algorithms.setup import Rollout, Setup
from fitgauge.engine.training.workload import TrainingWorkload

_WEIGHTS = ("weights", "buffers")
_WORKING = ("activations", "logits")
_PROCESS = ("runtime", "context")
_STAYS = ("cuda_graphs", "communication", *_PROCESS)
"""Sleep maps out weights and cache alone: graphs and what the process holds stay. Source:
vllm/device_allocator/cumem.py (pools tagged weights and kv_cache);
verl/trainer/config/rollout/rollout.yaml ("cudagraph in inference engine can not be offloaded")."""


def steps_sampled(workload: TrainingWorkload, setup: Setup) -> int:
    """Return the forward passes that one sampling has to serve, so that all completions of a
    prompt are sampled at once: TRL wants micro-batch x processes x steps_per_generation to be a
    multiple of num_generations (trl/trainer/grpo_config.py, generation_batch_size)."""
    sampled = workload.micro_batch_size * workload.data_parallel * workload.micro_batches
    return workload.micro_batches * setup.group_size // gcd(sampled, setup.group_size)


def awake(estimate: Estimate, setup: Setup) -> tuple[Term, ...]:
    """Return all that the engine holds while it samples: weights, working memory, graphs, and the
    pool, which takes what its share leaves.

    Their sum is the engine's share of the GPU whatever its parts are, so the parts inside it
    have no spread of their own. An engine in the training process has no context of its own."""
    shares = setup.rollout is not None and setup.rollout.shares_weights
    fixed = [
        replace(term, low=term.bytes, high=term.bytes)
        for term in _own(estimate, setup)
        if not (shares and term.name in _WEIGHTS)
    ]
    return tuple(map(_named, (*fixed, _pool(estimate))))


def asleep(estimate: Estimate, setup: Setup, rollout: Rollout) -> tuple[Term, ...]:
    """Return what it holds while the policy is trained: all but its working memory where it does
    not sleep, else graphs and process."""
    if rollout.sleep == "off":
        return tuple(
            _named(term)
            for term in (*_own(estimate, setup), _pool(estimate))
            if term.name not in _WORKING and not (rollout.shares_weights and term.name in _WEIGHTS)
        )
    return tuple(_named(term) for term in _own(estimate, setup) if term.name in _STAYS)


def host_bytes(estimate: Estimate, rollout: Rollout) -> int:
    """Host memory of a sleeping engine: its weights at level 1, nothing at level 2 (they are
    synchronized before they are used)."""
    if rollout.sleep == "level_1" and not rollout.shares_weights:
        return sum(term.bytes for term in estimate.fullest.fixed if term.name in _WEIGHTS)
    return 0


def _own(estimate: Estimate, setup: Setup) -> Sequence[Term]:
    """Return what the engine holds; what it leaves free is for the policy."""
    return [
        term
        for term in estimate.fullest.fixed
        if term.name != "reserve" and (setup.own_process or term.name not in _PROCESS)
    ]


def _pool(estimate: Estimate) -> Term:
    size = estimate.pool_bytes
    budget = estimate.budget.expected
    formula = (
        f"{exactly(budget)} - {exactly(max(0, budget - size))}; of the GPU, less what else the"
        " engine holds"
    )
    return exact_term(
        "kv_cache", size, "computed", formula, "service/fitgauge/engine/serving/estimate.py"
    )


def _named(term: Term) -> Term:
    return replace(term, name=f"rollout_{term.name}")
