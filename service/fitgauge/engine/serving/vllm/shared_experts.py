"""Shared experts where the tokens of a step are spread over tensor ranks: each rank runs them on
its own tokens and holds them whole.

Source: vllm 0.33, config/parallel.py (use_sequence_parallel_moe) and what models/deepseek_v2.py and
the other classes do with it (disable_tp)."""

import msgspec

from fitgauge.engine.model.spec import Block, Kind, ModelSpec, Split, Tensor
from fitgauge.engine.serving.vllm.quirks import holds_shared_experts_whole, quirks
from fitgauge.engine.serving.vllm.weights import as_built
from fitgauge.engine.serving.workload import Workload
from fitgauge.engine.weights.sharding import ShardedWeights, shard_weights


def with_whole_shared_experts(
    sharded: ShardedWeights, spec: ModelSpec, workload: Workload
) -> ShardedWeights:
    """Return `sharded` as its tensors are made in this deployment; itself where shared experts are
    divided like any other weight."""
    spread = min(workload.tensor_parallel, workload.data_parallel, workload.expert_parallel) > 1
    if not spread or not holds_shared_experts_whole(spec):
        return sharded
    return sharded.once("whole shared experts", lambda: _whole(sharded, spec))


def _whole(sharded: ShardedWeights, spec: ModelSpec) -> ShardedWeights:
    built = as_built(spec, sharded.scheme)
    stems = (".shared_expert", *(("mlp.",) if quirks(spec).mlps_whole else ()))
    blocks = tuple(_with_whole(block, stems) for block in built.blocks)
    whole = shard_weights(
        msgspec.structs.replace(built, blocks=blocks), sharded.scheme, sharded.layout
    )
    return msgspec.structs.replace(
        whole, basis=sharded.basis, scale=sharded.scale, is_guess=sharded.is_guess
    )


def _with_whole(block: Block, stems: tuple[str, ...]) -> Block:
    tensors = tuple(_tensor(tensor, stems) for tensor in block.tensors)
    return msgspec.structs.replace(block, tensors=tensors)


def _tensor(tensor: Tensor, stems: tuple[str, ...]) -> Tensor:
    if not any(stem in tensor.name for stem in stems) or tensor.kind is Kind.EXPERT:
        return tensor
    return msgspec.structs.replace(tensor, split=Split.NONE, units=0)
