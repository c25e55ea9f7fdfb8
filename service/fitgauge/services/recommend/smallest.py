"""The smallest GPUs that serve a model: what an answer without a GPU names."""

from collections.abc import Iterator, Sequence
from math import isfinite

from msgspec import structs

from fitgauge.services.common import parsing
from fitgauge.services.common.need_schemas import SmallestGpus
from fitgauge.services.common.schemas import FitRequest
from fitgauge.services.common.smallest import Reason, roles
from fitgauge.services.recommend.candidates import EVERY_KIND
from fitgauge.services.recommend.responses import ResponseBuilder
from fitgauge.services.recommend.schemas import RecommendRequest
from fitgauge.services.recommend.search import Option

PRICED = 1e6
"""Dollars an hour that nothing reaches: with this limit, options without a price are left out,
and with them GPUs that no cloud rents out."""


def recommend_requests(request: FitRequest) -> Iterator[RecommendRequest]:
    """Yield the question of a model's GPUs, in the fields that both requests have: of those that
    are rented out, of those sold, of all."""
    of_sold = RecommendRequest(
        model=request.model,
        context_length=request.context_length,
        concurrency=request.concurrency,
        engine=request.engine,
        quantization=request.quantization,
        kv_cache_dtype=request.kv_cache_dtype,
        language_model_only=request.language_model_only,
        prompt_tokens=request.prompt_tokens,
        min_tokens_per_second_per_request=request.min_tokens_per_second_per_request,
        max_seconds_to_first_token=request.max_seconds_to_first_token,
    )
    yield structs.replace(of_sold, max_usd_per_hour=PRICED)
    yield of_sold
    yield structs.replace(of_sold, include=EVERY_KIND)


def smallest_options(front: Sequence[Option]) -> list[tuple[Option, list[Reason]]]:
    """Return the options on the fewest, cheapest and fastest GPUs as published, or in the format
    that is sent, then the fewest and the cheapest in any format."""
    fitting = [option for option in front if option.fitted.verdict == "fits"]
    published = [option for option in fitting if option.plan.quantization is None]
    chosen = roles(published, _gpus, _price, _slowness)
    for option, reasons in roles(fitting, _gpus, _price, _slowness):
        fewer: list[Reason] = [reason for reason in reasons if reason != "fastest"]
        if fewer and all(option is not other for other, _ in chosen):
            chosen.append((option, fewer))
    return [(option, named) for option, reasons in chosen if (named := _of_known(option, reasons))]


def _of_known(option: Option, reasons: list[Reason]) -> list[Reason]:
    """Return the reasons of an option without its price where that is unknown."""
    is_priced = isfinite(option.criteria[4])
    return [reason for reason in reasons if is_priced or reason != "cheapest"]


def smallest_gpus(
    option: Option, reasons: list[Reason], responses: ResponseBuilder
) -> SmallestGpus:
    """Return one option."""
    deployment = responses.settled(option)
    price = option.criteria[4]
    return SmallestGpus(
        reasons=reasons,
        name=option.plan.quantization or parsing.AS_PUBLISHED,
        gpu=deployment.gpu.name,
        gpu_count=deployment.gpu.count,
        required_bytes=deployment.required_bytes.expected,
        usd_per_hour=round(price, 2) if isfinite(price) else None,
        request=deployment.request,
        command=deployment.launch.command,
    )


def _gpus(option: Option) -> int:
    return option.gpus


def _price(option: Option) -> tuple[float, ...]:
    """By price, at one price the fastest first; without a price the smallest."""
    _, size, slowness, _, price = option.criteria
    return (price, slowness) if isfinite(price) else (price, size)


def _slowness(option: Option) -> tuple[float, ...]:
    return (option.criteria[2],)
