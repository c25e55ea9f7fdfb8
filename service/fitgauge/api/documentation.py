"""The documented errors of the operations, as Litestar's ResponseSpec."""

from litestar.openapi import ResponseSpec

from fitgauge.api.media_types import PROBLEM_JSON
from fitgauge.services.common.problem_schemas import Problem

MODEL_ERRORS = (403, 404, 422, 424)
"""statuses of a model that cannot be read"""

BODY_ERRORS = (400, 413, 415)
"""statuses of a body that cannot be read"""

_ALWAYS = (405, 429, 500)
_CLOSED = (401, 403)
"""where access is restricted"""

_REASONS = {
    400: "The body is not JSON.",
    401: "The service asks who you are; see the hint and WWW-Authenticate.",
    403: "The Hub shows this model only to a token that was granted access, or your token lacks a"
    " scope; see the code.",
    404: "No such model, accelerator or path; see matches.",
    405: "The path knows other methods; see the Allow header.",
    413: "The body is too large.",
    415: "The body is not declared application/json.",
    422: "A value is missing, of the wrong type, out of bounds, or impossible; see hint.",
    424: "Only the Hub knows this model, and it gave no answer; see the Retry-After header.",
    429: "Too many requests; see the Retry-After header.",
    500: "A defect of the service.",
    503: "Too many long questions wait; see the Retry-After header.",
}


def errors(*statuses: int, is_open: bool = False) -> dict[int, ResponseSpec]:
    """Return the documented errors of an operation: `statuses`, and those that each can answer.
    is_open: whether everybody may ask, wherever access is restricted."""
    closed = () if is_open else _CLOSED
    return {
        status: ResponseSpec(
            data_container=Problem,
            description=_REASONS[status],
            media_type=PROBLEM_JSON,
            generate_examples=False,
        )
        for status in sorted({*statuses, *closed, *_ALWAYS})
    }


NAME_SCHEMA = {"minLength": 1, "maxLength": 200}
"""of names in a path; documented only, an unknown name is a 404"""
