"""A segment: one part of a model on a tape, simulated with the checkpointing of the workload."""

from collections.abc import Sequence

import msgspec

from fitgauge.engine.model.dtypes import BITS, size_of
from fitgauge.engine.training.autograd.checkpointing import compiled, products
from fitgauge.engine.training.autograd.megatron_tape import MegatronTape
from fitgauge.engine.training.autograd.operations import Saved, Value
from fitgauge.engine.training.autograd.tape import Pass, Tape
from fitgauge.engine.training.states.optimizer_states import gradient_dtype, gradient_format
from fitgauge.engine.training.states.parameters import Unit
from fitgauge.engine.training.workload import PrecisionPolicy, TrainingWorkload, precision_policy


class Segment(msgspec.Struct, frozen=True, kw_only=True):
    """Passes of one part of the model [bytes above the moment before it]."""

    name: str
    """Which part of the model it is."""
    layers: tuple[int, ...]
    """Numbers of the layers it stands for, empty for embedding and head."""
    forward: Pass
    """Forward pass; under checkpointing only what that retains is left."""
    backward: Pass
    """Backward pass, recomputation included."""
    casts: int
    """Autocast's cached copies that no operation saves; freed at the end of the forward pass."""
    logits: int
    """Logits that the caller holds until the forward pass ends."""
    gradients: int
    """Gradients of its trained parameters, unsharded."""
    released: int
    """Gradients as this rank makes them, in the format of its weights."""
    saved: tuple[Saved, ...]
    """Tensors that autograd saves. Of a checkpointed layer: those of its recomputation; of a
    compiled one: those it would save uncompiled."""
    input_bytes: int
    """Size of its input."""
    output_bytes: int
    """Size of its output."""
    retains_input: bool
    """Whether it saves its input for the backward pass."""


def tape_of(workload: TrainingWorkload, *, accumulates: bool = True) -> Tape:
    """Return an empty tape, with autocast where the framework uses it. `accumulates`: products add
    gradients of weights to Megatron's own buffers."""
    policy = precision_policy(workload)
    compute = BITS[policy.compute] // 8 if policy.autocast else 0
    return (
        MegatronTape(compute) if accumulates and workload.framework == "megatron" else Tape(compute)
    )


def stream_width(workload: TrainingWorkload) -> int:
    """Return the bytes of a number of the residual stream: the format of the weights, which the
    embedding's output has."""
    return BITS[precision_policy(workload).weights] // 8


def trace_segment(
    name: str,
    layers: tuple[int, ...],
    tape: Tape,
    start: Value,
    output: Value,
    own_units: list[Unit],
    workload: TrainingWorkload,
    *,
    checkpointed: str,
    logits: int = 0,
) -> Segment:
    """Return the segment of a tape. `own_units`: the units whose parameters it holds;
    `checkpointed`: none, selective or full."""
    again = checkpointed != "none"
    retained = _retained_bytes(tape, output, checkpointed, workload, layered=bool(layers))
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
        gradients=sum(_gradients(unit, precision_policy(workload)) for unit in own_units),
        released=tape.gradient_bytes(),
        saved=tuple(tape.saved()),
        input_bytes=start.bytes,
        output_bytes=output.bytes,
        retains_input=again or retained is not None or tape.saves(start),
    )


def _gradients(unit: Unit, policy: PrecisionPolicy) -> int:
    """Return the bytes of the gradients of one layer's parameters."""
    trained = [p for p in unit.parameters if p.trained]
    return sum(size_of(p.elements, gradient_format(p, policy)) for p in trained)


def _retained_bytes(
    tape: Tape, output: Value, checkpointed: str, workload: TrainingWorkload, *, layered: bool
) -> set[int] | None:
    """Return the storages that a checkpoint or a compiled layer holds between the passes besides
    its inputs; None where everything saved is held."""
    if checkpointed == "selective":
        return products(tape, every_second=workload.framework == "fsdp")
    if checkpointed == "full":
        return set()
    return compiled(tape, output) if workload.compile and layered else None


def _run_once(
    tape: Tape, output: Value, retained: set[int] | None, logits: int
) -> tuple[Pass, Pass, int]:
    """Return (forward pass, backward pass, casts) of a segment that is not checkpointed.
    `retained`: the storages that a compiled layer saves; None where it is not compiled."""
    forward = tape.forward(output)
    backward = tape.backward(output)
    casts = tape.retained_bytes(saving=True) - logits
    spared = 0 if retained is None else max(0, forward.end - casts - tape.sized(retained))
    return (
        Pass(peak=forward.peak - spared, end=forward.end - spared),
        Pass(
            peak=backward.peak,
            end=backward.end + spared,
            parameter_gradients=backward.parameter_gradients,
        ),
        casts,
    )


def _run_again(
    tape: Tape, start: Value, output: Value, retained: set[int]
) -> tuple[Pass, Pass, int]:
    """Return the same of a checkpoint: it runs again before its backward pass, except for the
    storages `retained`."""
    forward = tape.forward(output, saving=False)
    back = tape.backward(output)
    again = tape.forward(output, early_stop=True)
    held = tape.sized(retained)
    there = again.end - held
    left = (
        tape.retained_bytes(saving=True)
        + (0 if tape.saves(start) else start.bytes)
        + (0 if tape.stops_early else output.bytes)
    )
    lead = (
        back.lead if tape.stops_early else 0
    )  # a recomputation that stops early runs when its first tensor is asked for
    recomputing = again.peak - held + lead
    backward = Pass(
        peak=max(recomputing, there + back.peak),
        end=there + back.end - left,
        parameter_gradients=back.parameter_gradients if there + back.peak > recomputing else 0,
    )
    return (
        Pass(peak=forward.peak + held, end=forward.end + held),
        backward,
        tape.retained_bytes(saving=False),
    )


def joined(name: str, line: Sequence[Segment]) -> Segment:
    """Return consecutive segments as one, such as all that runs before the first decoder layer."""
    forward = _after_each_other([part.forward for part in line])
    backward = _after_each_other([part.backward for part in reversed(line)])
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
        input_bytes=line[0].input_bytes,
        output_bytes=line[-1].output_bytes,
        retains_input=line[0].retains_input,
    )


def used_again(segment: Segment, uses: int, unit: Unit, workload: TrainingWorkload) -> Segment:
    """Return a layer that runs `uses` times with the same weights.

    Its gradients appear in the last use, the first of the backward pass, and the other uses add to
    them. Autocast's copies of its weights are made in the first use and serve all."""
    trained = [p for p in unit.parameters if p.trained]
    sizes = [size_of(p.elements, gradient_dtype(p, workload)) for p in trained]
    names = {f"{unit.prefix}{p.name}.cast" for p in trained}
    casts = 0
    if workload.activation_checkpointing == "none":
        casts = sum(tensor.bytes for tensor in segment.saved if tensor.name in names)
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
