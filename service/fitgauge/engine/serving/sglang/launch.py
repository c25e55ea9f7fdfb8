"""How to start SGLang. Source: sglang 0.5.23, srt/arg_groups/fields."""

from msgspec import json

from fitgauge.engine.model.mixers import Recurrent
from fitgauge.engine.model.spec import ModelSpec
from fitgauge.engine.quantity import GIB
from fitgauge.engine.serving import rope_scaling
from fitgauge.engine.serving.launch import HEAD, Flags, Launch, NodeFlags, degree, optional, shell
from fitgauge.engine.serving.sglang.mem_fraction import GRAPHS_WITHIN_REQUESTS
from fitgauge.engine.serving.sglang.speculative import algorithm
from fitgauge.engine.serving.workload import Workload

ONLINE_FORMATS = {"fp8": "fp8", "nf4": "bitsandbytes"}
DTYPES = {"F16": "float16", "BF16": "bfloat16", "F32": "float32"}
CACHE_DTYPES = {"F8_E4M3": "fp8_e4m3", "F8_E5M2": "fp8_e5m2", "BF16": "bf16"}


_PORT = 20000
"""The port of the first machine that the others meet at."""


def over_nodes(workload: Workload, nodes: int) -> NodeFlags:
    """Return how ranks run over machines. Source: docs/references/multi_node_deployment."""
    flags: Flags = ["--nnodes", nodes, "--node-rank", 0, "--dist-init-addr", f"{HEAD}:{_PORT}"]
    return NodeFlags(flags, "with --node-rank 1 and so on")


def hicache_gigabytes(workload: Workload) -> int:
    """Return the host memory of one rank for KV cache, in whole units of 10^9 bytes.

    Source: sglang 0.5.23, srt/mem_cache/pool_host/base.py (host_size * 1e9)."""
    return max(1, workload.kv_offload_bytes // 10**9)


_WITHOUT_POSITIONS = 2048
"""The longest context of a model whose config has none. Source: sglang 0.5.23,
srt/utils/hf_transformers/common.py, get_context_length."""


def config_overrides(spec: ModelSpec, context_length: int, factor: float = 0.0) -> str | None:
    """Return what of the config is replaced so that SGLang takes the context; None for nothing.
    factor: of YaRN.

    A model of states alone reads any length and its config says none."""
    mixers = [mixer for block in spec.blocks for mixer in block.mixers]
    reads_any = mixers and all(isinstance(mixer, Recurrent) for mixer in mixers)
    if not reads_any or context_length <= _WITHOUT_POSITIONS:
        return rope_scaling.config_overrides(spec, factor, name="rope_scaling")
    return json.encode({"max_position_embeddings": context_length}).decode()


def command(launch: Launch) -> str:
    """Return the command line.

    With DP attention --tp counts all ranks, over which --dp replicas of the attention divide
    them; --cuda-graph-max-bs is what the automatic share reserves for, where it does not follow
    --max-running-requests."""
    settings, workload = launch.settings, launch.workload
    follows = workload.engine_version >= GRAPHS_WITHIN_REQUESTS
    flags: Flags = ["python", "-m", "sglang.launch_server", "--model-path", launch.repository]
    flags += ["--context-length", workload.context_length]
    attention_replicas = workload.data_parallel > 1 and workload.expert_parallel > 1
    ranks = workload.tensor_parallel * (workload.data_parallel if attention_replicas else 1)
    flags += optional(
        ("--revision", launch.revision),
        ("--tp-size", degree(ranks)),
        ("--pp-size", degree(workload.pipeline_parallel)),
        ("--dp-size", degree(workload.data_parallel)),
        ("--ep-size", degree(workload.expert_parallel)),
        (
            "--json-model-override-args",
            config_overrides(
                launch.model.spec, workload.context_length, workload.rope_scaling_factor
            ),
        ),
        ("--quantization", launch.quantization),
        ("--dtype", launch.dtype),
        ("--kv-cache-dtype", launch.kv_cache_dtype),
        ("--mem-fraction-static", settings.gpu_memory_utilization),
        ("--max-running-requests", settings.max_num_seqs),
        ("--cuda-graph-max-bs", None if follows else settings.max_num_seqs),
        ("--chunked-prefill-size", settings.max_batched_tokens),
        ("--cpu-offload-gb", workload.cpu_offload_bytes // GIB or None),
        ("--max-total-tokens", launch.pool_tokens),
    )
    if launch.nodes > 1:
        flags += over_nodes(workload, launch.nodes).flags
    if workload.kv_offload_bytes:
        flags += ["--enable-hierarchical-cache", "--hicache-size", hicache_gigabytes(workload)]
    if workload.disaggregation:
        flags += ["--disaggregation-mode", workload.disaggregation]
    if workload.speculative_tokens:
        flags += _drafting(launch)
    if attention_replicas:
        flags.append("--enable-dp-attention")
    if launch.model.spec.task == "encode":
        flags.append("--is-embedding")
    return shell([*flags, "--disable-cuda-graph"] if workload.enforce_eager else flags)


def _drafting(launch: Launch) -> Flags:
    """Return how tokens are drafted, in one chain; DFlash drafts its block in one step."""
    tokens, name = launch.workload.speculative_tokens, algorithm(launch.model.spec)
    in_steps = name != "DFLASH"
    return [
        *("--speculative-algorithm", name),
        *optional(
            ("--speculative-draft-model-path", launch.settings.draft_model),
            ("--speculative-num-steps", tokens if in_steps else None),
            ("--speculative-eagle-topk", 1 if in_steps else None),
        ),
        *("--speculative-num-draft-tokens", tokens + 1),
    ]
