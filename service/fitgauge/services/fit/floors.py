"""Memory below which GPUs are too small for a launch whatever else it holds: what no engine does
without of weights and cache, so that most launches need no estimate."""

from fitgauge.engine.model.mixers import Attention, LatentAttention
from fitgauge.engine.model.spec import ModelSpec, Part
from fitgauge.engine.serving.kv_cache import CACHED_PARTS, request_bytes
from fitgauge.engine.serving.registry import ENGINES
from fitgauge.engine.serving.workload import EngineName
from fitgauge.engine.weights import rank_bytes
from fitgauge.services.common.schemas import FitRequest
from fitgauge.services.common.weight_cache import CachedWeights
from fitgauge.services.fit.batch_estimator import BatchEstimator
from fitgauge.services.fit.workload import context_length_of


class Floors:
    """The least usable memory of a GPU for the launches of one question. request: without engine,
    format and count."""

    def __init__(self, fitting: BatchEstimator, request: FitRequest) -> None:
        self._fitting = fitting
        self._spec = fitting.spec
        self._request = request
        self._caches: dict[int, int] = {}
        self._shares: dict[EngineName, float] = {}
        self._held: dict[tuple[str | None, EngineName, int], int] = {}

    def of_count(
        self, quantization: str | None, engine: EngineName, count: int, tensor_parallel: int
    ) -> int:
        """Return the usable bytes below which `count` GPUs of any kind are too small: the fullest
        stage of a pipeline holds no less than the average."""
        held = self._weights(quantization, engine, tensor_parallel)
        alone = held if count <= tensor_parallel else 0
        return self._least(engine, held, count, tensor_parallel, alone)

    def of_listed(
        self, quantization: str | None, engine: EngineName, count: int, tensor_parallel: int
    ) -> int:
        """Return the usable bytes below which `count` GPUs of any kind more likely lack memory
        than not: what is expected to be required alone exceeds them."""
        held = self._weights(quantization, engine, tensor_parallel)
        return self._least(engine, held, count, tensor_parallel, 0)

    def _least(
        self, engine: EngineName, held: int, count: int, tensor_parallel: int, loaded: int
    ) -> int:
        """Return the least usable bytes for a rank's weights of all layers and their cache, over
        the stages of a pipeline."""
        required = (held + self._cache(tensor_parallel)) // -(-count // tensor_parallel)
        return self._fitting.least_usable_of(engine, required, loaded, self._share(engine))

    def _share(self, engine: EngineName) -> float:
        """Return the largest share of a GPU that a launch may give the engine."""
        if engine not in self._shares:
            share = self._fitting.formats.profile(engine).gpu_memory_utilization
            ladder = ENGINES[engine].ladders.share
            if ladder is not None and self._request.settings != "defaults":
                share = max(share, ladder.highest)
            self._shares[engine] = share
        return self._shares[engine]

    def _weights(self, quantization: str | None, engine: EngineName, tensor_parallel: int) -> int:
        """Return the least weights of a rank of all layers [bytes]."""
        key = quantization, engine, tensor_parallel
        if key not in self._held:
            prepared = self._fitting.formats.prepared(quantization, engine)
            self._held[key] = weights_floor(prepared, engine, tensor_parallel)
        return self._held[key]

    def _cache(self, tensor_parallel: int) -> int:
        """Return the least cache of a rank of all layers [bytes]."""
        if tensor_parallel not in self._caches:
            self._caches[tensor_parallel] = cache_floor(self._spec, self._request, tensor_parallel)
        return self._caches[tensor_parallel]


def cache_floor(spec: ModelSpec, request: FitRequest, tensor_parallel: int) -> int:
    """Return the bytes of cache that no engine does without on a tensor-parallel rank of all
    layers: attention's and what is cached of latents, in the narrowest format it may take.

    Engines round up to blocks and hold more than a window, never less.
    """
    cache_dtype = (request.kv_cache_dtype or "auto").strip().lower()
    narrow = (
        "F4"
        if cache_dtype not in ("auto", "fp8", "bf16", "fp16")
        else "F16"
        if cache_dtype != "fp8" and spec.quantization is None
        else "F8_E4M3"
    )
    one = sum(
        len(block.layers)
        * request_bytes(mixer, context_length_of(request, spec), narrow, tensor_parallel, narrow)
        for block in spec.blocks
        if block.part in CACHED_PARTS
        for mixer in block.mixers
        if isinstance(mixer, Attention)
        or (isinstance(mixer, LatentAttention) and (mixer.indexer is None or narrow != "F16"))
    )
    return one * (request.concurrency or 1)


def weights_floor(prepared: CachedWeights, engine: EngineName, tensor_parallel: int) -> int:
    """Return the bytes of weights that an engine keeps on a tensor-parallel rank of all layers,
    never less than this: those of the language model, and of an engine
    that keeps them on the GPU, embedding and head too; without tables that may lie in host
    memory."""
    sharded = prepared.sharded
    parts = sharded.memo.get_or_compute(
        ("weights of parts", tensor_parallel),
        lambda: rank_bytes.rank_weights(sharded, tensor_parallel=tensor_parallel).by_part,
    )
    resident = (
        (Part.LANGUAGE, Part.EMBEDDING, Part.HEAD)
        if ENGINES[engine].embeddings_on_gpu
        else (Part.LANGUAGE,)
    )
    held = int(sum(parts.get(part, 0) for part in resident) * min(1.0, sharded.scale))
    if ENGINES[engine].host_tables is None:
        return held
    tables = sharded.once(
        ("tables", tensor_parallel),
        lambda: rank_bytes.table_bytes(sharded, rank_bytes.ranks(sharded, tensor_parallel, 1, 1)),
    )
    return held - tables
