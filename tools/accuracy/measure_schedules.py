"""Runs pipeline schedules as the frameworks order them, and counts what every rank holds: a row of
training_parallel.jsonl each.

    python tools/accuracy/measure_schedules.py < settings.jsonl >> training_parallel.jsonl

A row is its own settings, so that feeding the file measures it anew (rows of another kind pass by).
Needs torch, and for their rows megatron-core or deepspeed. No communication: `torch` is
torch.distributed.pipelining's own list of actions, `megatron` megatron-core's
get_pp_rank_microbatches (warm-up, then one forward and one backward pass in turn, then the rest),
`deepspeed` the commands of its TrainSchedule.

Settings: framework, schedule, stages (ranks), micro_batches, chunks (of a rank). `held`: by
rank, the most passes of a chunk whose activations are alive; `waiting`: the most that have only
weight gradients to come."""

import json
import sys
from collections.abc import Iterable, Iterator
from importlib.metadata import version
from types import SimpleNamespace
from typing import Any

TORCH = {
    "gpipe": "ScheduleGPipe",
    "1f1b": "Schedule1F1B",
    "interleaved": "ScheduleInterleaved1F1B",
    "zero_bubble": "ScheduleInterleavedZeroBubble",
}
PACKAGES = {"torch": "torch", "megatron": "megatron-core", "deepspeed": "deepspeed"}
Pass = str
"""F: forward; B: the whole backward pass; I: of the input; W: of the weights."""


def torch_passes(row: dict[str, Any], rank: int) -> list[Pass]:
    """Return the passes of a rank by torch.distributed.pipelining's own order."""
    from torch.distributed.pipelining import schedules

    ranks, chunks = row["stages"], row["chunks"]
    own = [
        SimpleNamespace(
            group_size=ranks, group_rank=rank, num_stages=ranks * chunks,
            stage_index=rank + ranks * chunk, is_first=False, is_last=False,
            submod=None, device="cpu",
        )
        for chunk in range(chunks)
    ]  # fmt: skip
    multiple = row["schedule"] in ("interleaved", "zero_bubble")
    schedule = getattr(schedules, TORCH[row["schedule"]])(
        own if multiple else own[0], row["micro_batches"]
    )
    return [
        kind
        for action in schedule.pipeline_order[rank]
        if action and (kind := action.computation_type.value) in "FBIW"
    ]


def megatron_passes(row: dict[str, Any], rank: int) -> list[Pass]:
    """Return the passes of a rank by megatron-core's number of warm-up passes."""
    from megatron.core.pipeline_parallel.schedules import get_pp_rank_microbatches

    group = SimpleNamespace(size=lambda: row["stages"], rank=lambda: rank)
    chunks = row["chunks"] if row["schedule"] == "interleaved" else None
    communicator = SimpleNamespace(pp_group=group, virtual_pipeline_model_parallel_size=chunks)
    _, _, warm, rest = get_pp_rank_microbatches(
        row["micro_batches"], row["chunks"], row["stages"], p2p_communicator=communicator
    )
    return ["F"] * warm + ["F", "B"] * rest + ["B"] * warm


def deepspeed_passes(row: dict[str, Any], rank: int) -> list[Pass]:
    """Return the passes of a rank by DeepSpeed's TrainSchedule."""
    from deepspeed.runtime.pipe.schedule import TrainSchedule

    steps = TrainSchedule(row["micro_batches"], row["stages"], rank).steps()
    names = {"ForwardPass": "F", "BackwardPass": "B"}
    return [
        names[kind]
        for step in steps
        for command in step
        if (kind := type(command).__name__) in names
    ]


def held(passes: Iterable[Pass]) -> tuple[int, int]:
    """Return the most passes whose activations are alive, and the most that wait for their
    weights' turn."""
    alive = waiting = most = longest = 0
    for kind in passes:
        alive += {"F": 1, "B": -1, "I": 0, "W": -1}[kind]
        waiting += {"F": 0, "B": 0, "I": 1, "W": -1}[kind]
        most, longest = max(most, alive), max(longest, waiting)
    return most, longest


def measured(lines: Iterable[str]) -> Iterator[dict[str, Any]]:
    """Yield every line that is a schedule, with what its ranks hold and the version it is of."""
    passes_of = {"torch": torch_passes, "megatron": megatron_passes, "deepspeed": deepspeed_passes}
    for line in lines:
        row = json.loads(line)
        if row["kind"] != "schedule":
            continue
        held_by_rank = [
            held(passes_of[row["framework"]](row, rank)) for rank in range(row["stages"])
        ]
        versions = {row["framework"]: version(PACKAGES[row["framework"]])}
        yield row | {
            "held": [most for most, _ in held_by_rank],
            "waiting": [waiting for _, waiting in held_by_rank],
            "versions": versions,
        }


if __name__ == "__main__":
    for row in measured(sys.stdin):
        print(json.dumps(row), flush=True)
