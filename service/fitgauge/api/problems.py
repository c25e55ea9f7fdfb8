"""Errors as RFC 9457 problem+json: one table from exception to status."""

import logging
import math
from http import HTTPStatus
from typing import Any, Literal

import msgspec
from litestar import Request, Response
from litestar.exceptions import HTTPException
from msgspec import UNSET

from fitgauge.api.media_types import PROBLEM_JSON
from fitgauge.errors import (
    FitgaugeError,
    GatedModelError,
    HubBusyError,
    HubError,
    HubUnreachableError,
    InvalidCatalogError,
    InvalidRequestError,
    InvalidSettingsError,
    MalformedModelError,
    ModelWithoutWeightsError,
    QuestionTooLargeError,
    QueueFullError,
    RenamedModelError,
    UnknownAcceleratorError,
    UnknownAnswerError,
    UnknownModelError,
    UnlikeGpusError,
)
from fitgauge.services.common.answered import note_code
from fitgauge.services.common.problem_schemas import Problem

_TYPE = "urn:fitgauge:problem:"
_log = logging.getLogger("fitgauge.api")

STATUS: dict[type[FitgaugeError], tuple[int, str]] = {
    InvalidRequestError: (422, "impossible-question"),
    UnlikeGpusError: (422, "unlike-gpus"),
    QuestionTooLargeError: (422, "question-too-large"),
    QueueFullError: (503, "queue-full"),
    UnknownAcceleratorError: (404, "unknown-accelerator"),
    UnknownAnswerError: (404, "unknown-answer"),
    InvalidCatalogError: (503, "invalid-catalog"),
    InvalidSettingsError: (503, "invalid-settings"),
    UnknownModelError: (404, "unknown-model"),
    GatedModelError: (403, "gated-model"),
    RenamedModelError: (404, "renamed-model"),
    ModelWithoutWeightsError: (422, "model-without-weights"),
    MalformedModelError: (422, "malformed-model"),
    HubUnreachableError: (424, "hub-unreachable"),
    HubBusyError: (424, "hub-busy"),
}


RequestCode = Literal[
    "body-too-large",
    "busy",
    "caller-gone",
    "defect",
    "forbidden",
    "head-too-large",
    "incomplete-body",
    "invalid-credentials",
    "invalid-request",
    "malformed-json",
    "malformed-request",
    "method-not-allowed",
    "missing-credentials",
    "quota-exceeded",
    "request-too-slow",
    "signing-keys-unavailable",
    "starting",
    "too-many-connections",
    "too-many-requests",
    "unknown-path",
    "unsupported-content-encoding",
    "unsupported-media-type",
]
"""The codes of requests that are refused before they are answered."""


class RequestError(Exception):
    """A request refused before it is answered: status, slug and texts of the problem."""

    def __init__(
        self,
        status: int,
        slug: RequestCode,
        detail: str,
        hint: str,
        *,
        field: str | None = None,
        matches: tuple[str, ...] = (),
        retry_after: int | None = None,
    ) -> None:
        super().__init__(detail)
        self.status = status
        self.slug = slug
        self.detail = detail
        self.hint = hint
        self.field = field
        self.matches = matches
        self.retry_after = retry_after


def problem_response(problem: Problem, headers: dict[str, str] | None = None) -> Response[bytes]:
    """Return the problem on the wire."""
    note_code(problem.code)
    return Response(
        msgspec.json.encode(problem),
        status_code=problem.status,
        media_type=PROBLEM_JSON,
        headers=headers,
    )


def problem_of(status: int, slug: str, error: FitgaugeError | RequestError) -> Problem:
    """Return the problem that describes an error."""
    return Problem(
        type=_TYPE + slug,
        code=error.slug if isinstance(error, RequestError) else error.code,
        title=HTTPStatus(status).phrase,
        status=status,
        detail=error.detail,
        hint=error.hint or "See the detail.",
        matches=list(error.matches),
        field=error.field,
        send=getattr(error, "send", None) or UNSET,
    )


def on_fitgauge_error(_: Request[Any, Any, Any], error: FitgaugeError) -> Response[bytes]:
    """Answer with an error of fitgauge.errors, by the table above."""
    headers = {}
    if isinstance(error, HubError | QueueFullError):
        headers["Retry-After"] = str(max(1, math.ceil(error.retry_after_seconds)))
    return problem_response(question_problem(error), headers)


def question_problem(error: FitgaugeError) -> Problem:
    """Return the problem of a question without an answer."""
    return problem_of(*STATUS[type(error)], error)


def request_problem(error: RequestError) -> Problem:
    """Return the problem of a refused request."""
    return problem_of(error.status, error.slug, error)


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
        type=_TYPE + "defect",
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
