"""How the services say what the engine does not support: the hint in words, and the fields to
send instead."""

from collections.abc import Callable, Coroutine
from functools import wraps
from typing import Any, ParamSpec, TypeVar

from fitgauge.engine.unsupported import Alternative, UnsupportedError, Value
from fitgauge.errors import ErrorCode, InvalidRequestError

Parameters = ParamSpec("Parameters")
Answer = TypeVar("Answer")

IMPOSSIBLE = (InvalidRequestError, UnsupportedError)
"""What is raised for a request without an answer, by the services and by the engine."""

_MOST_VALUES = 12
"""Values that a hint names of one field."""

_CODES: dict[str, ErrorCode] = {
    "context_length": "unsupported", "disaggregation": "unsupported",
    "dtype": "unknown-quantization", "draft_model": "incompatible-draft-model",
    "gpu": "unsupported", "kv_cache_dtype": "unknown-kv-cache-dtype",
    "kv_offload_gib": "unsupported", "lora_rank": "invalid-value", "lora_slots": "unsupported",
    "offload": "unsupported", "optimizer": "unsupported", "quantization": "unknown-quantization",
    "speculative_tokens": "unsupported", "zero_stage": "unsupported",
}  # fmt: skip
"""The code of each parameter's refusal; those that are missing are layouts."""

_TITLES = {"gpu": "GPU", "quantization": "quantization of this model"}


def impossible_degrees(detail: str, hint: str, field: str) -> InvalidRequestError:
    """Return the refusal of degrees of parallelism. field: what to send otherwise."""
    return InvalidRequestError(detail, hint=hint, field=field, code="impossible-degrees")


def hint(error: UnsupportedError) -> str:
    """Return what to send instead: 'Send zero_stage 0 or 1, or pipeline_parallel 1.'"""
    if not error.alternatives:
        return f"Send another {_TITLES.get(error.parameter, error.parameter)}."
    clauses: list[str] = []
    sending = False
    for alternative in error.alternatives:
        if set(alternative.values()) == {(None,)}:
            clauses.append(f"leave {' and '.join(alternative)} out")
            sending = False
        else:
            clauses.append(f"{'' if sending else 'send '}{_settings(alternative)}")
            sending = True
    text = ", or ".join(clauses)
    return f"{text[0].upper()}{text[1:]}."


def to_send(error: UnsupportedError) -> dict[str, Value]:
    """Return the fields of the nearest alternative, ready to send; empty where there is none."""
    nearest: Alternative = error.alternatives[0] if error.alternatives else {}
    return {name: values[0] for name, values in nearest.items()}


def sentence(error: UnsupportedError | InvalidRequestError) -> str:
    """Return what is wrong, and what to send instead."""
    if isinstance(error, UnsupportedError):
        return f"{error.reason} {hint(error)}"
    return f"{error.detail} {error.hint}"


def code_of(error: UnsupportedError | InvalidRequestError) -> ErrorCode:
    """Return the stable code (docs/CODES.md)."""
    if isinstance(error, InvalidRequestError):
        return error.code
    return _CODES.get(error.parameter, "impossible-degrees")


def invalid_request(error: UnsupportedError) -> InvalidRequestError:
    """Return the same as an error of the request."""
    return InvalidRequestError(
        error.reason,
        hint=hint(error),
        matches=error.matches,
        field=error.parameter,
        code=code_of(error),
        send=to_send(error),
    )


def refused_field(error: UnsupportedError | InvalidRequestError) -> str | None:
    """Return the field of the request at fault."""
    return error.parameter if isinstance(error, UnsupportedError) else error.field


def as_invalid_request(
    answer: Callable[Parameters, Coroutine[Any, Any, Answer]],
) -> Callable[Parameters, Coroutine[Any, Any, Answer]]:
    """Wrap a method that answers requests: it raises InvalidRequestError for what the engine does
    not support."""

    @wraps(answer)
    async def answered(*args: Parameters.args, **kwargs: Parameters.kwargs) -> Answer:
        try:
            return await answer(*args, **kwargs)
        except UnsupportedError as error:
            raise invalid_request(error) from None

    return answered


def _settings(alternative: Alternative) -> str:
    """Return 'framework deepspeed with zero_stage 3'."""
    return " with ".join(
        f"{name} {_either(values)}" if values != (None,) else f"no {name}"
        for name, values in alternative.items()
    )


def _either(values: tuple[Value, ...]) -> str:
    """Return '1, 2, 4 or 8', numbers in order; of many values, the first twelve."""
    numbers = [value for value in values[:_MOST_VALUES] if type(value) is int]
    ordered = sorted(numbers) if numbers else values[:_MOST_VALUES]
    *most, last = [_written(value) for value in ordered]
    return f"{', '.join(most)} or {last}" if most else last


def _written(value: Value) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
