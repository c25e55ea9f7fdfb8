"""Compare this service's answers with vLLM's."""

from typing import Any

from fitgauge.engine.model.families import read_config
from fitgauge.engine.quantization.published import published
from fitgauge.engine.quantization.scheme import Scheme
from fitgauge.engine.serving.vllm.weights import shard_weights
from fitgauge.engine.weights.rank_bytes import pipeline_stages, rank_weights
from fitgauge.errors import InvalidRequestError
from hunt.parts import by_part
from hunt.service import Answer, Outcome, ask

REFUSED = "refused by vLLM"
WEIGHTS_SHARE = 1e-4
"""What weights may differ by to agree."""
TOKENS_SHARE = 1e-3
"""What tokens may differ by to agree."""
_CRASHES = (
    "AttributeError", "TypeError", "KeyError", "ImportError", "OSError", "RuntimeError",
    "TimeoutError", "NotImplementedError: Cannot copy", "AcceleratorError", "StrictDataclass",
    "IndexError", "UnboundLocalError", "ModuleNotFoundError", "crash",
)  # fmt: skip
"""How answers begin that say nothing of the model: a config that lacks a field which its class
reads, a kernel that wants a device."""

_CODE_ELSEWHERE = ("contains custom code", "Transformers does not re")
"""What answers hold where the model's code lies in its repository, which is not run here."""


def outcomes(cases: list[dict[str, Any]], answers: dict[str, dict[str, Any]]) -> list[Outcome]:
    """Return how every case that vLLM answered compares, in their order."""
    ours = ask(
        cases,
        {
            case["id"]: _request(case, answers[case["id"]])
            for case in cases
            if case["id"] in answers
        },
    )
    return [
        _compared(case, answers[case["id"]], ours[case["id"]])
        for case in cases
        if case["id"] in answers
    ]


def _request(case: dict[str, Any], vllm: dict[str, Any]) -> dict[str, Any]:
    tensor, pipeline = case["tensor_parallel"], case.get("pipeline_parallel", 1)
    request = {
        "gpu": "H100 SXM",
        "gpu_count": tensor * pipeline,
        "engine": "vllm",
        "engine_version": "0.33.0",
        "settings": "defaults",
        "detail": "full",
        "tensor_parallel": tensor,
        "pipeline_parallel": pipeline,
        "context_length": case["context_length"],
        "kv_cache_memory_gib": case["pool_gib"],
        "kv_cache_dtype": case.get("kv_cache_dtype"),
        "expert_parallel": tensor if case.get("expert_parallel") else None,
        "max_num_seqs": vllm.get("max_num_seqs"),
        "max_batched_tokens": vllm.get("max_batched_tokens"),
    }
    return {name: value for name, value in request.items() if value is not None}


def _compared(case: dict[str, Any], vllm: dict[str, Any], answer: Answer) -> Outcome:
    error = vllm.get("error", "")
    if error.startswith(_CRASHES) or any(text in error for text in _CODE_ELSEWHERE):
        return Outcome(case, "no answer", error[:120])
    ours = answer.body
    if error or vllm.get("kv_error"):
        if answer.refused or (not error and ours["verdict"] == "does_not_fit"):
            return Outcome(case, "agrees")
        return Outcome(case, REFUSED, (error or vllm["kv_error"])[:160])
    if answer.refused:
        return Outcome(case, "refused here", answer.reason)
    stages = ours.get("ranks") or [ours]
    differences = [
        _weights(stage) - rank["parameter_bytes"] - rank["buffer_bytes"]
        for stage, rank in zip(stages, vllm["ranks"], strict=True)
    ]
    totals = [rank["parameter_bytes"] + rank["buffer_bytes"] for rank in vllm["ranks"]]
    worst = max(range(len(totals)), key=lambda rank: abs(differences[rank]) / max(1, totals[rank]))
    share = differences[worst] / max(1, totals[worst])
    if abs(share) > WEIGHTS_SHARE:
        terms = _terms(case, vllm, worst, differences[worst])
        return Outcome(case, "weights", f"{share:+.3%}: {terms}")
    if vllm.get("kv_tokens"):
        share = (ours["limits"].get("kv_cache_tokens") or 0) / vllm["kv_tokens"] - 1
        if abs(share) > TOKENS_SHARE:
            return Outcome(case, "tokens", f"{share:+.3%}: vLLM has {vllm['kv_specs']}")
    return Outcome(case, "agrees")


def _weights(stage: dict[str, Any]) -> int:
    return sum(t["bytes"] for t in stage["terms"] if t["name"] in ("weights", "buffers"))


def _terms(case: dict[str, Any], vllm: dict[str, Any], rank: int, total: int) -> str:
    """Return by part what ours are larger by than vLLM's on this rank; `total`: in all [bytes]."""
    try:
        spec = read_config(case["config"])
    except InvalidRequestError:
        return "unread config"
    stages = pipeline_stages(spec.layers, case.get("pipeline_parallel", 1))
    ways = case["tensor_parallel"]
    mine = rank_weights(
        shard_weights(spec, published(spec) or Scheme(name="as published")),
        tensor_parallel=ways,
        expert_parallel=ways if case.get("expert_parallel") else 1,
        layers=stages[rank] if len(stages) > 1 else None,
        first=rank == 0,
        last=rank == len(stages) - 1,
    )
    return by_part(mine, vllm["ranks"][rank]["groups"], total)
