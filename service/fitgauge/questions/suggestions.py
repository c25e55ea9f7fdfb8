"""The changes worth trying where a model does not fit, smallest first. Each is estimated anew before anybody hears of it."""

from collections.abc import Iterator

from fitgauge.engine.architecture import ModelSpec, Recurrent
from fitgauge.engine.fit import ServingLimits
from fitgauge.engine.workload import Workload
from fitgauge.questions.schemas import FitRequest

Fields = dict[str, str | int | float | bool | None]

_SHORTEST = 1024
_FEWEST_SEQUENCES = 16
_EIGHT_BIT_CACHES = ("F8_E4M3", "F8_E5M2", "I8")


def candidates(
    spec: ModelSpec, workload: Workload, request: FitRequest, limits: ServingLimits, count: int, counts: tuple[int, ...]
) -> Iterator[tuple[str, Fields]]:
    """(what it is in words, the fields to send) in the order in which they cost least."""
    fewer = max(_FEWEST_SEQUENCES, workload.requests_per_replica)
    if keeps_states(spec) and fewer < workload.max_num_seqs:
        yield f"start with max_num_seqs {fewer}: each of {workload.max_num_seqs} takes a state block", {"max_num_seqs": fewer}
    if limits.max_concurrency and limits.max_concurrency < workload.concurrency:
        yield f"hold {limits.max_concurrency} requests at once instead of {workload.concurrency}", {"concurrency": limits.max_concurrency}
    if workload.engine == "vllm" and workload.cache_dtype not in _EIGHT_BIT_CACHES:
        yield "keep the KV cache in fp8", {"kv_cache_dtype": "fp8"}
    shorter = limits.max_context_length // 256 * 256
    if _SHORTEST <= shorter < workload.context_length:
        yield f"hold {shorter:,} tokens a request instead of {workload.context_length:,}", {"context_length": shorter}
    if spec.quantization is None and request.quantization is None:
        yield "quantize the weights to fp8", {"quantization": "fp8"}
        yield "take a 4-bit checkpoint (AWQ)", {"quantization": "awq"}
    for more in counts:
        if more > count:
            free: Fields = dict.fromkeys(("tensor_parallel", "pipeline_parallel", "data_parallel", "expert_parallel"))
            yield f"take {more} GPUs", {**free, "gpu_count": more}
            if more >= 4 * count:
                break


def keeps_states(spec: ModelSpec) -> bool:
    """Whether the model has recurrent layers."""
    return any(isinstance(mixer, Recurrent) for block in spec.blocks for mixer in block.mixers)
