"""The phases of a step under FSDP2, without and within a pipeline."""

from collections.abc import Mapping, Sequence

from msgspec.structs import replace

from fitgauge.engine.model.spec import ModelSpec
from fitgauge.engine.training.amounts import (
    Amount,
    Phase,
    all_states,
    in_words,
    phase,
    spanned,
    state,
)
from fitgauge.engine.training.autograd.segment import Segment
from fitgauge.engine.training.parallel import fsdp, fsdp_moments, fsdp_pipeline
from fitgauge.engine.training.states.formulas import StateFormula
from fitgauge.engine.training.states.sharding import RankStates
from fitgauge.engine.training.workload import PhaseName, TrainingWorkload


def fsdp_phases(
    spec: ModelSpec,
    workload: TrainingWorkload,
    rank: RankStates,
    formulas: Mapping[str, StateFormula],
    heads: Sequence[Segment],
) -> tuple[Phase, ...]:
    """Return the phases of FSDP2, each at its highest moment. With more than one micro-batch the
    gradients' shards stay from one to the next. `heads`: those of other releases."""
    resident, step = all_states(rank, formulas), fsdp.step_of(spec, workload)

    def phases_of(step: fsdp_moments.Step) -> tuple[Phase, ...]:
        moments = list(fsdp_moments.moments(step))
        if workload.micro_batches > 1:
            moments = [replace(moment, shards=rank.gradients) for moment in moments]
        return (
            _fsdp_phase("forward", resident, moments, formulas),
            _fsdp_phase("backward", resident, moments, formulas),
            _optimizer_step(resident, rank, formulas),
        )

    others = [phases_of(fsdp.with_head(step, head)) for head in heads]
    return spanned(phases_of(step), others)


def fsdp_stage_phases(
    step: fsdp_pipeline.Step, rank: RankStates, formulas: Mapping[str, StateFormula]
) -> tuple[Phase, ...]:
    """Return the phases of FSDP2 in a pipeline, whose gradients stay whole until the last
    micro-batch."""
    resident, moments = all_states(rank, formulas), list(fsdp_pipeline.moments(step))
    summed = StateFormula("summed whole over micro-batches, and then reduced", None)
    whole = {**formulas, "gradients": summed}
    received = in_words(
        "communication",
        step.received,
        "inputs, and gradients of outputs, that the neighbouring stages send",
    )
    return (
        _fsdp_phase("forward", resident, moments, whole),
        _fsdp_phase("backward", resident, moments, whole),
        _optimizer_step(resident, rank, formulas, received),
    )


def _fsdp_phase(
    name: PhaseName,
    resident: Sequence[Amount],
    moments: Sequence[fsdp_moments.Moment],
    formulas: Mapping[str, StateFormula],
) -> Phase:
    top = max(
        (moment for moment in moments if moment.phase == name), key=lambda moment: moment.total
    )
    parts = (
        state("gradients", top.shards, formulas),
        in_words(
            "gathered_weights",
            top.gathered,
            "the root's parameters and those of the unit at work (all units where they are kept)",
        ),
        in_words(
            "communication",
            top.buffers,
            "inputs and outputs of all-gathers and reduce-scatters under way",
        ),
        in_words(
            "activations",
            top.activations,
            "what autograd holds, with gradients of gathered parameters",
        ),
    )
    return phase(name, [*resident, *parts])


def _optimizer_step(
    resident: Sequence[Amount],
    rank: RankStates,
    formulas: Mapping[str, StateFormula],
    *others: Amount,
) -> Phase:
    stepping = in_words(
        "optimizer_temporaries",
        rank.step_temporaries,
        "square roots and updates that the step makes of the shards",
        rank.stepped,
    )
    gradients = state("gradients", rank.gradients, formulas)
    return phase("optimizer_step", [*resident, gradients, *others, stepping])
