"""From the phases of every stage to terms: what is alive at the highest moment, and what
allocator, process and collectives add to it."""

from collections.abc import Iterator, Mapping, Sequence
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
from fitgauge.engine.training.fragmentation import fragmentation_terms
from fitgauge.engine.training.odds import Demand
from fitgauge.engine.training.parallel.pipeline import in_flight_in_words
from fitgauge.engine.training.phases import Stage, stages
from fitgauge.engine.training.profile import TrainingProfile
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
    terms_of = _TermMaker(spec, workload, profile).terms
    terms = terms_of(highest)
    allocated = total(terms)
    around = (*other.get(highest.name, ()), *_around(workload, profile))
    if usable_bytes is None:
        left = None
    else:
        left = usable_bytes - allocated.expected - sum(term.bytes for term in around)
    least, fragmentation = fragmentation_terms(
        spec, workload, profile, stage.number, highest, terms, left
    )
    return TrainingStage(
        stage=stage.number,
        layers=stage.layers,
        phases=sizes,
        allocated=allocated,
        tensors=terms,
        least_fragmentation=least,
        fragmentation=fragmentation,
        around=around,
        host_bytes=stage.host,
        nvme_bytes=stage.nvme,
        phase_terms=(
            {}
            if outside is None
            else {phase.name: (*terms_of(phase), *other.get(phase.name, ())) for phase in phases}
        ),
    )


class _TermMaker:
    """Makes terms of the amounts of a phase, as certain as the model's recipe is."""

    def __init__(
        self, spec: ModelSpec, workload: TrainingWorkload, profile: TrainingProfile
    ) -> None:
        supported = is_supported(spec) and (spec.basis == "exact" or spec.model_type == "nominal")
        self._basis: Basis = "computed" if supported else "assumed"
        self._spread = profile.spread if supported else profile.spread_assumed
        if spec.has_experts:
            self._spread = profile.spread_routed
        self._slack = profile.slack
        self._rule = RULE_SOURCES.get(rule_of(spec, workload))
        """The source of a rule of thumb for activations, where one is asked for."""
        self._source = self._rule or (
            _MEGATRON if workload.framework == "megatron" else SOURCES["activations"]
        )

    def terms(self, phase: Phase) -> tuple[Term, ...]:
        """Return the terms of a phase."""
        parts = tuple(map(self._of, phase.parts))
        return parts if self._rule else _slackened(parts, self._slack)

    def _of(self, part: Amount) -> Term:
        """Return a part as a term: states are arithmetic, a quoted rule is what it is, the rest is
        as uncertain as its recipe."""
        state, size = part.name.endswith(_STATES), part.size
        low, high = int(size.low * self._spread.low), int(size.high * self._spread.high)
        if state or self._rule:
            low, high = size.low, size.high
        return Term(
            name=part.name,
            bytes=size.expected,
            low=low,
            high=high,
            basis="computed" if state else "assumed" if self._rule else self._basis,
            formula=part.formula or exactly(size.expected),
            source=(
                self._source
                if part.name == "activations"
                else SOURCES.get(part.name) or _source_of_role(part.name)
            ),
        )


def _around(workload: TrainingWorkload, profile: TrainingProfile) -> Iterator[Term]:
    """Yield what the process holds besides PyTorch's allocator."""
    yield _runtime(workload, profile)
    if workload.gpus > 1:
        size = profile.communication_bytes
        what = f"NCCL's own buffers for {workload.gpus} ranks"
        yield size.term("communicators", 1, 0, f"{what}: {fitted(size.expected)}")


def _runtime(workload: TrainingWorkload, profile: TrainingProfile) -> Term:
    """Return what the process holds before its first tensor: as measured, else as such processes
    do."""
    what = "CUDA context, libraries, their workspaces"
    if workload.runtime_bytes is not None:
        formula = described(what, workload.runtime_bytes)
        return exact_term("runtime", workload.runtime_bytes, "exact", formula, "the question")
    size = profile.runtime_bytes
    return size.term("runtime", 1, 0, f"{what}: {fitted(size.expected)}")


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


def _source_of_role(name: str) -> str:
    """Return where the bytes of a model other than the policy are counted: as the policy's own of
    that name."""
    role, _, rest = name.partition("_")
    if rest in SOURCES:
        return f"the {role}'s: {SOURCES[rest]}"
    return "service/fitgauge/engine/training/algorithms/phases.py"
