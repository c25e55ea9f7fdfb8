"""How to start vLLM. Source: vllm/engine/arg_utils.py (0.33)."""

from msgspec import json

from fitgauge.engine.serving.launch import Flags, Launch, degree, optional, shell

ONLINE_FORMATS = {"fp8": "fp8", "nf4": "bitsandbytes"}
CACHE_DTYPES = {"F8_E4M3": "fp8", "F8_E5M2": "fp8_e5m2", "BF16": "bfloat16", "F16": "float16"}


def command(launch: Launch) -> str:
    """Return the command line."""
    settings, workload = launch.settings, launch.workload
    flags: Flags = ["vllm", "serve", launch.model.id, "--max-model-len", workload.context_length]
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
        ("--kv-cache-dtype", launch.kv_cache_dtype),
        ("--gpu-memory-utilization", settings.gpu_memory_utilization),
        ("--max-num-seqs", settings.max_num_seqs),
        ("--max-num-batched-tokens", settings.max_batched_tokens),
        ("--cpu-offload-gb", settings.cpu_offload_gib or None),
        ("--kv-cache-memory-bytes", workload.kv_cache_memory_bytes),
    )
    if workload.lora_slots:
        flags += ["--enable-lora", "--max-loras", workload.lora_slots]
        flags += ["--max-lora-rank", workload.lora_rank]
    if workload.speculative_tokens:
        drafts = {"model": settings.draft_model} if settings.draft_model else {"method": "mtp"}
        config = {**drafts, "num_speculative_tokens": workload.speculative_tokens}
        flags += ["--speculative-config", json.encode(config).decode()]
    return shell([*flags, "--enforce-eager"] if workload.enforce_eager else flags)
