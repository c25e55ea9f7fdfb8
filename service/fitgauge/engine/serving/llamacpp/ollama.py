"""Serving with Ollama: llama.cpp's split and buffers under Ollama's own scheduling.

Source: ollama envconfig (OLLAMA_NUM_PARALLEL 1), kvcache/causal.go (NewSWAMemCache),
model/models/{gptoss,gemma4} (4096 tokens of memory for sliding layers), llm/server.go (a minimum
is left free on every GPU)."""

from collections.abc import Sequence

from fitgauge.engine.accelerator import Accelerator
from fitgauge.engine.model.spec import ModelSpec
from fitgauge.engine.serving.llamacpp.kv_cache import Windows
from fitgauge.engine.serving.llamacpp.memory import LlamaEstimate
from fitgauge.engine.serving.workload import Workload

PARALLEL = 1

RETAINED_TOKENS = 4096
"""Tokens that sliding layers of these models keep of a sequence, so that its prefix can be used
again."""

RETAINING = frozenset({"gpt_oss", "gemma4", "gemma4_text", "gemma4_unified"})


def most_free_first(gpus: Sequence[Accelerator]) -> tuple[Accelerator, ...]:
    """Return GPUs in the order in which Ollama divides layers over them.

    It fills all to the same share of what is free, the last layers on the GPU with the least
    (llm/server.go, buildLayout, findBestFit)."""
    return tuple(sorted(gpus, key=lambda gpu: -gpu.usable.expected))


def ollama_windows(spec: ModelSpec, workload: Workload) -> Windows:
    """Return the windows as Ollama sizes them."""
    memory = RETAINED_TOKENS if spec.model_type in RETAINING else 0
    return Windows(
        sequences=workload.max_num_seqs,
        memory=memory,
        ubatch=workload.max_batched_tokens,
        capped=False,
    )


OLLAMA = LlamaEstimate(ollama_windows, has_tensor_split=False)
