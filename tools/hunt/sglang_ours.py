"""Compare this service's answers with SGLang's."""

from typing import Any

from fitgauge.catalog.catalog import bundled
from fitgauge.engine.model.families import read_config
from fitgauge.engine.quantization.published import published
from fitgauge.engine.quantization.scheme import Scheme
from fitgauge.engine.serving.sglang.gpus import architecture
from fitgauge.engine.serving.sglang.weights import on_gpu, shard_weights
from fitgauge.engine.weights.rank_bytes import rank_weights
from fitgauge.errors import InvalidRequestError
from hunt.parts import by_part
from hunt.service import Answer, Outcome, ask
from hunt.sglang_draw import GPUS, VERSION

REFUSED = "refused by SGLang"
WEIGHTS_SHARE = 1e-3
"""What weights may differ by to agree."""
TOKENS_SHARE = 1e-2
"""What tokens may differ by to agree."""

_CRASHES = (
    "AttributeError", "TypeError", "KeyError", "ImportError", "OSError", "IndexError",
    "UnboundLocalError", "ModuleNotFoundError", "StrictDataclass", "crash",
)  # fmt: skip
"""How answers begin that say nothing of the model: a config that lacks a field which its class
reads."""

_UNDRIVEN = (
    "contains custom code", "trust_remote_code", "Transformers does not re", "meta tensor",
    "Please set `hidden_activation`", "Cannot find 'quant_algo'", "page_size",
)  # fmt: skip
"""What answers hold where the model's code lies in its repository, which is not run here, where a
constructor wants a device, where a bundled config says otherwise than its repository, and where a
page size is refused, which this service does not ask for."""

_FIELDS = {
    "expert_parallel": "expert_parallel",
    "context_length": "context_length",
    "mem_fraction_static": "gpu_memory_utilization",
    "chunked_prefill_size": "max_batched_tokens",
    "max_running_requests": "max_num_seqs",
    "kv_cache_dtype": "kv_cache_dtype",
    "disable_cuda_graph": "enforce_eager",
}
"""Fields of a case by the field of a request."""


def outcomes(cases: list[dict[str, Any]], answers: dict[str, dict[str, Any]]) -> list[Outcome]:
    """Return how every case that SGLang answered compares, in their order."""
    answered = [case for case in cases if case["id"] in answers]
    ours = ask(cases, {case["id"]: _request(case) for case in answered})
    return [compared(case, answers[case["id"]], ours[case["id"]]) for case in answered]


def _request(case: dict[str, Any]) -> dict[str, Any]:
    return {
        "gpu": GPUS[case["card"]],
        "gpu_count": case["tensor_parallel"],
        "tensor_parallel": case["tensor_parallel"],
        "engine": "sglang",
        "engine_version": ".".join(map(str, VERSION)),
        "settings": "defaults",
        "detail": "full",
        **{field: case[name] for name, field in _FIELDS.items() if name in case},
    }


def compared(case: dict[str, Any], sglang: dict[str, Any], answer: Answer) -> Outcome:
    """Return how an answer compares with SGLang's."""
    error = sglang.get("error", "")
    if error.startswith(_CRASHES) or any(text in error for text in _UNDRIVEN):
        return Outcome(case, "no answer", f"{error} {sglang.get('place', '')}"[:400])
    ours = answer.body
    if error:
        refused = answer.refused or ours["verdict"] == "does_not_fit"
        return Outcome(case, "agrees" if refused else REFUSED, "" if refused else error[:160])
    if answer.refused:
        return Outcome(case, "refused here", answer.reason)
    terms = {term["name"]: term["bytes"] for term in ours["terms"]}
    difference = terms["weights"] - sglang["parameter_bytes"]
    share = difference / sglang["parameter_bytes"]
    if abs(share) > WEIGHTS_SHARE:
        parts = _parts(case, sglang, difference)
        return Outcome(case, "weights", f"{share:+.3%}: {parts}")
    plan = sglang.get("plan_error")
    if plan:
        if plan.startswith(_CRASHES):
            return Outcome(case, "no answer", f"{plan} {sglang.get('place', '')}"[:400])
        refused = ours["verdict"] == "does_not_fit" or not ours["limits"].get("kv_cache_tokens")
        return Outcome(case, "agrees" if refused else REFUSED, "" if refused else plan[:160])
    if sglang["pool"].get("cell_size") == 0 and "context_length" not in case:
        return Outcome(case, "agrees")  # tokens are a context, of which each has its own default
    tokens = ours["limits"].get("kv_cache_tokens") or 0
    share = tokens / sglang["tokens"] - 1 if sglang["tokens"] else float(tokens > 0)
    if abs(share) > TOKENS_SHARE:
        pool = {name: value for name, value in sglang["pool"].items() if value is not None}
        return Outcome(case, "tokens", f"{share:+.2%}: {_share(ours)}, SGLang has {pool}")
    return Outcome(case, "agrees")


def _share(ours: dict[str, Any]) -> str:
    formulas = [t["formula"] for t in ours["terms"] if t["name"] in ("kv_cache", "state_cache")]
    return "; ".join(formulas)


def _parts(case: dict[str, Any], sglang: dict[str, Any], total: int) -> str:
    """Return by part what ours are larger by than SGLang's; `total`: in all [bytes]."""
    try:
        spec = read_config(case["config"])
    except InvalidRequestError:
        return "unread config"
    gpu = architecture(bundled().find(GPUS[case["card"]]).accelerator)
    sharded = shard_weights(spec, published(spec) or Scheme(name="as published"))
    mine = rank_weights(
        on_gpu(spec, sharded, gpu),
        tensor_parallel=case["tensor_parallel"],
        expert_parallel=case.get("expert_parallel", 1),
    )
    return by_part(mine, sglang["groups"], total)
