"""ModelSpec: what a model is made of, layer by layer, as its config.json says.

A model is a list of blocks. A block is a run of layers made alike: their tensors, what they keep
for every token or request (`mixers`) and their MLP. Nothing here depends on an engine, a dtype
choice or a GPU."""

import math
from bisect import bisect_left
from enum import StrEnum
from functools import cached_property
from typing import Literal

import msgspec

from fitgauge.engine.model.mixers import (
    CompressedAttention,
    CrossAttention,
    LatentAttention,
    Mixer,
    Recurrent,
)
from fitgauge.engine.note import Note
from fitgauge.engine.quantity import Basis


class Split(StrEnum):
    """What tensor parallelism does with a tensor of shape (out, in) or (out,)."""

    NONE = "none"
    """every rank holds it whole"""
    COLUMN = "column"
    """`out` is divided: QKV, gate and up projections, heads"""
    ROW = "row"
    """`in` is divided: output and down projections"""
    KV = "kv"
    """`out` is divided by whole KV heads (`units` of them), which are replicated where ranks
    outnumber them"""
    VOCABULARY = "vocabulary"
    """`out` is the vocabulary, padded by the engine before it is divided"""


class Kind(StrEnum):
    """What a tensor is to a quantizer, an adapter and an optimizer."""

    LINEAR = "linear"
    EXPERT = "expert"
    """a linear of one routed expert"""
    ROUTER = "router"
    EMBEDDING = "embedding"
    HEAD = "head"
    NORM = "norm"
    BIAS = "bias"
    CONV = "conv"
    OTHER = "other"


class Tensor(msgspec.Struct, frozen=True, gc=False):
    """One stored parameter."""

    name: str
    """As in the checkpoint, after its block's prefix."""
    shape: tuple[int, ...]
    """(out, in) for a linear, whatever the framework's own order."""
    kind: Kind
    """What the tensor does: linear, embedding, norm, ..."""
    split: Split = Split.NONE
    """How tensor parallelism divides it."""
    units: int = 0
    """Indivisible pieces along the split axis (heads); 0 where any divisor will do."""
    count: int = 1
    """How many of this shape a layer holds: its routed experts, else 1."""
    dtype: str | None = None
    """Canonical, where it is not the model's own (routers and state parameters in F32)."""
    buffer: bool = False
    """Whether it is in the checkpoint and loaded by engines, yet no parameter (a router's
    correction bias, a hash table), so not counted as one."""

    @property
    def elements(self) -> int:
        """Numbers stored, over all `count`."""
        return math.prod(self.shape, start=self.count)


class Mlp(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """The feed-forward part of a layer."""

    intermediate_size: int
    """Width [features]; of a mixture, that of one expert."""
    gated: bool = True
    """Whether it multiplies by a gate."""
    experts: int = 0
    """Routed experts; 0: dense."""
    experts_per_token: int = 0
    """Routed experts that a token visits."""
    shared_intermediate_size: int = 0
    """Width of the shared experts; 0: none."""
    latent_size: int | None = None
    """Features that routed experts read and write instead of the hidden states; None where there
    are none."""


class Part(StrEnum):
    """Which part of the model a block belongs to."""

    EMBEDDING = "embedding"
    LANGUAGE = "language"
    HEAD = "head"
    ENCODER = "encoder"
    VISION = "vision"
    AUDIO = "audio"
    PROJECTOR = "projector"
    MTP = "mtp"
    """multi-token prediction heads: in the checkpoint, loaded only for speculative decoding"""


TOWERS = (Part.VISION, Part.AUDIO)
"""What reads images and sound."""


def count_within(numbers: tuple[int, ...], layers: range | None) -> int:
    """Return how many of these ascending numbers are in `layers`, a run of layers; all where it
    is None."""
    if layers is None:
        return len(numbers)
    return bisect_left(numbers, layers.stop) - bisect_left(numbers, layers.start)


class Block(msgspec.Struct, frozen=True, kw_only=True):
    """A run of equal layers."""

    part: Part
    """The part of the model it belongs to."""
    prefix: str
    """What their tensors' names begin with, `{}` for the layer's number."""
    tensors: tuple[Tensor, ...]
    """The tensors of one layer."""
    layers: tuple[int, ...] = (0,)
    """Numbers of the layers, ascending."""
    mixers: tuple[Mixer, ...] = ()
    """How each layer mixes tokens, and what it caches."""
    mlp: Mlp | None = None
    """Its feed-forward part; None: it has none."""

    @property
    def elements(self) -> int:
        """Parameters of all its layers."""
        return len(self.layers) * sum(
            tensor.elements for tensor in self.tensors if not tensor.buffer
        )


class RotaryTable(msgspec.Struct, frozen=True, gc=False):
    """A table of cosines and sines that an engine registers."""

    positions: int
    """Its rows."""
    dim: int
    """Numbers of a row."""
    dtype: str | None = None
    """Canonical dtype; None for the model's own."""
    axes: bool = False
    """Whether it rotates by several axes of position (`mrope_section`)."""
    tower: bool = False
    """Whether it is of a tower, which the first pipeline stage holds."""
    windowed: bool | None = None
    """Whether layers with a window or chunks alone rotate by it, or those without (of compressed
    attention those that compress); None: both."""


Place = Literal["embedding", "weights", "attention", "inside", "mlp", "final"]
"""Where dropout stands: after embeddings, on attention weights, after attention, inside the MLP,
after it, at the end of a stack."""


class VisionSection(msgspec.Struct, frozen=True, gc=False):
    """The size of a vision tower by the usual names, which engines look for whatever the family
    calls them."""

    layers: int | None
    """`num_hidden_layers`; None where the section has another name for it."""
    width: int | None
    """`hidden_size`, likewise."""
    feature_layer: int | None = None
    """The last layer that the language model reads (`vision_feature_layer`), counted from the end
    where negative; None where the config does not say."""


class ModelSpec(msgspec.Struct, frozen=True, kw_only=True, dict=True, weakref=True):
    """What a model is made of."""

    model_type: str
    """The config's own `model_type`."""
    architecture: str
    """The first class that the config names."""
    language_type: str = ""
    """The `model_type` of the language model that a multimodal config holds; empty where the
    config is of one model."""
    task: Literal["generate", "encode", "encoder_decoder"] = "generate"
    """What the model is for."""
    dtype: str = "BF16"
    """Canonical dtype of its unquantized weights."""
    hidden_size: int
    """Width of the residual stream."""
    vocabulary_size: int
    """Rows of the token embedding."""
    max_context_length: int
    """Tokens that its positions reach."""
    tied_embeddings: bool
    """Whether embedding and head are one tensor."""
    blocks: tuple[Block, ...]
    """All its layers, embeddings and heads, in the order of the model."""
    rotary_tables: tuple[RotaryTable, ...] = ()
    """Tables that an engine registers in addition to parameters."""
    rope_parameters: dict[str, object] = {}
    """What the config says of rotary positions, by the names of its `rope_parameters`, as far as
    whoever scales them has to repeat it."""
    stated: dict[str, object] = {}
    """What the config says that an engine may refuse, by the config's own names."""
    quantization: dict[str, object] | None = None
    """The config's own `quantization_config` (or hf_quant_config.json), as published; else None."""
    vision_section: VisionSection | None = None
    """What the config's `vision_config` says by the usual names; None where it has no such
    section."""
    dropout: dict[Place, float] = {}
    """Rates of dropout that the config states, by place; elsewhere the family's default holds."""
    sequential_branches: bool = False
    """Whether the MLP reads the sum with attention, where the family's reads what attention
    reads."""
    image_prefix: bool = False
    """Whether the tokens of an image also attend to those after them."""
    basis: Basis = "exact"
    """`exact` where a reader supports this architecture, `assumed` where the config was read by its
    usual names."""
    notes: tuple[Note, ...] = ()
    """Warnings of the reader."""
    draft: "ModelSpec | None" = None
    """Another model that drafts tokens for it."""
    layer_uses: int = 1
    """How often each layer runs in one pass (ALBERT's share their weights)."""

    @cached_property
    def parameters(self) -> int:
        """Parameters without multi-token prediction heads, tied weights counted once."""
        return sum(block.elements for block in self.blocks if block.part is not Part.MTP)

    @cached_property
    def layers(self) -> int:
        """Layers of the language model (its decoder, where it has two stacks)."""
        return sum(
            len(block.layers)
            for block in self.blocks
            if block.part is Part.LANGUAGE and "{}" in block.prefix
        )

    @cached_property
    def has_experts(self) -> bool:
        """Whether it is a mixture of experts."""
        return any(block.mlp is not None and block.mlp.experts > 0 for block in self.blocks)

    @cached_property
    def routed_experts(self) -> int:
        """Routed experts of a layer of the language model, 0 for a dense one."""
        return max(
            (
                block.mlp.experts
                for block in self.blocks
                if block.mlp and block.part is Part.LANGUAGE
            ),
            default=0,
        )

    @cached_property
    def sees_images(self) -> bool:
        """Whether it has a vision tower."""
        return any(block.part is Part.VISION for block in self.blocks)

    @cached_property
    def reads_text_alone(self) -> bool:
        """Whether it has no tower of images or sound."""
        return all(block.part not in TOWERS for block in self.blocks)

    @cached_property
    def keeps_states(self) -> bool:
        """Whether it has recurrent layers."""
        return any(isinstance(mixer, Recurrent) for block in self.blocks for mixer in block.mixers)

    @cached_property
    def reads_source(self) -> bool:
        """Whether it has cross attention to a source sequence."""
        return any(
            isinstance(mixer, CrossAttention) for block in self.blocks for mixer in block.mixers
        )

    @cached_property
    def latent_layers(self) -> tuple[int, ...]:
        """Numbers of the language model's layers that attend to latents, compressed ones too."""
        kinds = LatentAttention | CompressedAttention
        blocks = (
            block
            for block in self.blocks
            if block.part is Part.LANGUAGE
            and any(isinstance(mixer, kinds) for mixer in block.mixers)
        )
        return tuple(sorted(layer for block in blocks for layer in block.layers))

    @cached_property
    def query_heads(self) -> int:
        """Heads of the language model, which tensor parallelism must divide: of its attention, or
        where it has none the rows of its recurrent states. 1 where it has neither."""
        mixers = [m for b in self.blocks if b.part is Part.LANGUAGE for m in b.mixers]
        rows = (s.heads for m in mixers if isinstance(m, Recurrent) for s in m.states)
        return max(
            (m.query_heads for m in mixers if not isinstance(m, Recurrent)),
            default=max(rows, default=1),
        )
