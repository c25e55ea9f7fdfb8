"""Cache of a model's sharded weights in a number format, the slow half of an estimate."""

from collections.abc import Hashable
from dataclasses import dataclass, field

from fitgauge.catalog.variants import file_type
from fitgauge.engine.memo import MOST_ENTRIES, Memo, MixedMemo, WeakMemo
from fitgauge.engine.model.model import Model
from fitgauge.engine.quantization.formats import GGUF_FILE_BITS
from fitgauge.engine.quantization.published import published
from fitgauge.engine.quantization.requested import requested_scheme, served_scheme
from fitgauge.engine.quantization.scheme import Scheme
from fitgauge.engine.serving.profile import EngineProfile
from fitgauge.engine.serving.registry import ENGINES
from fitgauge.engine.serving.workload import EngineName
from fitgauge.engine.weights import rank_bytes
from fitgauge.engine.weights.sharding import ShardedWeights

_CLASSES = 128
"""Classes of GPUs held of one model in one format; a catalog has some forty."""


@dataclass(frozen=True, slots=True)
class CachedWeights:
    """A model's weights as one engine shards them."""

    sharded: ShardedWeights
    """The sharded weights."""
    scheme: Scheme
    """Which tensors are quantized, and how."""
    total_bytes: int
    """Of all parameters, undivided."""
    runs: Memo[Hashable, bool] = field(default_factory=lambda: Memo(_CLASSES), compare=False)
    """Whether it runs on a class of GPUs, as far as it was asked."""


_AS_TRAINED = Scheme(name="unquantized")


def scheme_of(model: Model, quantization: str | None) -> Scheme:
    """As if stored in `quantization`, else as published. Raises UnsupportedError for an
    unknown format."""
    if quantization:
        return served_scheme(quantization, model.spec)
    return published(model.spec) or _AS_TRAINED


def read_scheme(model: Model, scheme: Scheme) -> Scheme:
    """Return the scheme that an engine must read to load the model: of a repository of GGUF files
    the chosen file's type, else `scheme`, in which it is estimated."""
    if scheme.form is not None or model.stored is None or model.stored.file_name is None:
        return scheme
    label = file_type(model.stored.file_name)
    return requested_scheme(label, model.spec) if label in GGUF_FILE_BITS else scheme


class WeightCache:
    """Shards weights once for every recent (model, quantization, engine).

    Weights live no longer than their model, so that what bounds the models in memory bounds them
    too."""

    def __init__(
        self, size: int = 512, most_derived: int = MOST_ENTRIES, most_models: int = 20
    ) -> None:
        """size: how many of them are held; most_derived: how much of what was derived from
        each; most_models: models of which other memory is held."""
        self._most_derived = most_derived
        self._other: WeakMemo[Model, int, tuple[EngineProfile, MixedMemo]] = WeakMemo(most_models)
        self._weights: WeakMemo[Model, tuple[str | None, EngineName], CachedWeights] = WeakMemo(
            size
        )

    def prepare(self, model: Model, quantization: str | None, engine: EngineName) -> CachedWeights:
        """Return the weights of `model` on `engine`. Raises UnsupportedError for an unknown
        format."""
        return self._weights.get_or_compute(
            model, (quantization, engine), lambda: self._prepared(model, quantization, engine)
        )

    def peek(
        self, model: Model, quantization: str | None, engine: EngineName
    ) -> CachedWeights | None:
        """Return what `prepare` would without laying anything out; None where it would."""
        return self._weights.get(model, (quantization, engine))

    def other_memory(self, model: Model, profile: EngineProfile) -> MixedMemo:
        """Return the memo of what an engine holds in addition to the weights of `model`
        (`SplitEstimate.stage_memory`)."""
        # with its profile, whose identity no other can then have
        _, memo = self._other.get_or_compute(
            model, id(profile), lambda: (profile, Memo(2 * self._most_derived))
        )
        return memo

    def _prepared(
        self, model: Model, quantization: str | None, engine: EngineName
    ) -> CachedWeights:
        scheme = scheme_of(model, quantization)
        stored = model.stored if quantization is None else None
        sharded = ENGINES[engine].shard_weights(model.spec, scheme, stored=stored)
        sharded.memo.limit = self._most_derived
        return CachedWeights(sharded, scheme, rank_bytes.rank_weights(sharded).bytes)
