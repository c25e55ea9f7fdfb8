"""Images in vLLM's profiling pass: the largest batch the encoder may see, and what it leaves behind for the language model.

Symbols: E encoder tokens of one pass, p patches a token, d numbers of a patch (3 x side x side, frames included), H hidden size.
Source: vllm/v1/worker/gpu_model_runner.py, profile_run (dummy images of E tokens, outputs kept in the encoder cache while the language
model is profiled); multimodal/encoder_budget.py (E is max_num_batched_tokens, or one item where that is larger).
"""

from math import prod
from typing import NamedTuple

from fitgauge.engine.activations import HALF, attention_width
from fitgauge.engine.architecture import CrossAttention, ModelSpec, Part

_LARGEST_ITEM = 16_384
"""Tokens of the largest image of a model of native resolution: max_pixels 12,845,056 / 28^2, or 16,777,216 / 32^2.

Source: preprocessor_config.json of Qwen2-VL, Qwen2.5-VL and Qwen3-VL; vllm/model_executor/models/qwen2_vl.py, get_max_image_tokens."""

_NATIVE = ("qwen2_vl", "qwen2_5_vl", "qwen3_vl", "qwen3_vl_moe", "qwen3_5", "qwen3_5_moe", "qwen2_5_omni", "qwen3_omni_moe")
"""Model types whose images keep their resolution up to that size."""

_POOLED = {"gemma3": 16, "gemma3n": 1, "gemma4": 9}
"""Patches pooled into one token where no projection shows it. Source: transformers, models/gemma3 and gemma4 (pooling kernels 4 and 3)."""

_SQUARES = (1, 4, 9, 16)


class Images(NamedTuple):
    """Memory of the images of one profiling pass [bytes]: `held` while the language model runs, `peak` of the encoder alone."""

    tokens: int
    held: int
    peak: int


def images(spec: ModelSpec, *, tokens: int, tensor_parallel: int, sequences: int, every_sequence: bool = False) -> Images | None:
    """The images of a pass of `tokens` tokens, None for a model that sees none.

    held = E x H x 2 B (outputs) + E x p x d x 2 B (pixels). peak = pixels + outputs + E x p x 2 B x (4 x width + widest product).
    every_sequence: one largest image for each of `sequences`, as the first engine profiled (versions before 0.8).
    """
    embed = _patch_embedding(spec)
    if embed is None:
        return None
    layer = max(
        (block for block in spec.blocks if block.part is Part.VISION and block.mlp), key=lambda block: len(block.layers), default=None
    )
    if layer is None or layer.mlp is None:
        return None
    width, numbers = embed
    patches_each = _patches(spec, width)
    if every_sequence and (source := _cross_tokens(spec)):
        count, outputs = sequences * source, sequences * source
    else:
        outputs = max(tokens, _LARGEST_ITEM) if spec.model_type in _NATIVE else tokens
        count = outputs * patches_each
    pixels = count * numbers * HALF
    held = outputs * spec.hidden_size * HALF + pixels
    product = (3 if layer.mlp.gated else 2) * layer.mlp.intermediate_size // tensor_parallel
    widest = max(product, *(attention_width(mixer, tensor_parallel) for mixer in layer.mixers)) if layer.mixers else product
    return Images(outputs, held, held + count * HALF * (4 * width + widest))


def _patch_embedding(spec: ModelSpec) -> tuple[int, int] | None:
    """(width of the tower, numbers of a patch): the first vision tensor of shape (width, 3, ...)."""
    for block in spec.blocks:
        if block.part is not Part.VISION:
            continue
        for tensor in block.tensors:
            if "patch" in tensor.name and len(tensor.shape) >= 2 and tensor.name.endswith("weight"):
                return tensor.shape[0], prod(tensor.shape[1:])
    return None


def _patches(spec: ModelSpec, width: int) -> int:
    """Patches merged into one token, a square: inputs of the widest projection over the tower's width, or the pooling of its family."""
    if spec.model_type in _POOLED:
        return _POOLED[spec.model_type]
    merged = (
        tensor.shape[1] // width
        for block in spec.blocks
        if block.part is Part.PROJECTOR
        for tensor in block.tensors
        if len(tensor.shape) == 2 and tensor.shape[1] % width == 0
    )
    return max((count for count in merged if count in _SQUARES), default=1)


def _cross_tokens(spec: ModelSpec) -> int:
    """Tokens of the largest image where the decoder reads images by cross attention, else 0."""
    return max((m.source_tokens for b in spec.blocks for m in b.mixers if isinstance(m, CrossAttention)), default=0)
