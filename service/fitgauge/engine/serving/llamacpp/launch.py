"""How to start llama.cpp and Ollama. Source: llama.cpp tools/server/README.md; ollama
envconfig/config.go."""

from fitgauge.engine.serving.launch import Flags, Launch, optional, shell
from fitgauge.engine.serving.llamacpp.offload import offloaded


def command(launch: Launch) -> str:
    """Return the command line of llama-server. Without -ngl llama-server keeps on the host by
    itself what does not fit (--fit)."""
    spec, settings, workload = launch.model.spec, launch.settings, launch.workload
    tokens = workload.context_length * workload.concurrency
    flags: Flags = ["llama-server", "-hf", _repository(launch), "-c", tokens]
    on_host = workload.cpu_offload_bytes * workload.pipeline_parallel
    if launch.weights is not None and on_host:
        offload = offloaded(launch.weights, spec.layers, on_host)
        flags += ["-ngl", spec.layers + 1 - offload.layers if offload.layers else "all"]
        flags += optional(("--n-cpu-moe", offload.experts or None))
    elif not on_host:
        flags += ["-ngl", "all"]
    cache = None if workload.kv_cache_dtype == "auto" else workload.kv_cache_dtype.lower()
    more = workload.concurrency > workload.max_num_seqs
    return shell(
        flags
        + optional(
            ("--cache-type-k", cache),
            ("--cache-type-v", cache),
            ("--parallel", settings.max_num_seqs or (workload.concurrency if more else None)),
            ("--ubatch-size", settings.max_batched_tokens),
        )
    )


def _repository(launch: Launch) -> str:
    """Return a repository with the quantization after a colon, as llama-server's -hf takes it."""
    wanted = launch.settings.quantization
    return f"{launch.model.id}:{wanted.strip().upper()}" if wanted else launch.model.id


def ollama_command(launch: Launch) -> str:
    """Return the command line of Ollama, which takes the fewest GPUs that hold a model, unless
    OLLAMA_SCHED_SPREAD is set."""
    workload = launch.workload
    settings: Flags = [f"OLLAMA_CONTEXT_LENGTH={workload.context_length}"]
    parallel = max(workload.concurrency, workload.max_num_seqs)
    if parallel > 1:
        settings.append(f"OLLAMA_NUM_PARALLEL={parallel}")
    if workload.pipeline_parallel > 1:
        settings.append("OLLAMA_SCHED_SPREAD=1")
    if workload.kv_cache_dtype != "auto":
        settings += [
            "OLLAMA_FLASH_ATTENTION=1",
            f"OLLAMA_KV_CACHE_TYPE={workload.kv_cache_dtype.lower()}",
        ]
    return shell(["env", *settings, "ollama", "serve"])
