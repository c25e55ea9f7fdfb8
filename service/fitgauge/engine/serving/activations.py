"""The peak of a forward pass when serving: what the widest layer holds, what the sampler holds,
what experts need in addition to it."""

from fitgauge.engine.model.mixers import Attention, CompressedAttention, LatentAttention, Mixer
from fitgauge.engine.model.spec import Block, Mlp, ModelSpec, Part
from fitgauge.engine.quantity import Term, counted, exact_term, exactly
from fitgauge.engine.serving.profile import Coefficient, EngineProfile

HALF = 2
_FLOAT = 4
_PAIR = 3 * _FLOAT + 1


def activation_bytes(
    spec: ModelSpec,
    profile: EngineProfile,
    *,
    tokens: int,
    sequences: int,
    tensor_parallel: int,
    samples: bool,
    sampler: Coefficient | None = None,
    workspaces: int = 0,
    padded_bytes: int = 0,
    expert_parallel: int = 1,
) -> tuple[Term, ...]:
    """Return the peak as terms: `activations` alone where the layers' peak is higher, else
    `activations` and `logits` of the sampler's.

    tokens: rows of one forward pass. sequences: rows the sampler sees. samples: whether this
    stage holds the head. sampler: copies of the logits; None for the profile's own. workspaces:
    bytes that outlive the layers (workspaces of experts) and so add to the sampler's peak.
    padded_bytes: of them, rows that pad the experts' (`layer_peak`). The
    two peaks follow each other, so the higher one counts. Source: vLLM
    v1/worker/gpu_model_runner.py, profile_run: a forward of max_num_batched_tokens, then the
    sampler on max_num_seqs rows; posted logs agree (see `logits_copies`)."""
    layers = layer_peak(
        spec,
        profile,
        tokens=tokens,
        tensor_parallel=tensor_parallel,
        expert_parallel=expert_parallel,
        padded_bytes=padded_bytes,
    )
    if not samples:
        return (layers,)
    logits = sampler_peak(spec, sampler or profile.logits_copies, sequences=sequences)
    hidden = HALF * spec.hidden_size * (tokens + min(sequences, tokens)) + workspaces
    if logits.bytes + hidden <= layers.bytes:
        return (layers,)
    formula = (
        f"held while sampling: ({tokens} tokens + {min(sequences, tokens)} sampled) x"
        f" {spec.hidden_size} hidden x 2 B"
    )
    if workspaces:
        formula += f" + {exactly(workspaces)} of workspaces"
    return (exact_term("activations", hidden, "computed", formula, profile.source), logits)


def layer_peak(
    spec: ModelSpec,
    profile: EngineProfile,
    *,
    tokens: int,
    tensor_parallel: int,
    expert_parallel: int,
    padded_bytes: int,
) -> Term:
    """Return the widest layer: tokens x 2 B x (copies x hidden + widest product), and the rows
    that pad the experts' workspaces [bytes]."""
    width, widest = max(
        (
            (layer_width(block, spec.hidden_size, tensor_parallel, expert_parallel), block)
            for block in spec.blocks
            if block.part is Part.LANGUAGE
        ),
        key=lambda layer: layer[0],
        default=(0, None),
    )
    product = "0"
    if widest:
        product = width_formula(widest, width, spec.hidden_size, tensor_parallel, expert_parallel)
    copies = profile.hidden_copies
    row = tokens * HALF
    formula = (
        f"{tokens} tokens x 2 B x ({copies.expected:g} x {spec.hidden_size} hidden + {product} of"
        " the widest product)"
    )
    if padded_bytes:
        formula += f" + {exactly(padded_bytes)} of padded rows"
    return copies.term("activations", row * spec.hidden_size, row * width + padded_bytes, formula)


def sampler_peak(spec: ModelSpec, copies: Coefficient, *, sequences: int) -> Term:
    """Return the sampler's copies of the logits: copies x sequences x vocabulary x 4 B [bytes],
    whole on every tensor-parallel rank."""
    formula = (
        f"{copies.expected:g} copies x {sequences} sequences x {spec.vocabulary_size} words x 4 B"
    )
    return copies.term("logits", sequences * spec.vocabulary_size * _FLOAT, 0, formula)


def layer_width(block: Block, hidden: int, tensor_parallel: int, expert_parallel: int = 1) -> int:
    """Features of the widest product a layer of this block makes of one token, on one rank."""
    mlp = mlp_width(block.mlp, hidden, tensor_parallel, expert_parallel) if block.mlp else 0
    if block.mixers:
        return max(mlp, *(attention_width(mixer, tensor_parallel) for mixer in block.mixers))
    return mlp


def width_formula(
    block: Block, width: int, hidden: int, tensor_parallel: int, expert_parallel: int
) -> str:
    """Return `width`, the `layer_width` of a block, by its factors where an MLP is the widest."""
    mlp = block.mlp
    if mlp is None or mlp_width(mlp, hidden, tensor_parallel, expert_parallel) != width:
        return f"{width}"
    products = 3 if mlp.gated else 2
    size = mlp.shared_intermediate_size if mlp.experts else mlp.intermediate_size
    if products * size % tensor_parallel:
        return f"{width}"
    over = f" / {tensor_parallel} ranks" if tensor_parallel > 1 else ""
    parts = [f"{products} x {size}{over}"] if size else []
    if mlp.experts:
        of_rank = mlp.intermediate_size // (1 if expert_parallel > 1 else tensor_parallel)
        both = of_rank * (2 if mlp.gated else 1)
        parts.append(
            f"{mlp.experts_per_token} experts x (max({of_rank}, {hidden}) + max({both}, {hidden}))"
        )
    return " + ".join(parts) or "0"


def mlp_width(mlp: Mlp, hidden: int, tensor_parallel: int, expert_parallel: int = 1) -> int:
    """gate, up and their product (3 x width), or up and its activation (2 x width); in addition
    to them the workspace of routed experts."""
    products = 3 if mlp.gated else 2
    dense = (
        products
        * (mlp.shared_intermediate_size if mlp.experts else mlp.intermediate_size)
        // tensor_parallel
    )
    return dense + expert_width(mlp, hidden, tensor_parallel, expert_parallel)


def expert_width(mlp: Mlp, hidden: int, tensor_parallel: int, expert_parallel: int = 1) -> int:
    """Features of the two workspaces of a mixture for one token: k x (max(I, H) + max(N, H)), with
    k experts a token, I the width of an expert on this rank, N the width of its gate and up
    together, H what an expert reads: hidden, or the latent; 0 where nothing is routed.

    Source: vllm/model_executor/layers/fused_moe/fused_moe.py, TritonExperts.workspace_shapes.
    """
    if not mlp.experts:
        return 0
    width = mlp.intermediate_size // (1 if expert_parallel > 1 else tensor_parallel)
    read = mlp.latent_size or hidden
    return mlp.experts_per_token * (max(width, read) + max(width * (2 if mlp.gated else 1), read))


def attention_width(mixer: Mixer, tensor_parallel: int) -> int:
    """q, k, v and the attention's output of one token on one rank."""
    match mixer:
        case Attention():
            heads = max(1, mixer.query_heads // tensor_parallel)
            kv_heads = max(1, mixer.kv_heads // tensor_parallel)
            return heads * (mixer.head_dim + mixer.value_dim) + kv_heads * (
                mixer.head_dim + mixer.value_dim
            )
        case LatentAttention():
            heads = max(1, mixer.query_heads // tensor_parallel)
            return heads * (2 * (mixer.nope_dim + mixer.rope_dim) + 2 * mixer.value_dim)
        case CompressedAttention():
            return padded_heads(max(1, mixer.query_heads // tensor_parallel)) * 2 * mixer.head_dim
        case _:
            return 0


def padded_heads(heads: int) -> int:
    """Return the heads of queries and output as the sparse kernels of compressed attention take
    them: 64 or 128, however few a rank has.

    Source: vLLM 0.33, models/deepseek_v4/nvidia/flashmla.py, get_padded_num_q_heads.
    """
    return max(heads, 64 if heads <= 64 else 128)


def math_scores_term(reason: str, *, requests: int, length: int, heads: int, source: str) -> Term:
    """Return the term `attention_scores`: what PyTorch's math kernel holds of requests x heads x
    length^2 pairs [bytes].

    13 B a pair: scores, their softmax and its copy with zeros for rows masked throughout, in
    float32, and which scores are masked, a byte. reason: why this kernel runs. Source: PyTorch
    2.5 and newer, aten/src/ATen/native/transformers/attention.cpp
    (_scaled_dot_product_attention_math, which widens 16-bit inputs, and _safe_softmax)."""
    formula = (
        f"{counted(requests, 'request')} x {heads} heads x {length}^2 pairs x {_PAIR} B; {reason}"
    )
    return exact_term(
        "attention_scores", requests * heads * length * length * _PAIR, "computed", formula, source
    )
