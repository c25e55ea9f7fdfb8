"""One rank of every pipeline stage over a step: forward and backward passes and the optimizer's
step, each with its parts."""

from collections.abc import Mapping, Sequence

import msgspec
from msgspec.structs import replace

from fitgauge.engine.memo import WeakMemo
from fitgauge.engine.model.dtypes import BITS
from fitgauge.engine.model.spec import Kind, ModelSpec, Part
from fitgauge.engine.quantity import NOTHING, Bytes, described, exactly, more
from fitgauge.engine.training.amounts import (
    Amount,
    Phase,
    all_states,
    amount,
    in_words,
    phase,
    spanned,
    state,
)
from fitgauge.engine.training.autograd.passes import (
    Passes,
    StageSegments,
    in_order,
    simulated,
    stage_segments,
)
from fitgauge.engine.training.autograd.segments import older_heads, segments
from fitgauge.engine.training.fsdp_phases import fsdp_phases, fsdp_stage_phases
from fitgauge.engine.training.loading import loading
from fitgauge.engine.training.parallel import fsdp, fsdp_pipeline, zero
from fitgauge.engine.training.parallel.pipeline import held, in_flight_in_words, stage_layers
from fitgauge.engine.training.states.formulas import StateFormula, state_formulas
from fitgauge.engine.training.states.offload import host_and_nvme
from fitgauge.engine.training.states.parameters import units
from fitgauge.engine.training.states.sharding import (
    RankStates,
    RankUnit,
    is_sharded,
    stage_states,
    stage_units,
    to_rank,
)
from fitgauge.engine.training.workload import TrainingWorkload, precision_policy

_BUCKETS = "gradients on their way to other ranks: buckets of the framework's default size"


class Stage(msgspec.Struct, frozen=True, kw_only=True):
    """One rank of a pipeline stage."""

    number: int
    """Number of the stage, from 0."""
    layers: int
    """Layers that it holds."""
    parameters: int
    """Parameters that it holds."""
    phases: tuple[Phase, ...]
    """The phases of a step."""
    in_flight: float
    """Micro-batches whose activations it holds."""
    host: int
    """Bytes in host memory."""
    nvme: int = 0
    """Bytes on NVMe."""

    @property
    def highest(self) -> Phase:
        """The phase that needs most."""
        return max(self.phases, key=lambda each: each.total)


def stages(spec: ModelSpec, workload: TrainingWorkload, *, ends: bool = False) -> tuple[Stage, ...]:
    """Return every pipeline stage of a run; without pipeline parallelism one. `ends`: only the
    first two and the last, one of which is the fullest."""
    if workload.loss == "none":
        spec = headless(spec)
    layers = stage_layers(max(1, spec.layers), workload)
    last = len(layers) - 1
    stateful = _stateful(workload)
    slices = _SLICES.get_or_compute(spec, stateful, lambda: _slices(spec, stateful))
    numbers = [number for number in range(len(layers)) if not ends or number in (0, 1, last)]
    return tuple(_stage(spec, workload, slices, number, layers[number], last) for number in numbers)


def headless(spec: ModelSpec) -> ModelSpec:
    """Return the model as classifier, reward model or critic: without the head of the vocabulary;
    its own, of a few numbers, is not counted.

    Source: transformers modeling_layers.py, GenericForSequenceClassification (`score`: hidden x
    num_labels)."""
    return _HEADLESS.get_or_compute(
        spec,
        None,
        lambda: replace(
            spec, blocks=tuple(block for block in spec.blocks if block.part is not Part.HEAD)
        ),
    )


_HEADLESS: WeakMemo[ModelSpec, None, ModelSpec] = WeakMemo(16)


def _stateful(workload: TrainingWorkload) -> TrainingWorkload:
    """Return the workload without what states do not depend on: they are cut over data and
    context parallel ranks alike, stage by stage."""
    return replace(
        workload,
        sequence_length=1,
        micro_batch_size=1,
        micro_batches=1,
        activation_checkpointing="none",
        pipeline_schedule="1f1b",
        pipeline_parallel=1,
        context_parallel=1,
        data_parallel=workload.data_parallel * workload.context_parallel,
        sequence_parallel=False,
    )


_SLICES: WeakMemo[ModelSpec, TrainingWorkload, tuple[RankUnit, ...]] = WeakMemo(512)


def _slices(spec: ModelSpec, workload: TrainingWorkload) -> tuple[RankUnit, ...]:
    return tuple(to_rank(unit, workload) for unit in units(spec, workload))


def _stage(
    spec: ModelSpec,
    workload: TrainingWorkload,
    slices: tuple[RankUnit, ...],
    number: int,
    layers: range,
    last: int,
) -> Stage:
    here = stage_units(slices, layers, first=number == 0, last=number == last)
    if last and number == last and spec.tied_embeddings:
        here += _shared(slices, spec, workload)
    rank = stage_states(here, workload)
    in_flight = held(
        workload.pipeline_schedule,
        number,
        last + 1,
        workload.micro_batches,
        workload.pipeline_chunks,
    ).most
    formulas = state_formulas(workload, here)
    heads = older_heads(spec, fsdp.computed(workload)) if number == last else ()
    if workload.framework == "fsdp" and last:
        phases = fsdp_stage_phases(
            fsdp_pipeline.step_of(spec, workload, here, layers, number), rank, formulas
        )
    elif workload.framework == "fsdp":
        phases = fsdp_phases(spec, workload, rank, formulas, heads)
    else:
        line = stage_segments(
            segments(spec, workload),
            layers if last else None,
            first=number == 0,
            last=number == last,
        )
        lines = [line, *(replace(line, segments=(*line.segments[:-1], head)) for head in heads)]
        now, *before = (
            _phases(spec, workload, rank, here, each, float(in_flight), number, formulas)
            for each in lines
        )
        phases = spanned(now, before)

    def states_of(other: TrainingWorkload) -> RankStates:
        ends = {"first": number == 0, "last": number == last}
        return stage_states(stage_units(_slices(spec, _stateful(other)), layers, **ends), other)

    phases += loading(spec, workload, rank, states_of)
    host, nvme = host_and_nvme(rank, workload)
    if workload.activation_offload:
        host += int(in_flight * _away(spec, workload, layers))
    return Stage(
        number=number,
        layers=len(layers),
        parameters=sum(count * piece.elements for piece, count in here),
        phases=phases,
        in_flight=float(in_flight),
        host=host,
        nvme=nvme,
    )


def _away(spec: ModelSpec, workload: TrainingWorkload, layers: range) -> int:
    """Return what the layers of a stage keep of one micro-batch where they keep it in host
    memory [bytes]."""
    model_segments = segments(spec, replace(workload, activation_offload=False))
    return sum(segment.forward.end - segment.casts for segment in in_order(model_segments, layers))


def _shared(
    slices: Sequence[RankUnit], spec: ModelSpec, workload: TrainingWorkload
) -> list[tuple[RankUnit, int]]:
    """Return a tied embedding again: the last stage keeps a copy of it as its head. A model that
    is only a size has none."""
    owners = [piece.unit for piece in slices if piece.unit.part is Part.EMBEDDING]
    tied = [
        tuple(
            p
            for p in unit.parameters
            if p.kind is Kind.EMBEDDING and p.shape[0] == spec.vocabulary_size
        )
        for unit in owners
    ]
    return [
        (to_rank(replace(unit, parameters=parameters), workload), 1)
        for unit, parameters in zip(owners, tied, strict=True)
    ]


class _Moment(msgspec.Struct, frozen=True, kw_only=True):
    """One moment of the backward pass [bytes]."""

    activations: int
    """Of one micro-batch."""
    gradients: int
    """Of this pass."""
    buckets: Bytes
    """On their way."""

    @property
    def total(self) -> int:
        """All of it."""
        return self.activations + self.gradients + self.buckets.expected


def _highest(
    line: StageSegments, passes: Passes, exchange: zero.Exchange, *, standing: bool
) -> _Moment:
    """Return the highest moment of the backward pass: before its first gradient, at it, after it,
    or when what is left of gradients is reduced. `standing`: gradients stay from one micro-batch to
    the next, and those of a segment are added to them."""
    first, buckets = 0 if standing else line.segments[-1].released, exchange.buckets
    moments = [
        _Moment(
            activations=passes.backward - passes.gradients,
            gradients=passes.gradients,
            buckets=buckets,
        ),
        _Moment(activations=passes.opening, gradients=0, buckets=NOTHING),
        _Moment(activations=passes.arrived - first, gradients=first, buckets=buckets),
    ]
    if exchange.ordered:
        left = 0 if exchange.frees_gradients else passes.left
        moments.append(
            _Moment(
                activations=line.constants, gradients=left, buckets=more(buckets, exchange.ordered)
            )
        )
    return max(moments, key=lambda moment: moment.total)


def _phases(
    spec: ModelSpec,
    workload: TrainingWorkload,
    rank: RankStates,
    slices: Sequence[tuple[RankUnit, int]],
    line: StageSegments,
    in_flight: float,
    number: int,
    formulas: Mapping[str, StateFormula],
) -> tuple[Phase, ...]:
    """Return the phases of every framework but FSDP.

    Main gradients (Megatron) and ZeRO-3's shards are there all the time, other gradients come
    with the backward pass and stay through all passes of a step with more than one micro-batch."""
    standing = _gradients_stand(workload)
    passes = simulated(line, stays=_stays(line, workload, rank, standing=standing))
    exchange = _exchange(workload, rank, slices)
    trained = sum(count * piece.trained for piece, count in slices)
    received = _received_bytes(spec, workload, number)
    moment = _highest(line, passes, exchange, standing=standing)

    resident = all_states(rank, formulas)
    gradients = state("gradients", rank.gradients, formulas)
    stands = replace(
        in_words("communication", exchange.standing.expected, _BUCKETS, trained),
        size=exchange.standing,
    )
    buckets = Amount("communication", moment.buckets, described(_BUCKETS, moment.buckets.expected))
    gathered = Amount(
        "gathered_weights",
        exchange.gathered,
        described(
            "parameters gathered for use, as many as the framework keeps at once",
            exchange.gathered.expected,
        ),
    )
    forward = _activations(passes.forward_peak, passes, line.constants, received, in_flight)
    backward = _activations(moment.activations, passes, line.constants, received, in_flight)
    there = gradients if standing else state("gradients", moment.gradients, formulas)
    return (
        phase(
            "forward", [*resident, *([gradients] if standing else []), stands, gathered, forward]
        ),
        phase("backward", [*resident, there, stands, buckets, gathered, backward]),
        phase("optimizer_step", [*resident, *_stepping(rank, exchange, gradients, stands)]),
    )


def _gradients_stand(workload: TrainingWorkload) -> bool:
    """Return whether gradients stay from one micro-batch to the next."""
    return (
        workload.framework == "megatron"
        or (workload.framework == "deepspeed" and workload.zero_stage == 3)
        or workload.micro_batches > 1
    )


def _stays(
    line: StageSegments, workload: TrainingWorkload, rank: RankStates, *, standing: bool
) -> float:
    """Return the share of a gradient that a backward pass leaves."""
    if standing or workload.steps_in_backward:
        return 0
    if workload.framework == "deepspeed" and is_sharded("gradients", workload):
        return rank.gradients / (
            sum(segment.released for segment in line.segments) - line.tied or 1
        )
    return 1


def _exchange(
    workload: TrainingWorkload, rank: RankStates, slices: Sequence[tuple[RankUnit, int]]
) -> zero.Exchange:
    """Return what the framework exchanges of a stage's parameters."""
    return zero.exchange(
        workload,
        rank,
        trained=sum(count * piece.trained for piece, count in slices),
        elements=sum(count * piece.elements for piece, count in slices),
        largest=max((piece.elements for piece, _ in slices), default=0),
        width=BITS[precision_policy(workload).weights] // 8,
    )


def _received_bytes(spec: ModelSpec, workload: TrainingWorkload, number: int) -> int:
    """Return the input that a stage but the first holds for every micro-batch in flight [bytes]."""
    if number == 0:
        return 0
    width = BITS[precision_policy(workload).weights] // 8
    whole = workload.tokens // workload.context_parallel * spec.hidden_size * width
    return whole // (workload.tensor_parallel if workload.sequence_parallel else 1)


def _activations(
    peak: int, passes: Passes, constants: int, received: int, in_flight: float
) -> Amount:
    """Return activations where one micro-batch has `peak` of them, and each other one in flight
    what it holds between its passes and its input [bytes]."""
    others = int((in_flight - 1) * (passes.between - constants + received)) + received
    formula = f"{in_flight_in_words(in_flight)}: "
    if others:
        formula += (
            f"({in_flight:g} - 1) x ({exactly(passes.between)} between its passes -"
            f" {exactly(constants)} of constants + {exactly(received)} received) +"
            f" {exactly(received)} received + "
        )
    formula += f"{exactly(peak)} at the highest moment of one; {passes.between:,} B of each"
    return amount("activations", others + peak, f"{formula} between its passes")


def _stepping(
    rank: RankStates, exchange: zero.Exchange, gradients: Amount, stands: Amount
) -> list[Amount]:
    """Return what the optimizer's step holds in addition to states."""
    temporaries = in_words(
        "optimizer_temporaries",
        rank.step_temporaries + exchange.step_copies,
        "square roots, updates and fp32 copies of gradients that the step makes",
        rank.stepped,
    )
    if not exchange.frees_gradients:
        return [gradients, stands, temporaries]
    flat = rank.master_weights // 2
    return [in_words("gradients", flat, "one flat copy of the part", rank.stepped), temporaries]
