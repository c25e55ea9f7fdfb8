"""Memory needs and the smallest GPUs in words, and which of several options are those."""

from collections.abc import Callable, Iterable, Sequence
from typing import Literal, TypeVar

from fitgauge.engine.accelerator import USUAL_NODE
from fitgauge.engine.quantity import GIB
from fitgauge.services.common.host_memory import usual_host_holds
from fitgauge.services.common.need_schemas import MemoryNeed, SmallestGpus
from fitgauge.services.common.schemas import Suggestion, Verdict

Reason = Literal["fewest", "cheapest", "fastest"]
Option = TypeVar("Option")

_MORE = frozenset({"cpu_offload_gib", "offload", "gpu_count"})
"""Fields of changes that take more than the GPUs that were named."""


def helps_here(verdict: Verdict | None, suggestions: Iterable[Suggestion]) -> bool:
    """Return whether a model fits on the GPUs that were named, or does with a change that takes
    neither more of them nor the host's memory."""
    return verdict in ("fits", "tight") or any(
        one.verdict == "fits" and is_here(one) for one in suggestions
    )


def first_step(suggestions: Iterable[Suggestion], *, offers_host: bool) -> Suggestion | None:
    """Return the first change that fits and is started by a command, as `change_to_fit` names it:
    one that takes no more GPUs, does all that is asked and keeps the model; the host's memory only
    where that is offered or fast enough to read along; what takes few more GPUs before it."""
    fitting = [one for one in suggestions if one.verdict == "fits" and one.launch is not None]
    if offers_host:
        return next(iter(fitting), None)
    own = [one for one in fitting if not is_smaller(one)]
    here = (one for one in own if is_here(one) or host_suffices(one))
    few = (one for one in own if 0 < gpus_of(one) <= USUAL_NODE and "gpu" not in one.request)
    return step_here(own) or next(here, None) or next(few, next(iter(fitting), None))


def is_smaller(one: Suggestion) -> bool:
    """Return whether a change takes another model of fewer parameters."""
    return SMALLER in one.change


SMALLER = ", a smaller model of "
"""What the words of such a change have."""


READING_SPEED = 5.0
"""Tokens a second of one request: some 230 words a minute, as fast as people read (M. Brysbaert,
How many words do we read per minute?, 2019: 238). What is slower is not shown first."""


def host_suffices(suggestion: Suggestion) -> bool:
    """Return whether a change keeps part of a training in the host's memory, or of weights that yet
    write as fast as people read, and no more than usual machines hold."""
    if "offload" in suggestion.request:
        return usual_host_holds(suggestion.host_memory)
    speed = suggestion.tokens_per_second_per_request
    return (
        bool(suggestion.request.get("cpu_offload_gib"))
        and speed is not None
        and speed.expected >= READING_SPEED
        and usual_host_holds(suggestion.host_memory)
    )


_LESS = frozenset({"context_length", "concurrency", "sequence_length"})
"""Fields of changes that serve or train less than was asked."""


def step_here(suggestions: Iterable[Suggestion]) -> Suggestion | None:
    """Return the first change with which the GPUs that were named do all that is asked."""
    for one in suggestions:
        does_all = is_here(one) and not _LESS & one.request.keys()
        if one.verdict == "fits" and one.launch and does_all:
            return one
    return None


def change_here(suggestions: Iterable[Suggestion]) -> str:
    """Return that change in words: 'take a 4-bit checkpoint (AWQ)'; empty for none."""
    step = step_here(suggestions)
    return step.change.partition(": ")[0] if step else ""


def change_to_fit(suggestions: Sequence[Suggestion], count: int) -> str:
    """Return `change_here`; where there is none, up to two of: the host's memory where that is fast
    enough to read along and stands first, more of the `count` GPUs that do all that is asked, the
    least that is given up: 'take 2 GPUs, or lower context_length to 11,776 tokens'. Empty for
    none."""
    here = change_here(suggestions)
    if here:
        return here
    by_cost: dict[int, str] = {}
    for one in suggestions:
        more, less = "gpu_count" in one.request, bool(_LESS & one.request.keys())
        words, _, result = one.change.partition(": ")
        if one.verdict != "fits" or not one.launch:
            continue
        if host_suffices(one):
            by_cost.setdefault(3 if by_cost else 0, f"{words}, {result}")
        elif more != less and _is_short(words) and not takes_many_more(one, count):
            by_cost.setdefault(2 if less else 1, words)
    return ", or ".join(by_cost[cost] for cost in sorted(by_cost)[:2])


def _is_short(change: str) -> bool:
    """Return whether a change in words is one or two things to do, none with host memory."""
    return " GiB" not in change and "," not in change.partition(", with ")[2]


def takes_many_more(suggestion: Suggestion, count: int) -> bool:
    """Return whether a change takes more than a node of GPUs from somebody who has `count`, fewer
    than a fourth of them: 13 RTX 4080 in place of one."""
    return gpus_of(suggestion) > max(USUAL_NODE, 4 * count)


def gpus_of(suggestion: Suggestion) -> int:
    """Return how many GPUs a change takes; 0 for as many as there are."""
    wanted = suggestion.request.get("gpu_count", 0)
    return wanted if isinstance(wanted, int) else 0


def is_here(suggestion: Suggestion) -> bool:
    """Return whether a change takes neither more GPUs than were named nor the host's memory."""
    return not any(suggestion.request.get(name) for name in _MORE)


def roles(
    options: Sequence[Option],
    gpus: Callable[[Option], int],
    price: Callable[[Option], tuple[float, ...]],
    slowness: Callable[[Option], tuple[float, ...]],
) -> list[tuple[Option, list[Reason]]]:
    """Return the option on the fewest GPUs (of these the cheapest), the cheapest, and the fastest
    on as few GPUs as the first, each once with its reasons."""
    if not options:
        return []
    fewest = min(options, key=lambda one: (gpus(one), *price(one)))
    cheapest = min(options, key=lambda one: (*price(one), gpus(one)))
    few = [one for one in options if gpus(one) == gpus(fewest)]
    fastest = min(few, key=lambda one: (*slowness(one), *price(one)))
    chosen: list[tuple[Option, list[Reason]]] = []
    reasons: Iterable[tuple[Reason, Option]] = (
        ("fewest", fewest),
        ("cheapest", cheapest),
        ("fastest", fastest),
    )
    for reason, option in reasons:
        for other, why in chosen:
            if other is option:
                why.append(reason)
                break
        else:
            chosen.append((option, [reason]))
    return chosen


def sizes_in_words(needs: Sequence[MemoryNeed], by: Callable[[str], str]) -> str:
    """Return '177.0 GiB in bf16, 113.3 in fp8, 82.7 in awq'. by: a format or method in words."""
    first, *others = (
        (f"{need.required_bytes.expected / GIB:,.1f}", by(need.name)) for need in needs
    )
    return ", ".join((f"{first[0]} GiB {first[1]}", *map(" ".join, others)))


def gpus_in_words(smallest: Sequence[SmallestGpus], by: Callable[[str], str]) -> str:
    """Return the GPUs as a sentence to end a summary with. by: as in `sizes_in_words`."""
    if not smallest:
        return " No GPUs sold today hold it in one deployment."
    parts = []
    for name in dict.fromkeys(one.name for one in smallest):
        options = [
            f"{' and '.join(one.reasons)} {one.gpu_count} x {one.gpu}{_price(one)}"
            for one in smallest
            if one.name == name
        ]
        parts.append(f"{by(name)} {', '.join(options)}")
    return f" GPUs that hold it: {'; '.join(parts)}."


def _price(one: SmallestGpus) -> str:
    return f" ({one.usd_per_hour:.2f} USD an hour)" if one.usd_per_hour is not None else ""
