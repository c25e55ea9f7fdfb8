"""Why no option is left, and what to send instead."""

from collections.abc import Callable, Iterator, Sequence
from math import inf

from msgspec import structs

from fitgauge.catalog.catalog import Catalog
from fitgauge.engine.model.model import Model
from fitgauge.errors import InvalidRequestError
from fitgauge.services.common.responses import gpu_count_in_words
from fitgauge.services.recommend.constraints import (
    cheapest,
    overconstrained,
    relaxed_constraints,
    watts,
)
from fitgauge.services.recommend.objectives import order
from fitgauge.services.recommend.prefill import Prompts
from fitgauge.services.recommend.responses import stored
from fitgauge.services.recommend.schemas import RecommendRequest
from fitgauge.services.recommend.search import Option

Front = Callable[[RecommendRequest], list[Option]]
"""The options of a request that nothing beats."""

_SHORTEST = 1024


def no_option(
    request: RecommendRequest,
    model: Model,
    front: Front,
    unlimited: tuple[Catalog, Front] | None,
    prompts: Prompts,
    context: int,
) -> InvalidRequestError:
    """Return the error of a request without options: quotas, some of the constraints, else the
    workload. unlimited: the catalog whose quotas bind, and the options without them; prompts: how
    long each waits; context: of a request, with its default [tokens]."""
    return (
        (_over_quota(request, *unlimited) if unlimited else None)
        or _overconstrained(request, model, front, prompts, context)
        or _too_large(request, model, front)
        or InvalidRequestError(
            f"No allowed option fits {model.id}.",
            hint="Send a smaller model, a quantization with fewer bits, or fewer constraints.",
            field="model",
            code="no-option",
        )
    )


def _over_quota(
    request: RecommendRequest, catalog: Catalog, front: Front
) -> InvalidRequestError | None:
    """Return the error of a request that quotas alone leave without options. front: without
    quotas."""
    options = front(request)
    if not options:
        return None
    quota = catalog.quota(options[0].accelerator)
    return InvalidRequestError(
        f"No option fits your quotas: this needs {_gpus(options[0])}, the quota is {quota}.",
        hint="Send a smaller workload or other GPUs, or have the quota raised.",
        field="gpus",
        code="over-quota",
    )


def _overconstrained(
    request: RecommendRequest, model: Model, front: Front, prompts: Prompts, context: int
) -> InvalidRequestError | None:
    """Return the error of a request that has options without some of its constraints."""
    relaxed = relaxed_constraints(request, front)
    if relaxed is None:
        return None
    names, options = relaxed
    best, why = _nearest(names, options, prompts)
    instead = f"{_gpus(best)}, {stored(best)} on {best.plan.engine},"
    refused = overconstrained(request, names, model.id, instead, why)
    if request.gpus and {"gpus", "max_gpu_count"} & set(names):
        gpus = request.gpus if isinstance(request.gpus, str) else "these GPUs"
        for length, requests in _smaller(request.concurrency or 1, context):
            if front(structs.replace(request, context_length=length, concurrency=requests)):
                fits = f"concurrency {requests} at context_length {length} fits"
                refused.hint = f"{refused.hint} On {gpus}, {fits}."
                break
    return refused


def _smaller(requests: int, context: int) -> Iterator[tuple[int, int]]:
    """Yield (context length, concurrency) of less and less: fewer requests down to one, then
    shorter ones."""
    while requests > 1:
        requests //= 2
        yield context, requests
    while context > _SHORTEST:
        context //= 2
        yield context, 1


def _too_large(request: RecommendRequest, model: Model, front: Front) -> InvalidRequestError | None:
    """Return the error of a request that has options for one short request."""
    length = min(_SHORTEST, request.context_length or _SHORTEST)
    least = structs.replace(request, context_length=length, concurrency=1)
    options = front(least) if least != request else None
    if not options:
        return None
    return InvalidRequestError(
        f"No option fits this workload of {model.id}.",
        hint=(
            "Send a shorter `context_length` or a lower `concurrency`: one request of"
            f" {length} tokens fits on {_gpus(options[0])}."
        ),
        field="context_length",
        code="no-option",
    )


def _gpus(option: Option) -> str:
    return gpu_count_in_words(option.accelerator, option.gpus)


def _nearest(
    names: Sequence[str], options: Sequence[Option], prompts: Prompts
) -> tuple[Option, str]:
    """Of what is left without the constraints `names` the option that comes nearest to keeping
    them, and how near in words."""

    def waiting(option: Option) -> float:
        seconds = prompts.wait(option.accelerator, option.gpus, option.plan)
        return seconds.expected if seconds else inf

    def drawing(option: Option) -> float:
        return watts(option.accelerator, option.gpus) or inf

    if "max_usd_per_hour" in names:
        best = min(options, key=order("cheapest"))
        return best, cheapest(best.criteria[4])
    if {"min_tokens_per_second", "min_tokens_per_second_per_request"} & set(names):
        best = min(options, key=order("fastest"))
        return best, f"the fastest, at {-best.criteria[2]:,.0f} tokens a second"
    if "max_seconds_to_first_token" in names:
        best = min(options, key=lambda option: (waiting(option), order("cheapest")(option)))
        return best, f"the shortest wait, {waiting(best):.2g} s"
    if "max_watts" in names:
        best = min(options, key=lambda option: (drawing(option), order("cheapest")(option)))
        return best, f"it draws the least, {drawing(best):,.0f} W"
    return min(options, key=order("fewest_cards")), ""
