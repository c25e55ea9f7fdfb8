"""Workspaces that vLLM's layers share and that stay once they have grown: those of routed experts,
by the kernel that runs them, and those of sparse indexers.

Source: vllm/v1/worker/workspace.py; model_executor/layers/fused_moe (0.19.0, 0.24.0, 0.33.0)."""

from collections.abc import Iterator

from fitgauge.engine.accelerator import Accelerator
from fitgauge.engine.model.mixers import Attention, CompressedAttention, LatentAttention
from fitgauge.engine.model.spec import Mlp, ModelSpec, Part
from fitgauge.engine.quantity import MIB
from fitgauge.engine.serving.activations import HALF, expert_width
from fitgauge.engine.serving.vllm import releases
from fitgauge.engine.serving.vllm.compute_capability import RTX_BLACKWELL
from fitgauge.engine.serving.vllm.kv_cache.dtypes import cuda_major
from fitgauge.engine.serving.vllm.quirks import quirks
from fitgauge.engine.serving.workload import Workload
from fitgauge.engine.weights.sharding import round_up

_INDEXER_LENGTH = 40
"""Contexts whose keys an indexer gathers at once. Source: v1/attention/backends/mla/indexer.py,
get_max_prefill_buffer_size."""

_DEEP_GEMM_ROWS = 128
"""Rows of one expert that DeepGEMM multiplies at once. Source: DeepGEMM, heuristics_runtime,
get_theoretical_mk_alignment_for_contiguous_layout: the legacy 128 but on 10.x and 11.x."""

_FLASHINFER_WORKSPACE = 128 * MIB
"""Source: vllm 0.24.0 models/deepseek_v4/nvidia/flashinfer_sparse.py."""

_BLOCK = [128, 128]


def in_one_kernel(spec: ModelSpec, workload: Workload, accelerator: Accelerator) -> bool:
    """Return whether one kernel runs router and experts and returns what it took: gpt-oss in
    MXFP4, on Hopper with OpenAI's Triton kernels, on data-centre Blackwell with FlashInfer's.
    Source: fused_moe/oracle/mxfp4.py (0.19.0, 0.33.0), OAITritonMxfp4ExpertsMonolithic."""
    capability = accelerator.compute_capability
    built = capability is not None and (9, 0) <= capability < (11, 0)
    stored = workload.settings(spec).get("quant_method") == "mxfp4"
    return (
        built
        and stored
        and quirks(spec).joint_router_kernels
        and workload.engine_version >= releases.JOINT_ROUTER_KERNELS
    )


def retained_workspace(
    spec: ModelSpec, workload: Workload, accelerator: Accelerator | None = None
) -> int:
    """Return the bytes of the workspaces that all layers share and that stay once they have grown:
    that of the experts, tokens x 2 B x the widest `expert_width` unless they run
    `in_one_kernel`, with `padded_expert_bytes`, or of the sparse indexers where theirs is larger:
    40 contexts of keys, each of its numbers a byte, with a scale; and FlashInfer's for DeepSeek V4
    on RTX Blackwell."""
    widths = (
        expert_width(
            block.mlp, spec.hidden_size, workload.tensor_parallel, workload.expert_parallel
        )
        for block in spec.blocks
        if block.mlp
    )
    returned = accelerator is not None and in_one_kernel(spec, workload, accelerator)
    experts = 0 if returned else workload.max_batched_tokens * HALF * max(widths, default=0)
    experts += padded_expert_bytes(spec, workload, accelerator)
    gathered = (
        _INDEXER_LENGTH * workload.context_length // ratio * (dim + 4)
        for dim, ratio in indexers(spec)
        if workload.engine_version >= releases.INDEXERS_PROFILED
    )
    attending = _attention_bytes(spec, workload, accelerator) + _picked_bytes(spec, workload)
    return max(experts, *gathered, 0) + attending


def _attention_bytes(spec: ModelSpec, workload: Workload, accelerator: Accelerator | None) -> int:
    """Return FlashInfer's workspace of compressed attention, which RTX Blackwell takes in place of
    FlashMLA. Source: vllm 0.24.0 models/deepseek_v4/nvidia/model.py, _select_dsv4_attn_cls;
    flashinfer_sparse.py, _get_flashinfer_dsv4_workspace."""
    here = accelerator is not None and _on_rtx_blackwell(workload, accelerator)
    compressed = any(
        isinstance(mixer, CompressedAttention) for block in spec.blocks for mixer in block.mixers
    )
    return _FLASHINFER_WORKSPACE if here and compressed else 0


def _picked_bytes(spec: ModelSpec, workload: Workload) -> int:
    """Return what every layer whose indexer compresses keys has for the tokens that it picks, those
    that draft where tokens are speculated: tokens x (picked + the others of a group + their
    count) x 4 B. Source: models/qwen4_exp/nvidia/qsa.py, topk_indices_buffer; indexer_qsa.py,
    packed_output_width."""
    return sum(
        len(block.layers)
        * workload.max_batched_tokens
        * (mixer.indexer.top_k + mixer.indexer.ratio)
        * 4
        for block in spec.blocks
        for mixer in block.mixers
        if isinstance(mixer, Attention) and mixer.indexer and mixer.indexer.ratio > 1
        if block.part is not Part.MTP or workload.speculative_tokens
    )


def indexers(spec: ModelSpec) -> Iterator[tuple[int, int]]:
    """Yield (numbers of a key, tokens a key stands for) of every kind of sparse indexer."""
    for block in spec.blocks:
        for mixer in block.mixers:
            if isinstance(mixer, LatentAttention | CompressedAttention) and mixer.indexer:
                yield (
                    mixer.indexer.dim,
                    mixer.ratio if isinstance(mixer, CompressedAttention) else 1,
                )


def padded_expert_bytes(
    spec: ModelSpec, workload: Workload, accelerator: Accelerator | None
) -> int:
    """Return what DeepGEMM's workspaces hold beyond the tokens [bytes]: the rows of every expert
    that a batch can visit are padded to 128, rows x 2 B x `expert_width` of one row; 0 where
    another kernel runs the experts.

    Source: vllm 0.24.0 fused_moe/deep_gemm_utils.py, compute_aligned_M_and_alignment;
    fused_moe/experts/deep_gemm_moe.py, workspace_shapes."""
    if accelerator is None or not _runs_deep_gemm(spec, workload, accelerator):
        return 0
    return HALF * max(
        (
            _padded_rows(block.mlp, workload)
            * expert_width(
                block.mlp, spec.hidden_size, workload.tensor_parallel, workload.expert_parallel
            )
            // block.mlp.experts_per_token
            for block in spec.blocks
            if block.mlp and block.mlp.experts
        ),
        default=0,
    )


def _padded_rows(mlp: Mlp, workload: Workload) -> int:
    """Return the rows that DeepGEMM adds to those that are routed."""
    routed = workload.max_batched_tokens * mlp.experts_per_token
    visited = min(routed, -(-mlp.experts // workload.expert_parallel))
    return round_up(routed + visited * (_DEEP_GEMM_ROWS - 1), _DEEP_GEMM_ROWS) - routed


def _runs_deep_gemm(spec: ModelSpec, workload: Workload, accelerator: Accelerator) -> bool:
    """Return whether DeepGEMM runs the experts: on RTX Blackwell, those in FP8 blocks and DeepSeek
    V4's in MXFP4. Hopper prefers Triton for the first and Marlin for the second, data-centre
    Blackwell FlashInfer.

    Source: vllm 0.24.0 platforms/cuda.py, support_deep_gemm; fused_moe/oracle/fp8.py and
    mxfp4.py, _get_priority_backends."""
    stored = workload.settings(spec)
    return (
        _on_rtx_blackwell(workload, accelerator)
        and stored.get("quant_method") == "fp8"
        and stored.get("weight_block_size") == _BLOCK
        and not stored.get("moe_quant_algo")
    )


def _on_rtx_blackwell(workload: Workload, accelerator: Accelerator) -> bool:
    """Return whether this is RTX Blackwell and the release has kernels of its own for it."""
    return (
        cuda_major(accelerator.compute_capability) == RTX_BLACKWELL
        and workload.engine_version >= releases.DEEP_GEMM_ON_RTX
    )
