"""Problems on the wire, as answers of Litestar."""

import logging
import math
from http import HTTPStatus
from typing import Any

import msgspec
from litestar import Request, Response
from litestar.exceptions import HTTPException

from fitgauge.api.media_types import PROBLEM_JSON
from fitgauge.api.problems import TYPE, RequestCode, RequestError, question_problem, request_problem
from fitgauge.errors import FitgaugeError, HubError, QueueFullError
from fitgauge.services.common.answered import note_code
from fitgauge.services.common.problem_schemas import Problem

_log = logging.getLogger("fitgauge.api")


def problem_response(problem: Problem, headers: dict[str, str] | None = None) -> Response[bytes]:
    """Return the problem on the wire."""
    note_code(problem.code)
    return Response(
        msgspec.json.encode(problem),
        status_code=problem.status,
        media_type=PROBLEM_JSON,
        headers=headers,
    )


def on_fitgauge_error(_: Request[Any, Any, Any], error: FitgaugeError) -> Response[bytes]:
    """Answer with an error of fitgauge.errors, by the table above."""
    headers = {}
    if isinstance(error, HubError | QueueFullError):
        headers["Retry-After"] = str(max(1, math.ceil(error.retry_after_seconds)))
    return problem_response(question_problem(error), headers)


def on_request_error(_: Request[Any, Any, Any], error: RequestError) -> Response[bytes]:
    """Answer with the problem of a refused request."""
    return problem_response(
        request_problem(error),
        {"Retry-After": str(error.retry_after)} if error.retry_after else None,
    )


_HTTP_ERRORS: dict[int, tuple[RequestCode, str, str]] = {
    404: ("unknown-path", "Unknown path.", "The paths are listed in /schema/openapi.json."),
    405: (
        "method-not-allowed",
        "This path does not support this method.",
        "Use one of the methods in the Allow header.",
    ),
    413: (
        "body-too-large",
        "The body is too large.",
        "A question is a small JSON object: send less.",
    ),
}
_OTHER_HTTP_ERROR: tuple[RequestCode, str, str] = (
    "malformed-request",
    "The request is malformed.",
    "See /schema/openapi.json.",
)


def on_http_error(request: Request[Any, Any, Any], error: HTTPException) -> Response[bytes]:
    """Answer with an error of Litestar: unknown path or method, body too large."""
    status = error.status_code
    if status >= 500:
        return on_defect(request, error)
    code, detail, hint = _HTTP_ERRORS.get(status, _OTHER_HTTP_ERROR)
    problem = Problem(
        type="about:blank",
        code=code,
        title=HTTPStatus(status).phrase,
        status=status,
        detail=detail,
        hint=hint,
    )
    return problem_response(problem, dict(error.headers or {}))


def on_defect(request: Request[Any, Any, Any], error: Exception) -> Response[bytes]:
    """Answer 500 without the trace of a defect, which is logged once."""
    _log.error("defect while answering %s %s", request.method, request.url.path, exc_info=error)
    problem = Problem(
        type=TYPE + "defect",
        code="defect",
        title="Internal Server Error",
        status=500,
        detail=(
            "The service failed on this question. That is a defect of the service, not of the"
            " question."
        ),
        hint="Please report the question.",
    )
    return problem_response(problem)
