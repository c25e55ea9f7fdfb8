"""Which GPUs and which formats a recommendation may choose from: the constraints of a question,
and which of them empties the set."""

import re
from collections.abc import Sequence
from difflib import get_close_matches
from typing import get_args

from fitgauge.catalog.catalog import Catalog
from fitgauge.catalog.gpu_kinds import is_of, kind_named, kind_names
from fitgauge.catalog.quality import recovery
from fitgauge.engine.accelerator import Accelerator, Availability, most_gpus
from fitgauge.engine.model.model import Model
from fitgauge.engine.note import Note
from fitgauge.engine.quantization.requested import UNQUANTIZED, canonical_name
from fitgauge.engine.serving.registry import DEFAULT_ENGINES, ENGINES
from fitgauge.engine.serving.support import context_refusal
from fitgauge.engine.serving.workload import EngineName
from fitgauge.errors import InvalidRequestError
from fitgauge.services.common import parsing
from fitgauge.services.fit.batch_estimator import BatchEstimator
from fitgauge.services.recommend.costs import Costs
from fitgauge.services.recommend.gpu_options import GpuLimit, Plan
from fitgauge.services.recommend.schemas import RecommendRequest
from fitgauge.services.recommend.search import MOST_GPUS, weight_bits

_AVAILABILITIES: tuple[Availability, ...] = get_args(Availability)

EVERY_KIND = "all"

_NAMED_QUOTAS = 8
"""Quotas that a warning names."""


def gpu_limits(request: RecommendRequest, catalog: Catalog, costs: Costs) -> list[GpuLimit]:
    """Return the GPUs the constraints allow. Raise InvalidRequestError for none,
    UnknownAcceleratorError for an unknown name."""
    most = request.max_gpu_count or MOST_GPUS
    named = [catalog.find(text) for text in parsing.split_list(request.gpus)]
    _check_lists(request, names_gpus=bool(named))
    allowed = [
        GpuLimit(
            match.accelerator,
            min(most, match.count) if match.count > 1 else most_gpus(match.accelerator, most),
        )
        for match in named
    ] or [
        GpuLimit(accelerator, most_gpus(accelerator, most))
        for accelerator in _available(request, catalog)
    ]
    rented = _rented(_of_vendors(allowed, request, catalog), request, costs)
    within = _within_quotas(rented, catalog)
    return list({limit.accelerator.id: limit for limit in within}.values())


def _check_lists(request: RecommendRequest, *, names_gpus: bool) -> None:
    """Raise InvalidRequestError for an empty list, and for owned GPUs that are rented or that
    `gpus` does not name."""
    for field in ("gpus", "vendors", "kinds", "clouds"):
        if getattr(request, field) and not parsing.split_list(getattr(request, field)):
            raise InvalidRequestError(
                f"`{field}` is empty.",
                hint=(f"Leave out `{field}`, or send at least one name."),
                field=field,
                code="invalid-value",
            )
    if request.owned and not names_gpus:
        raise InvalidRequestError(
            "`owned` requires `gpus`.",
            hint="Send `gpus`, with counts: 2x L40S.",
            field="owned",
            code="missing-field",
        )
    if request.kinds and names_gpus:
        raise InvalidRequestError(
            "`kinds` and `gpus` exclude each other: `gpus` names the GPUs.",
            hint="Leave one of them out.",
            field="kinds",
            code="conflicting-fields",
        )
    if request.owned and request.clouds:
        raise InvalidRequestError(
            "`owned` and `clouds` exclude each other: owned GPUs are not rented.",
            hint="Leave one of them out.",
            field="clouds",
            code="conflicting-fields",
        )


def _of_vendors(
    allowed: Sequence[GpuLimit], request: RecommendRequest, catalog: Catalog
) -> Sequence[GpuLimit]:
    """Return those of the vendors. Raise InvalidRequestError for none."""
    wanted = _vendors(parsing.split_list(request.vendors), catalog.all())
    left = [limit for limit in allowed if not wanted or limit.accelerator.vendor.lower() in wanted]
    if not left:
        makers = sorted({limit.accelerator.vendor for limit in allowed})
        raise InvalidRequestError(
            f"`gpus` and `vendors` exclude each other: these GPUs are of {', '.join(makers)}.",
            hint="Leave out `vendors`, or send GPUs of these vendors.",
            field="vendors",
            code="conflicting-fields",
        )
    return left


def _rented(
    allowed: Sequence[GpuLimit], request: RecommendRequest, costs: Costs
) -> Sequence[GpuLimit]:
    """Return those that the clouds rent. Raise InvalidRequestError for none."""
    rented = [limit for limit in allowed if costs.rentable(limit.accelerator)]
    if not rented:
        clouds = parsing.split_list(request.clouds)
        rent = "rents" if len(clouds) == 1 else "rent"
        raise InvalidRequestError(
            f"No option satisfies `clouds`: {', '.join(clouds)} {rent} none of the GPUs the other"
            " constraints allow.",
            hint="Leave out `clouds`, or send other GPUs or clouds.",
            field="clouds",
            code="no-option",
        )
    return rented


def _within_quotas(allowed: Sequence[GpuLimit], catalog: Catalog) -> Sequence[GpuLimit]:
    """Return them with at most as many as their quotas allow. Raise InvalidRequestError where
    those allow none."""
    within = [
        capped
        for limit in allowed
        if (capped := GpuLimit(limit.accelerator, min(limit.most, _quota(limit, catalog)))).most
    ]
    if not within:
        raise InvalidRequestError(
            "The catalog's quotas allow none of the GPUs the other constraints allow.",
            hint="Send other GPUs, or have the quota raised.",
            field="gpus",
            code="over-quota",
        )
    return within


def _available(request: RecommendRequest, catalog: Catalog) -> Sequence[Accelerator]:
    """Return the GPUs that are sold or rented today, and those to include; of vendors and kinds
    that are not sold, all. Raise InvalidRequestError for an unknown name, and where none is
    left."""
    availabilities = {"sold", *_included(parsing.split_list(request.include))}
    vendors = _vendors(parsing.split_list(request.vendors), catalog.all())
    kinds = _kinds(parsing.split_list(request.kinds))
    every = [
        one
        for one in catalog.all()
        if (not vendors or one.vendor.lower() in vendors) and (not kinds or is_of(one, kinds))
    ]
    if not every:
        raise InvalidRequestError(
            f"No GPU of the catalog is of these kinds and vendors: {', '.join(kinds)}.",
            hint="Leave out `kinds`, or send fewer.",
            field="kinds",
            code="no-option",
        )
    return [one for one in every if one.availability in availabilities] or every


def _kinds(names: Sequence[str]) -> list[str]:
    """Return kinds by their names. Raise InvalidRequestError for an unknown one."""
    kinds = {text: kind_named(text) for text in names}
    unknown = next((text for text, kind in kinds.items() if kind is None), None)
    if unknown is not None:
        raise InvalidRequestError(
            f"Unknown kind of GPU {unknown[:40]!r}.",
            hint=f"Use {', '.join(kind_names())}.",
            matches=tuple(get_close_matches(unknown.lower(), kind_names(), n=3)),
            field="kinds",
            code="unknown-value",
        )
    return [kind for kind in kinds.values() if kind is not None]


def _included(names: Sequence[str]) -> set[Availability]:
    """Return the kinds of GPUs to include. Raise InvalidRequestError for an unknown one."""
    included: set[Availability] = set()
    for text in names:
        word = text.strip().lower()
        if word != EVERY_KIND and word not in _AVAILABILITIES:
            raise InvalidRequestError(
                f"Unknown word of `include`: {text[:40]!r}.",
                hint=f"Use {', '.join(_AVAILABILITIES)} or {EVERY_KIND}.",
                matches=tuple(get_close_matches(word, _AVAILABILITIES, n=3)),
                field="include",
                code="unknown-value",
            )
        included |= (
            set(_AVAILABILITIES)
            if word == EVERY_KIND
            else {kind for kind in _AVAILABILITIES if kind == word}
        )
    return included


def quota_warnings(request: RecommendRequest, catalog: Catalog) -> list[Note]:
    """Return warnings on quotas that limit the requested GPUs."""
    requested = [
        catalog.find(text).accelerator for text in parsing.split_list(request.gpus)
    ] or catalog.all()
    most = request.max_gpu_count or MOST_GPUS
    quotas = {
        gpu.id: f"{quota} x {gpu.name}"
        for gpu in requested
        if (quota := catalog.quota(gpu)) is not None and quota < most
    }
    first = list(quotas.values())[:_NAMED_QUOTAS]
    message = (
        "Limited by the catalog's quotas: at most"
        f" {', '.join(first)}{', ...' if len(quotas) > _NAMED_QUOTAS else ''}."
    )
    return [Note("gpu-quota", "gpus", message)] if first else []


def _quota(limit: GpuLimit, catalog: Catalog) -> int:
    quota = catalog.quota(limit.accelerator)
    return limit.most if quota is None else quota


def plans(request: RecommendRequest, model: Model, fitting: BatchEstimator) -> list[Plan]:
    """Return the engines and formats the constraints allow. Raise InvalidRequestError for none, or
    for an unknown name, UnsupportedError for a context that the model reads with none."""
    named = (parsing.engine(request.engine),) if request.engine else DEFAULT_ENGINES
    length = request.context_length or 0
    refused = [context_refusal(length, model.spec, engine) for engine in named]
    engines = [engine for engine, why in zip(named, refused, strict=True) if why is None]
    if not engines and refused[0]:
        raise refused[0]
    if request.language_model_only:
        engines = [engine for engine in engines if ENGINES[engine].language_model is not None]
        if not engines:
            able = [row.name for row in ENGINES.values() if row.language_model is not None]
            raise InvalidRequestError(
                f"{named[0]} serves no model without its encoders.",
                hint=f"Send engine {' or '.join(able)}, or leave language_model_only out.",
                field="language_model_only",
                code="unsupported",
            )
    published = model.is_quantized
    if (
        request.quantization is not None
        and request.no_quantization
        and _lossy(request, model, fitting, engines[0])
    ):
        message = f"`quantization` {request.quantization} and `no_quantization` exclude each other."
        raise InvalidRequestError(
            message,
            hint="Leave one of them out.",
            field="no_quantization",
            code="conflicting-fields",
        )
    candidates = [
        Plan(
            engine,
            quantization,
            weight_bits(model.spec, fitting.formats.prepared(quantization, engine)),
        )
        for engine in _taking(engines, request.kv_cache_dtype)
        for quantization in _formats(request, engine, published)
    ]
    least = request.min_weight_bits or 0.0
    left = [plan for plan in candidates if plan.bits >= least]
    if not left:
        best = max(plan.bits for plan in candidates)
        message = (
            f"No option satisfies `min_weight_bits` {least:g}: {model.id} has at most {best:g}"
            " bits per weight."
        )
        raise InvalidRequestError(
            message,
            hint=f"Send min_weight_bits {best:g} or less.",
            field="min_weight_bits",
            code="no-option",
        )
    good = [
        plan
        for plan in left
        if recovers(plan.quantization, plan.engine) >= (request.min_quality or 0.0)
    ]
    if not good:
        best = max(recovers(plan.quantization, plan.engine) for plan in left)
        measured = f"at least {best:g} % was recovered" if best else "no quality was measured"
        message = (
            f"No option satisfies `min_quality` {request.min_quality:g}: of {request.quantization}"
            f" {measured}."
        )
        raise InvalidRequestError(
            message,
            hint=("Send a lower `min_quality`, or leave out `quantization`."),
            field="min_quality",
            code="no-option",
        )
    return _published(good, fitting)


def _published(plans: Sequence[Plan], fitting: BatchEstimator) -> list[Plan]:
    """Return the plans without those whose checkpoint has yet to be made, where their engine has
    one of as many bits: as they are alike, they would hide it, and have no command."""
    started = {
        plan for plan in plans if fitting.formats.has_checkpoint(plan.quantization, plan.engine)
    }
    alike = {(plan.engine, plan.bits) for plan in started}
    return [plan for plan in plans if plan in started or (plan.engine, plan.bits) not in alike]


def recovers(quantization: str | None, engine: EngineName) -> float:
    """Return the least measured percentage of the published model's quality in this format: 100 as
    published, 0 if not measured."""
    if quantization is None or canonical_name(quantization) in UNQUANTIZED:
        return 100.0
    recovered = recovery(quantization, engine)
    return recovered.low if recovered else 0.0


def _formats(
    request: RecommendRequest, engine: EngineName, published: bool
) -> tuple[str | None, ...]:
    """Return the formats to try on an engine; None is as published."""
    if request.quantization:
        return (parsing.quantization(request.quantization),)
    return (
        (None,) if published or request.no_quantization else (None, *ENGINES[engine].served_formats)
    )


def _lossy(
    request: RecommendRequest, model: Model, fitting: BatchEstimator, engine: EngineName
) -> bool:
    quantization = parsing.quantization(request.quantization)
    return fitting.formats.prepared(quantization, engine).scheme.form is not None


def _taking(engines: Sequence[EngineName], kv_cache_dtype: str | None) -> list[EngineName]:
    """Return the engines that support this cache dtype. Raise InvalidRequestError if none does."""
    taking, why = [], None
    for engine in engines:
        try:
            parsing.kv_cache_dtype(kv_cache_dtype, engine)
        except InvalidRequestError as error:
            why = why or error
        else:
            taking.append(engine)
    if not taking and why is not None:
        raise why
    return taking


def _vendors(names: Sequence[str], catalog: Sequence[Accelerator]) -> set[str]:
    """Return vendors in lower case. Raise InvalidRequestError for one the catalog does not have."""
    sold_by = sorted({accelerator.vendor for accelerator in catalog})
    by_word = {re.sub(r"[^a-z]", "", name.lower()): name for name in sold_by}
    vendors = set()
    for text in names:
        word = re.sub(r"[^a-z]", "", text.lower())
        if word not in by_word:
            hint = f"Use one of {', '.join(sold_by)}."
            raise InvalidRequestError(
                f"Unknown vendor {text[:40]!r}.",
                hint=hint,
                matches=tuple(sold_by[:5]),
                field="vendors",
                code="unknown-value",
            )
        vendors.add(by_word[word].lower())
    return vendors
