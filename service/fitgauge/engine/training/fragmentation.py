"""What PyTorch's allocator reserves besides the tensors of a step: fragmentation."""

from collections.abc import Sequence

import msgspec

from fitgauge.engine.model.spec import ModelSpec
from fitgauge.engine.quantity import Term, exactly, total
from fitgauge.engine.training.amounts import Phase
from fitgauge.engine.training.profile import TrainingProfile, allocator_kind, logits_bytes
from fitgauge.engine.training.workload import TrainingWorkload


def fragmentation_terms(
    spec: ModelSpec,
    workload: TrainingWorkload,
    profile: TrainingProfile,
    stage: int,
    highest: Phase,
    terms: Sequence[Term],
    left_bytes: int | None,
) -> tuple[Term, Term]:
    """Return the fragmentation that the allocator cannot release, and all of it.

    stage: number of the pipeline stage; highest: its highest phase, with its `terms`; left_bytes:
    what else the GPU has, which limits it; None for any."""
    allocated = total(terms).expected
    frozen = sum(term.bytes for term in terms if term.name == "weights" and workload.uses_adapters)
    least = _least(profile, allocated)
    usual = _usual(profile, spec, workload, allocated, frozen, stage)
    if workload.varies and not workload.uses_expandable_segments:
        usual = _with_varied(usual, profile, highest)
    return least, _limited(usual, least, left_bytes)


def _least(profile: TrainingProfile, allocated: int) -> Term:
    """Return what the allocator cannot release where memory is short."""
    share = profile.fragmentation_least
    return share.term(
        "fragmentation", allocated, 0, f"{share.expected:.8g} x {exactly(allocated)} allocated"
    )


def _usual(
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


def _limited(usual: Term, least: Term, available: int | None) -> Term:
    """Return the fragmentation where only `available` bytes of the GPU are left: no more than
    these, but at least what cannot be released."""
    if available is None or usual.high <= available:
        return usual
    if available <= least.bytes:
        return least
    high = min(usual.high, max(available, least.high))
    expected = min(usual.bytes, max(available, least.bytes))
    if expected == usual.bytes:
        formula = usual.formula
    else:
        formula = f"{exactly(expected)}; what the GPU has left, less than {usual.formula}"
    return msgspec.structs.replace(
        usual,
        bytes=expected,
        low=min(usual.low, expected),
        high=max(high, expected),
        formula=formula,
    )
