"""llama.cpp's compute buffer: the worst graph of one micro-batch, as its allocator packs it.

Source: src/llama-context.cpp, graph_reserve (n_ubatch tokens, n_parallel outputs, a full cache),
ggml/src/ggml-alloc.c. The counts of live tensors below are those that llama.cpp itself reports
for 22 architectures and sizes (tests/engine/serving/llamacpp/data/llamacpp_buffers.jsonl)."""

from fitgauge.engine.memo import WeakMemo
from fitgauge.engine.model.mixers import Attention, CompressedAttention, LatentAttention, Mixer
from fitgauge.engine.model.spec import Block, ModelSpec, Part
from fitgauge.engine.quantity import MIB, Term, exactly
from fitgauge.engine.serving.llamacpp.kv_cache import LlamaKvCache, padded
from fitgauge.engine.serving.llamacpp.offload import only_looked_up
from fitgauge.engine.serving.profile import Coefficient

_FLOAT, _HALF = 4, 2
_COPIES = 4
"""Input tensors are held four times where GPUs take turns (GGML_SCHED_MAX_COPIES)."""

_LIVE_FLOATS: WeakMemo[ModelSpec, None, tuple[int, bool]] = WeakMemo()

_SOURCE = "llama.cpp b9849 src/llama-context.cpp, graph_reserve; ggml/src/ggml-alloc.c"


def compute_term(
    spec: ModelSpec,
    cells: LlamaKvCache,
    *,
    ubatch: int,
    tokens: int,
    concurrency: int,
    gpu_count: int,
    first: bool,
    streamed: int,
    host_cache: int = 0,
    logits: Coefficient | None = None,
    masks_in_float32: bool = False,
) -> Term:
    """Return the term `activations` [bytes]: ubatch x 4 B x live floats + ubatch x 2 B x cells of
    every mask, on one GPU.

    tokens: the whole cache. GPUs: more than one hold inputs and hand over hidden states several
    times; all but the first also take them over. streamed: bytes of the largest weight that
    stays in host memory and is copied here for a large batch, twice. host_cache: keys and values
    of a layer there, which it attends to here, as posted logs show with three masks. logits: rows
    of logits for every token of the micro-batch where the head is: older builds hold them all,
    newer ones a row for every sequence. masks_in_float32: older builds take masks in 32 bits
    and copy them to 16 for the first layer that attends."""
    floats, mixture = _LIVE_FLOATS.get_or_compute(spec, None, lambda: live_floats(spec))
    work = ubatch * _FLOAT * floats
    masks = ubatch * _HALF * mask_cells(cells, tokens, concurrency)
    inputs = ubatch * _FLOAT * spec.hidden_size
    outputs = ubatch * _FLOAT * (spec.vocabulary_size + spec.hidden_size)
    attended = ubatch * _FLOAT * attention_floats(spec)
    formula = f"{ubatch} tokens x {floats} floats x 4 B + {exactly(masks)} of masks"
    if streamed:
        formula += f" + 2 x {exactly(streamed)} of streamed weights"
    moments = [(work + masks + 2 * streamed, formula)]
    if host_cache or masks_in_float32:
        layer = f"{exactly(host_cache)} of a layer's cache in host memory + " if host_cache else ""
        formula = (
            f"{layer}3 x {exactly(masks)} of masks + {exactly(attended)} of queries, hidden and"
            " outputs"
        )
        moments.append((host_cache + 3 * masks + attended, formula))
    if logits is not None:
        formula = (
            f"{logits.expected:g} x {ubatch} tokens x ({spec.vocabulary_size} words +"
            f" {spec.hidden_size} hidden) x 4 B"
        )
        moments.append((int(logits.expected * outputs), formula))
    expected, formula = max(moments)
    if gpu_count > 1:
        entering = 2 * masks if masks_in_float32 else masks
        copies = (1 if first else 2) * _COPIES
        expected += (_COPIES - 1) * entering + copies * inputs
        formula += (
            f" + {_COPIES - 1} x {exactly(entering)} of masks + {copies} x {ubatch} tokens x"
            f" {spec.hidden_size} hidden x 4 B handed over"
        )
    least = int(logits.low * outputs) if logits is not None else 0
    low, high = (0.6, 1.3) if mixture else (0.8, 1.3)
    return Term(
        name="activations",
        bytes=expected,
        low=max(int(work * low + masks), least),
        high=int(expected * high) + 64 * MIB,
        basis="computed",
        formula=formula,
        source=_SOURCE,
    )


def mask_cells(cells: LlamaKvCache, tokens: int, concurrency: int) -> int:
    """Columns of all attention masks: one for the full cache, one for every width of window.
    Masks are 16 bit with flash attention."""
    full, sequences = padded(tokens), max(cells.windows.sequences, concurrency)
    count = full if cells.full else 0
    return count + sum(cells.window_cells(window, full, sequences) for window in cells.windowed)


def live_floats(spec: ModelSpec) -> tuple[int, bool]:
    """Return (numbers alive for one token at the worst moment of the worst layer, whether that
    layer is a mixture). What is looked up for every layer is there twice, as it was looked up and
    by layer (src/models/gemma4.cpp, inp_per_layer)."""
    of_layers = 2 * sum(
        tensor.shape[-1]
        for block in spec.blocks
        if only_looked_up(spec, block)
        for tensor in block.tensors
    )
    by_layer = [
        (layer_floats(block, spec.hidden_size) + of_layers, bool(block.mlp and block.mlp.experts))
        for block in spec.blocks
        if block.part in (Part.LANGUAGE, Part.ENCODER) and block.mixers
    ]
    return max(by_layer, default=(4 * spec.hidden_size, False))


def attention_floats(spec: ModelSpec) -> int:
    """Return the numbers alive for one token while a layer attends: queries, what comes out of
    them, and the residual."""
    queries = (query_floats(mixer) for block in spec.blocks for mixer in block.mixers)
    return 2 * max(queries, default=0) + spec.hidden_size


def layer_floats(block: Block, hidden: int) -> int:
    """Dense: 3 x width + 2 x hidden + q. Mixture, w = experts a token visits x width, h =
    experts x hidden: the larger of 3 w + 2 x hidden + q and 2 h + w + 2 x hidden (outputs of the
    experts before they are summed). MLA: q, absorbed q and both joined."""
    query = max((query_floats(mixer) for mixer in block.mixers), default=0)
    latent = max((latent_floats(mixer) for mixer in block.mixers), default=0)
    mlp = block.mlp
    if mlp is None:
        return max(4 * hidden + query, latent + 4 * hidden)
    products = 3 if mlp.gated else 2
    if not mlp.experts:
        return max(products * mlp.intermediate_size + 2 * hidden + query, latent + 4 * hidden)
    wide = mlp.experts_per_token * mlp.intermediate_size
    return max(
        products * max(wide, mlp.shared_intermediate_size) + 2 * hidden + query,
        2 * mlp.experts_per_token * hidden + wide + 2 * hidden,
        latent + 4 * hidden,
    )


def query_floats(mixer: Mixer) -> int:
    """Return the numbers of one token's queries; of MLA they are counted by `latent_floats`."""
    if isinstance(mixer, Attention | CompressedAttention):
        return mixer.query_heads * mixer.head_dim
    return 0


def latent_floats(mixer: Mixer) -> int:
    """heads x (nope + rope) + heads x latent + heads x (latent + rope) of MLA, absorbed into the
    latent; 0 for others."""
    if not isinstance(mixer, LatentAttention):
        return 0
    return mixer.query_heads * (mixer.nope_dim + 2 * mixer.rope_dim + 2 * mixer.latent_dim)
