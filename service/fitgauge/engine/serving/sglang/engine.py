"""SGLang.

Source: sglang 0.5.23, srt/layers/quantization; docs, advanced_features/quantization (Platform
Compatibility); sgl-kernel/setup_rocm.py (targets)."""

from fitgauge.engine.serving.container import ContainerImage
from fitgauge.engine.serving.engine import Engine
from fitgauge.engine.serving.engine_facts import (
    ArchitectureList,
    Borrowed,
    LogParser,
    MemoryFlag,
    Platform,
    SplitEstimate,
)
from fitgauge.engine.serving.kv_offload import KvOffload
from fitgauge.engine.serving.sglang import launch, memory, start_log, support
from fitgauge.engine.serving.sglang.architectures import ARCHITECTURES, FIRST, LACKING
from fitgauge.engine.serving.sglang.container import CONTAINER
from fitgauge.engine.serving.sglang.host_tables import host_tables
from fitgauge.engine.serving.sglang.mem_fraction import default_batch
from fitgauge.engine.serving.sglang.settings import LADDERS
from fitgauge.engine.serving.sglang.weights import shard_weights
from fitgauge.engine.serving.vllm.speculative import with_draft

ENGINE = Engine(
    name="sglang",
    options=frozenset({
        "enforce_eager", "kv_offload_gib", "disaggregation", "rope_scaling_factor",
        "speculative_tokens",
    }),
    kv_offload=KvOffload(),
    title="SGLang",
    aliases=("sgl", "srt"),
    estimate=memory.estimate,
    shard_weights=shard_weights,
    default_batch=default_batch,
    command=launch.command,
    over_nodes=launch.over_nodes,
    # docker/k8s-sglang-service.yaml
    image=ContainerImage(
        "lmsysorg/sglang",
        "v{release}",
        30000,
        flags=("--host 0.0.0.0", "--port 30000"),
        program=("python", "python3"),
    ),
    ladders=LADDERS,
    platforms={
        "nvidia": Platform(),
        "amd": Platform(
            targets=frozenset({"gfx942", "gfx950", "gfx1100", "gfx1151", "gfx1201"}),
            methods=frozenset({
                "awq", "gptq", "fp8", "compressed-tensors", "quark", "mxfp4", "nvfp4",
                "modelopt_nvfp4",
                "int8", "int4", "bitsandbytes",
            }),
        ),
        "intel": Platform(),
        "huawei": Platform(
            methods=frozenset({"awq", "gptq", "compressed-tensors", "gguf", "int8", "int4"})
        ),
        "google": Platform(plugin="sglang-jax"),
    },
    formats={
        "awq": (7, 5), "gptq": (8, 0), "fp8": (8, 0), "mxfp4": (8, 0), "mxfp8": (10, 0),
        "nvfp4": (8, 0), "modelopt_nvfp4": (8, 0), "modelopt_mxfp8": (10, 0), "modelopt": (8, 0),
        "compressed-tensors": (8, 0), "auto-round": (8, 0),
        "quark": (7, 0), "int8": (7, 5), "int4": (7, 5), "bitsandbytes": (7, 0), "gguf": (6, 0),
    },
    served_formats=("fp8", "w8a8", "awq", "gptq", "nvfp4", "mxfp4"),
    with_draft=with_draft,
    split=SplitEstimate(
        memory.loaded_stages, memory.stage_memory, for_accelerator=memory.for_accelerator
    ),
    with_defaults=memory.with_engine_defaults,
    budget=memory.budget_bytes,
    accelerator_kind=memory.accelerator_kind,
    refusal=support.refusal,
    min_compute_capability=(7, 5),
    architectures=ArchitectureList(
        ARCHITECTURES,
        (0, 5),
        "0.5.23",
        first=FIRST,
        borrows=Borrowed((0, 4, 7), (0, 5, 10)),  # models/transformers.py: EntryClass
        lacking=LACKING,
    ),
    online_formats=launch.ONLINE_FORMATS,
    dtypes=launch.DTYPES,
    cache_dtypes=launch.CACHE_DTYPES,
    log_parser=LogParser(start_log.SIGNATURES, start_log.read, start_log.OPTIONS),
    container_start=CONTAINER,
    starts_below_context=True,
    memory_flags=(
        MemoryFlag(
            "Give weights and KV cache more of the GPU",
            "--mem-fraction-static 0.9",
            kv_cache_alone=True,
        ),
        MemoryFlag(
            "Leave more of the GPU to activations and CUDA graphs",
            "--mem-fraction-static 0.8",
            device_alone=True,
        ),
        MemoryFlag("Bound the context of a request", "--context-length 8192"),
        MemoryFlag("Read fewer prompt tokens in one pass", "--chunked-prefill-size 2048"),
        MemoryFlag("Capture CUDA graphs of fewer requests", "--cuda-graph-max-bs 16"),
        MemoryFlag("Let fewer requests run at once", "--max-running-requests 64"),
        MemoryFlag(
            "Keep the KV cache in fp8", "--kv-cache-dtype fp8_e5m2", kv_cache_alone=True
        ),
        MemoryFlag("Divide the model over GPUs", "--tp-size 2"),
    ),
    tunable=frozenset({"gpu_memory_utilization", "kv_cache_dtype"}),
    highest_utilization=0.9,  # its share leaves out activations and graphs
    preference=2,
    rollout_aliases=(),
    experts_over_some_ranks=True,
    splits_cache_budget=True,
    host_tables=host_tables,
    prefill_measured=True,
    decode_measured=True,
    preallocates_kv_cache=True,
    supports_cpu_offload=True,
    fixed_chunks=True,
    offloads_whole_gib=True,
)  # fmt: skip
