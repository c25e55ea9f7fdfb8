"""One room per engine: which function estimates for which, how each lays weights out, and what
it takes where a flag is left out."""

from collections.abc import Callable, Hashable, Sequence
from typing import NamedTuple

from fitgauge.engine.accelerator import Accelerator
from fitgauge.engine.memo import Memo
from fitgauge.engine.model.spec import ModelSpec
from fitgauge.engine.quantity import Bytes, Term
from fitgauge.engine.serving import warmup
from fitgauge.engine.serving.estimate import Estimate, StageMemory
from fitgauge.engine.serving.llamacpp import memory as llamacpp
from fitgauge.engine.serving.llamacpp import offload as split
from fitgauge.engine.serving.llamacpp import ollama
from fitgauge.engine.serving.mlx import memory as mlx
from fitgauge.engine.serving.profile import EngineProfile
from fitgauge.engine.serving.sglang import mem_fraction as sglang_share
from fitgauge.engine.serving.sglang import memory as sglang
from fitgauge.engine.serving.tensorrt_llm import memory as tensorrt_llm
from fitgauge.engine.serving.tgi import memory as tgi
from fitgauge.engine.serving.transformers import memory as transformers
from fitgauge.engine.serving.vllm import memory as vllm
from fitgauge.engine.serving.vllm import weights as vllm_layout
from fitgauge.engine.serving.vllm.compute_capability import card_kind
from fitgauge.engine.serving.vllm.defaults import default_batch
from fitgauge.engine.serving.workload import EngineName, Workload
from fitgauge.engine.weights.sharding import ShardedWeights, shard_weights


def as_asked(workload: Workload, spec: ModelSpec, accelerator: Accelerator) -> Workload:
    """Return the workload as it is: nothing of it depends on the model and the card."""
    return workload


def all_usable(accelerator: Accelerator, workload: Workload) -> Bytes:
    """Return all of the card that can be used."""
    return accelerator.usable


def any_card(accelerator: Accelerator) -> Hashable:
    """Return all cards are of one kind."""
    return None


def afresh(
    beside: Callable[[ModelSpec, Workload, Accelerator, EngineProfile], tuple[StageMemory, ...]],
) -> Callable[[ModelSpec, Workload, Accelerator, EngineProfile, Memo], tuple[StageMemory, ...]]:
    """`beside` of an engine that keeps nothing of what it worked out before."""
    return lambda spec, workload, accelerator, profile, known: beside(
        spec, workload, accelerator, profile
    )


class Halves(NamedTuple):
    """An estimate in two: what the weights take (`loaded`), and what comes `beside` them whatever
    their number format, with what is known of this model and engine from before.

    `estimate.stage_estimates` of both is the estimate's. `refilled`: what comes beside them for
    another number of requests, from that for one; None where more than the cache depends on it.
    `sized`: what comes beside them on one card by its memory, never less than beside them on all
    of its kind; None where cards of one kind hold the same. `offloads`: whether they are those
    of a workload that keeps weights on the host, too."""

    loaded: Callable[
        [ModelSpec, ShardedWeights, Workload, Accelerator], tuple[tuple[Term, ...], ...]
    ]
    beside: Callable[
        [ModelSpec, Workload, Accelerator, EngineProfile, Memo], tuple[StageMemory, ...]
    ]
    refilled: Callable[[tuple[StageMemory, ...], Workload], tuple[StageMemory, ...]] | None = None
    sized: (
        Callable[
            [Sequence[tuple[Term, ...]], Sequence[StageMemory], Workload, Accelerator],
            tuple[StageMemory, ...],
        ]
        | None
    ) = None
    offloads: bool = True


class Engine(NamedTuple):
    """What every room offers. `kind`: cards of one kind hold the same under the same workload, but
    for what `halves.sized` tells apart; `halves`: where an estimate comes in two.

    `estimate`; `lay_out`, which prepares a model's weights in a scheme for it; `batch`, its own
    (max_num_seqs, max_batched_tokens) on a card for a context, a version and a model; `settled`,
    which fills in what it works out from model and card; `budget`, what it may use of a card."""

    estimate: Callable[[ModelSpec, ShardedWeights, Workload, Accelerator, EngineProfile], Estimate]
    lay_out: Callable[..., ShardedWeights]
    batch: Callable[[Accelerator, int, tuple[int, ...], ModelSpec], tuple[int, int]] = default_batch
    settled: Callable[[Workload, ModelSpec, Accelerator], Workload] = as_asked
    budget: Callable[[Accelerator, Workload], Bytes] = all_usable
    kind: Callable[[Accelerator], Hashable] = any_card
    halves: Halves | None = None


ENGINES: dict[EngineName, Engine] = {
    "vllm": Engine(
        vllm.estimate,
        vllm_layout.shard_weights,
        budget=vllm.budget_bytes,
        kind=card_kind,
        halves=Halves(vllm.loaded_stages, vllm.beside_stages, vllm.refilled),
    ),
    "sglang": Engine(
        sglang.estimate,
        vllm_layout.shard_weights,
        sglang_share.default_batch,
        sglang.with_engine_defaults,
        sglang.budget_bytes,
        kind=sglang.card_kind,
        halves=Halves(sglang.loaded_stages, afresh(sglang.beside_stages), sized=sglang.sized),
    ),
    "tensorrt-llm": Engine(
        tensorrt_llm.estimate,
        vllm_layout.shard_weights,
        tensorrt_llm.default_batch,
        halves=Halves(
            warmup.loaded_stages, afresh(tensorrt_llm.beside_stages), sized=tensorrt_llm.sized
        ),
    ),
    "llama.cpp": Engine(
        llamacpp.estimate,
        split.shard_weights,
        llamacpp.default_batch,
        halves=Halves(llamacpp.loaded_cards, afresh(llamacpp.beside_cards), offloads=False),
    ),
    "ollama": Engine(
        ollama.estimate,
        split.shard_weights,
        ollama.default_batch,
        halves=Halves(llamacpp.loaded_cards, afresh(ollama.beside_cards), offloads=False),
    ),
    "transformers": Engine(transformers.estimate, shard_weights),
    "tgi": Engine(
        tgi.estimate,
        vllm_layout.shard_weights,
        tgi.default_batch,
        halves=Halves(warmup.loaded_stages, afresh(tgi.beside_stages), sized=tgi.sized),
    ),
    "mlx": Engine(mlx.estimate, mlx.shard_weights, mlx.default_batch),
}
