"""Speculative decoding with the model's own multi-token prediction heads: what vLLM loads for them and what they keep of a request.

Source: vLLM 0.33.0, models/*_mtp.py; v1/worker/gpu/spec_decode/eagle/utils.py, load_eagle_model.
"""

import msgspec

from fitgauge.engine.architecture import Block, Kind, Mixer, ModelSpec, Part, Recurrent
from fitgauge.engine.dtypes import BITS
from fitgauge.engine.laid import Laid, divided, round_up
from fitgauge.engine.quantity import Term, certain, gib
from fitgauge.engine.schemes import Rule, Scheme, named
from fitgauge.engine.vllm.cards import on_card
from fitgauge.engine.vllm.kv_formats import served_dtype
from fitgauge.engine.vllm.layout import VLLM, buffer_bytes, laid_out
from fitgauge.engine.weights import rank_weights
from fitgauge.engine.workload import Workload
from fitgauge.errors import InvalidQuestion

_SOURCE = "vllm/model_executor/models/*_mtp.py; v1/worker/gpu/spec_decode/eagle/utils.py, load_eagle_model"

UNQUANTIZED = named(("eh_proj",))
"""A plain torch linear in every class. Source: models/deepseek_mtp.py and those like it."""


def heads(spec: ModelSpec) -> tuple[Block, ...]:
    """The blocks of the model's own prediction heads, none where it has none."""
    return tuple(block for block in spec.blocks if block.part is Part.MTP)


def check_draft(spec: ModelSpec, workload: Workload) -> None:
    """Raises InvalidQuestion where tokens are to be speculated and the config counts no heads for it."""
    if workload.speculative_tokens and not heads(spec):
        said = f"{spec.architecture}, as this config describes it, has no multi-token prediction head to draft tokens with."
        raise InvalidQuestion(said, hint="Send speculative_tokens 0, or leave it out.", field="speculative_tokens")


def draft_spec(spec: ModelSpec) -> ModelSpec:
    """The heads as a model of their own. Embedding and output head are the target's, with which a head's copies are equal."""
    blocks = tuple(
        msgspec.structs.replace(
            block,
            part=Part.LANGUAGE,
            tensors=tuple(tensor for tensor in block.tensors if tensor.kind not in (Kind.EMBEDDING, Kind.HEAD)),
        )
        for block in heads(spec)
    )
    return msgspec.structs.replace(spec, blocks=blocks, rotary_tables=())


def draft_term(spec: ModelSpec, scheme: Scheme, workload: Workload, compute_capability: tuple[int, int] | None) -> Term:
    """The term `draft_weights` of the last pipeline stage, which alone drafts; away from the first it has an embedding of its own."""
    drafted = draft_spec(spec)
    rules = (Rule(form=None, names=UNQUANTIZED), *scheme.rules) if scheme.rules else ()
    laid = on_card(laid_out(drafted, msgspec.structs.replace(scheme, rules=rules)), drafted, compute_capability)
    size = draft_bytes(drafted, laid, workload)
    formula = f"{scheme.name} weights of the prediction heads, embedding and head shared"
    if workload.pipeline_parallel > 1:
        words = divided(round_up(spec.vocabulary_size, VLLM.vocabulary_multiple), workload.tensor_parallel)
        own = words * spec.hidden_size * BITS[served_dtype(spec.dtype)] // 8
        size, formula = size + own, f"{formula.removesuffix('embedding and head shared')}and an embedding of {gib(own)}"
    return certain("draft_weights", size, laid.basis, formula, _SOURCE)


def draft_bytes(drafted: ModelSpec, laid: Laid, workload: Workload) -> int:
    """Parameters and registered buffers of the heads on one rank [bytes]."""
    tensor, expert = workload.tensor_parallel, workload.expert_parallel
    parameters = rank_weights(laid, tensor_parallel=tensor, expert_parallel=expert, data_parallel=workload.data_parallel).bytes
    return parameters + buffer_bytes(drafted, tensor_parallel=tensor, expert_parallel=expert, version=workload.version)


def drafted_mixers(spec: ModelSpec) -> list[tuple[Mixer, tuple[int, ...]]]:
    """What every layer of the heads keeps, numbered on from the model's last layer."""
    found: list[tuple[Mixer, tuple[int, ...]]] = []
    start = spec.layers
    for block in heads(spec):
        numbers = tuple(range(start, start + len(block.layers)))
        found += [(mixer, numbers) for mixer in block.mixers]
        start += len(block.layers) if block.mixers else 0
    return found


def drafted_layers(spec: ModelSpec) -> int:
    """Layers of the heads that mix tokens."""
    return sum(len(block.layers) for block in heads(spec) if block.mixers)


def lengthened(mixer: Mixer, block: Block, speculative_tokens: int) -> Mixer:
    """A recurrent layer whose convolution keeps the drafted tokens' inputs too: kernel - 1 + drafted instead of kernel - 1.

    Source: layers/mamba/mamba_utils.py, MambaStateShapeCalculator (num_spec).
    """
    kernels = [tensor.shape[-1] for tensor in block.tensors if tensor.kind is Kind.CONV]
    if not speculative_tokens or not isinstance(mixer, Recurrent) or not kernels or kernels[0] < 2:
        return mixer
    past = kernels[0] - 1
    states = tuple(
        msgspec.structs.replace(state, width=state.width // past * (past + speculative_tokens)) if state.name.startswith("conv") else state
        for state in mixer.states
    )
    return msgspec.structs.replace(mixer, states=states)
