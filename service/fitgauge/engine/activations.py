"""The peak of a forward pass when serving: what the widest layer holds, and what the sampler holds."""

from fitgauge.engine.architecture import Attention, Block, CompressedAttention, LatentAttention, Mixer, Mlp, ModelSpec, Part
from fitgauge.engine.profile import EngineProfile
from fitgauge.engine.quantity import Term, certain

_HALF = 2
_FLOAT = 4


def activation_bytes(
    spec: ModelSpec, profile: EngineProfile, *, tokens: int, sequences: int, tensor_parallel: int, samples: bool, eager_length: int = 0
) -> tuple[Term, ...]:
    """The peak as terms: `activations` alone where the layers' peak is higher, else `activations` and `logits` of the sampler's.

    tokens: rows of one forward pass. sequences: rows the sampler sees. samples: whether this stage holds the head.
    eager_length: length of the score matrices that eager attention keeps, 0 for fused attention.
    The two peaks follow each other, so the higher one counts. Source: vLLM v1/worker/gpu_model_runner.py, profile_run: a forward of
    max_num_batched_tokens, then the sampler on max_num_seqs rows; posted logs agree (see `logits_copies`).
    """
    layers = layer_peak(spec, profile, tokens=tokens, tensor_parallel=tensor_parallel, eager_length=eager_length)
    if not samples:
        return (layers,)
    logits = sampler_peak(spec, profile, sequences=sequences)
    hidden = tokens * spec.hidden_size * _HALF
    if logits.bytes + hidden <= layers.bytes:
        return (layers,)
    held = certain(
        "activations", hidden, "computed", f"{tokens} tokens x hidden {spec.hidden_size} x 2 B, held while sampling", profile.source
    )
    return (held, logits)


def layer_peak(spec: ModelSpec, profile: EngineProfile, *, tokens: int, tensor_parallel: int, eager_length: int = 0) -> Term:
    """The widest layer: tokens x 2 B x (copies x hidden + widest product) [bytes], and with eager attention its scores."""
    width = max((layer_width(block, tensor_parallel) for block in spec.blocks if block.part is Part.LANGUAGE), default=0)
    scores = tokens * eager_length * max(1, spec.query_heads // tensor_parallel) * (_HALF + _FLOAT)
    copies = profile.hidden_copies
    row = tokens * _HALF
    formula = f"{tokens} tokens x 2 B x ({copies.expected:g} x hidden {spec.hidden_size} + widest product {width})"
    if eager_length:
        formula += f" + scores {tokens} x {eager_length} x heads x 6 B"
    return copies.term("activations", row * spec.hidden_size, row * width + scores, formula)


def sampler_peak(spec: ModelSpec, profile: EngineProfile, *, sequences: int) -> Term:
    """The sampler's copies of the logits: copies x sequences x vocabulary x 4 B [bytes], whole on every tensor-parallel rank."""
    copies = profile.logits_copies
    formula = f"{copies.expected:g} copies x {sequences} sequences x vocabulary {spec.vocabulary_size} x 4 B"
    return copies.term("logits", sequences * spec.vocabulary_size * _FLOAT, 0, formula)


def layer_width(block: Block, tensor_parallel: int) -> int:
    """Features of the widest product a layer of this block makes of one token, on one rank."""
    mlp = mlp_width(block.mlp, tensor_parallel) if block.mlp else 0
    return max(mlp, *(attention_width(mixer, tensor_parallel) for mixer in block.mixers)) if block.mixers else mlp


def mlp_width(mlp: Mlp, tensor_parallel: int) -> int:
    """gate, up and their product (3 x width), or up and its activation (2 x width); a mixture does so for every expert a token visits."""
    products = 3 if mlp.gated else 2
    routed = mlp.intermediate_size * (mlp.experts_per_token or 1)
    return products * (routed + mlp.shared_intermediate_size) // tensor_parallel


def attention_width(mixer: Mixer, tensor_parallel: int) -> int:
    """q, k, v and the attention's output of one token on one rank."""
    match mixer:
        case Attention():
            heads, kv_heads = max(1, mixer.query_heads // tensor_parallel), max(1, mixer.kv_heads // tensor_parallel)
            return heads * (mixer.head_dim + mixer.value_dim) + kv_heads * (mixer.head_dim + mixer.value_dim)
        case LatentAttention():
            heads = max(1, mixer.query_heads // tensor_parallel)
            return heads * (2 * (mixer.nope_dim + mixer.rope_dim) + 2 * mixer.value_dim)
        case CompressedAttention():
            return max(1, mixer.query_heads // tensor_parallel) * 2 * mixer.head_dim
        case _:
            return 0
