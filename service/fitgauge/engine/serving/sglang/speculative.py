"""Speculative decoding under SGLang: what it loads to draft tokens, and what that adds to a token
and to the states of a request.

A draft is loaded whole: the pools are sized before its embedding and output head give way to the
model's, whose bytes are spare from then on. One chain is drafted (topk 1), of which a step checks
one token more than it drafts.

Left out: what a draft's own layers keep beyond the size of the model's layers, at which SGLang
prices them, and the pool of heads that it does not price (`_UNPRICED`); both come out of what it
keeps back.

Source: sglang 0.5.23, srt/arg_groups/speculative_hook.py; srt/managers/scheduler.py,
init_memory_pools; srt/speculative/eagle_worker_v2.py; srt/model_executor/pool_configurator.py;
srt/mem_cache/kv_cache_configurator.py, _handle_max_mamba_cache."""

import msgspec

from fitgauge.engine.model.families import parts
from fitgauge.engine.model.families.eagle import LATENT
from fitgauge.engine.model.mixers import Mixer
from fitgauge.engine.model.spec import Block, Kind, ModelSpec, Part, Split
from fitgauge.engine.quantity import Term, exact_term, exactly
from fitgauge.engine.quantization.published import published
from fitgauge.engine.quantization.scheme import Scheme
from fitgauge.engine.serving.sglang.gpus import Architecture
from fitgauge.engine.serving.sglang.weights import buffer_bytes, on_gpu, shard_weights
from fitgauge.engine.serving.vllm.speculative import drafted_layers, heads, method
from fitgauge.engine.serving.workload import Workload
from fitgauge.engine.weights.rank_bytes import rank_weights

RUNNING_REQUESTS = 48
"""--max-running-requests where a draft runs and none is set; graphs are captured for as many as
without a draft."""

_ALGORITHMS = {
    "eagle": "EAGLE",
    "eagle3": "EAGLE3",
    "dflash": "DFLASH",
    "draft_model": "STANDALONE",
}
"""--speculative-algorithm by the way a draft drafts, as vLLM calls it."""

_OWN_HEADS = "EAGLE"

_JOINT = "fc.weight"
_JOINTS = (_JOINT, "fc_embedding.weight", "fc_hidden.weight")
"""What joins a head to the model, whole on every rank: models/qwen3_next_mtp.py, qwen3_5_mtp.py,
qwen4_exp_mtp.py."""

_UNPRICED = frozenset({
    "Qwen3NextForCausalLM", "Qwen3_5ForConditionalGeneration", "Qwen3_5MoeForConditionalGeneration",
    "Qwen4ExpForConditionalGeneration",
})  # fmt: skip
"""Architectures whose prediction heads the size of a token leaves out, as their config counts them
under a name of its own. Source: srt/model_executor/model_runner_components/
spec_aux_hidden_state.py, _resolve_eagle_aux_hidden_state."""


def algorithm(spec: ModelSpec) -> str:
    """Return --speculative-algorithm."""
    return _OWN_HEADS if spec.draft is None else _ALGORITHMS[method(spec.draft)]


def draft_term(
    spec: ModelSpec, scheme: Scheme, workload: Workload, architecture: Architecture
) -> Term:
    """Return the term `draft_weights` of one rank. scheme: of the model, whose own heads are stored
    in it; a separate draft is stored in its own."""
    loaded = _loaded(spec)
    if spec.draft is not None:
        scheme = published(spec.draft) or Scheme(name="unquantized")
    sharded = on_gpu(loaded, shard_weights(loaded, scheme), architecture)
    rank = rank_weights(
        sharded,
        tensor_parallel=workload.tensor_parallel,
        expert_parallel=workload.expert_parallel,
        data_parallel=workload.data_parallel,
    )
    size = rank.bytes + buffer_bytes(loaded)
    what = "the prediction heads" if spec.draft is None else spec.draft.architecture
    return exact_term(
        "draft_weights",
        size,
        rank.basis,
        f"{scheme.name} weights of {what}, embedding and head too until the pools are made:"
        f" {exactly(size)}",
        "sglang 0.5.23 sglang/srt/managers/scheduler.py, init_memory_pools",
    )


def _loaded(spec: ModelSpec) -> ModelSpec:
    """Return what is loaded to draft, as a model of its own with embedding and output head; a
    DFlash head borrows them from the start."""
    draft = spec.draft
    if draft is not None:
        headless = method(draft) == "eagle"
        head = parts.head(draft.vocabulary_size, draft.hidden_size, tied=not headless)
        embedded = method(draft) != "dflash"
        blocks = [block for block in draft.blocks if embedded or block.part is not Part.EMBEDDING]
        if draft.architecture in LATENT:
            blocks = [_with_divided_joint(block) for block in blocks]
        return msgspec.structs.replace(draft, blocks=(*blocks, *head))
    own = (Kind.EMBEDDING, Kind.HEAD)
    joined = [
        msgspec.structs.replace(
            block,
            part=Part.LANGUAGE,
            tensors=tuple(
                msgspec.structs.replace(tensor, split=Split.NONE)
                if tensor.name.endswith(_JOINTS)
                else tensor
                for tensor in block.tensors
                if tensor.kind not in own
            ),
        )
        for block in heads(spec)
    ]
    ends = [
        msgspec.structs.replace(
            block, tensors=tuple(tensor for tensor in block.tensors if tensor.kind in own)
        )
        for block in spec.blocks
        if block.part in (Part.EMBEDDING, Part.HEAD)
    ]
    return msgspec.structs.replace(spec, blocks=(*joined, *ends), rotary_tables=())


def _with_divided_joint(block: Block) -> Block:
    """Return a block of a head of latent attention, whose ranks divide what joins it to the model.
    Source: models/kimi_k25_eagle3.py."""
    tensors = (
        msgspec.structs.replace(tensor, split=Split.COLUMN) if tensor.name == _JOINT else tensor
        for tensor in block.tensors
    )
    return msgspec.structs.replace(block, tensors=tuple(tensors))


def priced_layers(spec: ModelSpec, workload: Workload) -> int:
    """Return the layers that the size of a token counts in addition to the model's, each as large
    as one of those but for a DFlash head's, which are as large as they are."""
    if not workload.speculative_tokens or (spec.draft is None and spec.architecture in _UNPRICED):
        return 0
    return drafted_layers(spec)


def own_layers(spec: ModelSpec) -> list[tuple[Mixer, int]]:
    """Return what the layers of a DFlash head keep, with their number; nothing of other drafts.
    Source: srt/mem_cache/draft_kv_budget.py, resolve_dflash_draft_cell_size."""
    if spec.draft is None or method(spec.draft) != "dflash":
        return []
    return [(mixer, len(block.layers)) for block in spec.draft.blocks for mixer in block.mixers]


def checked_tokens(workload: Workload) -> int:
    """Return the tokens of a request that a step checks, each of which keeps the states of its
    own: those drafted and one."""
    return workload.speculative_tokens + 1 if workload.speculative_tokens else 0
