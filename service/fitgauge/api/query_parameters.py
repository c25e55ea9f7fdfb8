"""Guard against query parameters that Litestar would ignore or read leniently."""

import re
from difflib import get_close_matches
from typing import Any

from litestar.connection import ASGIConnection
from litestar.handlers import BaseRouteHandler
from litestar.params import QueryParameter
from litestar.typing import FieldDefinition

from fitgauge.api.problems import RequestError

_WHOLE_NUMBER = re.compile(r"0|[1-9][0-9]{0,8}", re.ASCII)


def strict_query(connection: ASGIConnection[Any, Any, Any, Any], handler: BaseRouteHandler) -> None:
    """Refuse unknown and repeated query parameters, and values outside of the declared bounds.

    Raises RequestError 422."""
    declared = {
        name: field
        for name, field in handler.parsed_fn_signature.parameters.items()
        if isinstance(field.kwarg_definition, QueryParameter)
    }
    for name in connection.query_params:
        if name not in declared:
            raise _unknown(name, tuple(declared))
    for name, field in declared.items():
        values = connection.query_params.getall(name, [])
        if len(values) > 1:
            raise _repeated(name)
        if values and field.annotation is int:
            _check_integer(name, values[0], field)
        elif values and field.annotation is bool:
            _check_boolean(name, values[0])
        elif values:
            _check_length(name, values[0], field)


def _unknown(name: str, accepted: tuple[str, ...]) -> RequestError:
    return RequestError(
        422,
        "invalid-request",
        f"Unknown query parameter {name[:40]!r}.",
        f"Send {', '.join(accepted)}." if accepted else "This path takes no query parameters.",
        field=name[:40],
        matches=tuple(get_close_matches(name[:40], accepted, n=1)),
    )


def _repeated(name: str) -> RequestError:
    return RequestError(
        422,
        "invalid-request",
        f"Query parameter `{name}` is repeated.",
        f"Send {name} once.",
        field=name,
    )


def _check_integer(name: str, value: str, field: FieldDefinition) -> None:
    bounds = field.kwarg_definition
    assert isinstance(bounds, QueryParameter)
    low, high = int(bounds.ge or 0), int(bounds.le or 0)
    if _WHOLE_NUMBER.fullmatch(value) and low <= int(value) <= high:
        return
    detail = f"{name} is {value[:40]!r}, not an integer from {low} to {high}."
    raise RequestError(422, "invalid-request", detail, f"Send {name}={field.default}.", field=name)


def _check_boolean(name: str, value: str) -> None:
    if value not in ("true", "false"):
        detail = f"{name} is {value[:40]!r}, not true or false."
        raise RequestError(422, "invalid-request", detail, f"Send {name}=true.", field=name)


def _check_length(name: str, value: str, field: FieldDefinition) -> None:
    bounds = field.kwarg_definition
    assert isinstance(bounds, QueryParameter)
    if bounds.max_length is not None and len(value) > bounds.max_length:
        detail = f"{name} has {len(value)} characters, at most {bounds.max_length} are read."
        raise RequestError(422, "invalid-request", detail, "Send fewer.", field=name)
