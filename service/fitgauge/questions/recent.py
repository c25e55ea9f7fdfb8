"""A bounded memory of what was used lately."""

from collections import OrderedDict
from contextlib import suppress
from typing import Generic, TypeVar

Value = TypeVar("Value")


class Recent(Generic[Value]):
    """The `size` values used last, by key. Threads may share it."""

    def __init__(self, size: int) -> None:
        self._size = size
        self._values: OrderedDict[object, Value] = OrderedDict()

    def get(self, key: object) -> Value | None:
        """The value, which now counts as used last; None where it is not there."""
        value = self._values.get(key)
        if value is not None:
            with suppress(KeyError):  # another thread may have let go of it
                self._values.move_to_end(key)
        return value

    def put(self, key: object, value: Value) -> None:
        """Keeps a value, and lets go of the one used longest ago where there are too many."""
        self._values[key] = value
        with suppress(KeyError):
            self._values.move_to_end(key)
        if len(self._values) > self._size:
            self._values.popitem(last=False)
