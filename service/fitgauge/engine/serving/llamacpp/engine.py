"""llama.cpp, and Ollama, which runs its models.

Source: llama.cpp ggml.h, ggml_type; docs/build.md (Metal, CUDA, HIP, SYCL, Vulkan, CANN);
docs.ollama.com, gpu (CUDA, ROCm, Metal, Vulkan)."""

from fitgauge.engine.serving.container import ContainerImage
from fitgauge.engine.serving.engine import Engine, fixed_batch
from fitgauge.engine.serving.engine_facts import (
    ANY_CAPABILITY,
    ArchitectureList,
    LogParser,
    MemoryFlag,
    Platform,
)
from fitgauge.engine.serving.kv_offload import KvOffload
from fitgauge.engine.serving.language_model import language_model
from fitgauge.engine.serving.llamacpp import (
    container,
    launch,
    memory,
    ollama,
    ollama_log,
    settings,
    start_log,
    support,
)
from fitgauge.engine.serving.llamacpp.architectures import ARCHITECTURES
from fitgauge.engine.serving.llamacpp.architectures import OLLAMA as OLLAMA_ARCHITECTURES
from fitgauge.engine.serving.llamacpp.offload import cpu_layers, shard_published, shard_weights

_LAYER_SECONDS = 80e-6
"""What a layer of a step takes on top of reading, for one request alone [s].

Calibrated: of all 10 us that with the least mean error, at EFFICIENCY of the bandwidth, over the
published runs of llama.cpp in catalog/data/decode_speeds.jsonl; a test derives it again, and
without each machine in turn."""

ENGINE = Engine(
    name="llama.cpp",
    title="llama.cpp",
    aliases=(
        "llama", "lmstudio", "koboldcpp", "llamaserver", "llamacpppython", "ggml", "gguf",
    ),
    phrases=(
        "llama server", "llama cli", "llamacpp cli", "llamacpp server", "llama cpp python",
    ),
    estimate=memory.LLAMA_CPP.estimate,
    accelerator_kind=memory.maps_file,
    shard_weights=shard_published,
    default_batch=fixed_batch(memory.PARALLEL, memory.UBATCH),
    command=launch.command,
    # docs/docker.md; .devops/cuda.Dockerfile sets LLAMA_ARG_HOST. Not every build has a tag.
    image=ContainerImage(
        "ghcr.io/ggml-org/llama.cpp",
        "server-cuda",
        8080,
        program=("llama-server", "/app/llama-server"),
    ),
    ladders=settings.LADDERS,
    platforms={
        vendor: Platform() for vendor in ("nvidia", "amd", "intel", "apple", "huawei")
    },
    formats={"gguf": ANY_CAPABILITY, "mxfp4": ANY_CAPABILITY},
    served_formats=("q8_0", "q6_k", "q5_k_m", "q4_k_m"),
    split=memory.LLAMA_CPP.split,
    min_compute_capability=(5, 0),
    refusal=support.refusal,
    own_format=("GGUF files", "q4_k_m"),
    without_flash_attention=None,
    architectures=ArchitectureList(ARCHITECTURES, (), "at commit 00bdaa1"),
    unsupported_flags=(("data_parallel", "start as many servers"),),
    options=frozenset({
        "kv_offload_gib", "rope_scaling_factor", "language_model_only", "n_gpu_layers",
        "n_cpu_moe",
    }),
    language_model=language_model,
    kv_offload=KvOffload(),
    ignored_fields=(
        "gpu_memory_utilization", "kv_cache_memory_gib",
    ),
    log_parser=LogParser(start_log.SIGNATURES, start_log.read, start_log.OPTIONS),
    container_start=container.CONTAINER,
    memory_flags=(
        MemoryFlag("Bound the context", "-c 8192"),
        MemoryFlag("Keep the KV cache in 8 bit", "-fa on -ctk q8_0 -ctv q8_0"),
        MemoryFlag("Read fewer prompt tokens in one pass", "-ub 256"),
        MemoryFlag("Take a smaller file", "-hf REPOSITORY:Q4_K_M"),
        MemoryFlag("Leave experts in host memory (mixtures)", "--n-cpu-moe 99"),
        MemoryFlag("Leave layers in host memory (slower)", "-ngl 20"),
    ),
    tunable=frozenset({"kv_cache_dtype"}),
    smaller_weights=(("take a Q8_0 file", "q8_0"), ("take a Q4_K_M file", "q4_k_m")),
    smallest_weights=(("take a Q3_K_M file", "q3_k_m"), ("take a Q2_K file", "q2_k")),
    default_quantization="q4_k_m",  # common/arg.cpp, --hf-repo; docs.ollama.com, library tags
    checkpoint_kinds=("gguf",),
    checkpoint_word="GGUF",
    splits_layers=True,
    most_gpus=support.MOST_GPUS,
    line_up=tuple,
    cpu_layers=cpu_layers,
    file_kind="gguf",
    default=True,
    preference=4,
    suggested_vendors=frozenset({"nvidia", "amd", "intel", "apple", "huawei"}),
    decode_measured=True,
    layer_seconds=_LAYER_SECONDS,
)  # fmt: skip

OLLAMA = ENGINE._replace(
    name="ollama",
    phrases=("llama runner",),
    title="Ollama",
    aliases=(),
    estimate=ollama.OLLAMA.estimate,
    shard_weights=shard_weights,  # its library's files keep 16 bits outside of the experts
    default_batch=fixed_batch(ollama.PARALLEL, memory.UBATCH),
    command=launch.ollama_command,
    image=None,
    ladders=settings.OLLAMA,
    line_up=ollama.most_free_first,
    platforms={vendor: Platform() for vendor in ("nvidia", "amd", "intel", "apple")},
    split=ollama.OLLAMA.split,
    refusal=ollama.refusal,
    queued=ollama.QUEUED,
    cpu_layers=ollama.cpu_layers,
    architectures=ArchitectureList(ARCHITECTURES | OLLAMA_ARCHITECTURES, (), "at commit 00bdaa1"),
    checkpoint_kinds=("ollama", "gguf"),
    hub_prefix="hf.co/",
    reads_server_variables=True,
    options=frozenset({"n_gpu_layers"}),
    language_model=None,
    kv_offload=None,
    log_parser=LogParser(ollama_log.SIGNATURES, ollama_log.read, wraps_another=True),
    container_start=container.OLLAMA,
    memory_flags=(
        MemoryFlag("Bound the context", "OLLAMA_CONTEXT_LENGTH=8192 ollama serve"),
        MemoryFlag(
            "Keep the KV cache in 8 bit",
            "OLLAMA_FLASH_ATTENTION=1 OLLAMA_KV_CACHE_TYPE=q8_0 ollama serve",
        ),
        MemoryFlag("Answer one request at a time", "OLLAMA_NUM_PARALLEL=1 ollama serve"),
        MemoryFlag("Unload other models", "ollama ps; ollama stop MODEL"),
        MemoryFlag("Take a smaller model or quantization", "ollama run MODEL:q4_K_M"),
    ),
    default=False,
    preference=None,
    suggested_vendors=frozenset(),
    unsupported_flags=(
        ("data_parallel", "start as many servers"),
        ("max_batched_tokens", "send num_batch in the options of a request"),
        (
            "cpu_offload_gib",
            "Ollama keeps on the host what does not fit; num_gpu in the options of a request sets"
            " the layers on the GPU",
        ),
    ),
)
