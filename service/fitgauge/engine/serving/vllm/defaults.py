"""What vLLM takes where a flag is left out, and what it refuses to run.

Source: vllm/engine/arg_utils.py, get_batch_defaults (0.33, OpenAI server);
model_executor/layers/quantization, get_min_capability."""

from fitgauge.engine.accelerator import Accelerator
from fitgauge.engine.model.mixers import Attention, LatentAttention
from fitgauge.engine.model.spec import ModelSpec
from fitgauge.engine.quantity import GIB
from fitgauge.engine.serving.vllm import releases
from fitgauge.engine.serving.vllm.architectures import BORROWED, LAST
from fitgauge.engine.serving.vllm.quirks import quirks
from fitgauge.engine.unsupported import UnsupportedError

_GB10 = (12, 1)
"""A small GPU by name in 0.33; before, as NVML tells nothing of its memory and the defaults of an
unknown GPU hold. Source: 0.25.0, platforms/cuda.py, get_device_total_memory; a log of 0.25.0 whose
windows show 2,496 tokens (w050 of tools/accuracy/serving.jsonl)."""


def default_batch(
    accelerator: Accelerator,
    context_length: int,
    version: tuple[int, ...],
    spec: ModelSpec,
    tensor_parallel: int = 1,
) -> tuple[int, int]:
    """Return (max_num_seqs, max_num_batched_tokens) of the OpenAI server on this GPU, the
    latter no more than its requests can fill."""
    if first_engine(accelerator, version):
        return 256, _first_engine_tokens(context_length, spec)
    sequences, tokens = _tier(accelerator, version)
    if version >= releases.PREFIX_ITEMS_BATCHED:
        tokens = max(tokens, least_batch(spec))
    tokens = min(tokens, sequences * context_length)
    return min(sequences, tokens), tokens


def least_batch(spec: ModelSpec) -> int:
    """Return the tokens that a batch must hold: the largest image or video of a model that
    attends to all of it at once; 0 where vLLM reads it in pieces. Source:
    v1/core/encoder_cache_manager.py, compute_mm_encoder_budget (0.33)."""
    return quirks(spec).largest_item if spec.image_prefix else 0


def first_engine(accelerator: Accelerator, version: tuple[int, ...]) -> bool:
    """Return whether the first engine serves: in every release before 0.8, and until 0.11 on GPUs
    before Ampere.

    Source: vllm/engine/arg_utils.py (0.8.5), _is_v1_supported_oracle; 0.11 has the second engine
    alone."""
    capability = accelerator.compute_capability
    return version < releases.SECOND_ENGINE or (
        version < releases.SECOND_ENGINE_ALONE and capability is not None and capability < (8, 0)
    )


def _first_engine_tokens(context_length: int, spec: ModelSpec) -> int:
    """Return whole prompts up to 32768 tokens, chunks of 2048 beyond; models that see images, have
    latent attention or a window read prompts of any length whole, the first in passes of 5120
    tokens at least.

    Source: 0.6.6 and 0.8.3, config.py SchedulerConfig; vllm/engine/arg_utils.py,
    _set_default_args_v0."""
    if spec.sees_images:
        return max(context_length, 5120)
    whole = any(
        isinstance(mixer, LatentAttention) or (isinstance(mixer, Attention) and mixer.window)
        for block in spec.blocks
        for mixer in block.mixers
    )
    return max(context_length, 2048) if context_length <= 32_768 or whole else 2048


def _tier(accelerator: Accelerator, version: tuple[int, ...]) -> tuple[int, int]:
    memory = accelerator.usable.expected
    if memory >= 160 * GIB and version >= releases.LARGE_TIER:
        return 1024, 16384
    small = ("a100" in accelerator.name.lower() and version >= releases.A100_SMALL) or (
        accelerator.compute_capability == _GB10
    )
    if memory >= 70 * GIB and not small:
        return 1024, 8192
    return 256, 2048


def removed(spec: ModelSpec, version: tuple[int, ...]) -> UnsupportedError | None:
    """Return why vLLM of this version does not know the model any more, None where it does."""
    last = LAST.get(spec.architecture)
    borrowed = spec.architecture in BORROWED and version >= releases.MIXTURES_BY_TRANSFORMERS
    if last is None or version[:2] <= last.numbers[:2] or borrowed:
        return None
    return UnsupportedError(
        "engine_version",
        f"{spec.architecture} was supported until vLLM {last.name}.",
        ({"engine_version": (last.name,)}, {"engine": ("transformers",)}),
    )
