"""Images and videos in vLLM's profiling pass: the largest batch the encoder may see, and what it
leaves behind for the language model.

Symbols: E encoder tokens of one pass, p patches a token, d numbers of a patch (3 x side x side,
frames included), H hidden size, t ranks. Source: vllm/v1/worker/gpu_model_runner.py, profile_run
(dummy items of the modality with the largest item, outputs kept in the encoder cache while the
language model is profiled); multimodal/encoder_budget.py (E is max_num_batched_tokens, or one
item where that is larger). Before the second engine: vllm/worker/model_runner.py, _dummy_run
(0.8.3). Releases read: 0.8.3, 0.11.0, 0.19.0, 0.33.0."""

from math import prod
from typing import NamedTuple

from fitgauge.engine.model.mixers import CrossAttention
from fitgauge.engine.model.spec import Block, ModelSpec, Part
from fitgauge.engine.serving.activations import HALF, attention_width
from fitgauge.engine.serving.vllm import releases
from fitgauge.engine.serving.vllm.quirks import quirks
from fitgauge.engine.serving.workload import Workload

_FLOAT = 4

_LARGEST_IMAGE = 16_384
"""Tokens of the largest image of a model of native resolution: max_pixels 12,845,056 / 28^2, or
16,777,216 / 32^2.

Source: preprocessor_config.json of Qwen2-VL, Qwen2.5-VL and Qwen3-VL;
vllm/model_executor/models/qwen2_vl.py, get_max_image_tokens."""

_MOST_PAIRS = 7
"""Pairs of frames in the largest video. Source: models/qwen2_vl.py, _MAX_FRAMES_PER_VIDEO 14,
temporal_patch_size 2."""

_SQUARES = (1, 4, 9, 16)


class Images(NamedTuple):
    """Memory of the images of one profiling pass."""

    tokens: int
    """Tokens of these images."""
    held: int
    """While the language model runs [bytes]."""
    peak: int
    """Of the encoder alone [bytes]."""


class Batch(NamedTuple):
    """What the encoder computes in one profiling pass."""

    items: int
    """Number of images or clips."""
    widest: int
    """Tokens computed at once."""
    tokens: int
    """Tokens in all."""


def images(spec: ModelSpec, workload: Workload, *, first_engine: bool) -> Images | None:
    """Return the images of a pass, None for a model that sees none.

    held = E x H x 2 B (outputs) + E x p x d x 2 B (pixels). peak = pixels + outputs + patches x
    2 B x the widest moment of a layer. first_engine: whether the first engine serves, which
    profiles whole requests, each with its largest image and video."""
    numbers, layer = _patch_numbers(spec), _widest_tower(spec)
    if numbers is None or layer is None:
        return None
    width, each = numbers
    patches = 1 if first_engine and _cross_tokens(spec) else _patches(spec, width)
    batch = largest_batch(spec, workload, first_engine=first_engine)
    pixels = (
        batch.tokens
        * patches
        * each
        * (HALF + _FLOAT if workload.engine_version < releases.PIXELS_IN_16_BIT else HALF)
    )
    outputs = batch.tokens * spec.hidden_size * HALF
    if releases.ITEMS_SPREAD <= workload.engine_version < releases.ITEMS_PACKED and batch.items > 1:
        outputs = batch.items * workload.max_batched_tokens * spec.hidden_size * HALF
    moment = layer_moment(layer, width, spec, workload)
    return Images(
        batch.tokens, outputs + pixels, outputs + pixels + batch.widest * patches * HALF * moment
    )


def largest_batch(spec: ModelSpec, workload: Workload, *, first_engine: bool) -> Batch:
    """Return what the encoder is given: as many of the largest items as the budget of tokens and
    the sequences hold, at least one.

    The first engine: requests of max_num_batched_tokens / n tokens, n as many as hold an image
    and a video, each with both; an image for every one of max_num_seqs where the decoder reads
    images by cross attention."""
    budget, sequences = workload.max_batched_tokens, workload.max_num_seqs
    if first_engine and (source := _cross_tokens(spec)):
        return Batch(sequences, sequences * source, sequences * source)
    if first_engine and quirks(spec).video_by_frame:
        video = _video(workload.context_length - _LARGEST_IMAGE)
        requests = max(1, min(sequences, budget // (_LARGEST_IMAGE + video)))
        video = _video(budget // requests - _LARGEST_IMAGE)
        return Batch(
            2 * requests, requests * max(_LARGEST_IMAGE, video), requests * (_LARGEST_IMAGE + video)
        )
    item = largest_item(spec, workload)
    if item is None:
        return Batch(1, budget, budget)
    items = max(1, min(budget // item, sequences * max(1, workload.context_length // item)))
    return Batch(items, items * item, items * item)


def largest_item(spec: ModelSpec, workload: Workload) -> int | None:
    """Return the tokens of the largest image or video, None where it is not known and taken to
    fill the budget."""
    if quirks(spec).video_by_frame:
        return _video(
            workload.context_length
            if workload.engine_version >= releases.VIDEO_OF_CONTEXT
            else workload.max_batched_tokens
        )
    if quirks(spec).native_resolution:
        return _LARGEST_IMAGE
    return quirks(spec).largest_item or None


def largest_image(spec: ModelSpec) -> int:
    """Return the tokens of the largest image or video that a forward pass holds whole; 0 where it
    is not known."""
    if quirks(spec).video_by_frame or quirks(spec).native_resolution:
        return _LARGEST_IMAGE
    return quirks(spec).largest_item


def _video(limit: int) -> int:
    """Return the tokens of the longest video that `limit` tokens hold, one pair of frames at least:
    each pair is as large as the largest image.

    Source: models/qwen2_vl.py, get_num_frames_with_most_features (from 0.11 on no room is left
    for an image in addition to it)."""
    return _LARGEST_IMAGE * max(1, min(_MOST_PAIRS, limit // _LARGEST_IMAGE))


def layer_moment(layer: Block, width: int, spec: ModelSpec, workload: Workload) -> int:
    """Return the numbers of one patch at the widest moment of a tower's layer: 4 x width in
    addition to the MLP's products or attention's.

    Qwen's towers until 0.11 rotate in float32: 2 + 16/t widths (input, its norm, the joined
    products, their three copies, queries and keys together, both in float32 and rotated), 2 +
    10/t where queries and keys went apart. They also gather the joined products of all ranks: 8
    + 3/t widths (what is gathered and its ordered copy in addition to the rank's own). Source:
    0.11.0 and 0.8.3, models/qwen2_5_vl.py, Qwen2_5_VisionAttention, all_gather_interleave."""
    mlp, ranks = layer.mlp, workload.tensor_parallel
    product = (3 if mlp.gated else 2) * mlp.intermediate_size // ranks if mlp else 0
    moment = 4 * width + max(product, *(attention_width(mixer, ranks) for mixer in layer.mixers), 0)
    if (
        not quirks(spec).native_resolution
        or workload.engine_version >= releases.TOWERS_ROTATE_IN_16_BIT
    ):
        return moment
    rotated = (
        2 * width
        + (10 if workload.engine_version < releases.TOWERS_ROTATE_TOGETHER else 16) * width // ranks
    )
    gathered = 8 * width + 3 * width // ranks if ranks > 1 else 0
    return max(moment, rotated, gathered)


def _widest_tower(spec: ModelSpec) -> Block | None:
    """Return the layers of the vision tower."""
    towers = (block for block in spec.blocks if block.part is Part.VISION and block.mlp)
    return max(towers, key=lambda block: len(block.layers), default=None)


def _patch_numbers(spec: ModelSpec) -> tuple[int, int] | None:
    """Return (width of the tower, numbers of a patch): the first vision tensor of shape (width,
    3, ...)."""
    for block in spec.blocks:
        if block.part is not Part.VISION:
            continue
        for tensor in block.tensors:
            if "patch" in tensor.name and len(tensor.shape) >= 2 and tensor.name.endswith("weight"):
                return tensor.shape[0], prod(tensor.shape[1:])
    return None


def _patches(spec: ModelSpec, width: int) -> int:
    """Return patches merged into one token, a square: inputs of the widest projection over the
    tower's width, or the pooling of its family."""
    pooled = quirks(spec).pooled_patches
    if pooled is not None:
        return pooled
    merged = (
        tensor.shape[1] // width
        for block in spec.blocks
        if block.part is Part.PROJECTOR
        for tensor in block.tensors
        if len(tensor.shape) == 2 and tensor.shape[1] % width == 0
    )
    return max((count for count in merged if count in _SQUARES), default=1)


def _cross_tokens(spec: ModelSpec) -> int:
    """Return the tokens of the largest image where the decoder reads images by cross attention,
    else 0."""
    return max(
        (m.source_tokens for b in spec.blocks for m in b.mixers if isinstance(m, CrossAttention)),
        default=0,
    )
