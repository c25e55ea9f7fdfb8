"""text-generation-inference. Source: release 3.3, server/layers; docs, conceptual/quantization
and installation_amd."""

from fitgauge.engine.serving.container import ContainerImage
from fitgauge.engine.serving.engine import Engine
from fitgauge.engine.serving.engine_facts import ArchitectureList, LogParser, MemoryFlag, Platform
from fitgauge.engine.serving.tgi import launch, memory, start_log
from fitgauge.engine.serving.tgi.architectures import AUTOMATIC, LATER, MODEL_TYPES
from fitgauge.engine.serving.tgi.container import CONTAINER
from fitgauge.engine.serving.tgi.settings import LADDERS
from fitgauge.engine.serving.vllm.weights import shard_weights

ENGINE = Engine(
    name="tgi",
    title="TGI",
    aliases=("textgenerationinference",),
    phrases=("text generation inference", "hf tgi", "huggingface tgi"),
    estimate=memory.WARMUP.estimate,
    shard_weights=shard_weights,
    default_batch=memory.default_batch,
    command=launch.command,
    # README.md, "Get Started"; Dockerfile sets PORT
    image=ContainerImage("ghcr.io/huggingface/text-generation-inference", "{release}", 80),
    ladders=LADDERS,
    platforms={
        "nvidia": Platform(),
        "amd": Platform(targets=frozenset({"gfx90a", "gfx942"})),
        "intel": Platform(),
        "gaudi": Platform(),
        "aws": Platform(plugin="optimum-neuron"),
    },
    formats={
        "awq": (7, 5), "gptq": (7, 0), "fp8": (8, 0), "fbgemm_fp8": (8, 0), "bitsandbytes": (7, 0),
        "compressed-tensors": (8, 0), "int8": (7, 5), "int4": (7, 5),
    },
    served_formats=("fp8", "awq", "gptq"),
    split=memory.WARMUP.split,
    min_compute_capability=(7, 0),
    architectures=ArchitectureList(
        MODEL_TYPES | AUTOMATIC,
        (3, 3),
        "3.3.7",
        by_type=True,
        lacking=LATER,
        without_awq=AUTOMATIC - MODEL_TYPES,  # models/__init__.py, get_model
    ),
    online_formats=launch.ONLINE_FORMATS,
    dtypes=launch.DTYPES,
    cache_dtypes=launch.CACHE_DTYPES,
    unsupported_flags=(("data_parallel", "start as many servers"),),
    ignored_fields=("cpu_offload_gib",),
    log_parser=LogParser(start_log.SIGNATURES, start_log.read, start_log.OPTIONS),
    container_start=CONTAINER,
    memory_flags=(
        MemoryFlag("Read fewer prompt tokens at once", "--max-batch-prefill-tokens 2048"),
        MemoryFlag(
            "Bound the context of a request", "--max-input-tokens 4096 --max-total-tokens 8192"
        ),
        MemoryFlag("Let fewer requests run at once", "--max-batch-size 16"),
        MemoryFlag("Capture no CUDA graphs (slower)", "--cuda-graphs 0"),
        MemoryFlag("Load the weights in 4 bit", "--quantize bitsandbytes-nf4"),
        MemoryFlag("Divide the model over GPUs", "--num-shard 2"),
    ),
    tunable=frozenset({"gpu_memory_utilization"}),
    pipeline_parallel=False,
    prefill_measured=True,
    decode_measured=True,
    preallocates_kv_cache=True,
)  # fmt: skip
