"""An Estimate against an accelerator: how likely it fits, the verdict, and how far it goes."""

from collections.abc import Iterable, Sequence
from math import erf, sqrt
from typing import Literal, NamedTuple

import msgspec

from fitgauge.engine.quantity import NOTHING, Bytes, Term, largest_where
from fitgauge.engine.serving.doubt import Doubt, capped
from fitgauge.engine.serving.estimate import CacheLayout, Estimate

Verdict = Literal["fits", "tight", "does_not_fit"]

_Z90 = 1.645
"""Half width of a 90 % interval of a normal distribution, in standard deviations."""

_ROOT_TWO = sqrt(2)

SURE, POSSIBLE = 0.9, 0.25
"""The least probability of `fits`, and of `tight`."""

_TIGHT = 0.42
"""The gap, in widths of one side of a 90 % interval, above which a probability is below
`POSSIBLE`: 0.41, rounded up."""

_SURE_GAP = 0.779059
"""The gap, in widths of one side of a 90 % interval, from which on a probability is `SURE`."""

_NEARLY_SURE_GAP = 0.779
"""The same, rounded down: the gap below which a probability is below `SURE`."""

LISTED = 0.5
"""The least probability of what a list of all that fits holds."""


class ServingLimits(msgspec.Struct, frozen=True, kw_only=True):
    """How far a deployment goes."""

    kv_cache_tokens: int
    """Tokens of cache of one replica."""
    max_context_length: int
    """The longest context at the requested concurrency [tokens]."""
    max_concurrency: int | None
    """The most requests at the requested context; None for a model that caches nothing of a
    request, which memory does not limit."""


class Allowance(NamedTuple):
    """What a GPU has for a launch, however many requests that answers."""

    budget: Bytes
    """What the engine may use of it [bytes]."""
    outside: Bytes
    """What is held of it outside the engine's share [bytes]."""
    rest_probability: float
    """How likely that fits in addition to the engine's share."""
    by: Doubt
    """How far what is required is to be trusted."""

    def probability(self, required: Bytes) -> float:
        """Return the chance that the engine starts and runs requests that require so much of the
        budget [bytes]; no surer than measured runs of the kind allow."""
        within = fit_probability(required, self.budget)
        return capped(min(within, self.rest_probability), self.by)

    @property
    def is_left(self) -> bool:
        """Whether what lies outside the engine's share surely leaves it that."""
        chance = min(fit_probability(NOTHING, self.budget), self.rest_probability)
        return verdict(chance) == "fits"


def fit_probability(required: Bytes, budget: Bytes) -> float:
    """Return the chance that what is required is no more than the budget: both normal, each side
    as wide as its interval says."""
    gap = budget.expected - required.expected
    if gap >= 0:
        spread = _hypotenuse(required.high - required.expected, budget.expected - budget.low)
    else:
        spread = _hypotenuse(required.expected - required.low, budget.high - budget.expected)
    if spread == 0:
        return 1.0 if gap >= 0 else 0.0
    return 0.5 * (1 + erf(gap / (spread / _Z90) / _ROOT_TWO))


def sure_room(required: Bytes, budget: Bytes) -> int:
    """Return about how many exact bytes more than `required` a budget surely holds; negative where
    it does not surely hold that."""
    spread = _hypotenuse(required.high - required.expected, budget.expected - budget.low)
    return int(budget.expected - required.expected - _SURE_GAP * spread)


def sure_gap(spread: float, more: float) -> int:
    """Return the bytes above what is expected to be required below which no budget surely holds
    it, however well the budget is known. spread: of what is required, above; more: what `Doubt`
    adds to it."""
    return int(_NEARLY_SURE_GAP * _hypotenuse(spread, more))


def best_verdict(loaded: Sequence[tuple[Term, ...]], budget: Bytes, by: Doubt) -> Verdict:
    """Return the best verdict that a launch may have, whatever it holds besides what its stages
    have loaded.

    Where that alone is expected to exceed the budget, the probability is below one half. With R
    required, W loaded of it and a share s of doubt, the lower side of R spreads by at most (W's
    own) + (R - W) + s x R, of which R - budget grows faster than `_TIGHT`: it is enough to look
    at the least R, what the fullest stage has loaded."""
    sizes = [sum([term.bytes for term in terms]) for terms in loaded]
    most = max(sizes)
    gap = most - budget.expected
    if gap <= 0:
        return "fits"
    own = max([sum([term.bytes - term.low for term in terms]) for terms in loaded])
    spread = own + most - min(sizes) + by.share * most + budget.high - budget.expected
    return "does_not_fit" if gap > _TIGHT * spread else "tight"


def starting_probability(required: Bytes, budget: Bytes, outside: Bytes, usable: Bytes) -> float:
    """Return the chance that an engine which claims its whole budget starts: what requests need is
    within it, what lies outside fits the rest of the device.

    required: of the budget; outside: held beyond it; usable: of the GPU, whose spread the
    budget's is a share of. All in bytes. The weaker of the two conditions decides, as both rest
    on the same GPU."""
    return min(fit_probability(required, budget), rest_probability(outside, budget, usable))


def rest_probability(outside: Bytes, budget: Bytes, usable: Bytes) -> float:
    """Return the chance that what lies outside the budget fits the rest of the device."""
    rest = Bytes(
        low=usable.low - budget.low,
        expected=usable.expected - budget.expected,
        high=usable.high - budget.high,
    )
    return fit_probability(outside, rest)


def verdict(probability: float) -> Verdict:
    """Return the verdict of a probability: the only place that knows the thresholds."""
    if probability >= SURE:
        return "fits"
    return "tight" if probability >= POSSIBLE else "does_not_fit"


def cache_tokens(estimate: Estimate) -> int:
    """Return the tokens of cache the engine would report for the expected pool."""
    keeping = [stage for stage in estimate.stages if stage.layout.keeps]
    if estimate.gpus:
        pools = [(stage.layout, estimate.pool_bytes_of(stage)) for stage in keeping]
    else:
        pool = estimate.pool_bytes
        pools = [(stage.layout, pool) for stage in keeping]
    return min((layout.tokens(size) for layout, size in unlike(pools)), default=0)


Pool = tuple[CacheLayout, int]
"""The cache of a stage: how requests are laid out in it, and its size [bytes]."""


def unlike(pools: Iterable[Pool]) -> list[Pool]:
    """Return pools that stages share once: most stages of a long pipeline are alike."""
    return list({(id(layout), size): (layout, size) for layout, size in pools}.values())


def most_requests(layout: CacheLayout, pool: int, context_length: int) -> int:
    """Return the requests of `context_length` tokens in `pool` bytes; 0 where the engine needs
    more than that to start at all."""
    return (
        layout.requests(pool, context_length) if layout.pool_bytes(1, context_length) <= pool else 0
    )


def longest_context(layout: CacheLayout, pool: int, concurrency: int, ceiling: int) -> int:
    """Return the most tokens, up to `ceiling`, that each of `concurrency` requests can hold in
    `pool` bytes; 0 where not even one."""
    least, most = (layout.pool_bytes(concurrency, length) for length in (1, ceiling))
    if most <= pool:
        return ceiling
    return largest_where(
        ceiling,
        lambda length: layout.pool_bytes(concurrency, length) <= pool,
        ceiling * (pool - least) / max(1, most - least),
    )


def _hypotenuse(one: float, other: float) -> float:
    return sqrt(one * one + other * other)
