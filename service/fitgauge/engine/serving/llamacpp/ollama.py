"""Serving with Ollama: llama.cpp's split and buffers under Ollama's own scheduling, and from 0.30
on llama-server itself.

Source: ollama 0.20 envconfig (OLLAMA_NUM_PARALLEL 1), kvcache/causal.go (NewSWAMemCache),
model/models/{gptoss,gemma4} (4096 tokens of memory for sliding layers), llm/server.go (a minimum
is left free on every GPU); 0.33 llm/llama_server.go (startLlamaServer: -c, -np, no -ngl). Its
-ub is 512, and 1024 or 2048 only where a quarter of the GPU stays free and more
(server/sched.go, automaticGenerationBatch)."""

from collections.abc import Sequence

from fitgauge.engine.accelerator import Accelerator
from fitgauge.engine.model.spec import ModelSpec
from fitgauge.engine.quantity import GIB, Term, exact_term
from fitgauge.engine.serving.engine_facts import Offload
from fitgauge.engine.serving.llamacpp import support
from fitgauge.engine.serving.llamacpp.kv_cache import Windows
from fitgauge.engine.serving.llamacpp.memory import LlamaEstimate, llama_windows
from fitgauge.engine.serving.llamacpp.offload import cpu_layers as offloaded_layers
from fitgauge.engine.serving.workload import Workload
from fitgauge.engine.unsupported import UnsupportedError
from fitgauge.engine.weights.sharding import ShardedWeights

PARALLEL = 1

_OWN_CACHES = ("F16", "Q8_0", "Q4_0")

RETAINED_TOKENS = 4096
"""Tokens that sliding layers of these models keep of a sequence, so that its prefix can be used
again."""

RETAINING = frozenset({"gpt_oss", "gemma4", "gemma4_text", "gemma4_unified"})


QUEUED = frozenset({
    "mllama", "qwen3_vl", "qwen3_vl_moe", "qwen3_5", "qwen3_5_moe", "qwen3_next", "lfm2",
    "lfm2_moe", "nemotron_h",
})  # fmt: skip
"""Model types that it runs with one slot whatever OLLAMA_NUM_PARALLEL says (server/sched.go, load,
at fb3076099)."""


def most_free_first(gpus: Sequence[Accelerator]) -> tuple[Accelerator, ...]:
    """Return GPUs in the order in which Ollama divides layers over them.

    It fills all to the same share of what is free, the last layers on the GPU with the least
    (llm/server.go, buildLayout, findBestFit)."""
    return tuple(sorted(gpus, key=lambda gpu: -gpu.usable.expected))


LLAMA_SERVER = (0, 30)
"""The first release that starts llama-server for every GGUF file (commit 9db4bdb)."""

FIT_TARGET = GIB
"""What llama-server leaves free on every GPU before it keeps layers, of a mixture experts, on the
host. Source: llama.cpp common/common.h, fit_params_target; fit.cpp. With a projector Ollama makes
it the projector and as much (llm/llama_server.go, mmprojOffloadHeadroom)."""


def runs_llama_server(workload: Workload) -> bool:
    """Return whether the release runs models in llama-server instead of engines of its own."""
    return workload.engine_version >= LLAMA_SERVER


def left_free(workload: Workload) -> tuple[Term, ...]:
    """Return `reserve` of one GPU: of older releases it is a part of `runtime`."""
    if not runs_llama_server(workload):
        return ()
    formula = f"what llama-server leaves free before it keeps weights on the host: {GIB:,} B"
    source = "llama.cpp b10488 common/fit.cpp, fit_params_target"
    return (exact_term("reserve", FIT_TARGET, "computed", formula, source),)


def ollama_windows(spec: ModelSpec, workload: Workload) -> Windows:
    """Return the windows as Ollama sizes them. It passes a number of slots to llama-server, which
    then gives each a buffer."""
    if runs_llama_server(workload):
        return llama_windows(spec, workload)._replace(unified=False)
    memory = RETAINED_TOKENS if spec.model_type in RETAINING else 0
    return Windows(
        sequences=workload.max_num_seqs,
        memory=memory,
        ubatch=workload.max_batched_tokens,
        capped=False,
    )


def cpu_layers(spec: ModelSpec, sharded: ShardedWeights, workload: Workload) -> Offload:
    """Return what stays on the host: of a mixture experts first where llama-server decides (common/
    fit.cpp), whole layers before (llm/server.go, buildLayout)."""
    return offloaded_layers(spec, sharded, workload, experts_first=runs_llama_server(workload))


def refusal(
    spec: ModelSpec, workload: Workload, accelerator: Accelerator
) -> UnsupportedError | None:
    """Return why Ollama makes no such cache: llama-server's reason, or that of its own engines
    (fs/ggml/ggml.go, SupportsKVCacheType); None where it does."""
    if runs_llama_server(workload):
        return support.refusal(spec, workload, accelerator)
    if workload.kv_cache_dtype in ("auto", *_OWN_CACHES):
        return None
    reason = "Ollama before 0.30 has caches in f16, q8_0 and q4_0 alone."
    formats = tuple(name.lower() for name in _OWN_CACHES)
    return UnsupportedError("kv_cache_dtype", reason, ({"kv_cache_dtype": formats},))


OLLAMA = LlamaEstimate(
    ollama_windows, has_tensor_split=False, left_free=left_free, cpu_layers=cpu_layers
)
