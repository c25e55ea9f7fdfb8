"""ModelSpec: what a model is made of, layer by layer, as its config.json says.

A model is a list of blocks. A block is a run of layers made alike: their tensors, what they keep
for every token or request (`mixers`) and their MLP. Nothing here depends on an engine, a dtype
choice or a GPU."""

from bisect import bisect_left
from enum import StrEnum
from functools import cached_property
from typing import Literal

import msgspec

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
    """One stored parameter.

    `name`: as in the checkpoint, after its block's prefix. `shape`: (out, in) for a linear,
    whatever the framework's own order. `count`: how many of this shape a layer holds (its routed
    experts), else 1. `split`, `units`: see Split; `units` is the number of indivisible pieces
    along the split axis (heads), 0 where any divisor will do. `dtype`: canonical, where it is
    not the model's own (routers and state parameters kept in F32), else None. `buffer`: in the
    checkpoint and loaded by engines, yet no parameter (a router's correction bias, a hash
    table), so not counted as one."""

    name: str
    shape: tuple[int, ...]
    kind: Kind
    split: Split = Split.NONE
    units: int = 0
    count: int = 1
    dtype: str | None = None
    buffer: bool = False

    @property
    def elements(self) -> int:
        """Numbers stored, over all `count`."""
        product = self.count
        for size in self.shape:
            product *= size
        return product


class Indexer(msgspec.Struct, frozen=True, gc=False):
    """The small attention that picks which tokens a sparse attention reads; it keeps one key of
    `dim` a token."""

    heads: int
    dim: int
    top_k: int


class Attention(msgspec.Struct, frozen=True, kw_only=True, gc=False, tag="attention"):
    """Multi-head, grouped- or multi-query attention with a cache of keys and values for every
    token.

    `window`: tokens a sliding window reads, None for all; `chunk`: the same for chunked local
    attention (Llama 4). `causal` False: an encoder, no cache. `shares_cache`: reads an earlier
    layer's cache, keeps none. `indexer`: sparse attention."""

    query_heads: int
    kv_heads: int
    head_dim: int
    value_dim: int
    window: int | None = None
    chunk: int | None = None
    causal: bool = True
    shares_cache: bool = False
    indexer: Indexer | None = None


class LatentAttention(msgspec.Struct, frozen=True, kw_only=True, gc=False, tag="latent_attention"):
    """Multi-head latent attention (MLA): one latent of `latent_dim` + `rope_dim` numbers a token,
    the same on every TP rank.

    `nope_dim`, `value_dim`: per head, after the latent is expanded. `indexer`: DeepSeek sparse
    attention."""

    query_heads: int
    latent_dim: int
    rope_dim: int
    nope_dim: int
    value_dim: int
    indexer: Indexer | None = None


class CompressedAttention(
    msgspec.Struct, frozen=True, kw_only=True, gc=False, tag="compressed_attention"
):
    """DeepSeek V4: a sliding window over one shared key-value head of `head_dim`, and next to it
    one entry for every `ratio` tokens (0: the window alone). `indexer` picks entries where
    `ratio` is small."""

    query_heads: int
    head_dim: int
    rope_dim: int
    window: int
    ratio: int
    indexer: Indexer | None = None


class CrossAttention(msgspec.Struct, frozen=True, kw_only=True, gc=False, tag="cross_attention"):
    """Attention to another sequence (encoder output, image tokens): keys and values of
    `source_tokens`, once a request."""

    query_heads: int
    kv_heads: int
    head_dim: int
    source_tokens: int


class State(msgspec.Struct, frozen=True, gc=False):
    """One state tensor of a recurrent layer: `heads` (divided by tensor parallel) x `width`
    numbers; `dtype` None is the cache's."""

    name: str
    heads: int
    width: int
    dtype: str | None = None


class Recurrent(msgspec.Struct, frozen=True, kw_only=True, gc=False, tag="recurrent"):
    """A layer with a state of fixed size for every request instead of a cache that grows.

    `bounded_gate`: a Kimi delta layer whose decay has a lower bound, which decides the kernels
    that run it."""

    kind: Literal["mamba1", "mamba2", "gated_delta", "kimi_delta", "linear", "short_conv", "rwkv"]
    states: tuple[State, ...]
    bounded_gate: bool = False


Mixer = Attention | LatentAttention | CompressedAttention | CrossAttention | Recurrent


class Mlp(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """The feed-forward part of a layer: its width [features].

    Of a mixture: the width of one expert, the routed `experts`, how many of them a token visits,
    the shared experts' width, and the `latent_size` that routed experts read and write instead
    of the hidden states, None where there is none."""

    intermediate_size: int
    gated: bool = True
    experts: int = 0
    experts_per_token: int = 0
    shared_intermediate_size: int = 0
    latent_size: int | None = None


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


def count_within(numbers: tuple[int, ...], layers: range | None) -> int:
    """Return how many of these ascending numbers are in `layers`, a run of layers; all where it
    is None."""
    return (
        len(numbers)
        if layers is None
        else bisect_left(numbers, layers.stop) - bisect_left(numbers, layers.start)
    )


class Block(msgspec.Struct, frozen=True, kw_only=True):
    """A run of layers made alike. `prefix`: their tensors' names begin so, `{}` is the layer's
    number out of `layers`, which ascend."""

    part: Part
    prefix: str
    tensors: tuple[Tensor, ...]
    layers: tuple[int, ...] = (0,)
    mixers: tuple[Mixer, ...] = ()
    mlp: Mlp | None = None

    @property
    def elements(self) -> int:
        """Parameters of all its layers."""
        return len(self.layers) * sum(
            tensor.elements for tensor in self.tensors if not tensor.buffer
        )


class RotaryTable(msgspec.Struct, frozen=True, gc=False):
    """A table of cosines and sines an engine registers: `positions` x `dim` numbers of `dtype`,
    None for the model's own."""

    positions: int
    dim: int
    dtype: str | None = None


class ModelSpec(msgspec.Struct, frozen=True, kw_only=True, dict=True, weakref=True):
    """What a model is made of.

    `basis` is `exact` where a reader supports this architecture, `assumed` where the config
    was read by its usual names. `image_prefix`: the tokens of an image also attend to those
    after them. `quantization`: the config's own `quantization_config` (or hf_quant_config.json),
    as published, else None. `draft`: another model that drafts tokens for it. `layer_uses`:
    how often each layer runs in one pass (ALBERT's share their weights)."""

    model_type: str
    architecture: str
    task: Literal["generate", "encode", "encoder_decoder"] = "generate"
    dtype: str = "BF16"
    hidden_size: int
    vocabulary_size: int
    max_context_length: int
    tied_embeddings: bool
    blocks: tuple[Block, ...]
    rotary_tables: tuple[RotaryTable, ...] = ()
    quantization: dict[str, object] | None = None
    image_prefix: bool = False
    basis: Basis = "exact"
    notes: tuple[Note, ...] = ()
    draft: "ModelSpec | None" = None
    layer_uses: int = 1

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
    def sees_images(self) -> bool:
        """Whether it has a vision tower."""
        return any(block.part is Part.VISION for block in self.blocks)

    @cached_property
    def keeps_states(self) -> bool:
        """Whether it has recurrent layers."""
        return any(isinstance(mixer, Recurrent) for block in self.blocks for mixer in block.mixers)

    @cached_property
    def query_heads(self) -> int:
        """Attention heads of the language model: tensor parallelism must divide them. 1 where it
        has no attention."""
        return max(
            (
                m.query_heads
                for b in self.blocks
                if b.part is Part.LANGUAGE
                for m in b.mixers
                if not isinstance(m, Recurrent)
            ),
            default=1,
        )


class Stored(msgspec.Struct, frozen=True, kw_only=True):
    """What the repository says it stores.

    `elements` by canonical dtype (packed formats count their containers), or the bytes of the
    chosen GGUF file and its name."""

    elements: dict[str, int] = {}
    file_bytes: int = 0
    file_name: str | None = None
    is_estimated: bool = False
    """Whether `file_bytes` was computed from the type of the file."""


class Model(msgspec.Struct, frozen=True, kw_only=True, weakref=True):
    """A model somebody asked about: its name, where the answer came from, its architecture and
    what is stored of it."""

    id: str
    source: Literal["hub", "snapshot", "config", "size"]
    spec: ModelSpec
    revision: str | None = None
    stored: Stored | None = None
    warnings: tuple[Note, ...] = ()
    named_format: str | None = None
    """The number format that the caller's name of it asks for, where it is published in
    another."""
    guessed_from: str | None = None
    """The caller's name of it, where that does not name it for certain."""
    others: tuple[str, ...] = ()
    """Models that this name may mean as well."""
    base: str | None = None
    """The model whose shapes these are, where the repository's own config is not known."""
    rule: str = ""
    """Why they are taken from it."""

    @property
    def is_quantized(self) -> bool:
        """Whether the repository itself is quantized: other formats of it would be no better
        than that."""
        return self.spec.quantization is not None or bool(self.stored and self.stored.file_name)
