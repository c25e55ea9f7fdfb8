"""Speculative decoding: what vLLM loads to draft tokens, and what that keeps of a request. The
model's own prediction heads, an EAGLE head trained for it, or a smaller model of the same
vocabulary.

Source: vLLM 0.33.0, models/*_mtp.py, llama_eagle.py, llama_eagle3.py; config/speculative.py,
SpeculativeConfig.__post_init__; v1/worker/gpu/spec_decode/eagle/utils.py, load_eagle_model;
v1/spec_decode/draft_model.py."""

from collections.abc import Iterator

import msgspec

from fitgauge.engine.model.dtypes import BITS
from fitgauge.engine.model.families import layers as parts
from fitgauge.engine.model.families.eagle import ARCHITECTURES as EAGLE_3
from fitgauge.engine.model.spec import Block, Kind, Mixer, ModelSpec, Part, Recurrent
from fitgauge.engine.quantity import Term, exact_term, exactly
from fitgauge.engine.quantization.published import published
from fitgauge.engine.quantization.scheme import Scheme
from fitgauge.engine.serving.activations import HALF
from fitgauge.engine.serving.vllm.compute_capability import padded_for
from fitgauge.engine.serving.vllm.kv_cache.dtypes import served_dtype
from fitgauge.engine.serving.vllm.weights import VLLM, buffer_bytes, shard_weights
from fitgauge.engine.serving.workload import Workload
from fitgauge.engine.unsupported import UnsupportedError, nearest
from fitgauge.engine.weights.rank_bytes import rank_weights
from fitgauge.engine.weights.sharding import ShardedWeights, divided, round_up

_HEADS = (
    "vllm/model_executor/models/*_mtp.py; v1/worker/gpu/spec_decode/eagle/utils.py,"
    " load_eagle_model"
)
_DRAFTS = (
    "vllm 0.33 vllm/model_executor/models/llama_eagle.py, llama_eagle3.py;"
    " v1/spec_decode/draft_model.py"
)

EAGLE_1 = "EagleLlamaForCausalLM"
"""vLLM's class of heads of the first kind, which their configs call by that of a whole model."""

_NOT_SIZED = (
    "dflash",
    "dspark",
    "medusa",
    "mlp_speculator",
    "mlp-speculator",
    "lilicorr",
    "xpress",
)
"""Drafts of other kinds, by words of their names: they are loaded otherwise, or no more."""


def with_draft(spec: ModelSpec, draft: ModelSpec, name: str) -> ModelSpec:
    """`spec` with `draft` attached, as vLLM loads it. name: the draft's repository, by
    which vLLM tells an EAGLE head of the first kind.

    Raises UnsupportedError for a kind that is not sized here, and for a draft whose
    vocabulary is another."""
    repository = name.lower()
    kind = next(
        (word for word in _NOT_SIZED if word in repository or word in draft.architecture.lower()),
        None,
    )
    if kind or draft.task != "generate":
        raise UnsupportedError(
            "draft_model",
            f"{name} is no draft that is sized here: {kind or draft.architecture}. EAGLE and"
            " EAGLE-3 heads are, and smaller models of the same family.",
        )
    if draft.architecture not in EAGLE_3 and "eagle-" in repository:
        draft = _first_eagle(draft)
    if draft.vocabulary_size != spec.vocabulary_size:
        detail = (
            f"{name} has {draft.vocabulary_size} tokens, the model {spec.vocabulary_size}: vLLM"
            " drafts with the same vocabulary alone."
        )
        raise UnsupportedError("draft_model", detail)
    return msgspec.structs.replace(spec, draft=draft)


def _first_eagle(draft: ModelSpec) -> ModelSpec:
    """Return an EAGLE head of the first kind: layers without the first one's input norm, a
    projection of embedding and hidden state side by side, no final norm and no output head."""
    blocks = [block for block in draft.blocks if block.part is Part.EMBEDDING]
    for block in draft.blocks:
        if block.part is Part.LANGUAGE and block.mixers:
            blocks += _without_first_norm(block)
    blocks.append(
        parts.single(
            Part.LANGUAGE, "", parts.linear("fc", draft.hidden_size, 2 * draft.hidden_size)
        )
    )
    return msgspec.structs.replace(draft, architecture=EAGLE_1, blocks=tuple(blocks))


def _without_first_norm(block: Block) -> Iterator[Block]:
    """Yield the layers of a block, the model's first apart and without its input norm."""
    if 0 not in block.layers:
        yield block
        return
    tensors = tuple(tensor for tensor in block.tensors if "input_layernorm" not in tensor.name)
    yield msgspec.structs.replace(block, layers=(0,), tensors=tensors)
    if len(block.layers) > 1:
        yield msgspec.structs.replace(
            block, layers=tuple(number for number in block.layers if number)
        )


def heads(spec: ModelSpec) -> tuple[Block, ...]:
    """Return the blocks that draft: those of the draft in addition to the model, else its own
    prediction heads, none where it has none."""
    if spec.draft is not None:
        return spec.draft.blocks
    return tuple(block for block in spec.blocks if block.part is Part.MTP)


def check_draft(spec: ModelSpec, workload: Workload) -> None:
    """Raise UnsupportedError where tokens are to be speculated and nothing drafts them, where
    a draft has no number of tokens, and where the ranks do not divide its heads."""
    if workload.speculative_tokens and not heads(spec):
        reason = (
            f"{spec.architecture}, as this config describes it, has no multi-token prediction head"
            " to draft tokens with."
        )
        raise UnsupportedError(
            "speculative_tokens", f"{reason} A draft_model could.", ({"speculative_tokens": (0,)},)
        )
    if spec.draft is None:
        return
    if not workload.speculative_tokens:
        reason = "How many tokens the draft_model drafts in every step is not said."
        raise UnsupportedError("speculative_tokens", reason, ({"speculative_tokens": (3,)},))
    if spec.draft.query_heads % workload.tensor_parallel:
        reason = (
            f"tensor_parallel {workload.tensor_parallel} does not divide the draft's"
            f" {spec.draft.query_heads} attention heads."
        )
        heads_of_draft = spec.draft.query_heads
        possible = [ways for ways in range(1, heads_of_draft + 1) if heads_of_draft % ways == 0]
        raise UnsupportedError(
            "tensor_parallel",
            reason,
            ({"tensor_parallel": nearest(possible, workload.tensor_parallel)},),
        )


def draft_spec(spec: ModelSpec) -> ModelSpec:
    """Return what drafts as a model of its own, less what it shares: the embedding and, of the
    model's own heads, the output head too, with which a head's copies are equal. An EAGLE-3 head
    has an output head of its own, and one of another width an embedding too; a smaller model shares
    nothing.

    A posted log of an EAGLE head of 1.73 GiB, 1.375 of them the embedding of Gemma 4 26B, adds
    0.35 GiB, and says which it keeps."""
    draft = spec.draft
    if draft is not None and (not is_head(draft) or draft.hidden_size != spec.hidden_size):
        return draft
    shared = (Kind.EMBEDDING, Kind.HEAD) if draft is None else (Kind.EMBEDDING,)
    blocks = tuple(
        msgspec.structs.replace(
            block,
            part=Part.LANGUAGE if draft is None else block.part,
            tensors=tuple(tensor for tensor in block.tensors if tensor.kind not in shared),
        )
        for block in heads(spec)
    )
    return msgspec.structs.replace(
        draft or msgspec.structs.replace(spec, rotary_tables=()), blocks=blocks
    )


def is_head(draft: ModelSpec) -> bool:
    """Return whether a draft is an EAGLE head rather than a model of its own."""
    return draft.architecture == EAGLE_1 or draft.architecture in EAGLE_3


def draft_term(
    spec: ModelSpec, scheme: Scheme, workload: Workload, compute_capability: tuple[int, int] | None
) -> Term:
    """Return the term `draft_weights` of the last pipeline stage, which alone drafts; away from the
    first, heads have an embedding of their own.

    scheme: of the model, whose own heads are stored in it; a separate draft is stored
    in its own."""
    drafted, draft = draft_spec(spec), spec.draft
    if draft is not None:
        scheme = published(draft) or Scheme(name="unquantized")
    sharded = padded_for(shard_weights(drafted, scheme), drafted, compute_capability)
    size = draft_bytes(drafted, sharded, workload)
    if draft is not None and drafted is draft:
        return exact_term(
            "draft_weights",
            size,
            sharded.basis,
            f"{scheme.name} weights of {draft.architecture}, whole: {exactly(size)}",
            _DRAFTS,
        )
    what, shared = (
        ("the prediction heads", "embedding and head")
        if draft is None
        else (draft.architecture, "embedding")
    )
    formula = f"{scheme.name} weights of {what}, {shared} shared: {exactly(size)}"
    if workload.pipeline_parallel > 1:
        words = divided(
            round_up(spec.vocabulary_size, VLLM.vocabulary_multiple), workload.tensor_parallel
        )
        own = words * drafted.hidden_size * BITS[served_dtype(drafted.dtype)] // 8
        size, formula = (
            size + own,
            f"{scheme.name} weights of {what}: {exactly(size)} + an embedding of {exactly(own)}",
        )
    return exact_term(
        "draft_weights", size, sharded.basis, formula, _HEADS if draft is None else _DRAFTS
    )


def read_bytes(spec: ModelSpec, workload: Workload) -> int:
    """Return the hidden states that the model hands to an EAGLE-3 head, there while it samples:
    tokens x what the head's `fc` reads x 2 B."""
    draft = spec.draft
    if draft is None or draft.architecture not in EAGLE_3:
        return 0
    read = (
        tensor.shape[1]
        for block in draft.blocks
        for tensor in block.tensors
        if tensor.name == "fc.weight"
    )
    return HALF * workload.max_batched_tokens * next(read, 0)


def draft_bytes(drafted: ModelSpec, sharded: ShardedWeights, workload: Workload) -> int:
    """Return parameters and registered buffers of what drafts, on one rank [bytes]."""
    tensor, expert = workload.tensor_parallel, workload.expert_parallel
    parameters = rank_weights(
        sharded,
        tensor_parallel=tensor,
        expert_parallel=expert,
        data_parallel=workload.data_parallel,
    ).bytes
    return parameters + buffer_bytes(
        drafted, expert_parallel=expert, version=workload.engine_version
    )


def drafted_mixers(spec: ModelSpec) -> list[tuple[Mixer, tuple[int, ...]]]:
    """Return what every layer that drafts keeps, numbered on from the model's last layer."""
    mixers: list[tuple[Mixer, tuple[int, ...]]] = []
    start = spec.layers
    for block in heads(spec):
        numbers = tuple(range(start, start + len(block.layers)))
        mixers += [(mixer, numbers) for mixer in block.mixers]
        start += len(block.layers) if block.mixers else 0
    return mixers


def drafted_layers(spec: ModelSpec) -> int:
    """Return the layers that draft and mix tokens."""
    return sum(len(block.layers) for block in heads(spec) if block.mixers)


def lengthened(mixer: Mixer, block: Block, speculative_tokens: int) -> Mixer:
    """Return a recurrent layer whose convolution keeps the drafted tokens' inputs too: kernel - 1 +
    drafted instead of kernel - 1.

    Source: layers/mamba/mamba_utils.py, MambaStateShapeCalculator (num_spec).
    """
    kernels = [tensor.shape[-1] for tensor in block.tensors if tensor.kind is Kind.CONV]
    if not speculative_tokens or not isinstance(mixer, Recurrent) or not kernels or kernels[0] < 2:
        return mixer
    past = kernels[0] - 1
    states = tuple(
        (
            msgspec.structs.replace(state, width=state.width // past * (past + speculative_tokens))
            if state.name.startswith("conv")
            else state
        )
        for state in mixer.states
    )
    return msgspec.structs.replace(mixer, states=states)
