"""Loaded weights as terms of a serving estimate: the stages of a workload, and what each loads."""

from collections.abc import Mapping
from functools import lru_cache
from typing import NamedTuple

import msgspec

from fitgauge.engine.model.spec import ModelSpec, Part
from fitgauge.engine.quantity import Term, exact_term, exactly
from fitgauge.engine.serving.workload import Workload
from fitgauge.engine.weights.rank_bytes import (
    Ranks,
    allocator_bytes,
    pipeline_stages,
    rank_weights,
    ranks,
    share_bytes,
    table_bytes,
)
from fitgauge.engine.weights.sharding import ShardedWeights


def ranks_of(weights: ShardedWeights, workload: Workload) -> Ranks:
    """Return the Ranks of a deployment."""
    return ranks(
        weights, workload.tensor_parallel, workload.expert_parallel, workload.data_parallel
    )


class Stage(NamedTuple):
    """One pipeline stage."""

    layers: range
    """Its layers of the language model."""
    first: bool = True
    """Whether it holds embedding and towers."""
    last: bool = True
    """Whether it holds the final norm and the head."""

    @property
    def span(self) -> range | None:
        """Its layers, None where it is the only stage and holds all there are."""
        return None if self.first and self.last else self.layers


def stages_of(spec: ModelSpec, workload: Workload) -> tuple[Stage, ...]:
    """Return the stages of a deployment."""
    return _stages(spec.layers, workload.pipeline_parallel)


@lru_cache(maxsize=512)
def _stages(layers: int, pipeline_parallel: int) -> tuple[Stage, ...]:
    ranges = pipeline_stages(layers, pipeline_parallel)
    final = len(ranges) - 1
    return tuple(Stage(layers, index == 0, index == final) for index, layers in enumerate(ranges))


def loading_degrees(workload: Workload) -> tuple[int, ...]:
    """Return what `weights_term` depends on besides the model: over how many ranks it is divided,
    and how much of it the host keeps."""
    degrees = (
        workload.tensor_parallel,
        workload.pipeline_parallel,
        workload.data_parallel,
        workload.expert_parallel,
    )
    return *degrees, workload.cpu_offload_bytes


GUESS_LOW, GUESS_HIGH = 0.9, 1.45
"""Shares of what is counted between which the weights of an unknown architecture lie: tables that
no usual name tells of made one of them 42 % larger (an n-gram embedding)."""


def as_sure_as_read(term: Term, weights: ShardedWeights) -> Term:
    """Return the term `weights` with the interval of an architecture that no reader knows, where
    it is one."""
    if not weights.is_guess:
        return term
    return msgspec.structs.replace(
        term, low=int(GUESS_LOW * term.low), high=int(GUESS_HIGH * term.high)
    )


def layer_tables(weights: ShardedWeights, workload: Workload, layers: range) -> int:
    """Return the tables that the layers of a pipeline stage look up, on one rank [bytes]."""
    if not has_tables(weights):
        return 0
    return table_bytes(weights, ranks_of(weights, workload), layers)


def has_tables(weights: ShardedWeights) -> bool:
    """Return whether a layer looks up tables of its own."""
    return weights.once("has tables", lambda: table_bytes(weights, ranks(weights, 1, 1, 1)) > 0)


def weights_term(
    weights: ShardedWeights,
    workload: Workload,
    stage: Stage,
    *,
    cpu_offload_bytes: int = 0,
    on_host: int = 0,
) -> Term:
    """Return the term `weights`: parameters on the fullest rank of one pipeline stage, less what
    an engine keeps of its layers on the host.

    on_host: tables of the layers that always stay there. Of the layers, parameter by
    parameter, until cpu_offload_bytes are reached, and so up to the largest of them more;
    embeddings, head and towers stay. What a step copies back is not counted: vLLM reads host
    memory in place. Source: vllm/model_executor/offloader/uva.py, _maybe_offload_to_cpu; sglang
    srt/utils/offloader.py."""
    degrees = {
        "tensor_parallel": workload.tensor_parallel,
        "expert_parallel": workload.expert_parallel,
        "data_parallel": workload.data_parallel,
    }
    rank = rank_weights(weights, **degrees, layers=stage.span, first=stage.first, last=stage.last)
    degrees_text = f"tensor parallel {workload.tensor_parallel}"
    if workload.pipeline_parallel > 1:
        degrees_text += f", layers {stage.layers.start} to {stage.layers.stop - 1}"
    if workload.expert_parallel > 1:
        degrees_text += f", expert parallel {workload.expert_parallel}"
    formula = f"{weights.scheme.name} weights, {degrees_text}: " + sum_of_layers(
        rank.layered, weights.scale
    )
    size, beyond = rank.bytes - on_host, 0
    if on_host:
        formula += f" - {exactly(on_host)} of tables of n-grams in host memory"
    if cpu_offload_bytes:
        in_layers = (
            rank_weights(weights, **degrees, layers=stage.layers, first=False, last=False).bytes
            - on_host
        )
        offloaded = min(cpu_offload_bytes, in_layers)
        beyond = min(in_layers - offloaded, largest_parameter(weights, ranks_of(weights, workload)))
        size -= offloaded
        formula += (
            f" - {exactly(offloaded)} of layers in host memory; there up to one parameter of"
            f" {exactly(beyond)} more"
        )
    term = exact_term(
        "weights",
        size,
        rank.basis,
        formula,
        "service/fitgauge/engine/weights/sharding.py: every tensor, sharded as the engine does",
    )
    held = msgspec.structs.replace(term, low=size - beyond) if beyond else term
    return as_sure_as_read(held, weights)


def sum_of_parts(by_part: Mapping[Part, int]) -> str:
    """Return the bytes of every part of a model as a sum."""
    return " + ".join(f"{part} {exactly(size)}" for part, size in by_part.items())


def sum_of_layers(layered: Mapping[tuple[Part, int, str], int], scale: float) -> str:
    """Return the bytes of every part of a model as a sum over its layers and formats. scale: of a
    repository that stores more or less than its architecture counts."""
    parts = " + ".join(
        f"{part} "
        + (f"{count} layers x " if count > 1 else "")
        + f"{size:,} B"
        + (f" in {form}" if form else "")
        for (part, count, form), size in layered.items()
        if size
    )
    return parts if scale == 1.0 else f"({parts}) x {scale:.9g}"


def largest_parameter(weights: ShardedWeights, ways: Ranks) -> int:
    """Return the bytes of the largest parameter of any layer on one rank."""
    layered = (tensor for tensor in weights.tensors if tensor[0].place == "layers")
    return max(
        (sum(share_bytes(share, weights.layout, ways) for share in tensor) for tensor in layered),
        default=0,
    )


def allocator_term(weights: ShardedWeights, workload: Workload, stage: Stage) -> Term:
    """Return the term `fragmentation`: what PyTorch's allocator adds to the weights of one
    pipeline stage."""
    size = allocator_bytes(
        weights, ranks_of(weights, workload), stage.span, first=stage.first, last=stage.last
    )
    formula = (
        "tensors of 10 MiB and more, rounded up to 2 MiB where up to 1 MiB is left over:"
        f" {exactly(size)}"
    )
    return exact_term(
        "fragmentation", size, "computed", formula, "pytorch 2.13 c10/cuda/CUDACachingAllocator.cpp"
    )
