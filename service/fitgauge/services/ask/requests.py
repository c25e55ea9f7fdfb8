"""What was understood as the request of a service, and what that still needs."""

import itertools
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec
from msgspec import structs

from fitgauge.services.ask.operations import Halves, Reading
from fitgauge.services.ask.request_fields import fields_of
from fitgauge.services.ask.schemas import Operation
from fitgauge.services.common.schemas import FitRequest
from fitgauge.services.compare.schemas import CompareRequest
from fitgauge.services.explain_log.schemas import ExplainLogRequest
from fitgauge.services.models_for_gpu.schemas import ModelsForGpuRequest
from fitgauge.services.recommend.schemas import RecommendRequest
from fitgauge.services.training_fit.schemas import TrainingRequest
from fitgauge.services.training_plan.schemas import TrainingPlanRequest

REQUESTS: Mapping[Operation, type[msgspec.Struct]] = {
    "check_fit": FitRequest,
    "check_training_fit": TrainingRequest,
    "recommend_gpus": RecommendRequest,
    "list_models_that_fit": ModelsForGpuRequest,
    "compare_fit": CompareRequest,
    "plan_training": TrainingPlanRequest,
    "explain_log": ExplainLogRequest,
}

_ADVICE = {
    "model": "model: name one, such as Qwen/Qwen3-8B, or a size, such as 7b.",
    "gpu": "gpu: name one, such as RTX 4090 or 2x A100 80GB, or a memory size, such as 24GB.",
    "models": "models: name those to compare.",
    "gpus": "gpus: name those to compare.",
    "log": "log: add the start-up log.",
}

_OF_ONE = ("check_fit", "check_training_fit", "plan_training", "recommend_gpus")
"""Operations that take one model."""

_MOST_ANSWERS = 6
"""Answers to one question that names several models or GPUs."""


class Question(msgspec.Struct, frozen=True):
    """A request that a service can answer, or what is missing for one."""

    request: msgspec.Struct | None
    """The request; None where something is missing."""
    missing: tuple[str, ...] = ()
    """What to add or to change."""
    notes: tuple[str, ...] = ()
    """What the text says and the request leaves out."""


def questions(reading: Reading) -> list[Question]:
    """Return the request that a reading means; one for each of several models and GPUs where the
    operation takes one."""
    if reading.operation is None:
        return [Question(None)]
    fields, notes = fields_of(reading)
    if reading.operation not in _OF_ONE:
        return [_question(reading.operation, fields, notes)]
    models = fields.pop("models", None) or [fields.get("model")]
    if reading.halves is not None:
        return [
            _question(reading.operation, {**half, "model": model}, notes)
            for model, half in itertools.product(models, _halves(reading.halves, fields, notes))
        ]
    gpus = [fields.get("gpu")]
    if reading.operation != "recommend_gpus":
        gpus = fields.pop("gpus", None) or gpus
    field = "method" if reading.operation == "check_training_fit" else "kv_cache_dtype"
    kinds = fields.get(f"{field}s") or [fields.get(field)]
    rows = list(itertools.product(models, gpus, kinds))
    if len(rows) > _MOST_ANSWERS:
        notes.append(f"The first {_MOST_ANSWERS} of {len(rows)} are answered.")
    return [
        _question(reading.operation, {**fields, "model": model, "gpu": gpu, field: kind}, notes)
        for model, gpu, kind in rows[:_MOST_ANSWERS]
    ]


def fit_request(reading: Reading) -> FitRequest | None:
    """Return the question about serving one model on one GPU that a reading of GPUs to take
    holds; None where it names none, or no model."""
    understood = reading.understood
    if understood.gpu is None or reading.model_text is None or understood.max_usd_per_hour:
        return None
    fields: dict[str, Any] = msgspec.to_builtins(understood)
    fields = {**fields, "model": reading.model_text, "gpu_count": None}
    request = _question("check_fit", fields, ()).request
    return request if isinstance(request, FitRequest) else None


def _halves(read: Halves, fields: Mapping[str, Any], notes: list[str]) -> Iterator[dict[str, Any]]:
    """Yield the fields of one server of each half: prefill keeps the time to a first token, decode
    the speed and its share of the requests."""
    several = [f"{count} {half}" for half, count in read.servers.items() if count > 1]
    if several:
        notes.append(f"{' and '.join(several)} servers: each answer is of one, with its share.")
    requests = fields.get("concurrency")
    for half, gpu in read.gpus.items():
        own = {**fields, "gpu": gpu, "disaggregation": half}
        share = -(-requests // read.servers.get(half, 1)) if requests else None
        if half == "prefill":
            own |= {"concurrency": None, "min_tokens_per_second_per_request": None}
        else:
            own |= {"concurrency": share, "max_seconds_to_first_token": None}
        yield own


def _question(operation: Operation, fields: Mapping[str, Any], notes: Sequence[str]) -> Question:
    """Return the request of an operation with these fields, or what it needs besides."""
    kind = REQUESTS[operation]
    accepted = {field.name: field for field in structs.fields(kind)}
    sent = {name: value for name, value in fields.items() if name in accepted and value is not None}
    missing = [
        _ADVICE.get(name, f"{name}: add it.")
        for name, field in accepted.items()
        if field.required and name not in sent
    ]
    if missing:
        return Question(None, tuple(missing), tuple(notes))
    try:
        return Question(msgspec.convert(sent, kind), (), tuple(notes))
    except msgspec.ValidationError as error:
        field = str(error).partition(" - at `$.")[2].rstrip("`").partition("[")[0]
        advice = f"{field}: {sent.get(field)} is out of range."
        return Question(None, (advice,), tuple(notes))
