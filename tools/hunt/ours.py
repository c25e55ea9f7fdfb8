"""Ask this service the cases of a hunt, and compare its answers with vLLM's."""

import asyncio
import json
import os
from collections import Counter
from typing import Any, NamedTuple

import httpx

from answers import lifespan

os.environ["HF_HUB_OFFLINE"] = "0"  # the Hub is a stand-in on this machine

from fitgauge.app import create_app
from fitgauge.engine.model.families import read_config
from fitgauge.engine.quantization.published import published
from fitgauge.engine.quantization.scheme import Scheme
from fitgauge.engine.serving.vllm.weights import shard_weights
from fitgauge.engine.weights.rank_bytes import pipeline_stages, rank_weights
from fitgauge.errors import InvalidRequestError
from fitgauge.hub import Hub, HubSettings
from fitgauge.settings import Settings
from hub_stand_in import HubStandIn
from hub_stand_in.repositories import Repository

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


class Outcome(NamedTuple):
    """How one case compares."""

    case: dict[str, Any]
    kind: str
    """`agrees`, `weights`, `tokens`, `refused by vLLM`, `refused here` or `no answer`."""
    detail: str = ""
    """The terms that differ."""


def outcomes(cases: list[dict[str, Any]], answers: dict[str, dict[str, Any]]) -> list[Outcome]:
    """Return how every case that vLLM answered compares, in their order."""
    ours = asyncio.run(_ask(cases, answers))
    return [
        _compared(case, answers[case["id"]], *ours[case["id"]])
        for case in cases
        if case["id"] in answers
    ]


async def _ask(
    cases: list[dict[str, Any]], answers: dict[str, dict[str, Any]]
) -> dict[str, tuple[int, dict[str, Any]]]:
    """Return status and answer of this service by case."""
    repositories = [
        Repository(f"hunt/{case['id']}", {"config.json": json.dumps(case["config"]).encode()})
        for case in cases
    ]
    results = {}
    with HubStandIn(*repositories) as stand_in:
        hub = Hub(HubSettings(endpoint=stand_in.url, offline=False, token=False, cache_dir=None))
        app = create_app(Settings(log_level="error"), hub)
        transport = httpx.ASGITransport(app=app)  # type: ignore[arg-type]
        async with (
            lifespan(app),
            httpx.AsyncClient(transport=transport, base_url="http://hunt", timeout=60) as client,
        ):
            for case in cases:
                if case["id"] in answers:
                    request = _request(case, answers[case["id"]])
                    response = await client.post("/v1/fit", json=request)
                    results[case["id"]] = (response.status_code, response.json())
    return results


def _request(case: dict[str, Any], vllm: dict[str, Any]) -> dict[str, Any]:
    tensor, pipeline = case["tensor_parallel"], case.get("pipeline_parallel", 1)
    request = {
        "model": f"hunt/{case['id']}",
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


def _compared(
    case: dict[str, Any], vllm: dict[str, Any], status: int, ours: dict[str, Any]
) -> Outcome:
    error = vllm.get("error", "")
    if error.startswith(_CRASHES) or any(text in error for text in _CODE_ELSEWHERE):
        return Outcome(case, "no answer", error[:120])
    refused = status != 200 or ours["verdict"] == "unsupported"
    if error or vllm.get("kv_error"):
        if refused or (not error and ours["verdict"] == "does_not_fit"):
            return Outcome(case, "agrees")
        return Outcome(case, "refused by vLLM", (error or vllm["kv_error"])[:160])
    if refused:
        return Outcome(case, "refused here", str(ours.get("detail") or ours.get("summary"))[:160])
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


_PARTS = (
    ("buffer", ("cos_sin_cache", "_scale_float", "inv_freq", "_buffer", "expert_map")),
    ("projector", ("projector", "merger", "connector", "adapter", "mm_")),
    ("tower", ("visual", "vision", "audio", "tower", "speech", "encoder.")),
    ("embedding", ("embed", "wte", "wpe", "word_")),
    ("head", ("lm_head", "output.weight", "score", "classifier")),
)
"""Parts of a model by what names of their tensors hold, tried in this order."""
_OURS = {"language": "layers", "vision": "tower", "audio": "tower", "encoder": "tower"}


def _terms(case: dict[str, Any], vllm: dict[str, Any], rank: int, total: int) -> str:
    """Return by part what ours are larger by than vLLM's [MB] on this rank, where they are larger
    by `total` [bytes]; what no part explains are buffers."""
    difference: Counter[str] = Counter()
    for name, size in vllm["ranks"][rank]["groups"].items():
        part = next((p for p, words in _PARTS if any(w in name for w in words)), "layers")
        difference[part] -= size
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
    for part, size in mine.by_part.items():
        difference[_OURS.get(str(part), str(part))] += size
    difference.pop("buffer", None)
    difference["buffers"] = total - difference.total()
    terms = sorted(difference.items(), key=lambda term: -abs(term[1]))
    return ", ".join(f"{part} {size / 1e6:+.2f} MB" for part, size in terms if abs(size) >= 5e3)
