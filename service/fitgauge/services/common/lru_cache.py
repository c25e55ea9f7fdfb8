"""LRU caches, bounded by entries or by bytes."""

from collections import OrderedDict
from contextlib import suppress
from typing import Generic, TypeVar

Value = TypeVar("Value")


class LruCache(Generic[Value]):
    """An LRU cache of `size` values. Threads may share it."""

    def __init__(self, size: int) -> None:
        self._size = size
        self._values: OrderedDict[object, Value] = OrderedDict()

    def get(self, key: object) -> Value | None:
        """Return the value, now the most recently used; None where there is none."""
        value = self._values.get(key)
        if value is not None:
            with suppress(KeyError):  # another thread may have evicted it
                self._values.move_to_end(key)
        return value

    def put(self, key: object, value: Value) -> None:
        """Store a value, and evict the least recently used where there are too many."""
        self._values[key] = value
        with suppress(KeyError):
            self._values.move_to_end(key)
        if len(self._values) > self._size:
            self._values.popitem(last=False)

    def discard(self, key: object, mark: object) -> None:
        """Drop the value where it is a tuple that begins with `mark`, not one stored since."""
        value = self._values.get(key)
        if isinstance(value, tuple) and value[0] is mark:
            self._values.pop(key, None)


class LruCacheBytes(Generic[Value]):
    """An LRU cache of `size` bytes; the caller sizes each value."""

    def __init__(self, size: int, largest: int) -> None:
        """Store no value of more than `largest` bytes."""
        self._size = size
        self._largest = largest
        self._values: OrderedDict[object, tuple[Value, int]] = OrderedDict()
        self.bytes = 0

    def get(self, key: object) -> Value | None:
        """Return the value, now the most recently used, or None."""
        entry = self._values.get(key)
        if entry is None:
            return None
        self._values.move_to_end(key)
        return entry[0]

    def put(self, key: object, value: Value, size: int) -> None:
        """Store a value of `size` bytes, its key included, and evict the least recently used."""
        replaced = self._values.pop(key, None)
        if replaced is not None:
            self.bytes -= replaced[1]
        if size > self._largest:
            return
        self._values[key] = value, size
        self.bytes += size
        while self.bytes > self._size:
            _, (_, evicted) = self._values.popitem(last=False)
            self.bytes -= evicted

    def __len__(self) -> int:
        """Return how many values are stored."""
        return len(self._values)
