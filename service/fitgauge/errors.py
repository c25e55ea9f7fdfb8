"""Every error that Fitgauge raises on purpose.

FitgaugeError
├── InvalidRequestError           a request without an answer (impossible degrees, unknown format)
├── InvalidSettingsError          environment variables the process cannot run with
├── UnlikeGpusError               GPUs of several kinds in one question
├── UnknownAcceleratorError       the text names no accelerator of the catalog
├── UnknownAnswerError            the text is not the id of an answer
├── QuestionTooLargeError         a request whose answer takes longer than allowed
├── QueueFullError                too many long requests are waiting (`retry_after_seconds`)
├── InvalidCatalogError           a catalog overlay with an unusable row
├── ModelError
│   ├── UnknownModelError         neither the Hub nor the snapshot has the repository
│   ├── GatedModelError           the Hub requires a token, or one with more rights
│   ├── RenamedModelError         the repository moved and its new name could not be read
│   ├── ModelWithoutWeightsError  nothing to load (empty, adapter, dataset or tokenizer only)
│   └── MalformedModelError       metadata that is broken or out of bounds
└── HubError
    ├── HubUnreachableError       no readable answer within the timeout
    └── HubBusyError              rate limited: retry later

Each has a stable `code` (docs/CODES.md), a `hint` (what to send instead) and up to five `matches`
(existing names that are close). A HubError says when to retry (`retry_after_seconds`)."""

from collections.abc import Mapping
from typing import Literal, Self

ErrorCode = Literal[
    "conflicting-fields",
    "gated-model",
    "hub-busy",
    "hub-unreachable",
    "impossible-degrees",
    "impossible-request",
    "incompatible-draft-model",
    "invalid-catalog",
    "invalid-settings",
    "invalid-value",
    "malformed-model",
    "missing-field",
    "model-without-weights",
    "no-option",
    "not-modelled",
    "out-of-scope",
    "over-quota",
    "question-too-large",
    "queue-full",
    "renamed-model",
    "too-many-cells",
    "unknown-answer",
    "unknown-engine",
    "unknown-gpu",
    "unknown-kv-cache-dtype",
    "unknown-model",
    "unknown-quantization",
    "unknown-trainer",
    "unknown-value",
    "unlike-gpus",
    "unreadable-log",
    "unreadable-trace",
    "unsupported",
    "unsupported-version",
]
"""The codes of errors, stable from release to release. docs/CODES.md says what each means."""


class FitgaugeError(Exception):
    """The root of all errors. A raise may name a narrower code than that of its class.

    detail: what is wrong.
    hint: what to send instead.
    matches: up to five existing names that are close.
    field: the field of the request at fault.
    send: fields to send instead, where some are known to work; None leaves one out.
    """

    code: ErrorCode = "impossible-request"

    def __init__(
        self,
        detail: str,
        *,
        hint: str = "",
        matches: tuple[str, ...] = (),
        field: str | None = None,
        code: ErrorCode | None = None,
        send: Mapping[str, str | int | bool | None] | None = None,
    ) -> None:
        super().__init__(detail)
        if code is not None:
            self.code = code
        self.detail = detail
        self.hint = hint
        self.matches = matches[:5]
        self.field = field
        self.send = dict(send or {})


class InvalidRequestError(FitgaugeError):
    """The request is well formed and has no answer."""


class InvalidSettingsError(FitgaugeError):
    """Environment variables that cannot be used: `detail` has one line for each, with what to
    set."""

    code: ErrorCode = "invalid-settings"


class UnlikeGpusError(FitgaugeError):
    """The text names GPUs of several kinds; `send` is the question of the smallest of them."""

    code: ErrorCode = "unlike-gpus"


class QuestionTooLargeError(FitgaugeError):
    """The answer takes longer than allowed."""

    code: ErrorCode = "question-too-large"


class QueueFullError(FitgaugeError):
    """Too many long requests are waiting; retry after `retry_after_seconds`."""

    code: ErrorCode = "queue-full"

    def __init__(self, detail: str, *, retry_after_seconds: float, hint: str = "") -> None:
        super().__init__(detail, hint=hint)
        self.retry_after_seconds = retry_after_seconds


class UnknownAcceleratorError(FitgaugeError):
    """The text names no accelerator of the catalog."""

    code: ErrorCode = "unknown-gpu"


class UnknownAnswerError(FitgaugeError):
    """The text is not the id of an answer."""

    code: ErrorCode = "unknown-answer"


class InvalidCatalogError(FitgaugeError):
    """A catalog overlay is unusable: `detail` names the file, the row and the field."""

    code: ErrorCode = "invalid-catalog"


class ModelError(FitgaugeError):
    """The memory of this model cannot be estimated."""


class UnknownModelError(ModelError):
    """Neither the Hub nor the snapshot has this repository, revision or file."""

    code: ErrorCode = "unknown-model"


class GatedModelError(ModelError):
    """The Hub requires a token with access to this repository."""

    code: ErrorCode = "gated-model"


class RenamedModelError(ModelError):
    """The repository moved."""

    code: ErrorCode = "renamed-model"


class ModelWithoutWeightsError(ModelError):
    """The repository holds nothing an engine could load."""

    code: ErrorCode = "model-without-weights"


class MalformedModelError(ModelError):
    """The repository's metadata is broken or out of bounds."""

    code: ErrorCode = "malformed-model"


class HubError(FitgaugeError):
    """The Hub did not answer."""

    def __init__(
        self,
        detail: str,
        *,
        hint: str = "",
        matches: tuple[str, ...] = (),
        field: str | None = None,
        retry_after_seconds: float = 5.0,
        send: Mapping[str, str | int | bool | None] | None = None,
    ) -> None:
        super().__init__(detail, hint=hint, matches=matches, field=field, send=send)
        self.retry_after_seconds = retry_after_seconds

    def later(self, seconds: float) -> Self:
        """Return the same error with another `retry_after_seconds`."""
        return type(self)(
            self.detail,
            hint=self.hint,
            matches=self.matches,
            field=self.field,
            retry_after_seconds=seconds,
            send=self.send,
        )


class HubUnreachableError(HubError):
    """No readable answer from the Hub within the timeout."""

    code: ErrorCode = "hub-unreachable"


class HubBusyError(HubError):
    """The Hub answered 429, or 503 with Retry-After, which is `retry_after_seconds`."""

    code: ErrorCode = "hub-busy"
