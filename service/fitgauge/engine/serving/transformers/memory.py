"""Serving with Hugging Face transformers (`generate`): no paging, no graphs, layers spread over the
GPUs by device_map.

Source: transformers 5.23, cache_utils.py (DynamicCache grows with every token; sliding layers
keep a window) and generation/utils.py (logits of the last position only, in float32)."""

from fitgauge.engine.accelerator import Accelerator
from fitgauge.engine.model.mixers import Attention
from fitgauge.engine.model.spec import ModelSpec, Part
from fitgauge.engine.quantity import Term, exact_term, exactly
from fitgauge.engine.quantization.scheme import Scheme
from fitgauge.engine.serving.activations import (
    HALF,
    activation_bytes,
    attention_width,
    math_scores_term,
    mlp_width,
)
from fitgauge.engine.serving.estimate import Estimate, StageEstimate, UnpagedCache, stage_estimate
from fitgauge.engine.serving.kv_cache import (
    cache_bytes,
    cached_tokens,
    request_bytes,
    requests_formula,
)
from fitgauge.engine.serving.profile import EngineProfile
from fitgauge.engine.serving.runtime import runtime_bytes
from fitgauge.engine.serving.token_pool import held
from fitgauge.engine.serving.transformers.device_map import device_map, weights_term
from fitgauge.engine.serving.weights import Stage
from fitgauge.engine.serving.weights import weights_term as whole_term
from fitgauge.engine.serving.workload import Workload
from fitgauge.engine.weights.sharding import ShardedWeights

_MASKS = "transformers 5.23 masking_utils.py, sdpa_mask"

_GROUPED_WHATEVER_WIDTH_UNTIL = (5, 13)
"""Before it SDPA was asked to share keys among queries whatever their width; only the math kernel
does so beyond `_WIDEST_SHARED`.

Source: transformers 5.5.0 and 5.12.0 against 5.13.0, integrations/sdpa_attention.py,
use_gqa_in_sdpa."""

_WIDEST_SHARED = 256
"""The widest head of PyTorch's flash kernel, the only fast one that shares keys among queries."""


class DynamicCache(UnpagedCache):
    """A cache that grows with its requests, behind the questions every engine's cache answers."""

    __slots__ = ("dtype", "layers", "spec", "tensor_parallel")

    def __init__(self, spec: ModelSpec, workload: Workload, layers: range, dtype: str) -> None:
        self.spec = spec
        self.dtype = dtype
        self.tensor_parallel = workload.tensor_parallel
        self.context_length = workload.context_length
        self.layers = layers

    def pool_bytes(self, concurrency: int, context_length: int) -> int:
        """Return the bytes that `concurrency` requests of `context_length` tokens hold when they
        are full."""
        return cache_bytes(
            self.spec,
            context_length=context_length,
            concurrency=concurrency,
            dtype=self.dtype,
            tensor_parallel=self.tensor_parallel,
            layers=self.layers,
        )


def cache_format(spec: ModelSpec, scheme: Scheme, workload: Workload) -> str:
    """Return the dtype of activations, which the cache has too, unless one is asked for: that in
    which the weights are loaded, else the model's own."""
    if workload.kv_cache_dtype != "auto":
        return workload.kv_cache_dtype
    dtype = scheme.dtype if scheme.form is None and scheme.dtype else spec.dtype
    return dtype if dtype in ("F16", "BF16", "F32") else "BF16"


def estimate(
    spec: ModelSpec,
    sharded: ShardedWeights,
    workload: Workload,
    accelerator: Accelerator,
    profile: EngineProfile,
) -> Estimate:
    """Return the Estimate of every GPU: device_map spreads whole layers, so GPUs are pipeline
    stages that wait for each other."""
    whole, dtype = range(spec.layers), cache_format(spec, sharded.scheme, workload)
    weights = [(whole_term(sharded, workload, Stage(whole)), whole)]
    if workload.pipeline_parallel > 1:
        gpus = device_map(
            sharded, spec.layers, workload.pipeline_parallel, workload.tensor_parallel
        )
        weights = [(weights_term(sharded, gpu), gpu.layers) for gpu in gpus]
    last = len(weights) - 1
    return Estimate(
        accelerator=accelerator,
        stages=tuple(
            _stage(number, term, layers, spec, workload, profile, dtype, last=number == last)
            for number, (term, layers) in enumerate(weights)
        ),
        budget=accelerator.usable,
    )


def mask_bytes(spec: ModelSpec, *, requests: int, length: int, tensor_parallel: int) -> int:
    """Return what SDPA's mask adds to the layers' peak of a prompt of b requests x L tokens, where
    a window or chunk is shorter than it [bytes].

    = b L^2 + max(0, 2 b L^2 - 2 b L x (widest MLP - widest attention)): one byte a pair is kept,
    and attention makes a 16-bit copy of it while the MLP's products are not there yet. Full
    attention alone makes no mask. Source: transformers 5.23, masking_utils.py
    (_ignore_causal_mask_sdpa; a sliding mask measured: kept 1.0 b L^2, 3.0 while built);
    PyTorch, aten/src/ATen/native/transformers/ attention.cpp, convert_boolean_attn_mask."""
    windows = [
        mixer.window or mixer.chunk
        for block in spec.blocks
        for mixer in block.mixers
        if isinstance(mixer, Attention) and mixer.causal and (mixer.window or mixer.chunk)
    ]
    if not any(window is not None and length >= window for window in windows):
        return 0
    pairs = requests * length * length
    language = [block for block in spec.blocks if block.part is Part.LANGUAGE]
    mlp = max(
        (
            mlp_width(block.mlp, spec.hidden_size, tensor_parallel)
            for block in language
            if block.mlp
        ),
        default=0,
    )
    attention = max(
        (attention_width(mixer, tensor_parallel) for block in language for mixer in block.mixers),
        default=0,
    )
    return pairs + max(0, 2 * pairs - HALF * requests * length * max(0, mlp - attention))


def scores_terms(spec: ModelSpec, workload: Workload, layers: range) -> tuple[Term, ...]:
    """`attention_scores` where these layers have full attention that only PyTorch's math kernel
    runs: heads wider than 256 numbers that share keys, in the releases that ask for it, as long
    as no mask is built (a window builds one, and then keys are repeated)."""
    if workload.engine_version >= _GROUPED_WHATEVER_WIDTH_UNTIL:
        return ()
    heads = max(
        (
            mixer.query_heads
            for block in spec.blocks
            if any(number in layers for number in block.layers)
            for mixer in block.mixers
            if isinstance(mixer, Attention) and mixer.causal and not (mixer.window or mixer.chunk)
            if mixer.head_dim > _WIDEST_SHARED and mixer.kv_heads < mixer.query_heads
        ),
        default=0,
    )
    if not heads:
        return ()
    reason = "heads wider than 256 that share keys run in the math kernel before 5.13"
    source = "transformers 5.23 integrations/sdpa_attention.py, use_gqa_in_sdpa"
    held = -(-heads // workload.tensor_parallel)
    return (
        math_scores_term(
            reason,
            requests=workload.requests_per_replica,
            length=workload.context_length,
            heads=held,
            source=source,
        ),
    )


def _stage(
    number: int,
    weights: Term,
    layers: range,
    spec: ModelSpec,
    workload: Workload,
    profile: EngineProfile,
    dtype: str,
    *,
    last: bool,
) -> StageEstimate:
    requests = workload.requests_per_replica
    prompt = requests * workload.context_length
    cache = DynamicCache(spec, workload, layers, dtype)
    mask = mask_bytes(
        spec,
        requests=requests,
        length=workload.context_length,
        tensor_parallel=workload.tensor_parallel,
    )
    fixed = (
        weights,
        *activation_bytes(
            spec,
            profile,
            tokens=prompt,
            sequences=requests,
            tensor_parallel=workload.tensor_parallel,
            samples=last,
        ),
        *(
            (
                exact_term(
                    "attention_mask",
                    mask,
                    "computed",
                    f"a mask of every pair of tokens, for sliding windows: {exactly(mask)}",
                    _MASKS,
                ),
            )
            if mask
            else ()
        ),
        *scores_terms(spec, workload, layers),
        *runtime_bytes(profile, layers=len(layers), ranks=1, graphs=False),
    )
    formula = requests_formula(
        requests,
        held(spec, layers),
        tokens=lambda mixer: cached_tokens(mixer, workload.context_length),
        layer_bytes=lambda mixer: request_bytes(
            mixer, workload.context_length, cache.dtype, workload.tensor_parallel, spec.dtype
        ),
        tensor_parallel=workload.tensor_parallel,
    )
    needed = cache.pool_bytes(requests, workload.context_length)
    source = "transformers 5.23 cache_utils.py, DynamicCache"
    return stage_estimate(
        stage=number,
        layers=len(layers),
        fixed=fixed,
        cache=(exact_term("kv_cache", needed, "computed", formula, source),),
        layout=cache,
    )
