"""Why a measurement differs from its estimate: what the log itself says about it, in words."""

from collections.abc import Callable, Iterator
from typing import NamedTuple

from fitgauge.engine.quantity import GIB, gib
from fitgauge.engine.serving.registry import ENGINES
from fitgauge.engine.serving.start_log.measurements import StartLog
from fitgauge.services.explain_log.comparison import Measured
from fitgauge.services.explain_log.schemas import ComparisonRow
from fitgauge.services.fit.query import FitEstimate

_NOTABLE = 0.1 * GIB
_VISIBLE = 0.03 * GIB
_EXPLAINED = 0.25
"""A pool whose difference the other terms' differences make up to this share needs no further
cause."""

_SHARE = 0.015
"""Difference in gpu_memory_utilization that an estimate can tell."""

_FIXED = ("weights", "activations", "runtime")
"""Terms outside the KV cache pool."""

_ANOTHER_FORMAT = 0.35
"""Weights off by more than this share are stored in another number format, or are another model."""


def in_doubt(rows: list[ComparisonRow]) -> bool:
    """Return whether the weights are so far off that another model, or another number format of
    it, was loaded."""
    weights = next((row for row in rows if row.name == "weights"), None)
    return bool(
        weights
        and weights.estimated
        and abs(weights.difference or 0) > _ANOTHER_FORMAT * weights.estimated
    )


class Seen(NamedTuple):
    """What a log shows and what was estimated of the same question."""

    log: StartLog
    """The log."""
    rows: dict[str, ComparisonRow]
    """Rows of the comparison, by name."""
    measured: Measured
    """The readings of the log, by name."""
    checked: FitEstimate
    """The estimate of the same question."""


def causes(
    log: StartLog, rows: list[ComparisonRow], largest: ComparisonRow | None, checked: FitEstimate
) -> list[str]:
    """Return one sentence for every cause the log shows, those of the `largest` difference
    first."""
    seen = Seen(log, {row.name: row for row in rows}, Measured(log.readings), checked)
    messages = []
    for row in sorted(rows, key=lambda row: (row is not largest, -abs(row.difference or 0))):
        if row.name in _CAUSES and row.difference is not None:
            messages += list(_CAUSES[row.name](row, seen))
    messages += list(_start(seen.measured))
    return list(dict.fromkeys(messages))


def _weights(row: ComparisonRow, seen: Seen) -> Iterator[str]:
    difference, estimated = row.difference or 0, row.estimated or 0
    if row.within or abs(difference) < _VISIBLE:
        return
    if in_doubt([row]):
        named = (
            seen.log.flags.get("quantization")
            or seen.log.flags.get("file_type")
            or seen.log.flags.get("dtype")
        )
        shown = f" (the log says {named})" if named else ""
        share = f"{row.measured / estimated:.2f} times the estimate"
        yield f"weights are {share}: another number format{shown}, another model, or other degrees."
    elif difference > 0 and "draft_model" in seen.log.remarks:
        yield (
            f"weights {gib(difference)} more: a draft model is loaded too (speculative decoding)."
        )
    elif difference > 0 and "lora" in seen.log.remarks:
        yield f"weights {gib(difference)} more: LoRA slots are allocated."
    elif difference > 0 and "projector" in seen.log.remarks:
        yield f"weights {gib(difference)} more: a vision projector is loaded too."
    elif difference < 0 and (
        "cpu_offload" in seen.log.remarks or seen.log.flags.get("cpu_offload_gib")
    ):
        yield f"weights {gib(-difference)} less: cpu_offload_gb keeps part of them in host memory."
    elif (
        seen.checked.workload.gpus == 1
        and seen.log.gpu_count is None
        and "tensor_parallel" not in seen.log.flags
        and difference < 0
    ):
        yield (
            "weights less: the log has no parallel degrees; send `gpu_count` if it ran on several"
            " GPUs."
        )
    else:
        size = f"weights {gib(abs(difference))} {'more' if difference > 0 else 'less'}"
        in_file = ENGINES[seen.checked.workload.engine].reads_gguf
        why = "a file of another type" if in_file else "kernels may repack them after loading"
        yield f"{size}, unexplained by flags in the log: {why}."


def _activations(row: ComparisonRow, seen: Seen) -> Iterator[str]:
    if row.within:
        return
    workload = seen.checked.workload
    if seen.log.engine is not None and ENGINES[seen.log.engine].reads_gguf:
        names = ("n_parallel", "n_ubatch")
    else:
        names = ("max_num_seqs", "max_batched_tokens")
    for name, taken in zip(
        names, (workload.max_num_seqs, workload.max_batched_tokens), strict=True
    ):
        if name in seen.log.flags:
            yield f"activations: {name} {seen.log.flags[name]} was given."
        else:
            yield f"activations: the log does not show {name}; assuming the default {taken}."
    if seen.log.version is None:
        yield "activations: the log names no release; releases differ in what they hold."
    if "encoder_cache" in seen.log.remarks:
        yield "activations: the profiling pass ran a vision or audio encoder too."


def _graphs(row: ComparisonRow, seen: Seen) -> Iterator[str]:
    expected = seen.measured.pick("cuda_graphs_estimated")
    if expected and abs(expected.value - row.measured) > _NOTABLE:
        yield (
            f"cuda_graphs: the engine reserved {gib(expected.value)} and used {gib(row.measured)}."
        )


def _pool(row: ComparisonRow, seen: Seen) -> Iterator[str]:
    difference = row.difference or 0
    if abs(difference) < _NOTABLE:
        return
    word = "larger" if difference > 0 else "smaller"
    if seen.log.flags.get("enforce_eager"):
        yield "no CUDA graphs were captured: enforce_eager."
    if "blocks_overridden" in seen.log.remarks:
        yield "kv_cache: the number of blocks is fixed (num_gpu_blocks_override)."
    if seen.log.flags.get("kv_cache_memory_bytes"):
        yield (
            "kv_cache: the size is fixed (kv_cache_memory_bytes), which overrides"
            " gpu_memory_utilization."
        )
    size = f"kv_cache {gib(abs(difference))} {word}"
    others = [
        seen.rows[name] for name in _FIXED if name in seen.rows and seen.rows[name].difference
    ]
    of_device = seen.log.engine is not None and ENGINES[seen.log.engine].budget_is_device_share
    explained = -sum(other.difference or 0 for other in others)
    share = seen.log.flags.get("gpu_memory_utilization")
    taken = seen.checked.workload.gpu_memory_utilization
    if others and abs(difference - explained) < max(_NOTABLE, _EXPLAINED * abs(difference)):
        parts = ", ".join(
            f"{other.name} {(other.difference or 0) / GIB:+.2f} GiB" for other in others
        )
        yield f"{size}: {parts} leave as much {'more' if difference > 0 else 'less'}."
    elif share is not None:
        yield f"{size} at gpu_memory_utilization {share}: {_hidden(seen.rows)}."
    elif of_device and "weights" in seen.rows:
        implied = (row.measured + _fixed(seen)) / seen.checked.estimate.accelerator.usable.expected
        if 0.05 < implied <= 1 and abs(implied - taken) > _SHARE:
            yield (
                f"{size}: the terms add up to {implied:.2f} of the GPU, so gpu_memory_utilization"
                f" was likely set (assumed: {taken})."
            )
        else:
            yield f"{size}: {_hidden(seen.rows)}."


def _hidden(rows: dict[str, ComparisonRow]) -> str:
    """Return what of the rest is not measured."""
    hidden = [name for name in _FIXED if name not in rows]
    if hidden:
        return f"the log does not show {' and '.join(hidden)}, which are estimated"
    return "no term of the log explains it"


def _usable(row: ComparisonRow, seen: Seen) -> Iterator[str]:
    if not row.within and abs(row.difference or 0) > _NOTABLE:
        accelerator = seen.checked.estimate.accelerator
        usually = f"{accelerator.name} usually {gib(accelerator.usable.expected)}"
        yield f"the device shows {gib(row.measured)}, {usually}: ECC, a MIG slice, or another GPU."


def _start(measured: Measured) -> Iterator[str]:
    total, free = measured.value("total"), measured.value("free_at_start")
    if total and free and total - free > 0.5 * GIB:
        yield (
            f"{gib(total - free)} were in use before the engine started: another process, or the"
            " display."
        )
    held, in_use, left = measured.value("total"), measured.value("in_use"), measured.value("free")
    if held and in_use and left is not None and held - in_use - left > 0.5 * GIB:
        yield f"{gib(held - in_use - left)} are used by other processes on that GPU."
    unused = measured.value("reserved_unallocated")
    if unused and unused > 0.5 * GIB:
        remedy = "PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True helps"
        yield f"{gib(unused)} are reserved by PyTorch but unallocated (fragmentation): {remedy}."


def _required(row: ComparisonRow, seen: Seen) -> Iterator[str]:
    if row.within:
        yield ("memory ran out before all of it was allocated: the measurement is a lower bound.")
    else:
        yield (
            "more was allocated than this workload needs: a longer context, a larger batch,"
            " another model or a second copy."
        )


def _fixed(seen: Seen) -> int:
    """Return memory outside the pool: the estimate, corrected by every difference that was
    measured."""
    estimated = max(stage.fixed_bytes for stage in seen.checked.estimate.stages)
    return estimated + sum(seen.rows[name].difference or 0 for name in _FIXED if name in seen.rows)


_Explain = Callable[[ComparisonRow, Seen], Iterator[str]]
_CAUSES: dict[str, _Explain] = {
    "weights": _weights,
    "activations": _activations,
    "activations_and_graphs": _activations,
    "cuda_graphs": _graphs,
    "kv_cache": _pool,
    "usable": _usable,
    "required_by_pytorch": _required,
}
