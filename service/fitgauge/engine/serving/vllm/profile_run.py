"""vLLM's profiling pass: what is alive at the highest moment before the pool of the cache is cut
out of what is left.

Source: vllm/v1/worker/gpu_model_runner.py, profile_run and _dummy_sampler_run (0.11 to 0.33);
vllm/v1/worker/gpu/model_runner.py, the second model runner (`second_runner`)."""

from fitgauge.engine.accelerator import Accelerator
from fitgauge.engine.model.mixers import Attention, LatentAttention, Mixer
from fitgauge.engine.model.spec import ModelSpec, Part
from fitgauge.engine.quantity import KIB, MIB, Term, exact_term, exactly, plus
from fitgauge.engine.serving.activations import HALF, activation_bytes, attention_width
from fitgauge.engine.serving.profile import EngineProfile
from fitgauge.engine.serving.vllm import releases
from fitgauge.engine.serving.vllm.defaults import first_engine
from fitgauge.engine.serving.vllm.encoder import Images, images, largest_batch
from fitgauge.engine.serving.vllm.kv_cache import turboquant
from fitgauge.engine.serving.vllm.second_runner import runs_second, second_sampler
from fitgauge.engine.serving.vllm.speculative import read_bytes
from fitgauge.engine.serving.vllm.workspaces import (
    indexers,
    padded_expert_bytes,
    retained_workspace,
)
from fitgauge.engine.serving.workload import Workload

_INDEXER_LOGITS = 512 * MIB
"""VLLM_SPARSE_INDEXER_MAX_LOGITS_MB."""
_INDEXER_SOURCE = "vllm 0.33 vllm/model_executor/layers/sparse_attn_indexer.py"

_SECOND_PASS = 8192
"""Tokens of the second model runner's pass before 0.31, at the least, whatever
max_num_batched_tokens.

Source: posted logs of 0.26 to 0.28 whose default is 2048 tokens (Qwen2.5-0.5B 0.25 GiB,
Qwen2.5-7B-AWQ 1.04 GiB, Qwen3-14B-FP8): the peaks are those of the layers at 8192. No line of
vLLM's source was found that says so."""
_EXPANDED_MOST = 64 * 1024
"""Tokens of them at most. Source:
MLACommonMetadataBuilder.determine_chunked_prefill_workspace_size (0.11.0, 0.19.0, 0.33.0)."""
_ATTENDING_SOURCE = (
    "vllm 0.33 vllm/model_executor/layers/attention/mla_attention.py, forward_impl;"
    " v1/worker/workspace.py"
)

_TEMPORARIES = "vllm 0.33 vllm/v1/worker/gpu_model_runner.py, profile_run"


def profiling_terms(
    spec: ModelSpec,
    profile: EngineProfile,
    workload: Workload,
    accelerator: Accelerator,
    *,
    first: bool,
    last: bool,
) -> tuple[Term, ...]:
    """Return `activations`, `logits` and `encoder` of one pipeline stage, as the highest moment of
    the pass holds them."""
    second = runs_second(spec, profile.second_runner)
    terms = _language_terms(spec, profile, workload, accelerator, second=second, last=last)
    profiled = first and (not second or workload.engine_version >= releases.SECOND_RUNNER_IMAGES)
    seen = profiled and images(
        spec, workload, first_engine=first_engine(accelerator, workload.engine_version)
    )
    return _with_encoder(terms, seen) if seen else terms


def _language_terms(
    spec: ModelSpec,
    profile: EngineProfile,
    workload: Workload,
    accelerator: Accelerator,
    *,
    second: bool,
    last: bool,
) -> tuple[Term, ...]:
    """Return `activations` and `logits` of the language model's own highest moment.

    That is its widest layer's, an indexer's, that of reading latents, or its sampler's. second:
    under the second model runner."""
    tokens, release = workload.max_batched_tokens, workload.engine_version
    small = not second or release >= releases.SECOND_RUNNER_SMALL_PASS
    retains = release >= releases.WORKSPACES_RETAINED
    workspaces = retained_workspace(spec, workload, accelerator) if retains else 0
    terms = activation_bytes(
        spec,
        profile,
        tokens=tokens if small else max(tokens, _SECOND_PASS),
        sequences=min(workload.max_num_seqs, tokens),
        tensor_parallel=workload.tensor_parallel,
        samples=last and spec.task != "encode",
        sampler=(
            second_sampler(profile, workload, accelerator) if second else profile.logits_copies
        ),
        workspaces=workspaces,
        padded_bytes=padded_expert_bytes(spec, workload, accelerator),
        expert_parallel=workload.expert_parallel,
    )
    profiles_indexers = release >= releases.INDEXERS_PROFILED
    indexed = indexed_peak(spec, profile, workload, workspaces) if profiles_indexers else 0
    if indexed > sum(term.bytes for term in terms):
        formula = indexed_formula(spec, profile, workload, workspaces)
        terms = (exact_term("activations", indexed, "computed", formula, _INDEXER_SOURCE),)
    attending = attending_peak(spec, profile, workload, workspaces)
    if attending > sum(term.bytes for term in terms):
        formula = attending_formula(spec, profile, workload, workspaces)
        terms = (exact_term("activations", attending, "computed", formula, _ATTENDING_SOURCE),)
    extra = workspace_bytes(accelerator) + stage_bytes(spec, workload)
    extra += read_bytes(spec, workload) if last else 0
    return (_with(terms[0], extra), *terms[1:])


def _with_encoder(terms: tuple[Term, ...], seen: Images) -> tuple[Term, ...]:
    """Return the terms of the highest moment of both.

    The encoder runs before the language model and leaves its outputs; so the moment is the
    encoder's own, or the language model's with what the encoder left."""
    alone = seen.peak > seen.held + sum(term.bytes for term in terms)
    size, kind = (
        (seen.peak, "the encoder's own peak") if alone else (seen.held, "pixels and outputs")
    )
    formula = f"images of {seen.tokens} tokens, {kind}: {exactly(size)}"
    encoder = exact_term("encoder", size, "computed", formula, _TEMPORARIES)
    return (encoder,) if alone else (*terms, encoder)


def context_in_pass(
    spec: ModelSpec, workload: Workload, accelerator: Accelerator
) -> tuple[int, ...]:
    """Return all that the pass reads of the longest request [tokens]: how many of its latents are
    expanded, of how many an indexer gathers keys, the images and videos that it holds, and how many
    of TurboQuant are unpacked."""
    read: tuple[int, ...] = ()
    if spec.latent_layers:
        gathered = workload.context_length if any(True for _ in indexers(spec)) else 0
        read = expanded_tokens(workload), gathered
    if spec.sees_images:
        first = first_engine(accelerator, workload.engine_version)
        read += largest_batch(spec, workload, first_engine=first)
    if workload.kv_cache_dtype in turboquant.PRESETS:
        read += (workload.context_length,)
    return read


def indexed_peak(
    spec: ModelSpec, profile: EngineProfile, workload: Workload, workspaces: int
) -> int:
    """Return what is alive while a sparse indexer scores keys: queries and output of its layer
    in addition to copies of the hidden state, the logits it may make at most, and the workspace
    that is kept [bytes]; 0 without one. Source: `_INDEXER_SOURCE` (0.19.0, 0.33.0)."""
    if not any(True for _ in indexers(spec)):
        return 0
    mixers = (
        mixer for block in spec.blocks if block.part is Part.LANGUAGE for mixer in block.mixers
    )
    width = max(attention_width(mixer, workload.tensor_parallel) for mixer in mixers)
    row = HALF * (profile.hidden_copies.expected * spec.hidden_size + width)
    return int(workload.max_batched_tokens * row) + _INDEXER_LOGITS + workspaces


def indexed_formula(
    spec: ModelSpec, profile: EngineProfile, workload: Workload, workspaces: int
) -> str:
    """Return `indexed_peak` by its factors."""
    mixers = (
        mixer for block in spec.blocks if block.part is Part.LANGUAGE for mixer in block.mixers
    )
    width = max(attention_width(mixer, workload.tensor_parallel) for mixer in mixers)
    return (
        f"{workload.max_batched_tokens} tokens x {HALF} B x ({profile.hidden_copies.expected:g} x"
        f" {spec.hidden_size} hidden + {width} of queries and output) + {exactly(_INDEXER_LOGITS)}"
        f" of the indexer's logits + {exactly(workspaces)} of workspaces"
    )


def attending_formula(
    spec: ModelSpec, profile: EngineProfile, workload: Workload, workspaces: int
) -> str:
    """Return `attending_peak` by its factors."""
    copies, tensor_parallel = profile.hidden_copies.expected, workload.tensor_parallel
    mixers = (
        mixer for block in spec.blocks if block.part is Part.LANGUAGE for mixer in block.mixers
    )
    width, expanded = max(
        (
            (attending_width(mixer, tensor_parallel), expanded_bytes(mixer, workload))
            for mixer in mixers
        ),
        key=lambda held: workload.max_batched_tokens * HALF * held[0] + held[1],
    )
    more = f" + {exactly(expanded)} of expanded latents" if expanded else ""
    return (
        f"{workload.max_batched_tokens} tokens x {HALF} B x ({copies:g} x {spec.hidden_size} hidden"
        f" + {width} of queries, keys, values and output) + {exactly(workspaces)} of workspaces"
        f"{more}"
    )


def attending_peak(
    spec: ModelSpec, profile: EngineProfile, workload: Workload, workspaces: int
) -> int:
    """Return what is alive while a layer attends [bytes]: tokens x 2 B x (copies x hidden +
    `attending_width`), the `workspaces` that the layers before have left, and with MLA the
    expanded latents of earlier tokens (`expanded_bytes`). Source: `_ATTENDING_SOURCE`."""
    mixers = [
        mixer for block in spec.blocks if block.part is Part.LANGUAGE for mixer in block.mixers
    ]
    tensor_parallel, copies = workload.tensor_parallel, profile.hidden_copies.expected
    return max(
        (
            workspaces
            + int(
                workload.max_batched_tokens
                * HALF
                * (copies * spec.hidden_size + attending_width(mixer, tensor_parallel))
            )
            + expanded_bytes(mixer, workload)
            for mixer in mixers
        ),
        default=0,
    )


def attending_width(mixer: Mixer, tensor_parallel: int) -> int:
    """Return the numbers of one token on one rank while a layer attends: queries, keys and
    values as projected, queries and keys turned by their positions, the output; with MLA the
    queries, the latent as projected and as normed, the output."""
    match mixer:
        case Attention():
            heads = max(1, mixer.query_heads // tensor_parallel)
            kv_heads = max(1, mixer.kv_heads // tensor_parallel)
            return heads * (2 * mixer.head_dim + mixer.value_dim) + kv_heads * (
                2 * mixer.head_dim + mixer.value_dim
            )
        case LatentAttention():
            heads = max(1, mixer.query_heads // tensor_parallel)
            return (
                heads * (mixer.nope_dim + mixer.rope_dim + mixer.value_dim)
                + 2 * mixer.latent_dim
                + mixer.rope_dim
            )
        case _:
            return attention_width(mixer, tensor_parallel)


def expanded_tokens(workload: Workload) -> int:
    """Return the tokens whose latents are expanded at once: of eight contexts, or 4 x 16 a
    sequence, 65,536 at most."""
    return min(max(8 * workload.context_length, 64 * workload.max_num_seqs), _EXPANDED_MOST)


def expanded_bytes(mixer: Mixer, workload: Workload) -> int:
    """Return keys and values expanded from their latents: `expanded_tokens` x heads x (nope +
    value) x 2 B [bytes]; 0 where nothing is expanded."""
    if (
        not isinstance(mixer, LatentAttention)
        or mixer.indexer
        or workload.engine_version < releases.LATENTS_EXPANDED
    ):
        return 0
    return (
        expanded_tokens(workload)
        * max(1, mixer.query_heads // workload.tensor_parallel)
        * (mixer.nope_dim + mixer.value_dim)
        * HALF
    )


def workspace_bytes(accelerator: Accelerator) -> int:
    """cuBLAS's workspace, which PyTorch allocates: 32 MiB from compute capability 9.0, 8 MiB + 128
    KiB before.

    Source: pytorch aten/src/ATen/cuda/CublasHandlePool.cpp, getChosenWorkspaceSize.
    """
    capability = accelerator.compute_capability
    return 32 * MIB if capability is not None and capability >= (9, 0) else 8 * MIB + 128 * KIB


def stage_bytes(spec: ModelSpec, workload: Workload) -> int:
    """Return what a pipeline stage receives or hands on: hidden states and residual, tokens x
    hidden x 2 B each."""
    if workload.pipeline_parallel > 1:
        return 2 * HALF * workload.max_batched_tokens * spec.hidden_size
    return 0


def _with(term: Term, size: int) -> Term:
    """`term` with `size` bytes more of cuBLAS's workspace and of tensors between stages."""
    return Term(
        name=term.name,
        bytes=term.bytes + size,
        low=term.low + size,
        high=term.high + size,
        basis=term.basis,
        formula=plus(term.formula, f"{exactly(size)} of workspace"),
        source=term.source,
    )
