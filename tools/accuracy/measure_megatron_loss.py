"""Measures the loss of Megatron over a rank's logits: rows of kind `megatron_loss` of
training_parallel.jsonl, in and out.

    python tools/accuracy/measure_megatron_loss.py < settings.jsonl >> training_parallel.jsonl

megatron-core's own functions on a CPU, `compiled` (--cross-entropy-loss-fusion) by
torch.compile, whose kernels' buffers PyTorch's profiler shows. Settings: tokens, vocabulary,
compiled. `bytes`: the most of both passes together, the 16-bit logits included."""

import json
import sys
from collections.abc import Iterable, Iterator
from importlib.metadata import version
from typing import Any

import torch
import torch.distributed as dist
from megatron.core import parallel_state
from megatron.core.fusions.fused_cross_entropy import fused_vocab_parallel_cross_entropy
from megatron.core.tensor_parallel.cross_entropy import vocab_parallel_cross_entropy
from torch.testing._internal.distributed.fake_pg import FakeStore


def one_pass(row: dict[str, Any]) -> None:
    """Logits, their loss, and back; nobody holds the logits when the loss is there."""
    x = torch.randn(row["tokens"], 1, row["vocabulary"], dtype=torch.bfloat16, requires_grad=True)
    target = torch.randint(0, row["vocabulary"], (row["tokens"], 1))
    logits = x * 1
    if row["compiled"]:
        loss = fused_vocab_parallel_cross_entropy(logits, target, dist.group.WORLD)
    else:
        loss = vocab_parallel_cross_entropy(logits, target)
    del logits
    loss.sum().backward()


def highest(row: dict[str, Any]) -> int:
    """Return the most that is there beyond the tensor the logits were made of, once kernels are
    compiled."""
    one_pass(row)
    with torch.profiler.profile(profile_memory=True) as profile:
        one_pass(row)
    live = peak = 0
    for event in profile.profiler.kineto_results.events():
        if event.name() == "[memory]":
            live += event.nbytes()
            peak = max(peak, live)
    return peak - 2 * row["tokens"] * row["vocabulary"]


def measured(lines: Iterable[str]) -> Iterator[dict[str, Any]]:
    """Yield every line of the kind with its bytes and versions."""
    versions = {"megatron": version("megatron-core"), "torch": torch.__version__}
    for line in lines:
        row = json.loads(line)
        if row["kind"] == "megatron_loss":
            yield row | {"versions": versions, "bytes": highest(row)}


if __name__ == "__main__":
    dist.init_process_group("fake", rank=0, world_size=1, store=FakeStore())
    parallel_state.initialize_model_parallel(create_gloo_process_groups=False)
    for row in measured(sys.stdin):
        print(json.dumps(row), flush=True)
