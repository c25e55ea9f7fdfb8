"""How to start vLLM. Source: vllm/engine/arg_utils.py (0.33)."""

from msgspec import json

from fitgauge.engine.model.spec import ModelSpec
from fitgauge.engine.serving.launch import HEAD, Flags, Launch, NodeFlags, degree, optional, shell
from fitgauge.engine.serving.rope_scaling import config_overrides, scaling
from fitgauge.engine.serving.vllm import language_model, releases
from fitgauge.engine.serving.vllm.kv_cache import turboquant
from fitgauge.engine.serving.vllm.kv_transfer import CONNECTOR
from fitgauge.engine.serving.vllm.speculative import drafting
from fitgauge.engine.serving.workload import Workload

ONLINE_FORMATS = {"fp8": "fp8", "nf4": "bitsandbytes"}
DTYPES = {"F16": "float16", "BF16": "bfloat16", "F32": "float32"}
CACHE_DTYPES = {
    "F8_E4M3": "fp8", "F8_E5M2": "fp8_e5m2", "BF16": "bfloat16", "F16": "float16",
    "fp8_ds_mla": "fp8_ds_mla", "nvfp4": "nvfp4", "int4_per_token_head": "int4_per_token_head",
    "int8_per_token_head": "int8_per_token_head", "fp8_per_token_head": "fp8_per_token_head",
    **{name: name for name in turboquant.PRESETS},
}  # fmt: skip
"""Formats of the cache by its flag's names; those without a canonical dtype go by that name.
Source: vllm/config/cache.py, CacheDType."""


_NODES = (0, 12)
"""The first release whose own processes span machines; before it Ray's did."""


def over_nodes(workload: Workload, nodes: int) -> NodeFlags:
    """Return how ranks run over machines: vLLM's own processes, before release 0.12 Ray's.

    Source: docs/serving/parallelism_scaling.md, "Running vLLM with MultiProcessing"; replicas go
    to the machines by their rank (vllm/engine/arg_utils.py, inferred_data_parallel_rank)."""
    if workload.engine_version < _NODES:
        others = f"in a Ray cluster that each joins first (ray start --address={HEAD}:6379)"
        return NodeFlags(["--distributed-executor-backend", "ray"], others)
    flags: Flags = ["--nnodes", nodes, "--node-rank", 0, "--master-addr", HEAD]
    return NodeFlags(flags, "with --node-rank 1 and so on, and --headless")


def kv_offloading_size(workload: Workload) -> str | None:
    """Return the host memory of all ranks of a replica for KV cache [GiB], None for none.

    Source: vllm/config/cache.py, kv_offloading_size (the sum over tensor ranks);
    v1/kv_offload/cpu/spec.py (divided by all ranks of an engine)."""
    ranks = workload.tensor_parallel * workload.pipeline_parallel
    return f"{workload.kv_offload_gib * ranks:.12g}" if workload.kv_offload_gib else None


def rope_scaling(spec: ModelSpec, workload: Workload) -> Flags:
    """Return the flags that scale rotary positions, where the workload does."""
    factor, version = workload.rope_scaling_factor, workload.engine_version
    if version < releases.ROPE_SCALING_GONE:
        settings = json.encode(scaling(spec, factor)).decode() if factor > 1 else None
        return optional(("--rope-scaling", settings))
    name = "rope_scaling" if version < releases.ROPE_PARAMETERS else "rope_parameters"
    return optional(("--hf-overrides", config_overrides(spec, factor, name=name)))


def needs_leave(spec: ModelSpec, workload: Workload) -> bool:
    """Return whether vLLM reads the checkpoint's format only where a flag says that it may.
    Source: vllm 0.33, layers/quantization/__init__.py, DEPRECATED_QUANTIZATION_METHODS."""
    deprecated = (spec.quantization or {}).get("quant_method") in ("fbgemm_fp8", "fp_quant")
    return deprecated and workload.engine_version >= releases.DEPRECATED_FORMATS


def command(launch: Launch) -> str:
    """Return the command line."""
    settings, workload = launch.settings, launch.workload
    flags: Flags = ["vllm", "serve", launch.repository, "--max-model-len", workload.context_length]
    flags += rope_scaling(launch.model.spec, workload)
    flags += optional(
        ("--revision", launch.revision),
        ("--tensor-parallel-size", degree(workload.tensor_parallel)),
        ("--pipeline-parallel-size", degree(workload.pipeline_parallel)),
        ("--data-parallel-size", degree(workload.data_parallel)),
    )
    if workload.expert_parallel > 1:
        flags.append("--enable-expert-parallel")
    flags += optional(
        ("--quantization", launch.quantization),
        ("--dtype", launch.dtype),
        ("--kv-cache-dtype", launch.kv_cache_dtype),
        ("--gpu-memory-utilization", settings.gpu_memory_utilization),
        ("--max-num-seqs", settings.max_num_seqs),
        ("--max-num-batched-tokens", settings.max_batched_tokens),
        ("--cpu-offload-gb", settings.cpu_offload_gib or None),
        ("--kv-cache-memory-bytes", workload.kv_cache_memory_bytes),
        ("--kv-offloading-size", kv_offloading_size(workload)),
    )
    if needs_leave(launch.model.spec, workload):
        flags.append("--allow-deprecated-quantization")
    if workload.disaggregation:
        flags += ["--kv-transfer-config", CONNECTOR]
    if workload.pooling:
        flags += ["--runner", "pooling"]
    flags += language_model.flags(workload)
    if launch.nodes > 1:
        flags += over_nodes(workload, launch.nodes).flags
    if workload.lora_slots:
        flags += ["--enable-lora", "--max-loras", workload.lora_slots]
        flags += ["--max-lora-rank", workload.lora_rank]
    if workload.speculative_tokens:
        config = {
            **drafting(launch.model.spec, settings.draft_model),
            "num_speculative_tokens": workload.speculative_tokens,
        }
        flags += ["--speculative-config", json.encode(config).decode()]
    return shell([*flags, "--enforce-eager"] if workload.enforce_eager else flags)
