"""Transformers. Source: transformers 5.23, quantizers/; single_gpu_share:
integrations/accelerate.py, get_balanced_memory."""

from fitgauge.engine.serving.engine import Engine
from fitgauge.engine.serving.engine_facts import (
    ANY_CAPABILITY,
    MemoryFlag,
    Platform,
    SingleGpuShare,
)
from fitgauge.engine.serving.transformers import launch, memory
from fitgauge.engine.serving.vllm.defaults import default_batch
from fitgauge.engine.weights.sharding import shard_weights

ENGINE = Engine(
    name="transformers",
    title="transformers",
    aliases=("hf", "huggingface", "hftransformers", "huggingfacetransformers", "accelerate"),
    estimate=memory.estimate,
    shard_weights=shard_weights,
    default_batch=default_batch,
    command=launch.command,
    platforms={
        "nvidia": Platform(),
        "amd": Platform(),
        "intel": Platform(),
        "apple": Platform(),
        "gaudi": Platform(plugin="optimum-habana"),
        "google": Platform(plugin="torch_xla"),
        "aws": Platform(plugin="optimum-neuron"),
        "huawei": Platform(plugin="torch_npu"),
    },
    formats={
        "awq": (7, 5), "gptq": ANY_CAPABILITY, "fp8": (8, 9), "fbgemm_fp8": (9, 0),
        "mxfp4": (7, 5), "nvfp4": (9, 0), "modelopt_nvfp4": (9, 0), "bitsandbytes": ANY_CAPABILITY,
        "compressed-tensors": ANY_CAPABILITY, "torchao": ANY_CAPABILITY, "quark": ANY_CAPABILITY,
        "int8": ANY_CAPABILITY, "int4": ANY_CAPABILITY, "gguf": ANY_CAPABILITY,
        "modelopt": (8, 9), "auto-round": ANY_CAPABILITY,
    },
    served_formats=("fp8", "int8", "nf4", "awq", "gptq"),
    min_compute_capability=(5, 0),
    without_flash_attention="use attn_implementation='sdpa'",
    online_formats=launch.ONLINE_FORMATS,
    dtypes=launch.DTYPES,
    unsupported_flags=(
        ("data_parallel", "start as many processes"),
        (
            "kv_cache_dtype",
            "the cache has the format of the activations, unless generate is given another cache",
        ),
    ),
    ignored_fields=(
        "gpu_memory_utilization", "max_batched_tokens", "max_num_seqs",
        "cpu_offload_gib", "kv_cache_memory_gib",
    ),
    smaller_weights=(
        ("load in 8 bit (bitsandbytes)", "int8"),
        ("load in 4 bit (bitsandbytes)", "nf4"),
    ),
    preference=5,
    suggested_vendors=frozenset({"nvidia", "amd", "intel", "gaudi", "google", "aws", "huawei"}),
    reads_plain_errors=True,
    memory_flags=(
        MemoryFlag("Load the weights in 16 bit, not in 32", "dtype=torch.bfloat16"),
        MemoryFlag("Send fewer prompts at once, or shorter ones", "max_new_tokens=512"),
        MemoryFlag(
            "Load the weights in 4 bit", "BitsAndBytesConfig(load_in_4bit=True)"
        ),
        MemoryFlag("Spread the layers over GPUs and host memory", 'device_map="auto"'),
        MemoryFlag(
            "Give back what PyTorch's allocator reserves and does not use",
            "PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True",
        ),
    ),
    tensor_parallel_on_request=True,
    single_gpu_share=SingleGpuShare(0.9, 'device_map="auto"', "Set max_memory"),
    splits_layers=True,
    activations_grow_with_context=True,
)  # fmt: skip
