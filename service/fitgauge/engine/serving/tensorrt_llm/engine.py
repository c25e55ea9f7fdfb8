"""TensorRT-LLM. Source: TensorRT-LLM 1.2 support matrix (docs, reference/support-matrix)."""

from fitgauge.engine.serving.container import ContainerImage
from fitgauge.engine.serving.engine import Engine, fixed_batch
from fitgauge.engine.serving.engine_facts import ArchitectureList, LogParser, MemoryFlag, Platform
from fitgauge.engine.serving.kv_offload import KvOffload
from fitgauge.engine.serving.tensorrt_llm import launch, memory, start_log
from fitgauge.engine.serving.tensorrt_llm.architectures import ARCHITECTURES, BUILT
from fitgauge.engine.serving.tensorrt_llm.container import CONTAINER
from fitgauge.engine.serving.tensorrt_llm.settings import LADDERS
from fitgauge.engine.serving.vllm.weights import shard_weights

ENGINE = Engine(
    name="tensorrt-llm",
    options=frozenset({"enforce_eager", "kv_offload_gib"}),
    kv_offload=KvOffload(),
    title="TensorRT-LLM",
    aliases=("trtllm", "tensorrt", "trt", "nim"),
    estimate=memory.WARMUP.estimate,
    shard_weights=shard_weights,
    default_batch=fixed_batch(memory.MAX_BATCH_SIZE, memory.MAX_NUM_TOKENS),
    command=launch.command,
    # docs/source/quick-start-guide.md
    image=ContainerImage(
        "nvcr.io/nvidia/tensorrt-llm/release",
        "{release}",
        8000,
        flags=("--host 0.0.0.0", "--port 8000"),
    ),
    ladders=LADDERS,
    platforms={"nvidia": Platform()},
    formats={
        "awq": (8, 0), "gptq": (8, 0), "fp8": (8, 9), "nvfp4": (10, 0), "modelopt_nvfp4": (10, 0),
        "mxfp4": (9, 0),
        "modelopt": (8, 9), "int8": (8, 0), "int4": (8, 0), "compressed-tensors": (8, 9),
    },
    served_formats=("fp8", "w8a8", "awq", "gptq", "nvfp4", "mxfp4"),
    split=memory.WARMUP.split,
    min_compute_capability=(8, 0),
    architectures=ArchitectureList(ARCHITECTURES | BUILT, (1, 2), "1.2", generates_only=True),
    cache_dtypes=launch.CACHE_DTYPES,
    unsupported_flags=(("data_parallel", "start as many servers"),),
    ignored_fields=("cpu_offload_gib",),
    log_parser=LogParser(start_log.SIGNATURES, start_log.read),
    container_start=CONTAINER,
    memory_flags=(
        MemoryFlag("Bound the context of a request", "--max_seq_len 8192"),
        MemoryFlag("Let fewer requests run at once", "--max_batch_size 64"),
        MemoryFlag("Read fewer prompt tokens in one pass", "--max_num_tokens 2048"),
        MemoryFlag(
            "Leave more of the GPU to what the cache does not count",
            "--kv_cache_free_gpu_memory_fraction 0.8",
            device_alone=True,
        ),
        MemoryFlag("Divide the model over GPUs", "--tp_size 2"),
    ),
    tunable=frozenset({"gpu_memory_utilization", "kv_cache_dtype"}),
    prefill_measured=True,
    decode_measured=True,
    preallocates_kv_cache=True,
)  # fmt: skip
