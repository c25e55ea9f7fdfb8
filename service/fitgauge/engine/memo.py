"""The one cache of derived values: least recently used, bounded by entries or by their size."""

from collections import OrderedDict
from collections.abc import Callable, Hashable
from contextlib import suppress
from typing import Any, Final, Generic, TypeVar
from weakref import ref

Key = TypeVar("Key", bound=Hashable)
Value = TypeVar("Value")
Owner = TypeVar("Owner")

MOST_ENTRIES = 256

_MISSING: Final[Any] = object()


class Memo(Generic[Key, Value]):
    """Derived values by key; the least recently used are evicted.

    CPython's threads may share one that is bounded by entries: two of them may then compute the
    same value. One that is bounded by size belongs to one thread.
    """

    __slots__ = ("_entries", "_largest", "_size_of", "_sizes", "limit", "size")

    def __init__(
        self,
        limit: int = MOST_ENTRIES,
        size_of: Callable[[Key, Value], int] | None = None,
        largest: int | None = None,
    ) -> None:
        """Hold at most `limit` entries or, with `size_of`, entries of at most that size in sum,
        and none above `largest`."""
        self.limit = limit
        self.size = 0
        """The sum of the sizes; 0 without `size_of`."""
        self._size_of = size_of
        self._largest = limit if largest is None else largest
        self._entries: OrderedDict[Key, Value] = OrderedDict()
        self._sizes: dict[Key, int] = {}

    def __len__(self) -> int:
        """Return the number of entries."""
        return len(self._entries)

    def get(self, key: Key) -> Value | None:
        """Return the value, now the most recently used; None where there is none."""
        value = self._entries.get(key)
        if value is not None:
            self._use(key)
        return value

    def get_or_compute(self, key: Key, compute: Callable[[], Value]) -> Value:
        """Return the value, now the most recently used; call `compute` where there is none."""
        value: Value = self._entries.get(key, _MISSING)
        if value is _MISSING:
            value = compute()
            self.put(key, value)
        elif 2 * len(self._entries) >= self.limit or self._size_of is not None:
            self._use(key)
        return value

    def put(self, key: Key, value: Value) -> None:
        """Store a value, and evict the least recently used where there are too many."""
        if self._size_of is not None:
            self._put_sized(key, value, self._size_of(key, value))
            return
        self._entries[key] = value
        self._use(key)
        if len(self._entries) > self.limit:
            with suppress(KeyError):  # another thread has emptied it
                while len(self._entries) > self.limit:
                    self._entries.popitem(last=False)

    def discard(self, key: Key) -> None:
        """Remove an entry where it is there."""
        self._entries.pop(key, None)
        self.size -= self._sizes.pop(key, 0)

    def clear(self) -> None:
        """Remove all entries."""
        self._entries.clear()
        self._sizes.clear()
        self.size = 0

    def _use(self, key: Key) -> None:
        """Make the key the most recently used. That hashes it again, so a memo that is less than
        half full leaves its order as it is: nothing is evicted before it is full."""
        if self._size_of is None and 2 * len(self._entries) < self.limit:
            return
        try:  # noqa: SIM105 - suppress() costs several times the lookup
            self._entries.move_to_end(key)
        except KeyError:  # another thread has evicted it
            pass

    def _put_sized(self, key: Key, value: Value, size: int) -> None:
        self.discard(key)
        if size > self._largest:
            return
        self._entries[key] = value
        self._sizes[key] = size
        self.size += size
        while self.size > self.limit:
            self.discard(next(iter(self._entries)))


MixedMemo = Memo[Hashable, Any]
"""Derived values of several kinds, each kind under keys of its own."""


class WeakMemo(Generic[Owner, Key, Value]):
    """Values derived from an object, such as a model: it is compared by identity, not hashed, and
    not kept alive; what was derived from it goes with it."""

    __slots__ = ("_memo",)

    def __init__(self, limit: int = MOST_ENTRIES) -> None:
        """Hold at most `limit` entries of all owners."""
        self._memo: Memo[tuple[int, Key], tuple[ref[Owner], Value]] = Memo(limit)

    def __len__(self) -> int:
        """Return the number of entries."""
        return len(self._memo)

    def get(self, owner: Owner, key: Key) -> Value | None:
        """Return the value, now the most recently used; None where there is none."""
        entry = self._memo.get((id(owner), key))
        return entry[1] if entry is not None and entry[0]() is owner else None

    def get_or_compute(self, owner: Owner, key: Key, compute: Callable[[], Value]) -> Value:
        """Return the value, now the most recently used; call `compute` where there is none."""
        identity = id(owner), key
        entry = self._memo.get(identity)
        if entry is not None and entry[0]() is owner:
            return entry[1]
        value = compute()
        self._memo.put(identity, (ref(owner, lambda gone: self._forget(identity, gone)), value))
        return value

    def _forget(self, identity: tuple[int, Key], gone: "ref[Owner]") -> None:
        entry = self._memo.get(identity)
        if entry is not None and entry[0] is gone:
            self._memo.discard(identity)
