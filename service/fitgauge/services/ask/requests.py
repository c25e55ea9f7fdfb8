"""What was understood as the request of a service, and what that still needs."""

from collections.abc import Mapping
from typing import Any

import msgspec
from msgspec import structs

from fitgauge.services.ask.reading import Reading, known_engine
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

_ADAPTERS = ("full", "lora", "qlora")
_SHORT_LIST = 10
"""Rows of a list: a question in plain words wants few."""


class Question(msgspec.Struct, frozen=True):
    """A request that a service can answer, or what is missing for one.

    `notes`: what the text says and the request leaves out."""

    request: msgspec.Struct | None
    missing: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


def question(reading: Reading) -> Question:
    """Return the request that a reading means."""
    if reading.operation is None:
        return Question(None)
    kind = REQUESTS[reading.operation]
    said, notes = _fields(reading)
    known = {field.name: field for field in structs.fields(kind)}
    sent = {name: value for name, value in said.items() if name in known and value is not None}
    missing = [
        _ADVICE.get(name, f"{name}: add it.")
        for name, field in known.items()
        if field.required and name not in sent
    ]
    if reading.operation == "list_models_that_fit" and reading.training:
        missing.append("model: name one, or a size; lists are of models to serve, not to train.")
    if missing:
        return Question(None, tuple(missing), tuple(notes))
    try:
        return Question(msgspec.convert(sent, kind), (), tuple(notes))
    except msgspec.ValidationError as error:
        field = str(error).partition(" - at `$.")[2].rstrip("`").partition("[")[0]
        advice = f"{field}: {sent.get(field)} is out of range."
        return Question(None, (advice,), tuple(notes))


def _fields(reading: Reading) -> tuple[dict[str, Any], list[str]]:
    """Return the fields of the request by name, and notes on what no request has."""
    said: dict[str, Any] = msgspec.to_builtins(reading.understood)
    if "model" in said:
        said["model"] = reading.model_text  # the answer says how it was read
    notes = []
    engine = said.get("engine")
    if engine is not None and not known_engine(engine):
        del said["engine"]
        notes.append(f"engine: {engine} is not estimated; the answer is of the default engine.")
    method = said.get("method")
    if method is not None and method not in _ADAPTERS:
        said["algorithm"] = said.pop("method")
    training = reading.training
    if reading.operation == "recommend_gpus":
        said |= {
            "task": "training" if training else "serving",
            "gpus": _gpus(said),
            "limit": _SHORT_LIST,
        }
    elif reading.operation == "compare_fit":
        said |= {
            "models": said.get("models") or _listed(said.get("model")),
            "gpus": _gpus(said),
            "quantizations": _listed(said.get("quantization")),
            "engines": _listed(said.get("engine")),
            "context_lengths": said.get("context_length"),
            "concurrencies": said.get("concurrency"),
        }
    elif reading.operation == "list_models_that_fit":
        said |= {"quantizations": _listed(said.get("quantization")), "limit": _SHORT_LIST}
    elif reading.operation == "explain_log":
        said |= {"log": reading.text}
    if reading.operation in ("check_fit", "check_training_fit", "plan_training"):
        notes += _several(said)
    if training:
        said.pop("engine", None)  # of serving
    return said, notes


def _several(said: dict[str, Any]) -> list[str]:
    """Return a note where the text names several of what a request has one of."""
    return [
        f"{name}: say which one is meant: {', '.join(said[name + 's'])}."
        for name in ("model", "gpu")
        if said.get(name + "s") and not said.get(name)
    ]


def _gpus(said: Mapping[str, Any]) -> list[str] | None:
    """Return the GPUs with their counts, as lists take them."""
    names = said.get("gpus") or _listed(said.get("gpu"))
    count = said.get("gpu_count")
    if not names:
        return None
    return [f"{count}x {name}" if count and count > 1 else name for name in names]


def _listed(value: str | None) -> list[str] | None:
    return None if value is None else [value]
