"""From the phases of every stage to terms: what is alive at the highest moment, and what
allocator, process and collectives add to it."""

from collections.abc import Mapping, Sequence
from functools import cached_property

import msgspec

from fitgauge.engine.model.spec import ModelSpec
from fitgauge.engine.quantity import (
    Basis,
    Bytes,
    Term,
    described,
    exact_term,
    exactly,
    fitted,
    total,
)
from fitgauge.engine.serving.profile import Coefficient
from fitgauge.engine.training.amounts import Amount, Phase
from fitgauge.engine.training.autograd.layers.traits import is_supported
from fitgauge.engine.training.odds import Demand
from fitgauge.engine.training.parallel.pipeline import in_flight_in_words
from fitgauge.engine.training.phases import Stage, stages
from fitgauge.engine.training.profile import TrainingProfile, allocator_kind, logits_bytes
from fitgauge.engine.training.rules_of_thumb import RULE_SOURCES, rule_estimate, rule_of
from fitgauge.engine.training.workload import PhaseName, TrainingWorkload

_STATES = ("weights", "gradients", "master_weights", "optimizer_states")
SOURCES = {
    "weights": (
        "the format the framework keeps parameters in"
        " (service/fitgauge/engine/training/workload.py, precision_policy)"
    ),
    "fp8_weights": "service/fitgauge/engine/training/states/optimizer_states.py, fp8_bytes",
    "ema_weights": "service/fitgauge/engine/training/states/optimizer_states.py, average_bytes",
    "gradients": (
        "one for every trained parameter"
        " (service/fitgauge/engine/training/states/optimizer_states.py, gradient_bytes)"
    ),
    "master_weights": (
        "a wider copy of trained weights: https://arxiv.org/abs/1910.02054, section 3.1"
    ),
    "optimizer_states": (
        "service/fitgauge/engine/training/states/optimizer_states.py, optimizer_bytes"
    ),
    "optimizer_temporaries": (
        "service/fitgauge/engine/training/states/optimizer_states.py, step_bytes"
    ),
    "activations": (
        "transformers 5.23 modeling code, simulated by autograd's rules"
        " (service/fitgauge/engine/training/autograd/layers/layer.py)"
    ),
    "gathered_weights": (
        "parameters gathered from their shards"
        " (service/fitgauge/engine/training/parallel/fsdp.py, zero.py)"
    ),
    "communication": (
        "what collectives read and write"
        " (service/fitgauge/engine/training/parallel/fsdp.py, zero.py)"
    ),
    "inference_activations": (
        "a pass under no_grad (service/fitgauge/engine/training/algorithms/passes.py)"
    ),
}

_MEGATRON = (
    "Megatron-Core's layers with their fused kernels, simulated by autograd's rules"
    " (service/fitgauge/engine/training/autograd/layers/megatron.py, layer.py)"
)


class TrainingStage(msgspec.Struct, frozen=True, kw_only=True, dict=True):
    """The fullest rank of a pipeline stage."""

    stage: int
    """Number of the stage, from 0."""
    layers: int
    """Layers that it holds."""
    phases: dict[PhaseName, int]
    """Bytes of tensors by phase, those of a rollout engine included."""
    allocated: Bytes
    """The peak of torch.cuda's counter."""
    tensors: tuple[Term, ...]
    """What is alive at the peak."""
    least_fragmentation: Term
    """What PyTorch's allocator cannot give back where memory is short."""
    fragmentation: Term
    """Reserved by PyTorch's allocator, but not allocated, on this accelerator."""
    around: tuple[Term, ...]
    """What is held outside PyTorch."""
    host_bytes: int
    """Offloaded to host memory."""
    phase_terms: dict[PhaseName, tuple[Term, ...]] = {}
    """The terms of each phase, where models take turns."""
    nvme_bytes: int = 0
    """Offloaded to NVMe."""

    @cached_property
    def terms(self) -> tuple[Term, ...]:
        """All that adds up to `need`, the largest first."""
        terms = (*self.tensors, self.least_fragmentation, *self.around)
        return tuple(sorted(terms, key=lambda term: -term.bytes))

    @cached_property
    def need(self) -> Bytes:
        """The least memory it can run in, which decides whether it fits."""
        return total((*self.tensors, self.least_fragmentation, *self.around))

    @cached_property
    def reserved(self) -> Bytes:
        """What PyTorch's counter of that name would peak at."""
        return total((*self.tensors, self.fragmentation))

    @cached_property
    def shown(self) -> Bytes:
        """What the device shows, with all that the allocator reserves while memory is plenty."""
        return total((*self.tensors, self.fragmentation, *self.around))

    @property
    def demand(self) -> Demand:
        """What decides how likely it fits."""
        return Demand(self.need, self.shown.expected)


def training_stages(
    spec: ModelSpec,
    workload: TrainingWorkload,
    profile: TrainingProfile,
    usable_bytes: int | None = None,
) -> tuple[TrainingStage, ...]:
    """Return every stage of the pipeline, the first first. `usable_bytes`: of the GPU, None for
    one without end."""
    return tuple(
        training_stage(spec, workload, profile, stage, usable_bytes)
        for stage in stages(spec, workload)
    )


def training_need(spec: ModelSpec, workload: TrainingWorkload, profile: TrainingProfile) -> Demand:
    """Return the `demand` of the fullest rank of any stage, which a search asks of every layout it
    looks at: only the stage with the most tensors is put into terms, unless a rule of thumb
    counts some of them."""
    ends = stages(spec, workload, ends=True)
    if rule_of(spec, workload) == "recipe":
        ends = (max(ends, key=lambda stage: stage.highest.total),)
    return max(
        (training_stage(spec, workload, profile, stage).demand for stage in ends),
        key=lambda demand: demand.required.expected,
    )


def training_stage(
    spec: ModelSpec,
    workload: TrainingWorkload,
    profile: TrainingProfile,
    stage: Stage,
    usable_bytes: int | None = None,
    *,
    outside: Mapping[PhaseName, Sequence[Term]] | None = None,
) -> TrainingStage:
    """Return one stage with its terms. `outside`: what an engine that PyTorch's allocator does not
    serve holds on the GPU, by phase.

    `allocated` is the highest phase. `reserved` adds fragmentation, `shown` the process around it.
    The allocator releases its cache before it fails (c10/cuda/CUDACachingAllocator.cpp,
    release_cached_blocks), so `need` holds only what it cannot release, and fragmentation is
    limited by the memory of the GPU."""
    phases = [_as_quoted(spec, workload, stage, phase) for phase in stage.phases]
    other = {} if outside is None else outside
    sizes = {
        phase.name: phase.total + sum(term.bytes for term in other.get(phase.name, ()))
        for phase in phases
    }
    highest = max(phases, key=lambda phase: sizes[phase.name])
    supported = is_supported(spec) and (spec.basis == "exact" or spec.model_type == "nominal")
    basis: Basis = "computed" if supported else "assumed"
    spread = profile.spread if basis == "computed" else profile.spread_assumed
    if any(block.mlp is not None and block.mlp.experts for block in spec.blocks):
        spread = profile.spread_routed
    rule = RULE_SOURCES.get(rule_of(spec, workload))
    activations_source = rule or (
        _MEGATRON if workload.framework == "megatron" else SOURCES["activations"]
    )

    def termed(phase: Phase) -> tuple[Term, ...]:
        parts = tuple(
            _term(part, basis, spread.low, spread.high, activations_source, quoted=rule is not None)
            for part in phase.parts
        )
        return parts if rule else _slackened(parts, profile.slack)

    terms = termed(highest)
    allocated = total(terms)
    around = [*other.get(highest.name, ()), _runtime(workload, profile)]
    if workload.gpus > 1:
        around.append(
            profile.communication_bytes.term(
                "communicators",
                1,
                0,
                f"NCCL's own buffers for {workload.gpus} ranks:"
                f" {fitted(profile.communication_bytes.expected)}",
            )
        )
    available = (
        None
        if usable_bytes is None
        else usable_bytes - allocated.expected - sum(term.bytes for term in around)
    )
    least = _least_fragmentation(profile, allocated.expected)
    frozen = sum(term.bytes for term in terms if term.name == "weights" and workload.uses_adapters)
    usual = _usual_fragmentation(profile, spec, workload, allocated.expected, frozen, stage.number)
    if workload.varies and not workload.uses_expandable_segments:
        usual = _with_varied(usual, profile, highest)

    return TrainingStage(
        stage=stage.number,
        layers=stage.layers,
        phases=sizes,
        allocated=allocated,
        tensors=terms,
        least_fragmentation=least,
        fragmentation=_limited(usual, least, available),
        around=tuple(around),
        host_bytes=stage.host,
        nvme_bytes=stage.nvme,
        phase_terms=(
            {}
            if outside is None
            else {phase.name: (*termed(phase), *other.get(phase.name, ())) for phase in phases}
        ),
    )


def _runtime(workload: TrainingWorkload, profile: TrainingProfile) -> Term:
    """Return what the process holds before its first tensor: as measured, else as such processes
    do."""
    what = "CUDA context, libraries, their workspaces"
    if workload.runtime_bytes is not None:
        formula = described(what, workload.runtime_bytes)
        return exact_term("runtime", workload.runtime_bytes, "exact", formula, "the question")
    size = profile.runtime_bytes
    return size.term("runtime", 1, 0, f"{what}: {fitted(size.expected)}")


def _least_fragmentation(profile: TrainingProfile, allocated: int) -> Term:
    """Return what the allocator cannot release where memory is short."""
    share = profile.fragmentation_least
    return share.term(
        "fragmentation", allocated, 0, f"{share.expected:.8g} x {exactly(allocated)} allocated"
    )


def _usual_fragmentation(
    profile: TrainingProfile,
    spec: ModelSpec,
    workload: TrainingWorkload,
    allocated: int,
    frozen: int,
    stage: int,
) -> Term:
    """Return the fragmentation where memory is plenty: a share of what is allocated, and a
    multiple of the logits, the largest blocks.

    frozen: weights that never change [bytes]. Where experts exchange tokens, their blocks have no
    part in the larger share, of those that every step allocates."""
    share = profile.fragmentation[allocator_kind(workload)]
    times, logits = profile.fragmentation_logits.expected, logits_bytes(spec, workload, stage)
    rest, resting, formula = allocated, 0.0, ""
    if workload.expert_parallel > 1:
        rest, resting = allocated - frozen, share.expected * frozen
        formula = f"{share.expected:.8g} x {exactly(frozen)} of frozen weights + " if frozen else ""
        share = profile.fragmentation_dispatched
    formula += (
        f"{share.expected:.8g} x {exactly(rest)} allocated + {times:.8g} x {exactly(logits)}"
        " of logits"
    )
    usual = share.term("fragmentation", rest, times * logits + resting, formula)
    return msgspec.structs.replace(usual, low=max(0, usual.low))


def _with_varied(usual: Term, profile: TrainingProfile, highest: Phase) -> Term:
    """Return the fragmentation of samples that differ in length: more by a share of the
    activations, whose blocks have other sizes in every step."""
    share = profile.fragmentation_varied
    size = sum(part.size.expected for part in highest.parts if part.name == "activations")
    more = share.term("fragmentation", size, 0, f"{share.expected:.8g} x {exactly(size)}")
    return msgspec.structs.replace(
        usual,
        bytes=usual.bytes + more.bytes,
        low=usual.low + more.low,
        high=usual.high + more.high,
        formula=f"{usual.formula} + {more.formula} of activations, whose lengths vary",
    )


def _slackened(terms: tuple[Term, ...], slack: Coefficient) -> tuple[Term, ...]:
    """Return the terms with a share of their sum more to either side of the largest one that is
    no arithmetic."""
    moved = max(
        (term for term in terms if not term.name.endswith(_STATES)),
        key=lambda term: term.bytes,
        default=None,
    )
    if moved is None:
        return terms
    whole = sum(term.bytes for term in terms)
    low, high = max(0, moved.low + int(slack.low * whole)), moved.high + int(slack.high * whole)
    return tuple(
        msgspec.structs.replace(term, low=low, high=high) if term is moved else term
        for term in terms
    )


def _limited(usual: Term, least: Term, available: int | None) -> Term:
    """Return the fragmentation where only `available` bytes of the GPU are left: no more than
    these, but at least what cannot be released."""
    if available is None or usual.high <= available:
        return usual
    if available <= least.bytes:
        return least
    high = min(usual.high, max(available, least.high))
    expected = min(usual.bytes, max(available, least.bytes))
    formula = (
        usual.formula
        if expected == usual.bytes
        else f"{exactly(expected)}; what the GPU has left, less than {usual.formula}"
    )
    return msgspec.structs.replace(
        usual,
        bytes=expected,
        low=min(usual.low, expected),
        high=max(high, expected),
        formula=formula,
    )


def _as_quoted(spec: ModelSpec, workload: TrainingWorkload, stage: Stage, phase: Phase) -> Phase:
    """Return the phase with activations by a rule of thumb, where the workload has one; such a
    sum counts gradients whole in addition."""
    rule = rule_estimate(spec, workload, stage.layers)
    if rule is None or phase.name not in ("forward", "backward"):
        return phase
    size = int(rule.retained * stage.in_flight) + rule.again
    formula = f"{in_flight_in_words(stage.in_flight)}: {stage.in_flight:g} x {rule.formula}"
    if rule.again:
        formula += f" + {rule.formula_again} of the one layer that is computed again"
    others = [part for part in phase.parts if part.name not in ("activations", "gradients")]
    gradients = [
        part
        for each in stage.phases
        if each.name == "optimizer_step"
        for part in each.parts
        if part.name == "gradients"
    ]
    return Phase(
        name=phase.name,
        parts=(
            *others,
            *gradients,
            Amount("activations", Bytes(low=size, expected=size, high=size), formula),
        ),
    )


def _term(
    part: Amount, basis: Basis, low: float, high: float, source_text: str, *, quoted: bool
) -> Term:
    """Return a part as a term: states are arithmetic, a quoted rule is what it is, the rest is
    as uncertain as its recipe. `source_text`: the source of activations."""
    state = part.name.endswith(_STATES)
    sure = state or quoted
    source = (
        source_text
        if part.name == "activations"
        else SOURCES.get(part.name) or _source_of_role(part.name)
    )
    return Term(
        name=part.name,
        bytes=part.size.expected,
        low=part.size.low if sure else int(part.size.low * low),
        high=part.size.high if sure else int(part.size.high * high),
        basis="computed" if state else "assumed" if quoted else basis,
        formula=part.formula or exactly(part.size.expected),
        source=source,
    )


def _source_of_role(name: str) -> str:
    """Return where the bytes of a model other than the policy are counted: as the policy's own of
    that name."""
    role, _, rest = name.partition("_")
    return (
        f"the {role}'s: {SOURCES[rest]}"
        if rest in SOURCES
        else "service/fitgauge/engine/training/algorithms/phases.py"
    )
