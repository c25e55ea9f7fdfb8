"""Pipeline stages as answers list them."""

from typing import Protocol

from msgspec import structs

from fitgauge.engine.quantity import Bytes, Term
from fitgauge.engine.serving.estimate import Estimate
from fitgauge.engine.serving.fit import fit_probability, verdict
from fitgauge.services.common.responses import term_answers
from fitgauge.services.common.schemas import RankAnswer, TermAnswer

_MOST_WHOLE_STAGES = 8
"""Stages that are listed with all their terms."""


class _Stage(Protocol):
    """A rank of a pipeline stage."""

    @property
    def stage(self) -> int:
        """Number of the stage, from 0."""

    @property
    def layers(self) -> int:
        """Layers that it holds."""

    @property
    def terms(self) -> tuple[Term, ...]:
        """All terms."""


def rank_answers(estimate: Estimate) -> list[RankAnswer]:
    """Return every pipeline stage of an engine."""
    ranks = []
    for stage in estimate.stages:
        budget = estimate.budget_of(stage)
        probability = fit_probability(stage.required, budget)
        ranks.append(rank_answer(stage, stage.required, budget, probability))
        if estimate.gpus:
            ranks[-1].gpu = estimate.gpu_of(stage).name
    return brief_ranks(ranks)


def brief_ranks(ranks: list[RankAnswer]) -> list[RankAnswer]:
    """Return the stages; of many, each with the terms that differ from those of an earlier one
    that has most of them: 126 whole stages are 125,000 characters."""
    if len(ranks) <= _MOST_WHOLE_STAGES:
        return ranks
    whole: list[RankAnswer] = []
    brief = []
    for rank in ranks:
        like = min(whole, key=lambda one: len(_differing(rank, one)), default=None)
        differing = rank.terms if like is None else _differing(rank, like)
        if like is None or 2 * len(differing) > len(rank.terms):
            whole.append(rank)
            brief.append(rank)
        else:
            brief.append(structs.replace(rank, terms=differing, terms_of=like.stage))
    return brief


def _differing(rank: RankAnswer, other: RankAnswer) -> list[TermAnswer]:
    """Return the terms that another stage of the same terms has not; all where it has others."""
    theirs = {term.name: term for term in other.terms}
    if sorted(term.name for term in rank.terms) != sorted(theirs):
        return rank.terms
    return [term for term in rank.terms if term != theirs[term.name]]


def rank_answer(stage: _Stage, need: Bytes, limit: Bytes, probability: float) -> RankAnswer:
    """Return a stage that needs `need` of `limit` [bytes]."""
    return RankAnswer(
        stage=stage.stage,
        layers=stage.layers,
        verdict=verdict(probability),
        required_bytes=need,
        headroom_bytes=limit.expected - need.expected,
        terms=term_answers(stage.terms, full=False),
    )
