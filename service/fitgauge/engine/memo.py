"""A bounded memo cache, and weak keys for it."""

from collections.abc import Callable, Hashable
from typing import Any, TypeVar
from weakref import ref

from fitgauge.engine.model.spec import ModelSpec

Derived = TypeVar("Derived")

MOST_REMEMBERED = 256


class Memo(dict[Hashable, Any]):
    """Derived values by key. It is cleared when it is full."""

    __slots__ = ("most",)

    def __init__(self, most: int = MOST_REMEMBERED) -> None:
        """Hold at most `most` keys."""
        self.most = most

    def of(self, key: Hashable, derive: Callable[[], Derived]) -> Derived:
        """Return the value of `key`; call `derive` where there is none."""
        known: Derived | None = self.get(key)
        if known is None:
            if len(self) >= self.most:
                self.clear()
            known = self[key] = derive()
        return known


class ByIdentity:
    """A key that compares a model by identity: a lookup does not hash the model, and a memo does
    not keep it alive."""

    __slots__ = ("_hash", "_reference")

    def __init__(self, spec: ModelSpec) -> None:
        self._hash = id(spec)
        self._reference = ref(spec)

    @property
    def spec(self) -> ModelSpec:
        """Return the model, which the caller of the lookup keeps alive."""
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
