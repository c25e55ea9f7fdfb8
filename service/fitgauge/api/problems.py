"""Errors as RFC 9457 problems: one table from exception to status. The command prints them too."""

from http import HTTPStatus
from typing import Literal

from msgspec import UNSET

from fitgauge.errors import (
    FitgaugeError,
    GatedModelError,
    HubBusyError,
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
from fitgauge.services.common.problem_schemas import Problem

TYPE = "urn:fitgauge:problem:"
"""Before the code of a problem."""

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


def problem_of(status: int, slug: str, error: FitgaugeError | RequestError) -> Problem:
    """Return the problem that describes an error."""
    return Problem(
        type=TYPE + slug,
        code=error.slug if isinstance(error, RequestError) else error.code,
        title=HTTPStatus(status).phrase,
        status=status,
        detail=error.detail,
        hint=error.hint or "See the detail.",
        matches=list(error.matches),
        field=error.field,
        send=getattr(error, "send", None) or UNSET,
    )


def question_problem(error: FitgaugeError) -> Problem:
    """Return the problem of a question without an answer."""
    return problem_of(*STATUS[type(error)], error)


def request_problem(error: RequestError) -> Problem:
    """Return the problem of a refused request."""
    return problem_of(error.status, error.slug, error)
