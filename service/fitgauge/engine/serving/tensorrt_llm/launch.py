"""How to start TensorRT-LLM. Source: TensorRT-LLM 1.2, tensorrt_llm/commands/serve.py and
llmapi/llm_args.py."""

import shlex

from msgspec import json

from fitgauge.engine.serving.launch import Flags, Launch, degree, optional, shell
from fitgauge.engine.serving.workload import Workload

CACHE_DTYPES = {"F8_E4M3": "fp8"}

_FILE = "trtllm.json"
"""JSON is YAML too."""


def command(launch: Launch) -> str:
    """Return the command line, which first writes what trtllm-serve reads from a file alone."""
    settings, workload = launch.settings, launch.workload
    flags: Flags = ["trtllm-serve", launch.repository, "--max_seq_len", workload.context_length]
    flags += optional(
        ("--revision", launch.revision),
        ("--tp_size", degree(workload.tensor_parallel * _attention_replicas(workload))),
        ("--pp_size", degree(workload.pipeline_parallel)),
        ("--ep_size", degree(workload.expert_parallel)),
        ("--kv_cache_free_gpu_memory_fraction", settings.gpu_memory_utilization),
        ("--max_batch_size", settings.max_num_seqs),
        ("--max_num_tokens", settings.max_batched_tokens),
    )
    config = _config(launch)
    if not config:
        return shell(flags)
    text = shlex.quote(json.encode(config).decode())
    return f"echo {text} > {_FILE} && {shell(flags)} --extra_llm_api_options {_FILE}"


def _attention_replicas(workload: Workload) -> int:
    """Return over how many ranks attention is copied, not divided (attention data parallel)."""
    return workload.data_parallel if workload.expert_parallel > 1 else 1


def _config(launch: Launch) -> dict[str, object]:
    """Return the contents of the file. A kv_cache_config there replaces that of the flags, so it
    repeats their share."""
    workload, config = launch.workload, dict[str, object]()
    pairs = (
        ("dtype", launch.kv_cache_dtype),
        ("max_tokens", launch.pool_tokens),
        ("host_cache_size", workload.kv_offload_bytes or None),
    )
    cache = {name: value for name, value in pairs if value is not None}
    if cache:
        share = {"free_gpu_memory_fraction": workload.gpu_memory_utilization}
        config["kv_cache_config"] = {**cache, **share}
    if _attention_replicas(workload) > 1:
        config["enable_attention_dp"] = True
    return config | {"cuda_graph_config": None} if workload.enforce_eager else config
