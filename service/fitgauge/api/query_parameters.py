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
    """Refuse unknown and repeated query parameters, and integers outside of the declared bounds.

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
        if values:
            _check_integer(name, values, field)


def _unknown(name: str, accepted: tuple[str, ...]) -> RequestError:
    return RequestError(
        422,
        "invalid-request",
        f"Unknown query parameter {name[:40]!r}.",
        f"Send {', '.join(accepted)}." if accepted else "This path takes no query parameters.",
        field=name[:40],
        matches=tuple(get_close_matches(name[:40], accepted, n=1)),
    )


def _check_integer(name: str, values: list[str], field: FieldDefinition) -> None:
    bounds = field.kwarg_definition
    assert isinstance(bounds, QueryParameter)
    low, high = int(bounds.ge or 0), int(bounds.le or 0)
    if len(values) > 1:
        detail = f"Query parameter `{name}` is repeated."
    elif _WHOLE_NUMBER.fullmatch(values[0]) and low <= int(values[0]) <= high:
        return
    else:
        detail = f"{name} is {values[0][:40]!r}, not an integer from {low} to {high}."
    raise RequestError(422, "invalid-request", detail, f"Send {name}={field.default}.", field=name)
