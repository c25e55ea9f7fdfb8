"""How to start what was estimated: the command with the settings that the answer is about."""

import shlex

from fitgauge.engine.architecture import Model
from fitgauge.engine.workload import Workload
from fitgauge.questions.schemas import FitRequest

_ONLINE = {"fp8": "fp8", "nf4": "bitsandbytes", "bnb": "bitsandbytes", "bitsandbytes": "bitsandbytes", "int8": "bitsandbytes"}
"""What vLLM quantizes while it loads; other formats need a checkpoint that holds them."""

_CACHE_FLAGS = {"F8_E4M3": "fp8", "F8_E5M2": "fp8_e5m2"}


def launch_command(model: Model, request: FitRequest, workload: Workload) -> str:
    """The command line, with flags only where they differ from what the engine takes by itself."""
    if workload.engine == "transformers":
        name = repr(model.id)
        load = f"from transformers import AutoModelForCausalLM as M; M.from_pretrained({name}, dtype='auto', device_map='auto')"
        return f"python -c {shlex.quote(load)}"
    flags: list[object] = ["vllm", "serve", model.id, "--max-model-len", workload.context_length]
    if model.revision and model.source == "hub" and "@" in request.model:
        flags += ["--revision", model.revision]
    for flag, degree in (
        ("--tensor-parallel-size", workload.tensor_parallel),
        ("--pipeline-parallel-size", workload.pipeline_parallel),
        ("--data-parallel-size", workload.data_parallel),
    ):
        if degree > 1:
            flags += [flag, degree]
    if workload.expert_parallel > 1:
        flags.append("--enable-expert-parallel")
    if request.quantization and request.quantization.strip().lower() in _ONLINE:
        flags += ["--quantization", _ONLINE[request.quantization.strip().lower()]]
    if workload.cache_dtype in _CACHE_FLAGS:
        flags += ["--kv-cache-dtype", _CACHE_FLAGS[workload.cache_dtype]]
    for flag, asked in (
        ("--gpu-memory-utilization", request.gpu_memory_utilization),
        ("--max-num-seqs", request.max_num_seqs),
        ("--max-num-batched-tokens", request.max_batched_tokens),
        ("--cpu-offload-gb", request.cpu_offload_gib or None),
        ("--kv-cache-memory-bytes", workload.cache_pool_bytes),
    ):
        if asked is not None:
            flags += [flag, asked]
    if workload.enforce_eager:
        flags.append("--enforce-eager")
    return shlex.join(str(flag) for flag in flags)
