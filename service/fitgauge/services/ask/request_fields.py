"""The fields of a request that a reading means, by operation, and what to say of what no request
has."""

import math
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import msgspec

from fitgauge.catalog.other_engines import other_engine
from fitgauge.engine.serving.registry import DEFAULT_ENGINES, ENGINES, engine_named
from fitgauge.engine.serving.start_log.lines import clean_lines
from fitgauge.logs.out_of_memory import is_training
from fitgauge.services.ask.formats import file_as_large
from fitgauge.services.ask.lengths import requests_a_second
from fitgauge.services.ask.operations import Reading
from fitgauge.services.ask.remarks import remarks, share_of_each
from fitgauge.services.ask.schemas import Operation
from fitgauge.services.ask.topics import is_about, says_at_most
from fitgauge.services.ask.vocabulary import METHODS

_REMARKED = ("check_fit", "check_training_fit", "recommend_gpus", "compare_fit")
"""Operations that say what of a text no request has a field for."""

USUAL_FORMATS = (
    *("as published", "fp8", "q8_0", "q6_k", "q5_k_m"),
    *("awq", "q4_k_m", "q3_k_m", "q2_k"),
)
"""Formats of weights that people serve, from the widest."""

_SAMPLING = ("ppo", "grpo", "rloo")
"""Algorithms that sample completions."""

_OF_SERVING = ("context_length", "concurrency", "kv_cache_dtype")
"""What a list of models to train does not take."""

_SPLITTING = ("tensor_parallel", "pipeline_parallel")
"""Degrees over which one copy of a model is divided."""

_NOT_BY_SKILL = (
    "search: the list is in order of size and age, whatever a model is good at; name one, such as"
    " Qwen3-Coder, for whether it fits."
)

_OF_FILES = next(name for name in DEFAULT_ENGINES if ENGINES[name].reads_gguf)
_SHORT_LIST = 10
"""Rows of a list: a question in plain words wants few."""


def fields_of(reading: Reading) -> tuple[dict[str, Any], list[str]]:
    """Return the fields of the request by name, and notes on what no request has."""
    fields: dict[str, Any] = msgspec.to_builtins(reading.understood)
    if "model" in fields:
        fields["model"] = reading.model_text  # the answer says how it was read
    fields = fields.pop("flags", {}) | fields
    if reading.operation != "check_training_fit":
        fields.pop("teacher_model", None)
    notes = [*reading.notes, *_with_covered_engine(fields), *_remarks(reading, fields)]
    form, engine = fields.get("quantization"), fields.get("engine")
    fields["quantization"] = _of_as_many_bits(reading.text, form, engine)
    method = fields.get("method")
    if method is not None and method not in METHODS:
        fields["algorithm"] = fields.pop("method")
    if reading.operation is not None:
        notes += _FIELDS[reading.operation](reading, fields)
    if reading.training:
        _as_trained(fields)
    return fields, notes


def _with_covered_engine(fields: dict[str, Any]) -> Iterator[str]:
    """Put the nearest engine in place of one without estimates, and yield that."""
    engine = fields.get("engine")
    if engine is None or engine in ENGINES:
        return
    del fields["engine"]
    other = other_engine(engine)
    sentence = other.described() if other else f"{engine} has no estimates of its own."
    instead = other.instead if other else engine_named(re.sub(r"[^a-z0-9]", "", engine))
    if instead:
        fields["engine"] = instead
    yield f"engine: {sentence} The answer is of {instead or 'the default engine'}."


def _remarks(reading: Reading, fields: Mapping[str, Any]) -> Iterator[str]:
    """Yield what to say of what no request has a field for."""
    if reading.operation not in _REMARKED:
        return
    checks = reading.operation == "check_fit"
    yield from remarks(
        reading.text,
        alone=not _names_gpus(fields) and not checks,
        drafted="draft_model" in fields or "teacher_model" in fields,
        training=reading.training,
    )
    is_load = checks and _names_gpus(fields) and "concurrency" not in fields
    rate = requests_a_second(reading.text)
    if rate and not math.isinf(rate) and not is_load:
        yield f"{rate:.3g} requests a second: name a GPU to see how many run at once."


def _of_training_fit(reading: Reading, fields: dict[str, Any]) -> Iterator[str]:
    learnt = {fields.get("method"), fields.get("algorithm")}
    engine = fields.get("engine")
    in_pytorch = engine in ENGINES and ENGINES[engine].reads_plain_errors
    if engine is not None and not in_pytorch and learnt.isdisjoint(_SAMPLING):
        yield f"engine: {engine} serves; training is estimated in PyTorch."
    fields.setdefault("micro_batches", _micro_batches(fields))
    if is_about(reading.text, "time") and not _names_gpus(fields):
        yield "gpu: name one for how long the training takes and what it costs."


def _of_recommendation(reading: Reading, fields: dict[str, Any]) -> Iterator[str]:
    text, training = reading.text, reading.training
    if fields.get("methods"):
        fields.pop("method", None)  # it answers each
    of_some = any(fields.get(name) for name in ("vendors", "kinds", "max_watts"))
    objective = _objective(text, rented=bool(fields.get("clouds")))
    if objective is None and of_some:
        objective = "smallest"  # a card to have
    is_published = is_about(text, "as published") and not training
    several = objective == "fastest" and len(fields.get("gpus") or ()) > 1
    one = several or (of_some and is_about(text, "a gpu"))
    most = fields.get("gpu_count") or (1 if one else None)
    fields |= {
        "task": "training" if training else "serving",
        "framework": fields.get("framework") or fields.get("trainer"),
        "gpus": _gpus({**fields, "gpu_count": None} if is_about(text, "nodes") else fields),
        "max_gpu_count": most if several or of_some or not _names_gpus(fields) else None,
        "limit": _SHORT_LIST,
        "objective": objective,
        "no_quantization": (is_published and fields.get("quantization") is None) or None,
    }
    if trainer := fields.get("trainer"):
        yield f"trainer: GPUs are listed by framework; name one for what {trainer} itself takes."


def _of_plan(reading: Reading, fields: dict[str, Any]) -> Iterator[str]:
    objective = _objective(reading.text, rented=False)
    fields["objective"] = None if objective == "cheapest_per_token" else objective
    if (count := fields.get("gpu_count")) and says_at_most(reading.text, count):
        fields |= {"gpu_count": None, "max_gpu_count": count}
    if (algorithm := fields.get("algorithm")) is not None:
        yield (
            f"algorithm: the plan is of supervised training, and {algorithm} holds more. Ask"
            " whether its layout fits for that."
        )


def _of_table(reading: Reading, fields: dict[str, Any]) -> Iterator[str]:
    fields |= {
        "models": fields.get("models") or _listed(fields.get("model")),
        "gpus": _gpus(fields),
        "quantizations": _formats(reading),
        "engines": fields.get("engines") or _listed(fields.get("engine")),
        "context_lengths": fields.get("context_lengths") or fields.get("context_length"),
        "concurrencies": fields.get("concurrencies") or fields.get("concurrency"),
    }
    yield from ()


def _of_list(reading: Reading, fields: dict[str, Any]) -> Iterator[str]:
    text, training = reading.text, reading.training
    if fields.get("gpus") and not fields.get("gpu"):
        fields["gpu"] = fields["gpus"][0]
        yield f"gpus: the list is of {fields['gpu']} alone; name a model to divide it over all."
    for name in _OF_SERVING if training else ():
        if fields.pop(name, None) is not None:
            yield f"{name}: a list of models to train does not take it."
    if reading.understood.engine is None and is_about(text, "no gpu"):
        fields["engine"] = _OF_FILES  # which runs on CPUs, too
    if is_about(text, "skill"):
        yield _NOT_BY_SKILL
    fields |= {
        "task": "training" if training else None,
        "quantizations": None if training else _listed(fields.get("quantization")),
        "limit": _SHORT_LIST,
        "search": fields.get("model"),
        "objective": "largest" if is_about(text, "largest") else None,
    }


def _of_log(reading: Reading, fields: dict[str, Any]) -> Iterator[str]:
    fields |= {"log": reading.text, "command": reading.command}
    if reading.training and not is_training(clean_lines(reading.text)):
        fields.pop("model", None)  # which is estimated as it is served
    yield from ()


_FIELDS: Mapping[Operation, Callable[[Reading, dict[str, Any]], Iterator[str]]] = {
    "check_fit": lambda reading, fields: _copies(reading.text, fields),
    "check_training_fit": _of_training_fit,
    "recommend_gpus": _of_recommendation,
    "plan_training": _of_plan,
    "compare_fit": _of_table,
    "list_models_that_fit": _of_list,
    "explain_log": _of_log,
}
"""What adds the fields of each operation, and yields what to say of them."""


def _as_trained(fields: dict[str, Any]) -> None:
    """Name what of a training the fields of serving say."""
    sampler = fields.pop("engine", None)  # of serving, or of completions
    prompt, answer = (fields.pop(name, None) for name in ("prompt_tokens", "output_tokens"))
    if fields.get("algorithm") not in _SAMPLING:
        fields.pop("group_size", None)
        return
    fields.setdefault("rollout_engine", sampler)
    if prompt is None and answer == fields.get("sequence_length"):
        fields.pop("sequence_length", None)  # the prompt's tokens come in addition
    fields.setdefault("prompt_length", prompt)
    fields.setdefault("completion_length", answer)


def _formats(reading: Reading) -> list[str] | None:
    """Return the formats of weights to compare, from the widest: those that a text names, else
    those that people run where it asks for the best."""
    understood = reading.understood
    if understood.quantizations is not None:
        return understood.quantizations
    if understood.quantization is not None:
        return [understood.quantization]
    return list(USUAL_FORMATS) if is_about(reading.text, "format") else None


def _copies(text: str, fields: dict[str, Any]) -> Iterator[str]:
    """Give each of several copies of a model its part of the one GPU, where its engine takes a
    part, and yield what to say of it."""
    share = share_of_each(text)
    one_gpu = fields.get("gpu") and fields.get("gpu_count") in (None, 1)
    if share is None or (not one_gpu and is_about(text, "copies")):
        return  # how many fit is said first
    part, copies = share
    engine = fields.get("engine") or DEFAULT_ENGINES[0]
    takes_part = ENGINES[engine].budget_is_device_share
    is_file = str(fields.get("quantization", "")).startswith("q")
    if one_gpu and takes_part and not is_file and part > 0:
        fields["engine"] = engine
        part = fields.setdefault("gpu_memory_utilization", part)
        yield f"{copies}: the answer is of each of them, with {part:g} of the GPU."
        return
    yield (
        f"{copies}: the answer is of one. Several on one GPU share it: send each its part as"
        " `gpu_memory_utilization`."
    )


def _objective(text: str, *, rented: bool) -> str | None:
    """Return the order of GPUs that a text asks for; None for the usual one. Of what a cloud
    rents the price is meant: its machines are paid whole."""
    if is_about(text, "price of tokens"):
        return "cheapest_per_token"
    if is_about(text, "price"):
        return "cheapest"
    if is_about(text, "smallest gpu"):
        return "smallest"
    if is_about(text, "fastest", "rate"):
        return "fastest"
    return "cheapest" if rented else None


def _of_as_many_bits(text: str, form: str | None, engine: str | None) -> str | None:
    """Return the type of a GGUF file of as many bits as a format of ExLlama has ("4.0bpw", or the
    bits that a text says of its EXL2), and of such a type an engine's own format of as many bits
    ("6-bit MLX"); any other format as it is."""
    written = text if form in ("exl2", "exl3") else str(form)
    if bits := re.search(r"\b(\d(?:\.\d{1,2})?) ?bpw\b", written, re.IGNORECASE):
        form = file_as_large(float(bits[1]))
    own = engine in ENGINES and ENGINES[engine].own_quantizers
    if own and (bits := re.match(r"q(\d)_", str(form))):
        return f"int{bits[1]}"
    return form


def _micro_batches(fields: Mapping[str, Any]) -> int | None:
    """Return the forward passes of one rank that make a step of so many sequences; None where the
    text does not say how many."""
    sequences, gpus = fields.get("global_batch_size"), fields.get("gpu_count") or 1
    if sequences is None:
        return None
    ranks = gpus / math.prod(fields.get(name, 1) for name in _SPLITTING)
    each = fields.get("micro_batch_size", 1) * max(1.0, ranks)
    passes: float = sequences / each
    return max(1, round(passes))


def _names_gpus(fields: Mapping[str, Any]) -> bool:
    return bool(fields.get("gpu") or fields.get("gpus"))


def _gpus(fields: Mapping[str, Any]) -> list[str] | None:
    """Return the GPUs with their counts, as lists take them."""
    names = fields.get("gpus") or _listed(fields.get("gpu"))
    count = fields.get("gpu_count")
    if not names:
        return None
    return [f"{count}x {name}" if count and count > 1 else name for name in names]


def _listed(value: str | None) -> list[str] | None:
    return None if value is None else [value]
