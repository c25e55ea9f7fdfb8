"""Serving with TensorRT-LLM: the KV cache is a fraction of what is free once weights are loaded and
a largest batch has been run.

Source: tensorrt_llm/_torch/pyexecutor/_util.py, KvCacheCreator._cal_max_memory: available =
(total - peak) x free_gpu_memory_fraction; whole blocks of tokens_per_block (32). Documentation:
reference/memory. Windows are kept whole unless max_attention_window is set by hand."""

from fitgauge.engine.quantity import Term, exact_term, exactly
from fitgauge.engine.serving.warmup import WarmupEstimate
from fitgauge.engine.serving.workload import Workload

TOKENS_PER_BLOCK = 32
MAX_BATCH_SIZE, MAX_NUM_TOKENS = 2048, 8192
"""Defaults of trtllm-serve. Source: tensorrt_llm/llmapi/llm_args.py, BuildConfig."""


def left_free(taken: int, usable: int, workload: Workload) -> Term:
    """Return the term `reserve`: (1 - free_gpu_memory_fraction) of what is free [bytes]."""
    free = max(0, usable - taken)
    formula = (
        f"(1 - {workload.gpu_memory_utilization:g}) x {exactly(free)}; of what is free,"
        " 1 - free_gpu_memory_fraction"
    )
    size = int(free * (1 - workload.gpu_memory_utilization))
    return exact_term(
        "reserve",
        size,
        "computed",
        formula,
        "tensorrt_llm 1.2 tensorrt_llm/_torch/pyexecutor/_util.py, _cal_max_memory",
    )


WARMUP = WarmupEstimate(block=lambda workload: TOKENS_PER_BLOCK, reserve=left_free)
