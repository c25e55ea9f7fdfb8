"""How to start llama.cpp and Ollama. Source: llama.cpp tools/server/README.md; ollama
envconfig/config.go."""

from fitgauge.engine.quantity import MIB
from fitgauge.engine.serving.engine_facts import Offload
from fitgauge.engine.serving.launch import Flags, Launch, optional, shell
from fitgauge.engine.serving.llamacpp.offload import (
    cpu_layers,
    layer_split,
    offloaded_split,
    states_layers,
)
from fitgauge.engine.serving.rope_scaling import trained_positions


def command(launch: Launch) -> str:
    """Return the command line of llama-server. Without -ngl llama-server keeps on the host by
    itself what does not fit (--fit). --tensor-split divides the layers as they were judged."""
    spec, settings, workload = launch.model.spec, launch.settings, launch.workload
    tokens = workload.context_length * workload.concurrency
    source = "-m" if launch.repository.startswith(("/", ".", "~")) else "-hf"
    flags: Flags = ["llama-server", source, launch.repository, "-c", tokens]
    offload = Offload(0, 0)
    if launch.weights is not None and workload.offloads:
        offload = cpu_layers(spec, launch.weights, workload)
    if launch.weights is not None or not workload.offloads:
        flags += ["-ngl", spec.layers + 1 - offload.layers if offload.layers else "all"]
        flags += optional(("--n-cpu-moe", offload.experts or None))
    gpus, free = workload.pipeline_parallel, workload.free_bytes
    split = layer_split(spec.layers, gpus, offload.layers, free)
    if launch.weights is not None and offload.experts:
        split = offloaded_split(spec, launch.weights, workload, offload)
    if free or (offload.experts and gpus > 1 and not states_layers(workload)):
        flags += ["--tensor-split", ",".join(map(str, split.counts))]
    if workload.language_model_only:
        flags.append("--no-mmproj")
    if workload.rope_scaling_factor > 1:
        flags += ["--rope-scaling", "yarn", "--rope-scale", f"{workload.rope_scaling_factor:g}"]
        flags += ["--yarn-orig-ctx", trained_positions(spec)]
    cache = None if workload.kv_cache_dtype == "auto" else workload.kv_cache_dtype.lower()
    more = workload.concurrency > workload.max_num_seqs
    slots = settings.max_num_seqs or (workload.concurrency if more else None)
    flags += optional(("--cache-type-k", cache), ("--cache-type-v", cache), ("--parallel", slots))
    if slots and slots > 1:  # a number of slots divides the cache (common/arg.cpp, kv_unified)
        flags.append("--kv-unified")
    return shell(
        flags
        + optional(
            ("--ubatch-size", settings.max_batched_tokens),
            ("--cache-ram", workload.kv_offload_bytes * workload.gpus // MIB or None),
        )
    )


def ollama_command(launch: Launch) -> str:
    """Return the command line of Ollama. Its server reads the variables; `ollama run` loads the
    model.

    Ollama takes the fewest GPUs that hold a model, unless OLLAMA_SCHED_SPREAD is set. num_batch is
    a parameter of a model alone: a Modelfile sets it (ollama docs/modelfile.md; api/types.go,
    Runner)."""
    workload, batch = launch.workload, launch.settings.max_batched_tokens
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
    numbers = {"batch": batch, "gpu": workload.n_gpu_layers}
    parameters = {name: number for name, number in numbers.items() if number is not None}
    if not parameters:
        return shell([*settings, "ollama", "run", launch.repository])
    name = "-".join(f"{name}-{number}" for name, number in parameters.items())
    lines = "".join(f"PARAMETER num_{name} {number}\\n" for name, number in parameters.items())
    modelfile = shell(["printf", f"FROM {launch.repository}\\n{lines}"])
    create = shell(["ollama", "create", name, "-f", "Modelfile"])
    return f"{modelfile} > Modelfile && {create} && {shell([*settings, 'ollama', 'run', name])}"
