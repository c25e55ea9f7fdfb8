"""Every error that Fitgauge raises on purpose.

FitgaugeError
├── InvalidRequestError          a value that cannot be answered (impossible parallelism, unknown format)
├── UnknownAcceleratorError       no catalog row is meant by this text
├── QuestionTooLarge         a question that takes longer than it may
├── QueueFull                too many long questions wait already (`retry_after_seconds`)
├── InvalidCatalogError           a company's own catalog with a row that cannot be used
├── ModelError
│   ├── UnknownModelError         the Hub and the snapshot have no such repository
│   ├── GatedModelError           the Hub asks for a token, or for one with more rights
│   ├── RenamedModelError         the repository moved and the new place could not be read
│   ├── ModelWithoutWeightsError  a repository with nothing to load (empty, adapter, dataset, tokenizer only)
│   └── MalformedModelError       metadata that is not what it claims to be
└── HubError
    ├── HubUnreachableError       no answer in the time a caller waits, or none that can be read
    └── HubBusyError              the Hub asks us to come back later

Each carries a `hint`: what to send instead; and `matches`: up to five things that exist and may
be meant. A HubError says when to come back (`retry_after_seconds`)."""

from typing import Self


class FitgaugeError(Exception):
    """The root: `detail` says what is wrong, `hint` what to do, `matches` what may be meant,
    `field` where it stands."""

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
    """A value that is well formed and cannot be answered."""


class QuestionTooLarge(FitgaugeError):
    """A question whose answer takes longer than it may."""


class QueueFull(FitgaugeError):
    """Too many long questions wait already; ask again in `retry_after_seconds`."""

    def __init__(self, detail: str, *, retry_after_seconds: float, hint: str = "") -> None:
        super().__init__(detail, hint=hint)
        self.retry_after_seconds = retry_after_seconds


class UnknownAcceleratorError(FitgaugeError):
    """No accelerator of the catalog is meant by this text."""


class InvalidCatalogError(FitgaugeError):
    """A company's own catalog that cannot be used as it stands: `detail` names the file, the row
    and the field."""


class ModelError(FitgaugeError):
    """The model cannot be sized."""


class UnknownModelError(ModelError):
    """Neither the Hub nor the snapshot has this repository, revision or file."""


class GatedModelError(ModelError):
    """The Hub shows this repository only to a token that was granted access."""


class RenamedModelError(ModelError):
    """The repository moved."""


class ModelWithoutWeightsError(ModelError):
    """The repository holds nothing an engine could load."""


class MalformedModelError(ModelError):
    """The repository's metadata is broken or beyond the bounds that are believed."""


class HubError(FitgaugeError):
    """The Hub did not give an answer."""

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
        """Return the same error with another time to come back."""
        return type(self)(
            self.detail,
            hint=self.hint,
            matches=self.matches,
            field=self.field,
            retry_after_seconds=seconds,
        )


class HubUnreachableError(HubError):
    """No answer from the Hub in the time a caller waits, or none that can be read."""


class HubBusyError(HubError):
    """The Hub answered 429, or 503 with Retry-After; `retry_after_seconds` is what it asked for."""
