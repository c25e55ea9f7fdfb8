"""What replicas share of models: metadata, refusals and who looks a model up.

What is read was written by whoever may write to the store: it is bounded, decoded strictly and
compared with what was asked for, and then goes through every check of what the Hub sends."""

import hashlib
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from typing import Annotated, Literal, Protocol

import msgspec
from msgspec import Meta, Struct

from fitgauge.errors import (
    ErrorCode,
    GatedModelError,
    MalformedModelError,
    ModelError,
    ModelWithoutWeightsError,
    RenamedModelError,
    UnknownModelError,
)
from fitgauge.hub.description import MAX_ELEMENTS
from fitgauge.hub.metadata import RepoMetadata
from fitgauge.hub.reference import Reference
from fitgauge.hub.settings import HubSettings

SCHEMA = 1
"""Raise it when the meaning of a value changes: replicas of another version then share nothing."""
MAX_VALUE = 2**20
"""bytes of a value; a larger one is not shared"""
POLL_SECONDS = 0.05
"""How often a replica looks whether another has finished."""

_DAY_SECONDS = 86_400

_Kind = Literal["gated", "malformed", "renamed", "unknown", "weightless"]
_REFUSALS: dict[_Kind, type[ModelError]] = {
    "gated": GatedModelError,
    "malformed": MalformedModelError,
    "renamed": RenamedModelError,
    "unknown": UnknownModelError,
    "weightless": ModelWithoutWeightsError,
}

_Text = Annotated[str, Meta(max_length=1000)]


class SharedState(Protocol):
    """A store that other replicas read and write too. It never raises: where it is away, nothing
    is in it, and every claim is granted."""

    async def get(self, key: str, limit: int) -> bytes | None:
        """Return the value; None where there is none, or more than `limit` bytes."""

    async def put(self, key: str, value: bytes, seconds: int) -> None:
        """Store a value for some seconds."""

    async def forget(self, key: str) -> None:
        """Drop a value."""

    def claim(self, key: str) -> AbstractAsyncContextManager[bool]:
        """Hold a claim that no other replica has; False where another has it."""


class _Refusal(Struct, frozen=True, forbid_unknown_fields=True):
    """Why a repository is no model."""

    kind: _Kind
    """Kind of the error."""
    code: ErrorCode
    """Its code."""
    detail: _Text
    """What is wrong."""
    hint: _Text
    """What to send instead."""
    matches: Annotated[tuple[_Text, ...], Meta(max_length=5)]
    """Names that are close."""


class _Value(Struct, frozen=True, forbid_unknown_fields=True):
    """A value as it is stored."""

    schema: int
    """Version of this layout."""
    endpoint: str
    """The Hub that said it."""
    reference: str
    """What was resolved."""
    at: float
    """When it was written [seconds since 1970]."""
    facts: RepoMetadata | None = None
    """The metadata, where there is a model."""
    refusal: _Refusal | None = None
    """Why there is none."""


class SharedModels:
    """Models that replicas of one Hub resolve once for all of them."""

    def __init__(
        self, state: SharedState, settings: HubSettings, clock: Callable[[], float]
    ) -> None:
        self._state = state
        self._settings = settings
        self._clock = clock
        self._decoder = msgspec.msgpack.Decoder(_Value)
        self.rejected = 0
        """Values that were no valid answer to what was asked for."""

    def key(self, reference: Reference, identity: str) -> str:
        """Return the key of a model as one token sees it, by a hash of that token."""
        text = f"{SCHEMA} {self._settings.endpoint} {reference} {identity}"
        return f"model:{hashlib.sha256(text.encode()).hexdigest()[:40]}"

    def claim(self, key: str) -> AbstractAsyncContextManager[bool]:
        """Hold the right to look a model up; False where another replica does."""
        return self._state.claim(key)

    async def read(self, key: str, reference: Reference) -> RepoMetadata | ModelError | None:
        """Return what a replica wrote; None where there is nothing that can be used."""
        encoded = await self._state.get(key, MAX_VALUE)
        if encoded is None:
            return None
        try:
            value = self._decoder.decode(encoded)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            self.rejected += 1
            return None
        if (
            value.schema != SCHEMA
            or value.endpoint != self._settings.shown_endpoint
            or value.reference != str(reference)
        ):
            self.rejected += 1
            return None
        if value.facts is not None and _is_plausible(value.facts):
            return value.facts
        if value.refusal is not None and self._holds(value.at):
            return _error(value.refusal)
        self.rejected += 1
        return None

    def _holds(self, at: float) -> bool:
        return -1.0 <= self._clock() - at <= self._settings.refusal_seconds

    async def write(self, key: str, reference: Reference, facts: RepoMetadata) -> None:
        """Share the metadata for a day; how fresh they are is for the reader to judge."""
        await self._put(key, self._value(reference, facts=facts), _DAY_SECONDS)

    async def refuse(self, key: str, reference: Reference, error: ModelError) -> None:
        """Share why there is no model, for as long as this replica remembers it."""
        kind = next((kind for kind, one in _REFUSALS.items() if type(error) is one), None)
        if kind is None:
            await self._state.forget(key)
            return
        refusal = _Refusal(kind, error.code, error.detail[:1000], error.hint[:1000], error.matches)
        seconds = max(1, round(self._settings.refusal_seconds))
        await self._put(key, self._value(reference, refusal=refusal), seconds)

    def _value(
        self,
        reference: Reference,
        facts: RepoMetadata | None = None,
        refusal: _Refusal | None = None,
    ) -> _Value:
        endpoint = self._settings.shown_endpoint
        return _Value(SCHEMA, endpoint, str(reference), self._clock(), facts, refusal)

    async def _put(self, key: str, value: _Value, seconds: int) -> None:
        encoded = msgspec.msgpack.encode(value)
        if len(encoded) <= MAX_VALUE:
            await self._state.put(key, encoded, seconds)


def _is_plausible(facts: RepoMetadata) -> bool:
    return all(0 <= count <= MAX_ELEMENTS for count in facts.elements.values()) and (
        facts.gguf is None or min(facts.gguf.file_bytes, facts.gguf.parameters) >= 0
    )


def _error(refusal: _Refusal) -> ModelError:
    return _REFUSALS[refusal.kind](
        refusal.detail, hint=refusal.hint, matches=refusal.matches, code=refusal.code
    )
