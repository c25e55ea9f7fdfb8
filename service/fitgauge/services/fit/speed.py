"""How fast the launch of an answer is at the request's load, held to published runs where one is
near."""

from collections.abc import Iterator, Sequence
from math import log
from typing import Literal, NamedTuple

from msgspec import structs

from fitgauge.catalog.speeds import Deployed, SpeedRun, speed_runs
from fitgauge.engine.model.spec import ModelSpec
from fitgauge.engine.performance.decode import DecodeSpeed
from fitgauge.engine.performance.host import HostPart
from fitgauge.engine.performance.load import Half, Load, LoadSpeed, load_speed
from fitgauge.engine.performance.prefill import Seconds, activated
from fitgauge.engine.quantity import rough
from fitgauge.engine.quantization.requested import requested_scheme
from fitgauge.engine.quantization.scheme import Scheme
from fitgauge.engine.serving.registry import ENGINES
from fitgauge.engine.serving.workload import Workload
from fitgauge.errors import InvalidRequestError
from fitgauge.services.common.schemas import FitRequest
from fitgauge.services.common.speed_schemas import (
    PublishedRun,
    SpeedAnswer,
    SpeedBasis,
    SpeedTarget,
)
from fitgauge.services.fit.host_speed import assumed_rate, host_part, is_told
from fitgauge.services.fit.query import FitEstimate

NEAR = log(2.5)
"""How far a run's load may be from the request's to scale the model to it: by a factor of 2.5 in
its concurrency, of 6 in its prompt and in its answer, of 39 in what one request alone holds."""

MEASURED_SPREAD = (0.89, 1.0, 1.16)
"""Tokens a second over those scaled to the nearest run: 10th percentile, median, 90th percentile.

Calibrated: of every published run at a load as if it were the question, over the nearest other
run of its deployment, in catalog/data/load_speeds.jsonl; a test derives both from the rows."""

MEASURED_FIRST_TOKEN = (0.69, 1.0, 1.51)
"""The same of the time to a first token."""

MODELLED_SPREAD = (0.73, 1.96)
"""Tokens a second over those modelled: 5th and 95th percentile of the published runs at a load,
every source weighing the same. Wider than what the formula's own parts spread."""

_OF_TOKENS, _OF_HELD = 2, 4
"""Roots of the factors between prompts and answers, and between the tokens that one request alone
holds, of which a step reads little in addition to the weights."""

_USUAL_ANSWER = 512
_SHARE_OF_ANSWER = 4
"""An answer takes at most 1 / 4 of the context where its length is not sent."""
_SHOWN, _SHOWN_IN_FULL = 1, 5
_TARGETS = {
    "min_tokens_per_second_per_request": "{:g} tokens/s a request",
    "max_seconds_to_first_token": "first token within {:g} s",
}
"""What a request asks for, by its field."""
_OF_THE_OTHER: dict[Half | None, str] = {
    "prefill": "min_tokens_per_second_per_request",
    "decode": "max_seconds_to_first_token",
}
"""What is asked of the other half of disaggregated serving."""
_SAME_BITS = 0.75
"""Bits of a weight by which formats of one kind differ at most: scales of other groups."""
_SOURCE = "engine/performance/load.py speed_of; errors: docs/ACCURACY.md, Speed at a load"

_HOST_SOURCE = (
    "engine/performance/host.py; errors: docs/ACCURACY.md, Speed with weights in host memory"
)


class _Near(NamedTuple):
    """A published run and how near its load is."""

    distance: float
    """As `distance` has it."""
    run: SpeedRun
    """The run."""


def load_of(
    request: FitRequest, context_length: int, concurrency: int, half: Half | None = None
) -> Load:
    """Return the load that a request describes, of one half of disaggregated serving what that
    does of it. Prompt and answer fill the context where they are not sent. Raises
    InvalidRequestError where they exceed it."""
    prompt, output = request.prompt_tokens, request.output_tokens
    needed = (prompt or 1) + (output or 1)
    if needed > context_length and (prompt or output):
        raise InvalidRequestError(
            f"A prompt of {prompt or 1:,} tokens and an answer of {output or 1:,} exceed the"
            f" context of {context_length:,}.",
            hint=f"Send context_length {needed}, or shorter ones.",
            field="prompt_tokens" if prompt else "output_tokens",
            code="invalid-value",
            send={"context_length": needed},
        )
    usual = min(_USUAL_ANSWER, context_length // _SHARE_OF_ANSWER, context_length - (prompt or 1))
    answer = output or max(1, usual)
    load = Load(
        concurrency=concurrency,
        prompt_tokens=prompt or max(1, context_length - answer),
        output_tokens=answer,
        prefix_cache_hit_rate=request.prefix_cache_hit_rate or 0.0,
    )
    return _of_a_half(load, half)


def half_of(workload: Workload) -> Half | None:
    """Return the half of disaggregated serving that a launch is of."""
    serves_halves = "disaggregation" in ENGINES[workload.engine].options
    return workload.disaggregation if serves_halves else None


def _of_a_half(load: Load, half: Half | None) -> Load:
    """Return what one half of disaggregated serving does of a load: prefill writes the first token
    of each answer alone; decode finds the cache of every prompt."""
    if half == "prefill":
        return structs.replace(load, output_tokens=1, half=half)
    return structs.replace(load, prefix_cache_hit_rate=1.0, half=half) if half else load


def speed_answer(checked: FitEstimate) -> SpeedAnswer | None:
    """Return how fast the launch answers its load; None where it does not start, or nothing here
    tells how fast it is: an encoder, experts over ranks of their own, several requests to a CPU,
    GPUs of several kinds, drafted tokens."""
    workload, request, spec = checked.workload, checked.query.request, checked.query.spec
    half = half_of(workload)
    load = load_of(request, workload.context_length, workload.concurrency, half)
    if (
        checked.verdict == "does_not_fit"
        or spec.task != "generate"
        or workload.expert_parallel > 1
        or not is_told(checked)
        or workload.free_bytes
        or workload.speculative_tokens
    ):
        return None
    host = host_part(checked, load)
    modelled = _modelled(checked, load, host)
    if modelled is None:
        return None
    if host is not None:  # published runs hold their weights on the GPU, and have wider intervals
        return _with_host(checked, load, modelled, assumed_rate(checked, host))
    runs = sorted(_near(checked, load), key=lambda near: near.distance)
    measured = [near for near in runs if _is_same_deployment(near.run, checked)]
    near = [one.run for one in measured if one.distance <= NEAR and half is None]  # all ran both
    total, each, basis = _speed(checked, modelled, near)
    first, first_basis = _first_token(checked, modelled, near)
    shown = _SHOWN_IN_FULL if request.detail == "full" else _SHOWN
    return SpeedAnswer(
        load=load,
        tokens_per_second=_of_replicas(total, workload.data_parallel),
        tokens_per_second_per_request=each,
        basis=basis,
        seconds_to_first_token=first,
        first_token_basis=first_basis,
        source=_SOURCE,
        runs=[_published(one.run) for one in [*measured, *_others(runs, measured)][:shown]],
        targets=[
            one for one in _targets(request, each, first) if one.field != _OF_THE_OTHER.get(half)
        ],
    )


def _with_host(checked: FitEstimate, load: Load, modelled: LoadSpeed, assumed: str) -> SpeedAnswer:
    """Return how fast a launch with weights in host memory is, by the formula alone."""
    each, first = modelled.tokens_per_second_per_request, modelled.seconds_to_first_token
    return SpeedAnswer(
        load=load,
        tokens_per_second=_of_replicas(modelled.tokens_per_second, checked.workload.data_parallel),
        tokens_per_second_per_request=each,
        basis="modelled",
        seconds_to_first_token=first,
        first_token_basis="modelled",
        source=_HOST_SOURCE,
        assumed=assumed,
        runs=[],
        targets=list(_targets(checked.query.request, each, first)),
    )


def in_words(speed: SpeedAnswer) -> str:
    """Return what is expected of the speeds that a request asks for; empty for none."""
    if not speed.targets:
        return ""
    rates, first = speed.tokens_per_second_per_request, speed.seconds_to_first_token
    words = {"decode": f"{rates.expected:.3g} tokens a second and request"}
    if first is not None:
        words["prefill"] = f"first token after {rough(first.expected)} s"
    half = speed.load.half
    text = words[half] if half in words else ", ".join(words.values())
    return f" {text[0].upper()}{text[1:]} ({speed.basis})."


def targets_in_words(speed: SpeedAnswer | None) -> str:
    """Return whether the speeds that a request asks for are reached, in parentheses; empty for
    none."""
    if speed is None or not speed.targets:
        return ""
    reached = (f"{_TARGETS[one.field].format(one.value)}: {one.reached}" for one in speed.targets)
    return f" ({', '.join(reached)})"


def _modelled(checked: FitEstimate, load: Load, host: HostPart | None) -> LoadSpeed | None:
    """Return the speed of one replica by the formula alone."""
    workload, prepared = checked.workload, checked.prepared
    each = workload.requests_per_replica
    return load_speed(
        checked.query.spec,
        prepared.sharded,
        prepared.scheme,
        checked.query.accelerator,
        structs.replace(load, concurrency=each),
        kv_cache_dtype=workload.kv_cache_dtype,
        tensor_parallel=workload.tensor_parallel,
        host=host,
        layer_seconds=ENGINES[workload.engine].layer_seconds,
    )


def _near(checked: FitEstimate, load: Load) -> Iterator[_Near]:
    """Yield the published runs of a model of this shape on such GPUs, with their distance."""
    each = checked.workload.requests_per_replica
    deployed = Deployed(
        checked.query.spec.parameters,
        checked.query.accelerator.id,
        checked.workload.tensor_parallel,
    )
    question = structs.replace(load, concurrency=each)
    for run in speed_runs(deployed):
        yield _Near(distance(run, question), run)


def distance(run: SpeedRun, question: Load) -> float:
    """Return how far a run's load is from that of a replica: the largest logarithm of a factor
    between them, of tokens that of its root."""
    ran = run.load
    factors = [abs(log(ran.concurrency / question.concurrency))]
    if run.context_tokens:
        held = question.prompt_tokens + question.output_tokens // 2
        factors.append(abs(log(run.context_tokens / held)) / _OF_HELD)
    else:
        factors.append(abs(log(ran.prompt_tokens / question.prompt_tokens)) / _OF_TOKENS)
        factors.append(abs(log(ran.output_tokens / question.output_tokens)) / _OF_TOKENS)
    return max(factors)


def _is_same_deployment(run: SpeedRun, checked: FitEstimate) -> bool:
    """Return whether a run's engine and format are those of the launch."""
    return run.engine == checked.workload.engine and _is_same_format(
        run.format, checked.prepared.scheme, checked.query.spec
    )


def _is_same_format(name: str, scheme: Scheme, spec: ModelSpec) -> bool:
    other = requested_scheme(name, spec)
    return activated(other) == activated(scheme) and abs(_bits(other) - _bits(scheme)) < _SAME_BITS


def _bits(scheme: Scheme) -> float:
    """Return the bits of most weights, with no difference among the formats of 16."""
    if scheme.form is not None:
        return scheme.form.bits
    return 32.0 if scheme.dtype == "F32" else 16.0


def _speed(
    checked: FitEstimate, modelled: LoadSpeed, near: Sequence[SpeedRun]
) -> tuple[DecodeSpeed | None, DecodeSpeed, SpeedBasis]:
    """Return the speed of all requests and of one as the nearest run scales the model; the model's
    own where none is near."""
    total, each = modelled.tokens_per_second, modelled.tokens_per_second_per_request
    for run in near:
        if at_run := _modelled_run(checked, run):
            scale = run.speed / at_run.tokens_per_second_per_request.expected
            factors = tuple(scale * spread for spread in MEASURED_SPREAD)
            return total and _around(total, factors), _around(each, factors), "measured"
    return total and _widened(total), _widened(each), "modelled"


def _first_token(
    checked: FitEstimate, modelled: LoadSpeed, near: Sequence[SpeedRun]
) -> tuple[Seconds | None, SpeedBasis]:
    """Return the time to a first token, likewise."""
    first = modelled.seconds_to_first_token
    if first is None:
        return None, "modelled"
    for run in near:
        at_run = _modelled_run(checked, run)
        at_first = at_run and at_run.seconds_to_first_token
        if run.seconds_to_first_token is not None and at_first:
            scale = run.seconds_to_first_token / at_first.expected
            low, expected, high = (
                round(first.expected * scale * spread, 4) for spread in MEASURED_FIRST_TOKEN
            )
            return Seconds(low=low, expected=expected, high=high), "measured"
    return first, "modelled"


def _modelled_run(checked: FitEstimate, run: SpeedRun) -> LoadSpeed | None:
    """Return what the model says of a published run of this deployment."""
    prepared = checked.prepared
    return load_speed(
        checked.query.spec,
        prepared.sharded,
        prepared.scheme,
        checked.query.accelerator,
        run.load,
        kv_cache_dtype=checked.workload.kv_cache_dtype,
        tensor_parallel=run.tensor_parallel,
        layer_seconds=ENGINES[checked.workload.engine].layer_seconds,
    )


def _around(speed: DecodeSpeed, factors: Sequence[float]) -> DecodeSpeed:
    """Return the expected speed times each factor."""
    low, expected, high = (round(speed.expected * factor, 2) for factor in factors)
    return DecodeSpeed(low=low, expected=expected, high=high)


def _widened(speed: DecodeSpeed) -> DecodeSpeed:
    """Return the speed with an interval as wide as published runs lie around what is modelled."""
    least, most = (round(speed.expected * factor, 2) for factor in MODELLED_SPREAD)
    return DecodeSpeed(
        low=min(speed.low, least), expected=speed.expected, high=max(speed.high, most)
    )


def _of_replicas(speed: DecodeSpeed | None, replicas: int) -> DecodeSpeed | None:
    if speed is None:
        return None
    low, expected, high = (
        round(figure * replicas, 2) for figure in (speed.low, speed.expected, speed.high)
    )
    return DecodeSpeed(low=low, expected=expected, high=high)


def _others(runs: Sequence[_Near], measured: Sequence[_Near]) -> Iterator[_Near]:
    """Yield the runs in other engines and formats."""
    same = {id(near.run) for near in measured}
    return (near for near in runs if id(near.run) not in same)


def _published(run: SpeedRun) -> PublishedRun:
    return PublishedRun(
        model=run.model,
        engine=run.engine,
        gpu=run.accelerator,
        gpu_count=run.gpus,
        quantization=run.format,
        load=run.load,
        tokens_per_second_per_request=round(run.speed, 2),
        seconds_to_first_token=run.seconds_to_first_token,
        source=run.source,
    )


def _targets(
    request: FitRequest, speed: DecodeSpeed, first: Seconds | None
) -> Iterator[SpeedTarget]:
    """Yield the speeds that the request asks for, and whether they are reached: of one that is
    unknown nothing is said."""
    least, longest = request.min_tokens_per_second_per_request, request.max_seconds_to_first_token
    if least is not None:
        reached = _reached(speed.low >= least, speed.expected >= least, speed.high >= least)
        yield SpeedTarget(field="min_tokens_per_second_per_request", value=least, reached=reached)
    if longest is not None and first is not None:
        reached = _reached(first.high <= longest, first.expected <= longest, first.low <= longest)
        yield SpeedTarget(field="max_seconds_to_first_token", value=longest, reached=reached)


def _reached(
    surely: bool, expected: bool, possibly: bool
) -> Literal["yes", "likely", "unlikely", "no"]:
    if surely:
        return "yes"
    if expected:
        return "likely"
    return "unlikely" if possibly else "no"
