"""How much of an accelerator a training run uses: FLOPs of a token, MFU and HFU, time of a token
budget, ZeRO-3's communication."""

from typing import Literal

import msgspec

from fitgauge.engine.accelerator import Accelerator
from fitgauge.engine.memo import WeakMemo
from fitgauge.engine.model.mixers import (
    Attention,
    CompressedAttention,
    CrossAttention,
    LatentAttention,
    Mixer,
    Recurrent,
)
from fitgauge.engine.model.spec import Block, Kind, ModelSpec, Part, Tensor

Checkpointing = Literal["none", "selective", "full"]
Arithmetic = Literal["bf16", "fp16", "tf32", "fp8", "fp4", "int8"]

_PARTS = (Part.LANGUAGE, Part.ENCODER, Part.HEAD)
_MULTIPLIED = (Kind.LINEAR, Kind.EXPERT, Kind.ROUTER, Kind.HEAD, Kind.CONV)


class TokenFlops(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """Floating-point operations of one token of training."""

    forward: float
    """Of the forward pass."""
    model: float
    """Of forward and backward pass."""
    hardware: float
    """Of both passes and of what is computed twice."""


def multiplied_parameters(spec: ModelSpec) -> int:
    """Return the parameters that every token is multiplied with: N of the 6N rule.

    Weights of linear layers, convolutions and the head (a tied embedding counts once, as the
    head); of routed experts those a token visits. Embedding look-ups, norms and biases multiply
    nothing to speak of. A vision or audio tower sees other tokens: left out. Source: PaLM, arXiv
    2204.02311, appendix B; Kaplan et al., arXiv 2001.08361, section 2.1, which leaves embeddings
    out."""
    return _PARAMETERS.get_or_compute(spec, None, lambda: _multiplied_parameters(spec))


_PARAMETERS: WeakMemo[ModelSpec, None, int] = WeakMemo(512)


def _multiplied_parameters(spec: ModelSpec) -> int:
    active = sum(
        len(block.layers) * sum(_active(tensor, block) for tensor in block.tensors)
        for block in spec.blocks
        if block.part in _PARTS
    )
    if spec.tied_embeddings and spec.task == "generate":
        active += sum(
            tensor.elements
            for block in spec.blocks
            if block.part is Part.EMBEDDING
            for tensor in block.tensors
            if tensor.shape[0] == spec.vocabulary_size
        )
    return active


def _active(tensor: Tensor, block: Block) -> int:
    if tensor.buffer or tensor.kind not in _MULTIPLIED:
        return 0
    if tensor.count > 1 and block.mlp is not None and block.mlp.experts:
        return tensor.elements * block.mlp.experts_per_token // block.mlp.experts
    return tensor.elements


def attention_flops(mixer: Mixer, sequence_length: int) -> float:
    """Return the operations of scores and their weighted sum for one token of a forward pass: 2 T h
    (d_key + d_value).

    T [tokens]: what a query reads, counted in full as PaLM and Megatron do though half of it is
    masked, at most the window; h heads of d_key and d_value numbers. A recurrent state's update
    is small against its projections and left out. Source: PaLM, arXiv 2204.02311, appendix B (12
    L H Q T for forward and backward)."""
    if isinstance(mixer, Recurrent):
        return 0.0
    if isinstance(mixer, CrossAttention):
        return 4.0 * mixer.source_tokens * mixer.query_heads * mixer.head_dim
    if isinstance(mixer, LatentAttention):
        read = min(sequence_length, mixer.indexer.top_k) if mixer.indexer else sequence_length
        return 2.0 * read * mixer.query_heads * (mixer.nope_dim + mixer.rope_dim + mixer.value_dim)
    if isinstance(mixer, CompressedAttention):
        compressed = sequence_length // mixer.ratio if mixer.ratio else 0
        if mixer.indexer:
            compressed = min(compressed, mixer.indexer.top_k)
        return (
            4.0
            * (min(sequence_length, mixer.window) + compressed)
            * mixer.query_heads
            * mixer.head_dim
        )
    return (
        2.0 * _read(mixer, sequence_length) * mixer.query_heads * (mixer.head_dim + mixer.value_dim)
    )


def _read(mixer: Attention, sequence_length: int) -> int:
    """Return the tokens a query of ordinary attention reads."""
    return min(sequence_length, mixer.window or sequence_length, mixer.chunk or sequence_length)


def token_flops(
    spec: ModelSpec,
    sequence_length: int,
    *,
    checkpointing: Checkpointing = "none",
    frozen_base: bool = False,
) -> TokenFlops:
    """Return the operations of one training token.

    forward = 2 N + attention; the backward pass costs twice that: 6 N in all. With a
    `frozen_base` (LoRA) the gradients of its weights, 2 N, are not computed. Full checkpointing
    runs the forward pass again, selective checkpointing the attention core: that counts for
    hardware FLOPs (HFU), never for model FLOPs (MFU). Source: PaLM, arXiv 2204.02311, appendix
    B; Korthikanti et al., arXiv 2205.05198, sections 5 and 6.3."""
    linear = 2.0 * multiplied_parameters(spec)
    attention = sum(
        len(block.layers) * attention_flops(mixer, sequence_length)
        for block in spec.blocks
        if block.part in _PARTS
        for mixer in block.mixers
    )
    forward = linear + attention
    model = 3 * forward - (linear if frozen_base else 0.0)
    recomputed = {"none": 0.0, "selective": attention, "full": forward}[checkpointing]
    return TokenFlops(forward=forward, model=model, hardware=model + recomputed)


def peak_tflops(accelerator: Accelerator, arithmetic: Arithmetic) -> float | None:
    """10^12 dense operations a second in this arithmetic, None where it is not stated or the
    hardware has none.

    fp16 and bf16 run at one rate on every accelerator that has both. TF32 runs at half of it on
    NVIDIA's tensor cores from 8.0 on. Source: NVIDIA A100 whitepaper, table 3 (156 of 312 TFLOPS),
    H100 whitepaper, table 2 (494.7 of 989.4), and the RTX whitepapers (82.6 of 165.2 on a 4090).
    """
    if arithmetic == "tf32":
        capability, peak = accelerator.compute_capability, accelerator.bf16_tflops_dense
        return peak / 2 if peak and capability and capability >= (8, 0) else None
    if arithmetic == "bf16" and "bf16" not in (accelerator.formats or ("bf16",)):
        return None
    return {
        "bf16": accelerator.bf16_tflops_dense,
        "fp16": accelerator.bf16_tflops_dense,
        "fp8": accelerator.fp8_tflops_dense,
        "fp4": accelerator.fp4_tflops_dense,
        "int8": accelerator.int8_tops_dense,
    }[arithmetic]


def utilization(achieved_tflops: float, peak: float) -> float:
    """Achieved over peak operations a second: 100 of 312 is 0.3205."""
    return achieved_tflops / peak


def achieved_tflops(tokens_per_second_per_gpu: float, flops_per_token: float) -> float:
    """10^12 operations a second of one GPU at this throughput."""
    return tokens_per_second_per_gpu * flops_per_token / 1e12


def budget_seconds(
    tokens: float, flops_per_token: float, *, gpus: int, peak: float, mfu: float
) -> float:
    """Return the seconds that `tokens` take on `gpus` accelerators of `peak` [10^12/s] at this MFU:
    C = 6 N D over what they deliver.

    Source: Kaplan et al., arXiv 2001.08361, section 2.1.
    """
    return tokens * flops_per_token / (gpus * peak * 1e12 * mfu)


class Exchange(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """What ZeRO moves in one micro-batch while it computes."""

    bytes: int
    """Traffic through one GPU's link [bytes]."""
    communication_seconds: float
    """Its time at full speed of the link [s]."""
    compute_seconds: float
    """Time of the computation at full speed of the GPU [s]."""

    @property
    def ratio(self) -> float:
        """Communication over computation: above 1 the link decides, however well the two
        overlap."""
        return self.communication_seconds / self.compute_seconds


def zero_exchange(
    parameters: int,
    *,
    zero_stage: int,
    ranks: int,
    tokens: int,
    flops_per_token: float,
    peak: float,
    link_gbps: float,
) -> Exchange:
    """Traffic and time of one micro-batch under ZeRO with 16-bit parameters.

    Stage 3 gathers the parameters for the forward and the backward pass and scatters the
    gradients: 3 x P numbers, stages 0 to 2 exchange 2 x P; a ring moves (ranks - 1) / ranks of
    that through every link. `tokens`: of one rank's micro-batch; `link_gbps`: 10^9 bytes a
    second, one direction. Source: ZeRO, arXiv 1910.02054, section 7."""
    moved = (3 if zero_stage == 3 else 2) * 2 * parameters * (ranks - 1) // ranks
    return Exchange(
        bytes=moved,
        communication_seconds=moved / (link_gbps * 1e9),
        compute_seconds=tokens * flops_per_token / (peak * 1e12),
    )
