"""Options in the words of the contract: each with its speeds, its cost, its quality and how to
start it."""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from msgspec import convert, structs

from fitgauge.catalog.gpu_match import GpuMatch
from fitgauge.catalog.quality import recovery
from fitgauge.engine.model.model import Model
from fitgauge.engine.performance.decode import DecodeSpeed
from fitgauge.engine.quantity import Bytes, gib
from fitgauge.engine.quantization.requested import UNQUANTIZED, canonical_name
from fitgauge.engine.serving.fit import Verdict, verdict
from fitgauge.engine.serving.registry import ENGINES
from fitgauge.engine.serving.workload import EngineName, Workload
from fitgauge.services.common import parsing, responses
from fitgauge.services.common.kubernetes import kubernetes
from fitgauge.services.common.schemas import FitRequest, Launch
from fitgauge.services.fit.batch_estimator import BatchEstimator
from fitgauge.services.fit.estimate import Estimator
from fitgauge.services.fit.launch import launch, nodes_of
from fitgauge.services.fit.launch_answer import launch_of
from fitgauge.services.fit.query import Settings
from fitgauge.services.recommend.constraints import watts
from fitgauge.services.recommend.costs import CostAnswer, Costs, PricedLoad, rented
from fitgauge.services.recommend.gpu_options import Plan
from fitgauge.services.recommend.option_schemas import (
    DecodeAnswer,
    Fields,
    MeasuredOn,
    PrefillAnswer,
    QualityAnswer,
    Recommendation,
)
from fitgauge.services.recommend.prefill import Prompts, basis
from fitgauge.services.recommend.schemas import Objective, RecommendRequest
from fitgauge.services.recommend.search import Option
from fitgauge.services.recommend.shortlist import Pick

_BEST: dict[Objective, str] = {
    "fewest_cards": "The fewest GPUs",
    "smallest": "The least memory",
    "fastest": "The fastest",
    "most_headroom": "The most headroom",
    "cheapest": "The cheapest",
    "cheapest_per_token": "The cheapest per token",
}


class Judged(NamedTuple):
    """A deployment with the settings of its launch."""

    workload: Workload
    """The workload with these settings."""
    required: Bytes
    """Memory that the fullest GPU needs [bytes]."""
    budget: Bytes
    """Memory that the engine may use of one GPU [bytes]."""
    probability: float
    """Probability that it fits."""
    changed: Settings
    """Settings that differ from the engine's defaults."""
    request: Fields
    """The request to POST /v1/fit that asks for the same."""
    launch: Launch
    """The command."""

    @property
    def verdict(self) -> Verdict:
        """The verdict of its chance."""
        return verdict(self.probability)


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
        fitting: BatchEstimator,
        estimator: Estimator,
    ) -> None:
        self._fitting = fitting
        self._estimator = estimator
        self._request = request
        self._question = question
        self._model = model
        self._objective = objective
        self._costs = costs
        self._prompts = prompts

    def pick(self, pick: Pick[Option]) -> Recommendation:
        """Return one of the options that are shown first."""
        shown = self.settled(pick.option)
        shown.roles = list(pick.roles)
        shown.reason = pick.reason
        return shown

    def settled(self, option: Option) -> Recommendation:
        """Return one option with the settings nearest to the engine's defaults, as check_fit
        chooses them."""
        return self._shown(option, self._chosen(option))

    def recommendation(self, option: Option) -> Recommendation:
        """Return one option with everything that is known of it."""
        return self._shown(option, self._judged(option))

    def _shown(self, option: Option, judged: Judged) -> Recommendation:
        request, plan, speed = self._request, option.plan, option.speed
        concurrency = option.fitted.workload.concurrency
        decode = None
        if speed:
            each = round(speed.expected / concurrency, 2)
            decode = DecodeAnswer(
                tokens_per_second=speed,
                tokens_per_second_per_request=each,
                basis=basis(plan.engine, decoding=True),
            )
        msrp = option.accelerator.msrp_usd
        return Recommendation(
            gpu=responses.gpu_answer(option.accelerator, option.gpus),
            engine=plan.engine,
            quantization=plan.quantization or "as published",
            weight_bits=plan.bits,
            verdict=judged.verdict,
            fit_probability=round(judged.probability, 4),
            required_bytes=judged.required,
            budget_bytes=judged.budget.expected,
            headroom_bytes=judged.budget.expected - judged.required.expected,
            total_usable_bytes=option.criteria[1],
            decode=decode,
            prefill=self._prefill(option),
            cost=self.cost(option),
            purchase_usd=None if msrp is None else msrp * option.gpus,
            watts=watts(option.accelerator, option.gpus),
            quality=quality(plan),
            kubernetes=kubernetes(
                option.accelerator, option.gpus, judged.workload, request.gpus_per_node
            ),
            request=judged.request,
            chosen=dict(judged.changed),
            launch=judged.launch,
        )

    def _sent(self, option: Option) -> Fields:
        """Return the question to POST /v1/fit."""
        workload, plan = option.fitted.workload, option.plan
        sent: Fields = {
            "model": self._request.model,
            "gpu": option.accelerator.name,
            "gpu_count": option.gpus,
            "engine": plan.engine,
            "context_length": workload.context_length,
            "concurrency": workload.concurrency,
        }
        optional = {
            "quantization": plan.quantization or _as_published(plan.engine),
            "kv_cache_dtype": self._request.kv_cache_dtype,
            "language_model_only": self._request.language_model_only or None,
            "max_num_seqs": self._question.max_num_seqs,
        }
        return sent | {name: value for name, value in optional.items() if value is not None}

    def _chosen(self, option: Option) -> Judged:
        """Return the launch of an option as check_fit chooses its settings."""
        sent = {**self._sent(option), "settings": self._request.settings or "auto"}
        if option.fitted.changed:
            match = GpuMatch(option.accelerator, option.gpus)
            query = self._estimator.ask(convert(sent, FitRequest), self._model, match)
            checked = self._estimator.check(query)
            command = launch_of(checked)
            if checked.verdict == "fits" and checked.choice is not None and command is not None:
                return Judged(
                    checked.workload,
                    checked.estimate.fullest.required,
                    checked.estimate.budget,
                    checked.probability,
                    checked.choice.changed,
                    sent,
                    command,
                )
        return self._judged(option)._replace(request=sent)

    def _judged(self, option: Option) -> Judged:
        """Return the launch of an option as it was searched."""
        fitted, plan = option.fitted, option.plan
        question = structs.replace(
            self._question,
            model=self._request.model,
            quantization=plan.quantization,
            **fitted.changed,
        )
        loaded = self._fitting.formats.choice(plan.quantization, plan.engine).model
        sent: Fields = {**self._sent(option), "settings": "defaults", **fitted.changed}
        nodes = nodes_of(fitted.workload, option.accelerator)
        return Judged(
            fitted.workload,
            fitted.required,
            fitted.budget,
            fitted.probability,
            fitted.changed,
            sent,
            launch(loaded, question, fitted.workload, nodes=nodes),
        )

    def _prefill(self, option: Option) -> PrefillAnswer | None:
        seconds = self._prompts.wait(option.accelerator, option.gpus, option.plan)
        speed = self._prompts.speed(option.accelerator, option.gpus, option.plan)
        if seconds is None or speed is None:
            return None
        return PrefillAnswer(
            prompt_tokens=self._prompts.tokens,
            seconds_to_first_token=seconds,
            tokens_per_second=speed,
            basis=basis(option.plan.engine, decoding=False),
        )

    def cost(self, option: Option) -> CostAnswer | None:
        """Return what an option costs; None where that is unknown."""
        prefill = self._prompts.speed(option.accelerator, option.gpus, option.plan)
        cost = self._costs.answer(
            option.accelerator, option.gpus, _interval(option.speed), _interval(prefill)
        )
        if cost and (cost.usd_per_million_output_tokens or cost.usd_per_million_input_tokens):
            workload = option.fitted.workload
            cost.priced_at = PricedLoad(
                concurrency=workload.concurrency,
                context_length=workload.context_length,
                prompt_tokens=self._prompts.tokens,
            )
        return cost

    def summary(
        self, picks: Sequence[Pick[Option]], shown: Sequence[Recommendation], total: int
    ) -> str:
        """Return the options in a sentence each, the first with its need. shown: as they are
        answered."""
        first, best = picks[0].option, shown[0]
        needs, has = gib(best.required_bytes.expected), gib(best.budget_bytes)
        each = " per GPU" if first.gpus > 1 else ""
        sentences = [
            f"{_BEST[self._objective]} for {self._model.id}: {_deployment(first)}, needing"
            f" {needs}{each} of {has}{self._speed(first)}{_price(best.cost, first.gpus)}"
        ]
        for (option, roles), answered in zip(picks[1:], shown[1:], strict=True):
            reason = Pick(option, roles).reason
            sentences.append(
                f"{reason[0].upper()}{reason[1:]}: {_deployment(option)}{self._speed(option)}"
                f"{_price(answered.cost, option.gpus)}"
            )
        if total > len(picks):
            sentences.append(f"{total - len(picks)} more Pareto-optimal options")
        return ". ".join(sentences) + "."

    def _speed(self, option: Option) -> str:
        """Return how fast it decodes, in all and for each request."""
        speed = option.tokens_per_second
        if speed is None:
            return ""
        requests = option.fitted.workload.concurrency
        each = f" ({_rounded(speed / requests)} a request)" if requests > 1 else ""
        return f", about {_rounded(speed)} tokens a second{each}"


def _as_published(engine: EngineName) -> str | None:
    """Return what names the published format, where leaving it out means another."""
    return parsing.AS_PUBLISHED if ENGINES[engine].default_quantization else None


def quality(plan: Plan) -> QualityAnswer | None:
    """Return what the format of a plan was seen to recover; the weights as published are the
    reference."""
    if plan.quantization is None or canonical_name(plan.quantization) in UNQUANTIZED:
        return QualityAnswer(low=100.0, expected=100.0, high=100.0, measurements=0)
    measured = recovery(plan.quantization, plan.engine)
    return measured and QualityAnswer(
        low=measured.low,
        expected=measured.expected,
        high=measured.high,
        measurements=len(measured.measurements),
    )


def measurements(plans: Iterable[Plan]) -> dict[str, list[MeasuredOn]]:
    """Return what the quality of their formats was measured on, by format."""
    by_format = {}
    for plan in plans:
        measured = recovery(plan.quantization, plan.engine) if plan.quantization else None
        if plan.quantization and measured:
            by_format[plan.quantization] = [
                MeasuredOn(
                    model=row.model,
                    measured=row.measured,
                    measure=row.measure,
                    recovered_percent=row.recovered_percent,
                    source=row.source,
                )
                for row in measured.measurements
            ]
    return by_format


def _deployment(option: Option) -> str:
    """Return GPUs, engine and format in words."""
    gpus = responses.gpu_count_in_words(option.accelerator, option.gpus)
    return f"{gpus} with {option.plan.engine}, {stored(option)}"


def stored(option: Option) -> str:
    """'in fp8', 'as published'."""
    return f"in {option.plan.quantization}" if option.plan.quantization else "as published"


def _price(cost: CostAnswer | None, gpus: int) -> str:
    """Return the price of so many GPUs in words; empty where none is known."""
    if cost is None or not cost.rentals:
        return ""
    rental = cost.rentals[0]
    return (
        f", from {cost.usd_per_hour_low:.2f} USD an hour ({rented(rental, gpus)}, {rental.as_of})"
    )


def _rounded(speed: float) -> str:
    return f"{speed:,.0f}" if speed >= 10 else f"{speed:.2g}"


def _interval(speed: DecodeSpeed | None) -> tuple[float, float, float] | None:
    return (speed.low, speed.expected, speed.high) if speed else None
