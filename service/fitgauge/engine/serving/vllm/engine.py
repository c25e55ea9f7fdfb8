"""vLLM."""

from fitgauge.engine.serving.container import ContainerImage, HelmChart
from fitgauge.engine.serving.engine import Engine
from fitgauge.engine.serving.engine_facts import (
    ArchitectureList,
    Borrowed,
    LogParser,
    MemoryFlag,
    SplitEstimate,
)
from fitgauge.engine.serving.language_model import language_model
from fitgauge.engine.serving.vllm import (
    architectures,
    chart,
    kv_offload,
    launch,
    memory,
    speculative,
    stage_memory,
    start_log,
    support,
)
from fitgauge.engine.serving.vllm.compute_capability import accelerator_kind
from fitgauge.engine.serving.vllm.container import CONTAINER
from fitgauge.engine.serving.vllm.defaults import default_batch, removed
from fitgauge.engine.serving.vllm.host_tables import host_tables
from fitgauge.engine.serving.vllm.kv_cache.dtypes import AUTO, checkpoint_format
from fitgauge.engine.serving.vllm.pooling import with_pooling
from fitgauge.engine.serving.vllm.settings import LADDERS
from fitgauge.engine.serving.vllm.weights import shard_weights

ENGINE = Engine(
    name="vllm",
    title="vLLM",
    aliases=(),
    estimate=memory.estimate,
    shard_weights=shard_weights,
    default_batch=default_batch,
    command=launch.command,
    over_nodes=launch.over_nodes,
    # docs/deployment/k8s.md; its tags are v and the release
    image=ContainerImage(
        "vllm/vllm-openai",
        "v{release}",
        8000,
        address_variable="VLLM_NIXL_SIDE_CHANNEL_HOST",  # docs/features/nixl_connector_usage.md
    ),
    chart=HelmChart(chart.NAME, chart.values),
    ladders=LADDERS,
    platforms=support.PLATFORMS,
    formats=support.FORMATS,
    served_formats=("fp8", "w8a8", "awq", "gptq", "nvfp4", "mxfp4"),
    split=SplitEstimate(
        memory.loaded_stages,
        stage_memory.of_any_context,
        stage_memory.cache_bytes,
        context_read=stage_memory.context_read,
    ),
    budget=memory.budget_bytes,
    terms_outside_budget=memory.terms_outside_budget,
    accelerator_kind=accelerator_kind,
    workload_kind=memory.workload_kind,
    refusal=support.refusal,
    min_compute_capability=(7, 0),
    removed_formats={"bitsandbytes": (0, 33), "gguf": (0, 33)},
    wheels=((0, 24), (7, 5)),  # docs/getting_started/installation/gpu.cuda.inc.md: 7.0 in 0.14
    without_flash_attention="vLLM takes its Triton attention there",
    architectures=ArchitectureList(
        architectures.SETTLED | architectures.LATER,
        (0, 33),
        "0.33.0",
        first=architectures.FIRST,
        borrows=Borrowed((0, 7, 2), (0, 10)),  # registry.py: TransformersModel, ...ForMultimodalLM
        removed=removed,
    ),
    sets_kv_cache_dtype=lambda spec: checkpoint_format(spec.quantization) != AUTO,
    online_formats=launch.ONLINE_FORMATS,
    dtypes=launch.DTYPES,
    cache_dtypes=launch.CACHE_DTYPES,
    log_parser=LogParser(start_log.SIGNATURES, start_log.read, start_log.OPTIONS),
    container_start=CONTAINER,
    default_context_is_maximum=True,
    memory_flags=(
        MemoryFlag("Bound the context of a request", "--max-model-len {context}"),
        MemoryFlag("Let fewer requests run at once", "--max-num-seqs 64"),
        MemoryFlag(
            "Give the engine more of the GPU", "--gpu-memory-utilization 0.95", kv_cache_alone=True
        ),
        MemoryFlag(
            "Leave more of the GPU to what the engine does not count",
            "--gpu-memory-utilization 0.85",
            device_alone=True,
        ),
        MemoryFlag("Read fewer prompt tokens in one pass", "--max-num-batched-tokens 2048"),
        MemoryFlag("Capture no CUDA graphs (slower)", "--enforce-eager"),
        MemoryFlag("Keep the KV cache in fp8", "--kv-cache-dtype fp8", kv_cache_alone=True),
        MemoryFlag("Quantize the weights while loading", "--quantization fp8"),
        MemoryFlag("Divide the model over GPUs", "--tensor-parallel-size 2"),
    ),
    tunable=frozenset(
        {"enforce_eager", "max_num_seqs", "gpu_memory_utilization", "kv_cache_dtype"}
    ),
    default=True,
    preference=1,
    suggested_vendors=frozenset(support.PLATFORMS),
    rollout_aliases=("colocate",),  # TRL's vllm_mode
    with_draft=speculative.with_draft,
    with_pooling=with_pooling,
    language_model=language_model,
    prefill_measured=True,
    decode_measured=True,
    options=frozenset(
        {
            "enforce_eager",
            "lora_slots",
            "lora_rank",
            "speculative_tokens",
            "pooling",
            "language_model_only",
            "kv_offload_gib",
            "rope_scaling_factor",
            "disaggregation",
        }
    ),
    kv_offload=kv_offload.OFFLOAD,
    host_tables=host_tables,
    experts_over_all_ranks=True,
    embeddings_on_gpu=True,
    preallocates_kv_cache=True,
    supports_cpu_offload=True,
)
