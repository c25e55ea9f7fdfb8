"""Published quantized siblings of a model: the Hub's, else those of the bundled snapshot, each
resolved before anybody hears of it."""

import asyncio
import time
from collections.abc import Callable
from itertools import count, islice
from typing import NamedTuple

from fitgauge.catalog.format_names import take_formats
from fitgauge.engine.memo import Memo
from fitgauge.engine.model.dtypes import size_of
from fitgauge.engine.model.model import Model
from fitgauge.engine.quantization.published import published
from fitgauge.engine.serving.engine_facts import FileKind
from fitgauge.engine.serving.registry import ENGINES
from fitgauge.engine.serving.support import family
from fitgauge.engine.serving.workload import EngineName
from fitgauge.errors import FitgaugeError, HubError
from fitgauge.hub.cache import deep_size
from fitgauge.hub.request_context import token_id
from fitgauge.hub.siblings import ListedNames, choose
from fitgauge.hub.single_flight import SingleFlight, outcome
from fitgauge.services.common.model_resolver import ModelResolver

_UNDER_WAY = 32
_MOST_STARTED = 1024
_KEPT_BYTES = 16 * 2**20
"""Of all siblings in memory, with the models that they hold."""


class QuantizedRepo(NamedTuple):
    """A repository that holds the same weights in another format."""

    text: str
    """What to send for it."""
    model: Model
    """The model that it holds."""

    @property
    def form(self) -> str:
        """Its format: the file's label, or what its config says."""
        scheme = published(self.model.spec)
        if ":" in self.text:
            return self.text.rpartition(":")[2]
        if scheme:
            return scheme.name.removeprefix("modelopt_")
        return "another format"


Published = tuple[QuantizedRepo, ...]
Key = tuple[str, FileKind, str]
"""Of model, kind of files and the caller's own token: a caller's private siblings, or those of
a private model, are no other's."""


class QuantizedRepos:
    """Looks siblings up, at most one list and a few repositories for every model and kind of file,
    and caches them.

    No request waits for longer than `wait_seconds` after a search began; it goes on, and the next
    question finds what it found."""

    def __init__(
        self, models: ModelResolver, monotonic: Callable[[], float] = time.monotonic
    ) -> None:
        self._hub = models.hub
        self._models = models
        self._monotonic = monotonic
        self._results: Memo[Key, tuple[Published, float, int]] = Memo(
            _KEPT_BYTES, lambda key, result: deep_size(result[0]), _KEPT_BYTES // 2
        )
        self._serials = count()
        self._started: Memo[Key, float] = Memo(_MOST_STARTED)
        self._flights: SingleFlight[Key, Published] = SingleFlight(_UNDER_WAY)

    def peek(self, model: Model, engine: EngineName) -> Published | None:
        """Return the cached repositories; None before the first search. A stale result is looked
        up again in the background."""
        key = _key(model, engine)
        result = self._results.get(key)
        if result is None:
            return None
        repositories, until, _ = result
        if self._monotonic() >= until and not self._flights.is_full:
            self._search(model, key)
        return repositories

    def serial(self, model: Model, engine: EngineName) -> int | None:
        """Return a number that changes with the cached repositories; None without any."""
        result = self._results.get(_key(model, engine))
        return None if result is None else result[2]

    async def find(self, model: Model, engine: EngineName) -> Published:
        """Return the siblings, the larger first: those of the Hub, else of the snapshot. Never
        raises, never waits long."""
        repositories = self.peek(model, engine)
        if repositories is not None:
            return repositories
        key = _key(model, engine)
        try:
            flight = self._search(model, key)
            waited = self._monotonic() - (self._started.get(key) or 0.0)
            return await outcome(flight, self._hub.settings.sibling_seconds - waited)
        except (TimeoutError, HubError):
            return self._bundled(model, key)

    def smaller(self, model: Model) -> Published:
        """Return the bundled repository in 4 bits of a model that is published in FP8; without any
        for another model. The Hub is not asked."""
        if not is_released_in_fp8(model):
            return ()
        names = self._models.quantized_names
        rows = bundled_repos(self._models, model, names)
        return tuple(islice((row for row in rows if _bits(row.model) == 4), 1))

    async def close(self) -> None:
        """End what is under way."""
        await self._flights.close()

    def _search(self, model: Model, key: Key) -> "asyncio.Task[Published]":
        if key not in self._flights:
            self._started.put(key, self._monotonic())
        return self._flights.join(key, lambda: self._look_up(model, key))

    async def _look_up(self, model: Model, key: Key) -> Published:
        """Cache the repositories of the Hub, or those of the snapshot where it answers nothing."""
        lasting = True
        try:
            references = choose(
                await self._hub.quantized(model.id), model.id, _base_bytes(model), key[1]
            )
        except FitgaugeError:
            references, lasting = (), False
        resolved = await asyncio.gather(*map(self._hub.resolve, references), return_exceptions=True)
        there = zip(references, resolved, strict=True)
        repositories = tuple(
            QuantizedRepo(str(reference), one)
            for reference, one in there
            if isinstance(one, Model) and _alike(model, one)
        )
        lasting &= not any(isinstance(one, HubError) for one in resolved)
        settings = self._hub.settings
        repositories, serial = self._unchanged(key, repositories or self._bundled(model, key))
        until = self._monotonic() + (
            settings.fresh_seconds if lasting else settings.refusal_seconds
        )
        self._results.put(key, (repositories, until, serial))
        return repositories

    def _unchanged(self, key: Key, repositories: Published) -> tuple[Published, int]:
        """Return the same tuple and number as before where it holds the same: answers that rest
        on it then hold too."""
        result = self._results.get(key)
        if result is not None and _identities(result[0]) == _identities(repositories):
            return result[0], result[2]
        return repositories, next(self._serials)

    def _bundled(self, model: Model, key: Key) -> Published:
        """Siblings that the snapshot holds; it knows no GGUF files and none of MLX."""
        if key[1] != "safetensors":
            return ()
        rows = bundled_repos(self._models, model)
        of_bits = {
            bits: next((row for row in rows if _bits(row.model) == bits), None) for bits in (8, 4)
        }
        return tuple(row for row in of_bits.values() if row is not None)


def bundled_repos(
    models: ModelResolver, model: Model, names: ListedNames | None = None, form: str = ""
) -> list[QuantizedRepo]:
    """Return every bundled repository of the same weights in another format, the owner's own
    first. names: of the repositories that are looked through; None for those with shapes of their
    own. form: what they are called by; empty for any."""
    rows = [
        QuantizedRepo(model_id, one)
        for model_id in (names or models.bundled_names).same(model.id)
        if (not form or take_formats(model_id.lower())[1] == form)
        and (one := models.bundled(model_id)) is not None
        and _alike(model, one)
    ]
    owner = model.id.partition("/")[0]
    rows.sort(key=lambda row: (row.text.partition("/")[0] != owner, row.text.lower()))
    return rows


def wants_quantized_repos(model: Model, quantization: str | None) -> bool:
    """Return whether a question is about a repository that holds its weights as they were
    trained."""
    return model.source in ("hub", "snapshot") and quantization is None and not model.is_quantized


def is_released_in_fp8(model: Model) -> bool:
    """Return whether a repository's weights are in FP8 blocks, as they were trained or released."""
    scheme = published(model.spec) if model.source in ("hub", "snapshot") else None
    return scheme is not None and family(scheme) == "fp8"


def _identities(repositories: Published) -> list[int]:
    """Return what tells whether the same models are held."""
    return [id(one.model) for one in repositories]


def _key(model: Model, engine: EngineName) -> Key:
    return model.id, kind_for(engine), token_id()


def kind_for(engine: EngineName) -> FileKind:
    """Return the files that an engine loads."""
    return ENGINES[engine].file_kind


def _alike(base: Model, other: Model) -> bool:
    """Return whether `other` has the layers of `base` and is quantized: what calls itself a
    sibling may be pruned, or a draft."""
    return other.is_quantized and (other.spec.layers, other.spec.hidden_size) == (
        base.spec.layers,
        base.spec.hidden_size,
    )


def _bits(model: Model) -> int:
    """8 or 4, whichever most of its weights are nearer to."""
    scheme = published(model.spec)
    return 8 if scheme is None or scheme.form is None or scheme.form.bits > 6 else 4


def _base_bytes(model: Model) -> int:
    stored = model.stored.elements if model.stored else {}
    return sum(size_of(count, name) for name, count in stored.items()) or 2 * model.spec.parameters
