"""Serving with Text Generation Inference: a warm-up prefill of the largest batch, then blocks for most of what is still free.

Source: text-generation-inference 3.3, server/text_generation_server/models/flash_causal_lm.py, warmup: blocks =
(free - (1 - cuda_memory_fraction) x total) x wiggle room // bytes of a block; every layer keeps every token, windows too.
"""

from fitgauge.engine.accelerator import Accelerator
from fitgauge.engine.architecture import ModelSpec
from fitgauge.engine.estimate import Estimate
from fitgauge.engine.profile import EngineProfile
from fitgauge.engine.profiled import profiled_estimate
from fitgauge.engine.quantity import Term, certain
from fitgauge.engine.weights import Laid
from fitgauge.engine.workload import Workload

PREFILL_TOKENS = 4096
"""`max_batch_prefill_tokens` of the launcher; from 3.0 on it starts from the longest input and is lowered until the warm-up fits."""

SEQUENCES = 128
"""Rows whose logits are held in one step: the launcher sets no bound, the router fills batches by tokens."""


def default_batch(accelerator: Accelerator, context_length: int, version: tuple[int, ...]) -> tuple[int, int]:
    """(rows of logits, tokens of the warm-up prefill), the same on every card."""
    return SEQUENCES, PREFILL_TOKENS


def estimate(spec: ModelSpec, laid: Laid, workload: Workload, accelerator: Accelerator, profile: EngineProfile) -> Estimate:
    """The Estimate of every pipeline stage."""
    return profiled_estimate(spec, laid, workload, accelerator, profile, block=block_tokens(workload.version), reserve=left_free)


def wiggle_room(version: tuple[int, ...]) -> float:
    """TGI_WIGGLE_ROOM: 0.95, and 0.90 from 3.0 on. Source: server/text_generation_server/models/globals.py."""
    return 0.90 if version >= (3,) else 0.95


def block_tokens(version: tuple[int, ...]) -> int:
    """BLOCK_SIZE: 16 with paged attention, 1 with flashinfer, the default from 2.3 on. Source: models/globals.py."""
    return 1 if version >= (2, 3) else 16


def left_free(taken: int, usable: int, workload: Workload) -> Term:
    """The term `reserve`: what `cuda_memory_fraction` holds back of the card, and the wiggle room of what is then free [bytes]."""
    room, share = wiggle_room(workload.version), workload.gpu_memory_utilization
    held_back = int(usable * (1 - share))
    free = max(0, usable - taken - held_back)
    formula = f"(1 - cuda_memory_fraction {share:g}) x the card + (1 - {room:g}) x what is then free, {free} B"
    return certain("reserve", held_back + int(free * (1 - room)), "computed", formula, "text_generation_server/models/flash_causal_lm.py")
