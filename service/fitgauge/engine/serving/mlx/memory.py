"""Serving with MLX (mlx-lm) on Apple silicon: unified memory up to the wired limit, a cache that
grows in steps of 256 tokens.

Source: mlx-lm 0.32.2, models/cache.py (KVCache.step, RotatingKVCache, QuantizedKVCache),
generate.py (prefill_step_size 2048; wired_limit warns where the model comes near
max_recommended_working_set_size). MLX prints 10^9 bytes as GB."""

import re

import msgspec

from fitgauge.engine.accelerator import Accelerator
from fitgauge.engine.model.mixers import (
    Attention,
    CompressedAttention,
    LatentAttention,
    Mixer,
    Recurrent,
)
from fitgauge.engine.model.model import Stored
from fitgauge.engine.model.spec import ModelSpec
from fitgauge.engine.quantity import Term, exact_term
from fitgauge.engine.quantization.formats import Format
from fitgauge.engine.quantization.scheme import MATRICES, Rule, Scheme
from fitgauge.engine.serving.activations import activation_bytes
from fitgauge.engine.serving.estimate import Estimate, StageEstimate, UnpagedCache, stage_estimate
from fitgauge.engine.serving.kv_cache import (
    cached_tokens,
    compressed_bytes,
    cross_bytes,
    requests_formula,
    state_bytes,
    token_bytes,
)
from fitgauge.engine.serving.profile import EngineProfile
from fitgauge.engine.serving.runtime import runtime_bytes
from fitgauge.engine.serving.token_pool import held, kv_cache_dtype
from fitgauge.engine.serving.weights import Stage, stages_of, weights_term
from fitgauge.engine.serving.workload import Workload
from fitgauge.engine.weights import sharding
from fitgauge.engine.weights.sharding import ShardedWeights

STEP = 256
"""Tokens a cache grows by."""

PREFILL_STEP = 2048
"""Tokens of one prefill pass."""

_HALF = 2
_EXPANDED = frozenset({"deepseek_v2", "minicpm3", "youtu_llm"})
"""Model types whose MLA caches keys and values of every head instead of the latent.

Source: mlx-lm d78bf58, mlx_lm/models of these names (update_and_fetch)."""


def default_batch(
    accelerator: Accelerator,
    context_length: int,
    version: tuple[int, ...],
    spec: ModelSpec,
    tensor_parallel: int = 1,
) -> tuple[int, int]:
    """Return (requests, tokens of one prefill pass)."""
    return 1, min(PREFILL_STEP, context_length)


def shard_weights(spec: ModelSpec, scheme: Scheme, stored: Stored | None = None) -> ShardedWeights:
    """Integers asked for are MLX's own: groups of 64 with a 16-bit scale and bias, embeddings and
    head included.

    Source: mlx-lm 0.32, utils.py, quantize_model (q_group_size 64); mlx nn/layers/quantized.py.
    """
    requested = re.fullmatch(r"int(\d)", scheme.name)
    if requested:
        form = Format(name="mlx", bits=int(requested[1]), group=64, scale_bits=16, zero_bits=16)
        scheme = msgspec.structs.replace(scheme, rules=(Rule(form=form, kinds=MATRICES),))
    return sharding.shard_weights(spec, scheme, stored=stored)


class StepCache(UnpagedCache):
    """Caches of one machine's layers: every request has its own, grown in steps."""

    __slots__ = ("dtype", "expands", "mixers")

    def __init__(self, spec: ModelSpec, workload: Workload, layers: range) -> None:
        self.mixers = held(spec, layers)
        self.dtype = kv_cache_dtype(spec, workload.kv_cache_dtype)
        self.context_length = workload.context_length
        self.expands = spec.model_type in _EXPANDED

    def pool_bytes(self, concurrency: int, context_length: int) -> int:
        """Return the bytes of `concurrency` full requests."""
        return concurrency * sum(
            count * self.layer_bytes(mixer, context_length) for mixer, count in self.mixers
        )

    def stepped(self, mixer: Mixer, context_length: int) -> int:
        """Return the tokens that a layer makes room for."""
        return -(-cached_tokens(mixer, context_length) // STEP) * STEP

    def layer_bytes(self, mixer: Mixer, context_length: int) -> int:
        """Return the bytes of one full request in one layer."""
        if isinstance(mixer, LatentAttention) and self.expands:
            return _HALF * self.stepped(mixer, context_length) * expanded_numbers(mixer)
        if isinstance(mixer, Recurrent):
            return state_bytes(mixer, self.dtype, 1)
        if isinstance(mixer, Attention | LatentAttention | CompressedAttention):
            more = 0
            if isinstance(mixer, CompressedAttention):
                more = compressed_bytes(mixer, context_length, self.dtype)
            return self.stepped(mixer, context_length) * token_bytes(mixer, self.dtype, 1) + more
        return cross_bytes(mixer, self.dtype, 1)


def expanded_numbers(mixer: LatentAttention) -> int:
    """Return the numbers of one token's keys and values, expanded to every head."""
    return mixer.query_heads * (mixer.nope_dim + mixer.rope_dim + mixer.value_dim)


def latent_scores_terms(cache: StepCache, chunk: int) -> tuple[Term, ...]:
    """`attention_scores` of one layer of MLA in the last prefill pass: scores of the rotated
    parts with and without their mask, and keys and values of all tokens, in 16 bits.

    Source: mlx-lm d78bf58 mlx_lm/models/deepseek_v3.py, DeepseekV3Attention (pe_scores)."""
    latent = [mixer for mixer, _ in cache.mixers if isinstance(mixer, LatentAttention)]
    if not latent or cache.expands:
        return ()
    tokens, widest = cache.context_length, max(latent, key=expanded_numbers)
    scores = _HALF * widest.query_heads * chunk * tokens
    expanded = _HALF * widest.query_heads * (widest.nope_dim + widest.value_dim) * tokens
    formula = (
        f"2 x {widest.query_heads} heads x {chunk} x {tokens} tokens x 2 B + {tokens} tokens x"
        f" {widest.query_heads} heads x ({widest.nope_dim} + {widest.value_dim}) x 2 B"
    )
    return (
        Term(
            name="attention_scores",
            bytes=2 * scores + expanded,
            low=scores + expanded,
            high=int(2.2 * scores) + expanded,
            basis="computed",
            formula=formula,
            source="mlx-lm d78bf58 mlx_lm/models/deepseek_v3.py, DeepseekV3Attention",
        ),
    )


def estimate(
    spec: ModelSpec,
    sharded: ShardedWeights,
    workload: Workload,
    accelerator: Accelerator,
    profile: EngineProfile,
) -> Estimate:
    """Return the Estimate of every machine: `mlx.launch` spreads whole layers."""
    return Estimate(
        accelerator=accelerator,
        stages=tuple(
            _stage(number, stage, spec, sharded, workload, profile)
            for number, stage in enumerate(stages_of(spec, workload))
        ),
        budget=accelerator.usable,
    )


def _stage(
    number: int,
    stage: Stage,
    spec: ModelSpec,
    sharded: ShardedWeights,
    workload: Workload,
    profile: EngineProfile,
) -> StageEstimate:
    layers, requests = stage.layers, workload.requests_per_replica
    cache = StepCache(spec, workload, layers)
    fixed = (
        weights_term(sharded, workload, stage),
        *activation_bytes(
            spec,
            profile,
            tokens=workload.max_batched_tokens,
            sequences=requests,
            tensor_parallel=1,
            samples=stage.last,
        ),
        *latent_scores_terms(cache, workload.max_batched_tokens),
        *runtime_bytes(profile, layers=len(layers), ranks=1, graphs=False),
    )
    size = cache.pool_bytes(requests, workload.context_length)
    formula = requests_formula(
        requests,
        cache.mixers,
        tokens=lambda mixer: cache.stepped(mixer, workload.context_length),
        layer_bytes=lambda mixer: cache.layer_bytes(mixer, workload.context_length),
    )
    cache_term = exact_term(
        "kv_cache", size, "computed", formula, "mlx-lm 0.32.2 mlx_lm/models/cache.py"
    )
    return stage_estimate(
        stage=number, layers=len(layers), fixed=fixed, cache=(cache_term,), layout=cache
    )
