"""Options in the words of the contract: each with its speeds, its cost, its quality and how to
start it."""

from collections.abc import Iterable, Iterator, Sequence
from math import inf

from msgspec import structs

from fitgauge.catalog.quality import recovery
from fitgauge.engine.model.spec import Model
from fitgauge.engine.note import Note
from fitgauge.engine.performance.decode import EFFICIENCY, LAYER_SECONDS, SPREAD, DecodeSpeed
from fitgauge.engine.performance.prefill import compute_efficiency
from fitgauge.engine.quantity import gib
from fitgauge.engine.quantization.requested import UNQUANTIZED, canonical_name
from fitgauge.services.common import parsing as words
from fitgauge.services.common import responses as answers
from fitgauge.services.common.schemas import FitRequest, Launch
from fitgauge.services.fit.launch import launch_command, loads_asked_format
from fitgauge.services.recommend.constraints import watts
from fitgauge.services.recommend.costs import CostAnswer, Costs
from fitgauge.services.recommend.gpu_options import Plan
from fitgauge.services.recommend.kubernetes import kubernetes
from fitgauge.services.recommend.objectives import order
from fitgauge.services.recommend.prefill import Prompts, basis
from fitgauge.services.recommend.schemas import (
    DecodeAnswer,
    Fields,
    MeasuredOn,
    Objective,
    PrefillAnswer,
    QualityAnswer,
    Recommendation,
    RecommendRequest,
)
from fitgauge.services.recommend.search import Option

_BEST: dict[Objective, str] = {
    "fewest_cards": "The fewest cards",
    "smallest": "The least memory",
    "fastest": "The fastest",
    "most_headroom": "The most headroom",
    "cheapest": "The cheapest",
    "cheapest_per_token": "The cheapest per token",
}

_TOLD_BESIDES: tuple[Objective, ...] = ("fewest_cards", "cheapest", "fastest")
"""Orders whose first option is named in the summary of every other."""


class ResponseBuilder:
    """One question's options in words. question: its workload as check_fit takes it."""

    def __init__(
        self,
        request: RecommendRequest,
        question: FitRequest,
        model: Model,
        objective: Objective,
        costs: Costs,
        prompts: Prompts,
    ) -> None:
        self._request = request
        self._question = question
        self._model = model
        self._objective = objective
        self._costs = costs
        self._prompts = prompts

    def recommendation(self, option: Option) -> Recommendation:
        """Return one option with everything that is known of it."""
        request, fitted, plan, speed = self._request, option.fitted, option.plan, option.speed
        sent: Fields = {
            "model": request.model,
            "gpu": option.accelerator.name,
            "gpu_count": option.gpus,
            "engine": plan.engine,
        }
        sent |= {
            "context_length": fitted.workload.context_length,
            "concurrency": fitted.workload.concurrency,
        }
        optional = {
            "quantization": plan.quantization,
            "kv_cache_dtype": request.kv_cache_dtype,
            "max_num_seqs": self._question.max_num_seqs,
        }
        sent |= {name: value for name, value in optional.items() if value is not None}
        question = structs.replace(
            self._question, model=request.model, quantization=plan.quantization
        )
        decode = None
        if speed:
            each = round(speed.expected / fitted.workload.concurrency, 2)
            decode = DecodeAnswer(
                tokens_per_second=speed, per_request=each, basis=basis(plan.engine, decoding=True)
            )
        return Recommendation(
            gpu=answers.gpu_answer(option.accelerator, option.gpus),
            engine=plan.engine,
            quantization=plan.quantization or "as published",
            weight_bits=plan.bits,
            verdict=fitted.verdict,
            fit_probability=round(fitted.probability, 4),
            required_bytes=fitted.required,
            budget_bytes=fitted.budget.expected,
            headroom_bytes=fitted.budget.expected - fitted.required.expected,
            total_usable_bytes=option.criteria[1],
            decode=decode,
            prefill=self._prefill(option),
            cost=self._cost(option),
            watts=watts(option.accelerator, option.gpus),
            quality=quality(plan),
            kubernetes=kubernetes(
                option.accelerator, option.gpus, fitted.workload, request.gpus_per_node
            ),
            request=sent,
            launch=Launch(command=launch_command(self._model, question, fitted.workload)),
            checkpoint=(
                None
                if loads_asked_format(question, plan.engine)
                else f"a checkpoint of {self._model.id} in {plan.quantization}"
            ),
        )

    def _prefill(self, option: Option) -> PrefillAnswer | None:
        seconds = self._prompts.seconds(option.accelerator, option.gpus, option.plan)
        speed = self._prompts.speed(option.accelerator, option.gpus, option.plan)
        if seconds is None or speed is None:
            return None
        return PrefillAnswer(
            prompt_tokens=self._prompts.tokens,
            seconds_to_first_token=seconds,
            tokens_per_second=speed,
            basis=basis(option.plan.engine, decoding=False),
        )

    def _cost(self, option: Option) -> CostAnswer | None:
        prefill = self._prompts.speed(option.accelerator, option.gpus, option.plan)
        return self._costs.answer(
            option.accelerator, option.gpus, _interval(option.speed), _interval(prefill)
        )

    def summary(self, front: Sequence[Option]) -> str:
        """Return the best option in a sentence, with its price if known."""
        best = front[0]
        cards = answers.cards_in_words(best.accelerator, best.gpus)
        needs, has = gib(best.fitted.required.expected), gib(best.fitted.budget.expected)
        each = " per GPU" if best.gpus > 1 else ""
        how = f"{cards} with {best.plan.engine}, {stored(best)}"
        said = (
            f"{_BEST[self._objective]} for {self._model.id}: {how}, needing {needs}{each} of"
            f" {has}{self._speed(best)}"
        )
        cost = self._cost(best)
        if cost and cost.rentals:
            first = cost.rentals[0]
            machines = f"{first.machines} x " if first.machines > 1 else ""
            said += (
                f", from {cost.usd_per_hour_low:.2f} USD an hour ({first.cloud}"
                f" {machines}{first.instance}, {first.as_of})"
            )
        if len(front) == 1:
            return f"{said}."
        return ". ".join(
            [
                said,
                *self._besides(front),
                f"{len(front)} Pareto-optimal options.",
            ]
        )

    def _speed(self, option: Option) -> str:
        """Return how fast it decodes, in all and for each request."""
        if option.speed is None:
            return ""
        requests = option.fitted.workload.concurrency
        each = f" ({_rounded(option.speed.expected / requests)} a request)" if requests > 1 else ""
        return f", about {_rounded(option.speed.expected)} tokens a second{each}"

    def _besides(self, front: Sequence[Option]) -> Iterator[str]:
        """Yield the best options by other objectives, where they differ."""
        named = {id(front[0])}
        for name in _TOLD_BESIDES:
            other = min(front, key=order(name))
            unknown = {
                "cheapest": other.criteria[4] in (0, inf),
                "fastest": other.speed is None,
            }.get(name, False)
            if id(other) in named or unknown or name == self._objective:
                continue
            named.add(id(other))
            cards = answers.cards_in_words(other.accelerator, other.gpus)
            price = f", {other.criteria[4]:.2f} USD an hour" if 0 < other.criteria[4] < inf else ""
            yield (
                f"{_BEST[name]}: {cards} with {other.plan.engine},"
                f" {stored(other)}{self._speed(other)}{price}"
            )

    def warnings(self, front: Sequence[Option], shown: Sequence[Recommendation]) -> list[Note]:
        """Return the warnings about the options shown."""
        request, notes = self._request, [*self._model.warnings, *self._model.spec.notes]
        if request.context_length is None:
            notes.append(
                Note(
                    "context-length-assumed",
                    "context_length",
                    "`context_length` not set: assuming"
                    f" {front[0].fitted.workload.context_length:,} tokens.",
                )
            )
        if any(option.speed for option in front):
            multiplying = _range(compute_efficiency(self._model.spec))
            notes.append(
                Note(
                    "speeds-estimated",
                    None,
                    f"Speeds are roofline estimates: decoding at {EFFICIENCY:.0%} of memory"
                    f" bandwidth plus {LAYER_SECONDS * 1e6:.0f} us per layer and the all-reduces of"
                    f" tensor parallelism, of which published runs reached {SPREAD[0]:.0%} to"
                    f" {SPREAD[2]:.0%}; prefill at {multiplying} of peak arithmetic.",
                )
            )
        if any(option.plan.quantization for option in front):
            notes.append(
                Note(
                    "checkpoint-needed",
                    "quantization",
                    "Formats other than as published need a checkpoint in that format, or an"
                    " engine that quantizes while loading.",
                )
            )
        if request.owned:
            notes.append(
                Note(
                    "owned-gpus-free",
                    "owned",
                    "Owned GPUs cost nothing here: purchase and electricity are not counted.",
                )
            )
        elif dates := [item.cost.as_of for item in shown if item.cost and item.cost.as_of]:
            notes.append(
                Note(
                    "prices-dated",
                    None,
                    f"Prices are on demand, of {min(dates)} or later, without storage and traffic:"
                    " check them with the cloud.",
                )
            )
        unpriced = sum(option.criteria[4] == inf for option in front)
        if unpriced:
            notes.append(
                Note(
                    "prices-unknown",
                    None,
                    f"{unpriced} of {len(front)} options have no known price: they rank as the"
                    " most expensive.",
                )
            )
        return notes

    def understood(self, option: Option) -> Fields:
        """Return the request with its defaults filled in."""
        request = self._request
        filled: Fields = {
            "model": self._model.id,
            "context_length": option.fitted.workload.context_length,
            "concurrency": option.fitted.workload.concurrency,
            "prompt_tokens": self._prompts.tokens,
            "objective": self._objective,
            "max_gpu_count": request.max_gpu_count or 16,
        }
        names = (
            *(
                "engine",
                "quantization",
                "kv_cache_dtype",
                "no_quantization",
                "min_weight_bits",
                "min_tokens_per_second",
                "owned",
            ),
            *(
                "max_usd_per_hour",
                "max_watts",
                "gpus_per_node",
                "max_nodes",
                "min_quality",
                "max_seconds_to_first_token",
            ),
        )
        fields = {name: getattr(request, name) for name in names}
        fields |= {
            name: ", ".join(words.split_list(getattr(request, name))) or None
            for name in ("vendors", "gpus", "clouds")
        }
        return filled | {name: value for name, value in fields.items() if value is not None}


def quality(plan: Plan) -> QualityAnswer | None:
    """Return what the format of a plan was seen to recover; the weights as published are the
    reference."""
    if plan.quantization is None or canonical_name(plan.quantization) in UNQUANTIZED:
        return QualityAnswer(low=100.0, expected=100.0, high=100.0, measurements=0)
    known = recovery(plan.quantization, plan.engine)
    return known and QualityAnswer(
        low=known.low,
        expected=known.expected,
        high=known.high,
        measurements=len(known.measurements),
    )


def measurements(plans: Iterable[Plan]) -> dict[str, list[MeasuredOn]]:
    """Return what the quality of their formats was measured on, by format."""
    found = {}
    for plan in plans:
        known = recovery(plan.quantization, plan.engine) if plan.quantization else None
        if plan.quantization and known:
            found[plan.quantization] = [
                MeasuredOn(
                    model=row.model,
                    measured=row.measured,
                    measure=row.measure,
                    recovered_percent=row.recovered_percent,
                    source=row.source,
                )
                for row in known.measurements
            ]
    return found


def stored(option: Option) -> str:
    """'in fp8', 'as published'."""
    return f"in {option.plan.quantization}" if option.plan.quantization else "as published"


def _rounded(speed: float) -> str:
    return f"{speed:,.0f}" if speed >= 10 else f"{speed:.2g}"


def _interval(speed: DecodeSpeed | None) -> tuple[float, float, float] | None:
    return (speed.low, speed.expected, speed.high) if speed else None


def _range(shares: tuple[float, float, float]) -> str:
    low, expected, high = shares
    return f"{expected:.0%} ({low:.0%} to {high:.0%})"
