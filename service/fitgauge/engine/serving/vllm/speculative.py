"""Speculative decoding: what vLLM loads to draft tokens, and what that keeps of a request. The
model's own prediction heads, an EAGLE or DFlash head trained for it, or a smaller model of the same
vocabulary.

Left out: a rotary table that draft and model share, and one that grows to the longest request.

Source: vLLM 0.33.0, models/*_mtp.py, llama_eagle.py, llama_eagle3.py, qwen3_dflash.py;
config/speculative.py, SpeculativeConfig.__post_init__; v1/worker/gpu/spec_decode/eagle/utils.py,
load_eagle_model; v1/spec_decode/draft_model.py."""

from collections.abc import Iterator

import msgspec

from fitgauge.engine.model.dtypes import BITS
from fitgauge.engine.model.families import parts
from fitgauge.engine.model.families.eagle import ARCHITECTURES as EAGLE_3
from fitgauge.engine.model.families.eagle import DFLASH
from fitgauge.engine.model.mixers import Mixer, Recurrent
from fitgauge.engine.model.spec import Block, Kind, ModelSpec, Part, Split
from fitgauge.engine.quantity import Term, exact_term, exactly
from fitgauge.engine.quantization.published import published
from fitgauge.engine.quantization.scheme import Scheme
from fitgauge.engine.serving.activations import HALF
from fitgauge.engine.serving.vllm.compute_capability import padded_for
from fitgauge.engine.serving.vllm.kv_cache.dtypes import served_dtype
from fitgauge.engine.serving.vllm.weights import VLLM, buffer_bytes, rotates, shard_weights
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

_SGLANG_EAGLE_1 = "LlamaForCausalLMEagle"
"""The class that heads of the first kind name for SGLang."""

_NOT_SIZED = (
    "dflash2",
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
    if not is_head(draft) and ("eagle-" in repository or draft.architecture == _SGLANG_EAGLE_1):
        draft = _first_eagle(draft)
    kind = next(
        (word for word in _NOT_SIZED if word in repository or word in draft.architecture.lower()),
        None,
    )
    unread = "eagle" in draft.architecture.lower() and not is_head(draft)
    if kind or unread or draft.task != "generate":
        raise UnsupportedError(
            "draft_model",
            f"{name} is no draft that is sized here: {kind or draft.architecture}. EAGLE, EAGLE-3"
            " and DFlash heads are, and smaller models of the same family.",
        )
    if draft.vocabulary_size != spec.vocabulary_size:
        detail = (
            f"{name} has {draft.vocabulary_size} tokens, the model {spec.vocabulary_size}: a draft"
            " needs the same vocabulary."
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
        parts.single(Part.LANGUAGE, parts.linear("fc", draft.hidden_size, 2 * draft.hidden_size))
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


def check_heads(spec: ModelSpec, tokens: int) -> None:
    """Raise UnsupportedError where drafted tokens are more than the model's own heads and no
    multiple of them: vLLM runs all heads or none a second time. Source: config/speculative.py,
    SpeculativeConfig.__post_init__ (n_predict)."""
    own = drafted_layers(spec) if spec.draft is None else 0
    if own and tokens > own and tokens % own:
        raise UnsupportedError(
            "speculative_tokens",
            f"{tokens} drafted tokens are no multiple of the model's {own} prediction heads.",
            ({"speculative_tokens": nearest(range(own, 65, own), tokens)},),
        )


def draft_spec(spec: ModelSpec) -> ModelSpec:
    """Return what drafts as a model of its own, less what it shares: the embedding and, of the
    model's own heads, the output head too, with which a head's copies are equal. An EAGLE-3 head
    has an output head of its own, and one of another width an embedding too; a smaller model shares
    nothing. Own heads register the rotary tables by which no layer of the model rotates.

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
    if draft is not None:
        return msgspec.structs.replace(draft, blocks=blocks)
    unregistered = tuple(table for table in spec.rotary_tables if not rotates(spec, table, None))
    return msgspec.structs.replace(spec, rotary_tables=unregistered, blocks=blocks)


def is_head(draft: ModelSpec) -> bool:
    """Return whether a draft is an EAGLE or DFlash head rather than a model of its own."""
    return method(draft) != "draft_model"


def method(draft: ModelSpec) -> str:
    """Return what --speculative-config calls the way a draft drafts."""
    if draft.architecture in EAGLE_3:
        return "eagle3"
    return {EAGLE_1: "eagle", DFLASH: "dflash"}.get(draft.architecture, "draft_model")


def drafting(spec: ModelSpec, name: str | None) -> dict[str, object]:
    """Return how --speculative-config says what drafts: `name` is the draft's repository. vLLM
    tells most heads by words of their names, which not all have."""
    if spec.draft is None or name is None:
        return {"method": "mtp"}
    parallel = {"parallel_drafting": True} if drafts_in_parallel(spec.draft) else {}
    return {"model": name, "method": method(spec.draft), **parallel}


def drafts_in_parallel(draft: ModelSpec) -> bool:
    """Return whether an EAGLE-3 head drafts its tokens at once (P-EAGLE)."""
    return draft.architecture.lower().startswith("peagle")


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
    size = draft_bytes(drafted, sharded, workload) + _context_bytes(drafted, workload)
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


def _context_bytes(drafted: ModelSpec, workload: Workload) -> int:
    """Return the copy of its layers' key and value projections, one after the other, by which a
    DFlash head makes keys and values of the model's hidden states [bytes]; 0 for other drafts.
    Source: qwen3_dflash.py, _build_context_kv_buffers."""
    if drafted.architecture != DFLASH:
        return 0
    blocks = tuple(
        msgspec.structs.replace(
            block,
            mixers=(),
            tensors=tuple(
                tensor
                for tensor in block.tensors
                if tensor.split is Split.KV and len(tensor.shape) > 1
            ),
        )
        for block in drafted.blocks
    )
    copied = msgspec.structs.replace(drafted, blocks=blocks, rotary_tables=())
    return draft_bytes(copied, shard_weights(copied, Scheme(name="unquantized")), workload)


def read_bytes(spec: ModelSpec, workload: Workload) -> int:
    """Return what a head reads, which is there while the model samples: its buffer of hidden
    states, tokens x its width x 2 B, and those that the model hands to `fc`, of an EAGLE-3 or
    DFlash head tokens x what `fc` reads x 2 B; 0 where a smaller model drafts, or nothing. Source:
    spec_decode/target_dependent_ar/speculator.py and dflash/speculator.py (hidden_states)."""
    draft = spec.draft
    if not workload.speculative_tokens or (draft is not None and not is_head(draft)):
        return 0
    read = (
        tensor.shape[1]
        for block in (draft.blocks if draft is not None else ())
        for tensor in block.tensors
        if tensor.name == "fc.weight"
    )
    joined = next(read, 0) if draft is not None and draft.architecture != EAGLE_1 else 0
    return HALF * workload.max_batched_tokens * (_handed_width(spec) + joined)


def _handed_width(spec: ModelSpec) -> int:
    """Return the numbers of a token in the buffer of a head: its width, of DeepSeek V4 and Qwen3.8
    Flash Next its residual streams side by side."""
    streams = (
        tensor.shape[-1]
        for block in heads(spec)
        for tensor in block.tensors
        if tensor.name in ("hc_head_fn", "mtp.pre_fc_norm_hidden.weight")
    )
    return next(streams, (spec.draft or spec).hidden_size)


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
