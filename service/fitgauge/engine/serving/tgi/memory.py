"""Serving with Text Generation Inference: a warm-up prefill of the largest batch, then blocks for
most of what is still free.

Source: text-generation-inference 3.3, server/text_generation_server/models/flash_causal_lm.py,
warmup: blocks = (free - (1 - cuda_memory_fraction) x total) x wiggle room // bytes of a block;
every layer keeps every token, windows too."""

from fitgauge.engine.accelerator import Accelerator
from fitgauge.engine.model.spec import ModelSpec
from fitgauge.engine.quantity import Term, exact_term, exactly
from fitgauge.engine.serving.activations import math_scores_term
from fitgauge.engine.serving.warmup import WarmupEstimate
from fitgauge.engine.serving.workload import Workload

PREFILL_TOKENS = 4096
"""`max_batch_prefill_tokens` of the launcher where it is not asked for and the model's work
cannot be counted. From 3.0 on text models on GPUs it knows take what a second of the GPU's
work holds, as far as memory allows, which is not followed here."""

VISION_PREFILL_TOKENS: dict[str, tuple[tuple[int, ...], int]] = {
    "gemma3": ((3, 2), 8000),
    "qwen2_vl": ((3, 1, 1), 10_000),
    "qwen2_5_vl": ((3, 1, 1), 10_000),
}
"""By model type: the first release with a default of its own, and that default. Source:
launcher/src/main.rs, default_optimal."""

SEQUENCES = 128
"""Rows whose logits are held in one step without `max_batch_size`: the router then fills batches
by tokens."""

MASKED = {"gemma3": ((3, 2), (3, 3))}
"""By model type: the releases that answer an image with a mask of every pair of tokens, and so
with PyTorch's math kernel, as keys are shared. The warm-up's first request holds an image.
Source: 3.2.3, models/custom_modeling/flash_gemma3_modeling.py (get_attention_mask, enable_gqa);
backends/client/src/v3/client.rs, warmup."""


def default_batch(
    accelerator: Accelerator,
    context_length: int,
    version: tuple[int, ...],
    spec: ModelSpec,
    tensor_parallel: int = 1,
) -> tuple[int, int]:
    """Return (rows of logits, tokens of the warm-up prefill), the same on every GPU."""
    since, tokens = VISION_PREFILL_TOKENS.get(spec.model_type, ((), PREFILL_TOKENS))
    return SEQUENCES, tokens if version >= since else PREFILL_TOKENS


def scores_terms(spec: ModelSpec, workload: Workload) -> tuple[Term, ...]:
    """`attention_scores` of the warm-up's image request, where `MASKED` says so."""
    since, until = MASKED.get(spec.model_type, ((), ()))
    if not since <= workload.engine_version < until:
        return ()
    length = min(workload.max_batched_tokens, workload.context_length)
    heads = -(-spec.query_heads // workload.tensor_parallel)
    reason = "an image makes a mask of every pair, which the math kernel reads"
    return (
        math_scores_term(
            reason,
            requests=1,
            length=length,
            heads=heads,
            source="flash_gemma3_modeling.py (3.2.3)",
        ),
    )


def free_share(version: tuple[int, ...]) -> float:
    """TGI_WIGGLE_ROOM by release. Source: server/text_generation_server/models/globals.py of
    each."""
    for since, share in (((3, 3), 0.90), ((3, 1), 0.93), ((3,), 0.95), ((2, 4), 0.90)):
        if version >= since:
            return share
    return 0.95


def block_tokens(version: tuple[int, ...]) -> int:
    """BLOCK_SIZE: 16 with paged attention, 1 with flashinfer, the default from 2.3 on. Source:
    models/globals.py."""
    return 1 if version >= (2, 3) else 16


def left_free(taken: int, usable: int, workload: Workload) -> Term:
    """Return the term `reserve`: what `cuda_memory_fraction` holds back of the GPU, and the
    wiggle room of what is then free [bytes]."""
    usable_share, share = free_share(workload.engine_version), workload.gpu_memory_utilization
    held_back = int(usable * (1 - share))
    free = max(0, usable - taken - held_back)
    formula = (
        f"(1 - {share:g}) x {exactly(usable)} + (1 - {usable_share:g}) x {exactly(free)}; of the"
        " GPU, 1 - cuda_memory_fraction, and of what is then free"
    )
    return exact_term(
        "reserve",
        held_back + int(free * (1 - usable_share)),
        "computed",
        formula,
        "text-generation-inference 3.3 server/text_generation_server/models/flash_causal_lm.py",
    )


WARMUP = WarmupEstimate(
    block=lambda workload: block_tokens(workload.engine_version),
    reserve=left_free,
    batch=scores_terms,
)
