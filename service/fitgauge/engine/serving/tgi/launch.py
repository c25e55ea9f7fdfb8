"""How to start text-generation-inference. Source: release 3.3, launcher/src/main.rs."""

from fitgauge.engine.serving.launch import Flags, Launch, degree, optional, shell

ONLINE_FORMATS = {
    "fp8": "fp8",
    "int8": "bitsandbytes",
    "nf4": "bitsandbytes-nf4",
    "fp4": "bitsandbytes-fp4",
}
DTYPES = {"F16": "float16", "BF16": "bfloat16"}
CACHE_DTYPES = {"F8_E4M3": "fp8_e4m3fn", "F8_E5M2": "fp8_e5m2"}

_DERIVES_PREFILL = (3,)
"""From this release on the launcher derives max_batch_prefill_tokens from the GPU, so the command
sets the value of the estimate."""

_MAX_REQUESTS = 128
"""The default of max_concurrent_requests."""


def command(launch: Launch) -> str:
    """Return the command line."""
    settings, workload = launch.settings, launch.workload
    flags: Flags = ["text-generation-launcher", "--model-id", launch.repository]
    flags += ["--max-total-tokens", workload.context_length]
    derives = workload.engine_version >= _DERIVES_PREFILL
    prefill = workload.max_batched_tokens if derives else settings.max_batched_tokens
    requests = workload.requests_per_replica
    flags += optional(
        ("--revision", launch.revision),
        ("--num-shard", degree(workload.tensor_parallel)),
        ("--quantize", launch.quantization),
        ("--dtype", launch.dtype),
        ("--kv-cache-dtype", launch.kv_cache_dtype),
        ("--cuda-memory-fraction", settings.gpu_memory_utilization),
        ("--max-batch-prefill-tokens", prefill),
        ("--max-batch-total-tokens", launch.pool_tokens),
        ("--max-batch-size", settings.max_num_seqs),
        ("--max-concurrent-requests", requests if requests > _MAX_REQUESTS else None),
    )
    return shell([*flags, "--cuda-graphs", 0] if workload.enforce_eager else flags)
