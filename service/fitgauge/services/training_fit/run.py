"""Time and cost of a whole training run."""

from collections.abc import Sequence
from math import ceil

from msgspec import UNSET, UnsetType

from fitgauge.catalog.instances import Offers
from fitgauge.engine.accelerator import Accelerator
from fitgauge.engine.model.spec import ModelSpec
from fitgauge.engine.note import Note
from fitgauge.engine.performance.flops import token_flops
from fitgauge.engine.training.speed import Sequences, StepTime, peak_flops, step_time
from fitgauge.engine.training.workload import TrainingWorkload
from fitgauge.services.common.kubernetes import node_size
from fitgauge.services.common.schemas import Assumption
from fitgauge.services.training_fit import rl_parsing
from fitgauge.services.training_fit.launchers.common import sequences_per_step
from fitgauge.services.training_fit.launchers.run_settings import Field
from fitgauge.services.training_fit.lengths import lengths_of, mean_length, sequences_of
from fitgauge.services.training_fit.run_schemas import Interval, TrainingRun
from fitgauge.services.training_fit.schemas import TrainingRequest

_SOURCE = (
    "engine/training/speed.py; FLOPs: PaLM, arXiv 2204.02311, appendix B; shares of the peak: 216"
    " published runs, tools/accuracy/training_speeds.jsonl"
)
_SENT_SOURCE = "C = 6 N D (Kaplan et al., arXiv 2001.08361, section 2.1), at the mfu of the request"
_MINUTE, _HOUR, _DAY = 60, 3600, 86400


def asks_for_run(request: TrainingRequest) -> bool:
    """Return whether a request says how much data there is."""
    return any(
        value is not None for value in (request.samples, request.token_budget, request.lengths)
    )


def training_run(
    request: TrainingRequest,
    workload: TrainingWorkload,
    count: int,
    spec: ModelSpec,
    accelerator: Accelerator,
    offers: Offers | None,
) -> tuple[TrainingRun | UnsetType, list[Note]]:
    """Return time and cost of the run that a request describes, and why there is none. workload:
    what every step computes; count: GPUs that are paid."""
    if not asks_for_run(request):
        return UNSET, []
    algorithm = rl_parsing.algorithm(request.algorithm)
    if algorithm != "sft":
        return UNSET, [_none(f"No time of {algorithm} runs was published.")]
    samples = lengths_of(request, workload)
    sequences = sequences_of(samples, workload)
    time = _step(request, spec, workload, accelerator, sequences)
    if time is None:
        return UNSET, [
            _none(
                f"The catalog has no peak of the {accelerator.name} in {workload.precision}:"
                " `utilization` takes it as `peak_tflops`."
            )
        ]
    mean = mean_length(samples)
    number = request.samples or sum((request.lengths or {}).values())
    if request.token_budget is None:
        drawn = number * (request.epochs or 1)
    else:
        drawn = request.token_budget / mean
    steps = ceil(drawn / sequences_per_step(workload))
    seconds = Interval(low=steps * time.low, expected=steps * time.expected, high=steps * time.high)
    computed = drawn * sequences.length
    hours = _scaled(seconds, count / _HOUR)
    usd, prices_as_of = _cost(request, count, accelerator, hours, offers)
    return (
        TrainingRun(
            tokens=round(drawn * mean),
            computed_tokens=round(computed),
            steps=steps,
            seconds=seconds,
            gpu_hours=hours,
            usd=usd,
            prices_as_of=prices_as_of,
            tokens_per_second=_rate(computed, seconds),
            mfu=_mfu(spec, workload, accelerator, sequences, time),
            basis=time.basis,
            formula=f"{steps} x {time.formula}",
            source=_SOURCE if request.mfu is None else _SENT_SOURCE,
        ),
        [],
    )


def run_settings(request: TrainingRequest, run: TrainingRun | UnsetType) -> dict[Field, float]:
    """Return how long the command of a request trains and when it saves, where it says so."""
    by_samples = request.token_budget is None and asks_for_run(request)
    settings: dict[Field, float | None] = {
        "epochs": request.epochs or (1 if by_samples else None),
        "max_steps": None if run is UNSET or by_samples else run.steps,
        "save_steps": request.save_steps,
        "save_total_limit": request.save_total_limit,
    }
    return {field: value for field, value in settings.items() if value is not None}


def run_assumptions(request: TrainingRequest) -> Sequence[Assumption]:
    """Return what is assumed of the run."""
    if not asks_for_run(request) or request.epochs is not None or request.token_budget is not None:
        return []
    return [Assumption("epochs", 1, "1 epoch")]


def run_in_words(run: TrainingRun) -> str:
    """Return "The run of 10,240,000 tokens takes 4.2 hours (3.4 to 5.9) and $5.30 ($4.10 to
    $12.00, at $1.26 a GPU hour)."."""
    unit, name = _unit(run.seconds.expected)
    time = (
        f"{run.seconds.expected / unit:.3g} {name}"
        f" ({run.seconds.low / unit:.3g} to {run.seconds.high / unit:.3g})"
    )
    if run.usd is None:
        cost = ""
    else:
        cost = (
            f" and {_dollars(run.usd.expected)} ({_dollars(run.usd.low)} to"
            f" {_dollars(run.usd.high)},"
            f" at ${run.usd.expected / run.gpu_hours.expected:,.2f} a GPU hour)"
        )
    return f"The run of {run.tokens:,} tokens takes {time}{cost}."


def _dollars(amount: float) -> str:
    """Return an amount in three digits from 100 dollars on, in cents below."""
    if amount < 100:
        return f"${amount:,.2f}"
    return f"${float(f'{amount:.3g}'):,.0f}"


def _unit(seconds: float) -> tuple[int, str]:
    """Return the unit that a time is said in."""
    if seconds < 2 * _MINUTE:
        return 1, "seconds"
    if seconds < 2 * _HOUR:
        return _MINUTE, "minutes"
    return (_HOUR, "hours") if seconds < 2 * _DAY else (_DAY, "days")


def _step(
    request: TrainingRequest,
    spec: ModelSpec,
    workload: TrainingWorkload,
    accelerator: Accelerator,
    sequences: Sequences,
) -> StepTime | None:
    """Return the time of one optimizer step: at the mfu that is sent, else as published runs
    take."""
    if request.mfu is None:
        return step_time(spec, workload, accelerator, sequences)
    peak = peak_flops(workload, accelerator)
    if peak is None:
        return None
    tokens = sequences_per_step(workload) * sequences.length
    flops = _model_flops(spec, workload, sequences)
    seconds = tokens * flops / (workload.gpus * peak * request.mfu)
    formula = f"{tokens:.8g} x {flops:.8g} / ({workload.gpus} x {peak:.8g} x {request.mfu:g})"
    return StepTime(seconds, seconds, seconds, "assumed", formula)


def _model_flops(spec: ModelSpec, workload: TrainingWorkload, sequences: Sequences) -> float:
    """Return the operations of one token, without what is computed twice."""
    return token_flops(spec, ceil(sequences.attended), frozen_base=workload.uses_adapters).model


def _mfu(
    spec: ModelSpec,
    workload: TrainingWorkload,
    accelerator: Accelerator,
    sequences: Sequences,
    time: StepTime,
) -> Interval:
    peak = peak_flops(workload, accelerator) or 1.0
    tokens = sequences_per_step(workload) * sequences.length
    work = tokens * _model_flops(spec, workload, sequences) / (workload.gpus * peak)
    return Interval(low=work / time.high, expected=work / time.expected, high=work / time.low)


def _cost(
    request: TrainingRequest,
    count: int,
    accelerator: Accelerator,
    hours: Interval,
    offers: Offers | None,
) -> tuple[Interval | None, str | None]:
    """Return the cost of all GPUs, and the date of the catalog's prices behind it."""
    if request.price_per_gpu_hour is not None:
        return _scaled(hours, request.price_per_gpu_hour), None
    price = offers and offers.price(accelerator.id, count, None, node_size(accelerator, None))
    if not price:
        return None, None
    return _scaled(hours, price.usd_per_hour_low / count), price.as_of


def _scaled(one: Interval, factor: float) -> Interval:
    return Interval(low=one.low * factor, expected=one.expected * factor, high=one.high * factor)


def _rate(amount: float, seconds: Interval) -> Interval:
    return Interval(
        low=amount / seconds.high, expected=amount / seconds.expected, high=amount / seconds.low
    )


def _none(why: str) -> Note:
    return Note("run-not-estimated", "token_budget", f"`run` is left out. {why}")
