"""The same runs under the rules that calculators use: one constant for overhead, every layer full
attention.

weights = parameters / t x bytes (of the published format: 2, or 1 in 8 bit, 0.5 in 4 bit) KV
cache of a token = 2 x layers x KV heads x head size x 2 B / t (every layer as if it attended to
everything; MLA by its heads) need = weights x 1.2 pool = GPU x gpu_memory_utilization - need"""

from accuracy.score import Error, Interval, Judged, estimates
from accuracy.truth import GIB, Run, model
from fitgauge.engine.model.mixers import Attention, CompressedAttention, LatentAttention
from fitgauge.engine.model.spec import ModelSpec, Part
from fitgauge.services.fit.query import FitEstimate

OVERHEAD = 1.2
_BYTES = {
    "fp8": 1.0,
    "int8": 1.0,
    "compressed-tensors": 1.0,
    "modelopt": 1.0,
    "awq": 0.5,
    "gptq": 0.5,
    "mxfp4": 0.5,
    "bitsandbytes": 0.5,
}


def spec_of(run: Run) -> ModelSpec:
    """Return the architecture of a run's model."""
    resolved = model(run.question["model"])
    assert resolved is not None
    return resolved.spec


def weights(run: Run, result: FitEstimate) -> float:
    """Return parameters x bytes over all ranks [bytes]."""
    work = result.workload
    bytes_each = _BYTES.get(result.prepared.scheme.name if result.prepared.scheme.form else "", 2.0)
    return spec_of(run).parameters * bytes_each / (work.tensor_parallel * work.pipeline_parallel)


def token_bytes(run: Run, result: FitEstimate) -> float:
    """KV cache of one token as if every layer were full attention [bytes]."""
    spec, size = spec_of(run), 0
    for block in spec.blocks:
        if block.part is not Part.LANGUAGE:
            continue
        for mixer in block.mixers:
            match mixer:
                case Attention():
                    width = mixer.kv_heads * (mixer.head_dim + mixer.value_dim)
                case LatentAttention():
                    width = mixer.query_heads * (mixer.nope_dim + mixer.value_dim)
                case CompressedAttention():
                    width = mixer.query_heads * 2 * mixer.head_dim
                case _:
                    width = 0
            size += width * len(block.layers)
    each = 1 if "8" in result.workload.kv_cache_dtype else 2
    return size * each / (result.workload.tensor_parallel * result.workload.pipeline_parallel)


def budget(result: FitEstimate) -> float:
    """GPU x gpu_memory_utilization [bytes], of the marketed size."""
    return result.estimate.accelerator.marketed_bytes * result.workload.gpu_memory_utilization


def weight_errors(part: str | None) -> list[Error]:
    return [
        Error(run, weights(run, result) / GIB / run.measured["weights_gib"] - 1)
        for run, result in estimates(
            part, "weights", gpu=lambda run: run.question.get("gpu", "H200")
        )
        if run.engine == "vllm"
    ]


def planner_errors(part: str | None) -> list[Error]:
    required = {"gpu": lambda run: run.question.get("gpu", "H200")}
    return [
        Error(
            run,
            run.measured["kv_gib"]
            * GIB
            / (token_bytes(run, result) or 1)
            / run.measured["kv_tokens"]
            - 1,
        )
        for run, result in estimates(part, "planner", **required)
    ]


def token_errors(part: str | None) -> list[Error]:
    return [
        Error(
            run,
            max(0.0, budget(result) - OVERHEAD * weights(run, result))
            / (token_bytes(run, result) or 1)
            / run.measured["kv_tokens"]
            - 1,
        )
        for run, result in estimates(part, "kv_tokens")
    ]


def activation_errors(part: str | None) -> list[Error]:
    """Return the fifth of the weights that they keep for all overhead, against the peak it must
    hold."""
    return [
        Error(run, (OVERHEAD - 1) * weights(run, result) / GIB / run.measured["activation_gib"] - 1)
        for run, result in estimates(part, "activations")
    ]


def need_errors(part: str | None) -> list[Interval]:
    intervals = []
    for run, result in estimates(part, "need"):
        assert run.total_gpu_gib is not None
        need = OVERHEAD * weights(run, result)
        measured = (
            run.total_gpu_gib * run.question["gpu_memory_utilization"] - run.measured["kv_gib"]
        ) * GIB
        intervals.append(Interval(run, measured, need, need, need))
    return intervals


def outcomes(part: str | None) -> list[Judged]:
    judged = []
    for run, result in estimates(part, "outcome"):
        cache = (
            result.workload.requests_per_replica
            * result.workload.context_length
            * token_bytes(run, result)
        )
        fits = OVERHEAD * weights(run, result) + cache <= budget(result)
        judged.append(
            Judged(run, run.outcome == "served", "fits" if fits else "does_not_fit", float(fits))
        )
    return judged
