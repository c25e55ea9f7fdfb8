"""A bounded memory of what was worked out, for what asks the same again."""

from collections.abc import Callable, Hashable
from typing import Any, TypeVar
from weakref import ref

from fitgauge.engine.model.spec import ModelSpec

Derived = TypeVar("Derived")

MOST_REMEMBERED = 256


class Memo(dict[Hashable, Any]):
    """What was derived, by key: the same arguments give the same bytes, so remembering changes
    nothing. Emptied where it is full."""

    __slots__ = ("most",)

    def __init__(self, most: int = MOST_REMEMBERED) -> None:
        """most: the number of keys that it holds."""
        self.most = most

    def of(self, key: Hashable, derive: Callable[[], Derived]) -> Derived:
        """Return what `derive` gives, derived once for every `key`."""
        known: Derived | None = self.get(key)
        if known is None:
            if len(self) >= self.most:
                self.clear()
            known = self[key] = derive()
        return known


class ByIdentity:
    """A model by identity, so that looking it up does not read it, and a memo does not keep it
    alive."""

    __slots__ = ("_hash", "_reference")

    def __init__(self, spec: ModelSpec) -> None:
        self._hash = id(spec)
        self._reference = ref(spec)

    @property
    def spec(self) -> ModelSpec:
        """The model. It lives at least as long as the call that looks it up."""
        spec = self._reference()
        assert spec is not None
        return spec

    def __hash__(self) -> int:
        return self._hash

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, ByIdentity)
            and self._reference() is not None
            and other._reference() is self._reference()
        )
