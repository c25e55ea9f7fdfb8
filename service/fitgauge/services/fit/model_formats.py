"""One model's weights in the formats that one question asks for, each prepared once."""

from fitgauge.catalog.engines import Engines
from fitgauge.engine.memo import MixedMemo
from fitgauge.engine.model.model import Model
from fitgauge.engine.quantization.scheme import Scheme
from fitgauge.engine.serving.profile import EngineProfile
from fitgauge.engine.serving.workload import EngineName
from fitgauge.engine.weights.sharding import ShardedWeights
from fitgauge.services.common.weight_cache import CachedWeights, WeightCache, scheme_of
from fitgauge.services.fit.checkpoints import CheckpointChoice, Checkpoints
from fitgauge.services.fit.launch import source_of


class ModelFormats:
    """What engines load of one model, by format and engine, and their newest profiles."""

    def __init__(
        self, model: Model, engines: Engines, preparer: WeightCache, checkpoints: Checkpoints
    ) -> None:
        """checkpoints: the published repositories that may be loaded instead of the model."""
        self.model = model
        self._engines = engines
        self._preparer = preparer
        self._checkpoints = checkpoints
        self._choices: dict[tuple[str | None, EngineName], CheckpointChoice] = {}
        self._profiles: dict[EngineName, EngineProfile] = {}
        self._prepared: dict[tuple[str | None, EngineName], CachedWeights] = {}
        self._schemes: dict[tuple[str | None, EngineName], Scheme] = {}

    def profile(self, engine: EngineName) -> EngineProfile:
        """Return the newest profile of an engine."""
        if engine not in self._profiles:
            self._profiles[engine] = self._engines.profile(engine, None)
        return self._profiles[engine]

    def other_memory(self, engine: EngineName) -> MixedMemo:
        """Return the memo of what an engine holds in addition to the weights."""
        return self._preparer.other_memory(self.model, self.profile(engine))

    def prepared(self, quantization: str | None, engine: EngineName) -> CachedWeights:
        """Return the model's weights. Raises UnsupportedError for an unknown format."""
        key = quantization, engine
        if key not in self._prepared:
            choice = self.choice(quantization, engine)
            self._prepared[key] = self._preparer.prepare(choice.model, choice.derived, engine)
        return self._prepared[key]

    def is_prepared(self, quantization: str | None, engine: EngineName) -> bool:
        """Return whether the model's weights are sharded. Raises UnsupportedError for an unknown
        format."""
        choice = self.choice(quantization, engine)
        return self._preparer.peek(choice.model, choice.derived, engine) is not None

    def sharded(self, quantization: str | None, engine: EngineName) -> ShardedWeights:
        """Return the model's weights by rank. Raises UnsupportedError for an unknown format."""
        return self.prepared(quantization, engine).sharded

    def has_checkpoint(self, quantization: str | None, engine: EngineName) -> bool:
        """Return whether the catalog has a published checkpoint in this format, or the engine
        quantizes to it while it loads the model."""
        loaded = self.choice(quantization, engine).model
        return source_of(loaded, quantization, engine).placeholder is None

    def choice(self, quantization: str | None, engine: EngineName) -> CheckpointChoice:
        """Return what the engine loads in a format. Raises UnsupportedError for an unknown
        one."""
        key = quantization, engine
        if key not in self._choices:
            self._choices[key] = self._checkpoints.choose(self.model, quantization, engine)
        return self._choices[key]

    def scheme(self, quantization: str | None, engine: EngineName) -> Scheme:
        """Return the format of the weights. Raises UnsupportedError for an unknown one."""
        key = quantization, engine
        if key not in self._schemes:
            choice = self.choice(quantization, engine)
            cached = self._preparer.peek(choice.model, choice.derived, engine)
            self._schemes[key] = (
                scheme_of(choice.model, choice.derived) if cached is None else cached.scheme
            )
        return self._schemes[key]
