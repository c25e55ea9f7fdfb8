"""Cache of encoded answers, so that a repeated question costs neither an estimate nor encoding.

The key is the operation and the very bytes of the request body. Two spellings of one question are
two entries: comparing bytes is cheaper than any normal form. An entry is valid as long as the facts
that its answer depends on (`CacheDependencies`: catalog, model, quantized repositories) are those
in force; `Services.holds` decides. Litestar's own response cache expires by time instead, and its
key cannot contain the body.
"""

from collections.abc import Callable, Coroutine
from typing import Any, TypeVar
from weakref import ref

import msgspec
from litestar import MediaType, Request, Response
from msgspec import Struct

from fitgauge.api.callers import while_connected
from fitgauge.engine.memo import Memo
from fitgauge.engine.model.spec import Model
from fitgauge.services import CacheDependencies, Services

Body = TypeVar("Body", bound=Struct)
Answer = TypeVar("Answer", bound=Struct)

_CACHE_BYTES = 16 * 2**20
_LARGEST_ENTRY = 256 * 2**10
_ENTRY_OVERHEAD = 1024
"""bytes of an entry in addition to its question and its answer: tuples, strings, hash table"""


Key = tuple[str, bytes]
Entry = tuple[CacheDependencies, ref[Model], bytes]


def _entry_bytes(key: Key, entry: Entry) -> int:
    return len(key[1]) + len(entry[2]) + _ENTRY_OVERHEAD


class AnswerCache:
    """Least recently used answers, bounded in bytes."""

    def __init__(self, services: Services) -> None:
        self.services = services
        self._entries: Memo[Key, Entry] = Memo(_CACHE_BYTES, _entry_bytes, _LARGEST_ENTRY)

    async def answer(
        self,
        request: Request[Any, Any, Any],
        ask: Callable[[Body], Coroutine[Any, Any, tuple[CacheDependencies, Answer]]],
        body: Body,
        *,
        cancellable: bool = False,
    ) -> Response[Answer]:
        """Return the cached answer to the request, or that of `ask`, which is then cached.

        cancellable: cancel `ask` when the caller closes the connection.
        """
        key = ask.__name__, await request.body()
        encoded = self._get(key)
        if encoded is None:
            pending = ask(body)
            dependencies, answer = await (
                while_connected(request, pending) if cancellable else pending
            )
            encoded = msgspec.json.encode(answer)
            self._put(key, dependencies, encoded)
        content: Any = encoded  # stands for the Answer that it encodes
        return Response(content, media_type=MediaType.JSON)

    def _get(self, key: Key) -> bytes | None:
        entry = self._entries.get(key)
        if entry is None:
            return None
        dependencies, model, encoded = entry
        return encoded if self.services.holds(dependencies, model()) else None

    def _put(self, key: Key, dependencies: CacheDependencies, encoded: bytes) -> None:
        """Store an answer. The entry does not keep its model in memory."""
        if dependencies.model is not None:
            entry = dependencies._replace(model=None), ref(dependencies.model), encoded
            self._entries.put(key, entry)
