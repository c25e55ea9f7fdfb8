"""A segment: one part of a model, played once on a tape, with what checkpointing makes of it."""

from collections.abc import Sequence

import msgspec

from fitgauge.engine.model.dtypes import BITS, size_of
from fitgauge.engine.training.autograd.checkpointing import compiled, products
from fitgauge.engine.training.autograd.megatron_tape import MegatronTape
from fitgauge.engine.training.autograd.operations import Saved, Value
from fitgauge.engine.training.autograd.tape import Pass, Tape
from fitgauge.engine.training.states.optimizer_states import gradient_dtype
from fitgauge.engine.training.states.parameters import Unit
from fitgauge.engine.training.workload import TrainingWorkload, precision_policy


class Segment(msgspec.Struct, frozen=True, kw_only=True):
    """One part of the model, played [bytes against the moment before it].

    `layers`: numbers of the layers it stands for, empty for embedding and head. `forward`,
    `backward`: with what the checkpointing makes of them. `casts`: what autocast keeps until the
    forward pass has ended and nothing saves. `logits`: what the caller holds through the
    backward pass. `gradients`: of its trained parameters, whole; `released`: as this rank makes
    them, in the format of its weights. `saved`: the tensors that autograd keeps (of a
    checkpointed layer, those its recomputation makes; of a compiled one, those it would keep if
    it were not). `plays`: what it was played from, one tape after another."""

    name: str
    layers: tuple[int, ...]
    forward: Pass
    backward: Pass
    casts: int
    logits: int
    gradients: int
    released: int
    saved: tuple[Saved, ...]
    plays: tuple["LayerTrace", ...]


class LayerTrace(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """What is written on a tape from its input `start` to its `output`, and what is there between
    its passes.

    `kept`: storages that stay besides the inputs, None where all that operations save stays, and
    no more; `again`: it runs again before its backward pass; `holds`: its caller holds what is
    kept and not saved; `once`: it has no like."""

    tape: Tape
    start: Value
    output: Value
    kept: frozenset[int] | None
    again: bool
    holds: bool
    once: bool


def tape_of(workload: TrainingWorkload, *, accumulates: bool = True) -> Tape:
    """Return an empty tape, with autocast where the framework uses it. `accumulates`: gradients
    of weights are made by products, which Megatron adds where they are kept."""
    form = precision_policy(workload)
    compute = BITS[form.compute] // 8 if form.autocast else 0
    return (
        MegatronTape(compute) if accumulates and workload.framework == "megatron" else Tape(compute)
    )


def stream_width(workload: TrainingWorkload) -> int:
    """Return the bytes of a number of the residual stream: that of the weights, which the
    embedding hands on."""
    return BITS[precision_policy(workload).weights] // 8


def trace_segment(
    name: str,
    layers: tuple[int, ...],
    tape: Tape,
    start: Value,
    output: Value,
    found: list[Unit],
    workload: TrainingWorkload,
    *,
    checkpointed: str,
    logits: int = 0,
) -> Segment:
    """Return what is written on a tape, played. `found`: the units whose parameters it holds;
    `checkpointed`: none, selective or full."""
    again = checkpointed != "none"
    retained = _kept(tape, output, checkpointed, workload, layered=bool(layers))
    forward, backward, casts = (
        _run_again(tape, start, output, retained or set())
        if again
        else _run_once(tape, output, retained, logits)
    )
    return Segment(
        name=name,
        layers=layers,
        forward=forward,
        backward=backward,
        casts=casts,
        logits=logits,
        gradients=sum(
            size_of(p.elements, gradient_dtype(p, workload))
            for unit in found
            for p in unit.parameters
            if p.trained
        ),
        released=tape.gradient_bytes(),
        saved=tuple(tape.saved()),
        plays=(
            LayerTrace(
                tape=tape,
                start=start,
                output=output,
                kept=None if retained is None else frozenset(retained),
                again=again,
                holds=logits > 0,
                once=name in ("embedding", "head"),
            ),
        ),
    )


def _kept(
    tape: Tape, output: Value, checkpointed: str, workload: TrainingWorkload, *, layered: bool
) -> set[int] | None:
    """Return the storages that stay between the passes besides the inputs: of a checkpoint, of
    compiled layers; None where all that is saved stays."""
    if checkpointed == "selective":
        return products(tape, every_second=workload.framework == "fsdp")
    if checkpointed == "full":
        return set()
    return compiled(tape, output) if workload.compile and layered else None


def _run_once(
    tape: Tape, output: Value, retained: set[int] | None, logits: int
) -> tuple[Pass, Pass, int]:
    """Return (forward pass, backward pass, casts) of what runs once; `retained` by compiled layers
    is the less the more they compute again."""
    forward, backward, casts = (
        tape.forward(output),
        tape.backward(output),
        tape.kept_bytes(saving=True) - logits,
    )
    spared = 0 if retained is None else max(0, forward.end - casts - tape.sized(retained))
    return (
        Pass(peak=forward.peak - spared, end=forward.end - spared),
        Pass(peak=backward.peak, end=backward.end + spared),
        casts,
    )


def _run_again(
    tape: Tape, start: Value, output: Value, retained: set[int]
) -> tuple[Pass, Pass, int]:
    """Return the same of a checkpoint, which runs again before its backward pass, but for what
    it `retained`."""
    forward, back, again = (
        tape.forward(output, saving=False),
        tape.backward(output),
        tape.forward(output, early_stop=True),
    )
    held = tape.sized(retained)
    there = again.end - held
    left = (
        tape.kept_bytes(saving=True)
        + (0 if tape.saves(start) else start.bytes)
        + (0 if tape.stops_early else output.bytes)
    )
    lead = (
        back.lead if tape.stops_early else 0
    )  # a recomputation that stops early runs when its first tensor is asked for
    backward = Pass(
        peak=max(again.peak - held + lead, there + back.peak), end=there + back.end - left
    )
    return (
        Pass(peak=forward.peak + held, end=forward.end + held),
        backward,
        tape.kept_bytes(saving=False),
    )


def joined(name: str, line: Sequence[Segment]) -> Segment:
    """Segments that follow each other as one: what a model does before its first decoder layer."""
    forward, backward = (
        _after_each_other([part.forward for part in line]),
        _after_each_other([part.backward for part in reversed(line)]),
    )
    return Segment(
        name=name,
        layers=(),
        forward=forward,
        backward=backward,
        casts=sum(part.casts for part in line),
        logits=sum(part.logits for part in line),
        gradients=sum(part.gradients for part in line),
        released=sum(part.released for part in line),
        saved=tuple(tensor for part in line for tensor in part.saved),
        plays=tuple(play for part in line for play in part.plays),
    )


def used_again(segment: Segment, uses: int, unit: Unit, workload: TrainingWorkload) -> Segment:
    """Return a layer that runs `uses` times with the same weights: its gradients are made in the
    last run, which is the backward pass's first, and added to in the others; casts of its
    weights, made in the first run, serve all."""
    trained = [p for p in unit.parameters if p.trained]
    sizes = [size_of(p.elements, gradient_dtype(p, workload)) for p in trained]
    names = {f"{unit.prefix}{p.name}.cast" for p in trained}
    casts = (
        sum(tensor.bytes for tensor in segment.saved if tensor.name in names)
        if workload.activation_checkpointing == "none"
        else 0
    )
    total, largest = sum(sizes), max(sizes, default=0)
    forward, backward = segment.forward, segment.backward
    later = msgspec.structs.replace(
        segment,
        forward=Pass(peak=forward.peak - casts, end=forward.end - casts),
        backward=Pass(peak=backward.peak, end=backward.end + casts),
        casts=0,
    )

    def added(one: Segment) -> Segment:
        back = Pass(peak=one.backward.peak - total + largest, end=one.backward.end - total)
        return msgspec.structs.replace(one, backward=back, gradients=0, released=0)

    whole = joined(segment.name, [added(segment), *[added(later)] * (uses - 2), later])
    return msgspec.structs.replace(whole, layers=segment.layers, saved=segment.saved)


def _after_each_other(passes: Sequence[Pass]) -> Pass:
    live = peak = 0
    for each in passes:
        peak = max(peak, live + each.peak)
        live += each.end
    return Pass(peak=peak, end=live)
