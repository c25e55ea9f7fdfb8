"""Every error that Fitgauge raises on purpose.

FitgaugeError
├── InvalidRequestError           a request without an answer (impossible degrees, unknown format)
├── InvalidSettingsError          environment variables the process cannot run with (settings.py)
├── UnknownAcceleratorError       the text names no accelerator of the catalog
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

Each has a `hint` (what to send instead) and up to five `matches` (existing names that are close).
A HubError says when to retry (`retry_after_seconds`)."""

from collections.abc import Mapping
from typing import Self


class FitgaugeError(Exception):
    """The root of all errors.

    detail: what is wrong.
    hint: what to send instead.
    matches: up to five existing names that are close.
    field: the field of the request at fault.
    """

    def __init__(
        self,
        detail: str,
        *,
        hint: str = "",
        matches: tuple[str, ...] = (),
        field: str | None = None,
    ) -> None:
        super().__init__(detail)
        self.detail = detail
        self.hint = hint
        self.matches = matches[:5]
        self.field = field


class InvalidRequestError(FitgaugeError):
    """The request is well formed and has no answer.

    send: fields to send instead, where some are known to work; None leaves one out.
    """

    def __init__(
        self,
        detail: str,
        *,
        hint: str = "",
        matches: tuple[str, ...] = (),
        field: str | None = None,
        send: Mapping[str, str | int | bool | None] | None = None,
    ) -> None:
        super().__init__(detail, hint=hint, matches=matches, field=field)
        self.send = dict(send or {})


class QuestionTooLargeError(FitgaugeError):
    """The answer takes longer than allowed."""


class QueueFullError(FitgaugeError):
    """Too many long requests are waiting; retry after `retry_after_seconds`."""

    def __init__(self, detail: str, *, retry_after_seconds: float, hint: str = "") -> None:
        super().__init__(detail, hint=hint)
        self.retry_after_seconds = retry_after_seconds


class UnknownAcceleratorError(FitgaugeError):
    """The text names no accelerator of the catalog."""


class InvalidCatalogError(FitgaugeError):
    """A catalog overlay is unusable: `detail` names the file, the row and the field."""


class ModelError(FitgaugeError):
    """The memory of this model cannot be estimated."""


class UnknownModelError(ModelError):
    """Neither the Hub nor the snapshot has this repository, revision or file."""


class GatedModelError(ModelError):
    """The Hub requires a token with access to this repository."""


class RenamedModelError(ModelError):
    """The repository moved."""


class ModelWithoutWeightsError(ModelError):
    """The repository holds nothing an engine could load."""


class MalformedModelError(ModelError):
    """The repository's metadata is broken or out of bounds."""


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
    ) -> None:
        super().__init__(detail, hint=hint, matches=matches, field=field)
        self.retry_after_seconds = retry_after_seconds

    def later(self, seconds: float) -> Self:
        """Return the same error with another `retry_after_seconds`."""
        return type(self)(
            self.detail,
            hint=self.hint,
            matches=self.matches,
            field=self.field,
            retry_after_seconds=seconds,
        )


class HubUnreachableError(HubError):
    """No readable answer from the Hub within the timeout."""


class HubBusyError(HubError):
    """The Hub answered 429, or 503 with Retry-After, which is `retry_after_seconds`."""
