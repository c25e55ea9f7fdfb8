"""Cache of encoded answers, so that a repeated question costs neither an estimate nor encoding.

The key is the operation and the very bytes of the request body. Two spellings of one question are
two entries: comparing bytes is cheaper than any normal form. An entry is valid as long as the facts
that its answer depends on (`CacheDependencies`: catalog, model, quantized repositories) are those
in force; `Services.holds` decides. Litestar's own response cache expires by time instead, and its
key cannot contain the body.
"""

from collections.abc import Callable, Coroutine
from typing import Any, TypeVar, cast
from weakref import ref

import msgspec
from litestar import MediaType, Request, Response
from msgspec import Struct

from fitgauge.api.callers import while_connected
from fitgauge.api.request_parsing import ApiRequest
from fitgauge.engine.memo import Memo
from fitgauge.engine.model.model import Model
from fitgauge.services.common.answered import AnswerFacts, facts_of, note
from fitgauge.services.facade import Services
from fitgauge.services.serving_questions import CacheDependencies

Body = TypeVar("Body", bound=Struct)
Answer = TypeVar("Answer", bound=Struct)

_CACHE_BYTES = 16 * 2**20
_LARGEST_ENTRY = 256 * 2**10
_ENTRY_OVERHEAD = 1024
"""bytes of an entry in addition to its question and its answer: tuples, strings, hash table"""


Key = tuple[str, bytes]
Entry = tuple[CacheDependencies, ref[Model], bytes, AnswerFacts]


def _entry_bytes(key: Key, entry: Entry) -> int:
    return len(key[1]) + len(entry[2]) + _ENTRY_OVERHEAD


class AnswerCache:
    """Least recently used answers, bounded in bytes."""

    def __init__(self, services: Services) -> None:
        self.services = services
        self._entries: Memo[Key, Entry] = Memo(_CACHE_BYTES, _entry_bytes, _LARGEST_ENTRY)
        self.hits = 0
        self.misses = 0

    def __len__(self) -> int:
        """Return the number of answers."""
        return len(self._entries)

    @property
    def held_bytes(self) -> int:
        """Bytes of all answers, with their questions."""
        return self._entries.size

    async def answer(
        self,
        request: Request[Any, Any, Any],
        ask: Callable[[Body], Coroutine[Any, Any, tuple[CacheDependencies, Answer]]],
        body: Body,
        *,
        cancellable: bool = False,
    ) -> Response[Answer]:
        """Return the answer of `ask` to the request, and cache it.

        cancellable: cancel `ask` when the caller closes the connection.
        """
        pending = ask(body)
        dependencies, answer = await (while_connected(request, pending) if cancellable else pending)
        encoded = msgspec.json.encode(answer)
        key = request.scope["path"], await request.body()
        self._put(key, dependencies, encoded, facts_of(ask.__name__, answer))
        return _response(encoded)

    async def again(self, request: ApiRequest) -> Response[Any] | None:
        """Return the cached answer to the request; None where it was not asked before."""
        encoded = self._get((request.scope["path"], await request.question()))
        return None if encoded is None else _response(encoded)

    def _get(self, key: Key) -> bytes | None:
        entry = self._entries.get(key)
        if entry is not None:
            dependencies, model, encoded, facts = entry
            if self.services.holds(dependencies, model()):
                self.hits += 1
                note(facts)
                return encoded
        self.misses += 1
        return None

    def _put(
        self, key: Key, dependencies: CacheDependencies, encoded: bytes, facts: AnswerFacts
    ) -> None:
        """Store an answer. The entry does not keep its model in memory."""
        if dependencies.model is not None:
            entry = dependencies._replace(model=None), ref(dependencies.model), encoded, facts
            self._entries.put(key, entry)


def _response(encoded: Any) -> Response[Any]:  # noqa: ANN401 - stands for what it encodes
    return Response(encoded, media_type=MediaType.JSON)


async def asked_before(request: Request[Any, Any, Any]) -> Response[Any] | None:
    """Return the cached answer, in place of a handler's: `before_request` of those that cache."""
    answers: AnswerCache = request.app.state.answers
    return await answers.again(cast("ApiRequest", request))
