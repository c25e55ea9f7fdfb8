"""What took the memory where it ran out, and what to change: from the log's own figures, and from
the estimate of the launch where the model and the GPU are known."""

from collections.abc import Iterable, Sequence

import msgspec

from fitgauge.engine.quantity import GIB, gib
from fitgauge.engine.serving.start_log.measurements import StartLog
from fitgauge.engine.serving.workload import EngineName
from fitgauge.services.common.schemas import Suggestion, Verdict
from fitgauge.services.explain_log.comparison import Measured
from fitgauge.services.explain_log.general_fixes import first_of_all, general_fixes
from fitgauge.services.explain_log.schemas import LogFix, MemoryPart

_NOTABLE = 0.5 * GIB
_CONTEXT = 1 * GIB
"""More than CUDA's context and the libraries of a process hold of a GPU."""
_FRAGMENTED = 0.1
"""Share of the GPU from which memory that PyTorch reserves and does not use counts."""

_MOST_FIXES = 8
_PARTS = (
    ("weights", ("weights", "weights_rounded")),
    ("kv_cache", ("kv_pool",)),
    ("state_cache", ("state",)),
    ("activations", ("activations", "activations_and_graphs")),
    ("cuda_graphs", ("cuda_graphs",)),
    ("runtime", ("runtime",)),
    ("pytorch_tensors", ("allocated",)),
    ("pytorch_reserved_unused", ("reserved_unallocated",)),
    ("failed_allocation", ("requested", "host_requested")),
)


class Launched(msgspec.Struct, frozen=True):
    """The estimate of the launch that ran out of memory."""

    terms: Sequence[MemoryPart]
    """Terms of the estimate of the fullest GPU."""
    needs: int
    """Memory that the fullest GPU needs [bytes]."""
    may_use: int
    """Memory that the engine may use of it [bytes]."""
    verdict: Verdict | None
    """The verdict of the launch; None where it has none."""
    suggestions: Sequence[Suggestion]
    """Changes that would make it fit."""
    commands: Sequence[str | None]
    """How to start each suggestion; None where it has no command."""
    taken_as: str = "This launch"
    """The launch, as the subject of a sentence."""


class Diagnosis(msgspec.Struct, frozen=True):
    """Why memory ran out, and what to change."""

    sentences: list[str]
    """What took the memory, the largest cause first."""
    memory: list[MemoryPart]
    """Parts of the memory that ran out."""
    fixes: list[LogFix]
    """Changes in the order to try."""


def others_bytes(measured: Measured) -> int:
    """Return what other processes hold of the GPU [bytes], as the log shows it; 0 where it does
    not."""
    total = measured.value("total")
    at_start = measured.value("free_at_start")
    in_use = measured.value("in_use")
    free = measured.value("free")
    if not total:
        return 0
    held = total - at_start if at_start is not None else 0.0
    if in_use is not None and free is not None:
        held = max(held, total - in_use - free)
    return int(held) if _NOTABLE < held < total else 0


def _held_alone(measured: Measured) -> bool:
    """Return whether the process, or PyTorch's memory and a context, and what is free are all of
    the GPU."""
    total = measured.value("total")
    for names in (("in_use", "free"), ("allocated", "reserved_unallocated", "free")):
        sizes = [value for name in names if (value := measured.value(name)) is not None]
        if total is not None and len(sizes) == len(names) and total - sum(sizes) < _CONTEXT:
            return True
    return False


def diagnose(log: StartLog, engine: EngineName | None, launched: Launched | None) -> Diagnosis:
    """Return what a log says of the memory that ran out. engine: None where nothing says which
    one ran; launched: None where the model or the GPU is not known."""
    measured = Measured(log.readings)
    host, kv_cache = "host_memory" in log.remarks, log.outcome == "kv_too_small"
    unused, total = measured.value("reserved_unallocated") or 0, measured.value("total") or 0
    fixes = first_of_all(
        fragmented=total > 0 and unused > _FRAGMENTED * total, shared=others_bytes(measured) > 0
    )
    own = _suggested(launched) if launched else []
    fixes += own
    if not any(fix.verdict == "fits" for fix in own):
        general = general_fixes(
            engine,
            log.remarks,
            kv_cache=kv_cache,
            alone=_held_alone(measured),
            cached=not kv_cache
            and (measured.value("kv_pool") is not None or "captures_graphs" in log.remarks),
            longest=measured.value("longest_context"),
        )
        fixes += [fix for fix in general if fix not in fixes]
    return Diagnosis(
        sentences=[
            _what_ran_out(measured, host=host, kv_cache=kv_cache),
            *_held(measured),
            *(_needed(launched, host=host) if launched else ()),
        ],
        memory=[*_logged(measured), *(_estimated(launched.terms) if launched else ())],
        fixes=fixes[:_MOST_FIXES],
    )


def _what_ran_out(measured: Measured, *, host: bool, kv_cache: bool) -> str:
    if host:
        needed, free = measured.value("host_needed"), measured.value("host_free")
        figures = f": {gib(needed)} are needed, {gib(free)} are free" if needed and free else ""
        return f"Host memory ran out, not the GPU's{figures}."
    if kv_cache:
        needed, pool = measured.value("kv_needed"), measured.pick("kv_pool", by=min)
        if needed and pool:
            return (
                f"The weights fit, the KV cache does not: one request of the longest context needs"
                f" {gib(needed)}, {gib(max(0, pool.value))} are left."
            )
        return "The weights fit, but what is left is too small for the KV cache."
    failed, limit = measured.value("requested"), measured.value("buffer_limit")
    if failed and limit:
        return f"One buffer of {gib(failed)} is larger than the device allows ({gib(limit)})."
    free = measured.value("free")
    of = f" with {gib(free)} free" if free is not None else ""
    if failed:
        return f"The GPU ran out of memory: an allocation of {gib(failed)} failed{of}."
    return (
        "The GPU ran out of memory: weights, KV cache or activations, and what else the"
        " process holds, are together more than it has."
    )


def _held(measured: Measured) -> Iterable[str]:
    total = measured.value("total")
    in_use = measured.value("in_use")
    allocated = measured.value("allocated")
    if total and in_use:
        tensors = f", {gib(allocated)} of it in tensors" if allocated else ""
        yield f"The process held {gib(in_use)} of {gib(total)}{tensors}."
    elif total and allocated:
        yield f"Tensors took {gib(allocated)} of {gib(total)}."
    if others := others_bytes(measured):
        yield f"Other processes hold {gib(others)} of the GPU."


def _needed(launched: Launched, *, host: bool) -> Iterable[str]:
    largest = sorted(launched.terms, key=lambda term: -term.bytes)[:3]
    parts = ", ".join(f"{term.name} {gib(term.bytes)}" for term in largest)
    yield (
        f"{launched.taken_as} needs {gib(launched.needs)} on the fullest GPU ({parts}); it may use"
        f" {gib(launched.may_use)}."
    )
    if largest and largest[0].bytes > launched.may_use:
        name = largest[0].name.replace("_", " ").capitalize()
        yield f"{name} alone: more than that, so only less of it, or more GPUs, will do."
    if launched.verdict == "fits" and not host:
        yield (
            "By the estimate it fits: the load was higher than assumed, another process holds"
            " memory, or a flag that the log does not show matters."
        )


def _logged(measured: Measured) -> list[MemoryPart]:
    parts = [
        MemoryPart(name=name, bytes=round(value), basis="log")
        for name, readings in _PARTS
        if (value := measured.value(*readings)) is not None
    ]
    if others := others_bytes(measured):
        parts.append(MemoryPart(name="other_processes", bytes=others, basis="log"))
    return sorted(parts, key=lambda part: -part.bytes)


def _estimated(terms: Sequence[MemoryPart]) -> list[MemoryPart]:
    return sorted((term for term in terms if term.bytes), key=lambda term: -term.bytes)


def _suggested(launched: Launched) -> list[LogFix]:
    return [
        LogFix(
            change=suggestion.change,
            command=command,
            request=suggestion.request,
            verdict=suggestion.verdict,
            required_bytes=suggestion.required_bytes,
        )
        for suggestion, command in zip(launched.suggestions, launched.commands, strict=True)
    ]
