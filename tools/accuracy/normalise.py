"""Posted runs as they were noted down become questions of the API: python -m accuracy.normalise
RAW.jsonl ... > serving.jsonl

What a row may be scored for follows from what its source shows: nothing of a model in doubt, no
figure that the row itself doubts, no peak of vLLM whose release is not printed, no total of a
pipeline whose stages differ."""

import json
import re
import sys
from collections.abc import Iterable, Iterator
from typing import Any

Row = dict[str, Any]

SAME_LOG = {"e40", "e44", "e46"}
"""Rows that repeat the lines of another (v017, v021, v023)."""

OTHER_CHECKPOINT = {"f115"}
"""Rows whose loaded weights show another checkpoint than the repository named: 16.4 GiB of 56.9
in 16 bits."""

REQUESTED: dict[str, Row] = {
    "s035": {"quantization": "fp8"},
    "v047": {"quantization": "fp8"},
    "v049": {"quantization": "fp32"},
    "v128": {"data_parallel": 8, "expert_parallel": 8},
    "v129": {"data_parallel": 8, "expert_parallel": 8},
    "v229": {"other_memory_gib": 2.61},
    "v230": {"other_memory_gib": 2.61},
    "v247": {"other_memory_gib": 4.98},
    "v249": {"other_memory_gib": 4.98},
    "v256": {"other_memory_gib": 4.99},
    "v257": {"other_memory_gib": 4.99},
    "v258": {"other_memory_gib": 4.99},
}
"""What a row says in its note, its dtype or by what was free at start that the API has a field
for."""

SETTLED = {"v113"}
"""Rows whose doubt was resolved: graphs are not taken off the pool by the second model runner of
that release."""

FIELDS = (
    "gpu_count", "engine", "engine_version", "context_length", "kv_cache_dtype", "tensor_parallel",
    "pipeline_parallel", "data_parallel",
    "gpu_memory_utilization", "max_batched_tokens", "max_num_seqs", "enforce_eager",
)  # fmt: skip
SETTINGS = (
    "quantization", "dtype", "prefix_caching", "n_gpu_layers", "n_parallel", "n_ubatch",
    "kv_unified", "flash_attention",
    "max_running_requests", "prompt_tokens", "generated_tokens",
)  # fmt: skip
ENGINES = (
    "vllm", "sglang", "tensorrt-llm", "llama.cpp", "ollama", "transformers", "tgi", "mlx",
)  # fmt: skip
RELEASED = ("vllm", "sglang", "tensorrt-llm", "transformers", "tgi")

_RELEASE = re.compile(r"v?(\d+\.\d+(?:\.\d+)?)(?:\.\d+)?(?:[.+-]?(?:rc|dev|post)\S*)?")
_HUB_ID = re.compile(r"[\w.-]+/[\w.-]+")
_REMARK = re.compile(r"\s*\((?![^()]*GiB of )[^()]*\)")
_OTHER_PROCESSES = re.compile(
    r"MTP|draft|dflash|EPLB|offload|patched|desktop|another server|co-resident", re.IGNORECASE
)
_UNSTATED = re.compile(
    r"(?:utilization|command|fraction|flags)\b[^.;(]*"
    r"\b(?:not (?:printed|restated|stated|in the)|unknown)"
)
"""Says that nobody printed which share of the GPU the engine was given."""
_ODD_GPU = re.compile(r"[(,+]|card|device")
_LOG = re.compile(r"log (accuracy/\S+\.log)")


def normalised(rows: Iterable[Row]) -> Iterator[Row]:
    """Yield every row that is no repetition and can be asked (an engine of the API, on a GPU), as
    a Run of truth.py."""
    for row in rows:
        if row["id"] not in SAME_LOG and row["engine"] in ENGINES and row.get("gpu_count") != 0:
            yield _run(row)


def _run(row: Row) -> Row:
    question, build = _question(row)
    source = row["source"].replace("llm-d-planner docs/", "llm-d-planner:docs/")
    if log := _LOG.search(row.get("note") or ""):
        source += ":" + log.group(1)
    measured = {}
    for name, value in row["measured"].items():
        if isinstance(value, list) and name != "per_stage":
            what, unit = name.replace("_per_gpu", "").rsplit("_", 1)
            measured |= {f"{what}_gpu{index}_{unit}": one for index, one in enumerate(value)}
        elif value is not None:
            measured[name] = value
    run = {
        "id": row["id"],
        "question": question,
        "outcome": row.get("outcome"),
        "measured": measured,
    }
    run |= {"scores": list(_scores(row, question, measured)), "source": source}
    if build:
        run["build"] = build
    if row.get("total_gpu_gib"):
        run["total_gpu_gib"] = row["total_gpu_gib"]
    if settings := {name: row[name] for name in SETTINGS if row.get(name) is not None}:
        run["settings"] = settings
    if row.get("error"):
        run["error"] = row["error"]
    inferred = "inferred: " + ", ".join(row["inferred"]) if row.get("inferred") else None
    notes = [
        text
        for text in (
            *(row.get(name) for name in ("note", "check", "verify", "units_note")),
            inferred,
        )
        if isinstance(text, str)
    ]
    if notes:
        run["note"] = "; ".join(notes)
    return run


def _question(row: Row) -> tuple[Row, str | None]:
    """Return the question, and the version as printed where it is no release."""
    question: Row = {"model": row["model"]}
    if row.get("gpu"):
        question["gpu"] = _REMARK.sub("", row["gpu"]).strip()
    elif row.get("total_gpu_gib") and not row.get("total_gpu_note"):
        question["gpu"] = f"{row['total_gpu_gib']:g}GiB"
    question |= {name: row[name] for name in FIELDS if row.get(name) is not None}
    for name in ("mem_fraction_static", "free_gpu_memory_fraction"):
        if row.get(name):
            question["gpu_memory_utilization"] = row[name]
    if "kv_cache_dtype" in question:
        question["kv_cache_dtype"] = _REMARK.sub("", question["kv_cache_dtype"])
        if question["kv_cache_dtype"].startswith(("auto", "default")):
            del question["kv_cache_dtype"]
    if row["engine"] == "transformers" and row.get("prompt_tokens"):
        question["context_length"] = row["prompt_tokens"] + (row.get("generated_tokens") or 0)
    if row["engine"] == "tgi":
        for name, field in (
            ("max_total_tokens", "context_length"),
            ("max_batch_prefill_tokens", "max_batched_tokens"),
        ):
            if row.get(name):
                question[field] = row[name]
    build = question.pop("engine_version", None)
    release = _RELEASE.fullmatch(build or "")
    if (
        release
        and row["engine"] in RELEASED
        and int(release.group(1).split(".")[1]) > 0
        and not build.startswith("0.1.")
    ):
        question["engine_version"] = release.group(1)
    return question | REQUESTED.get(row["id"], {}), (
        build if build != question.get("engine_version") else None
    )


def _scores(row: Row, question: Row, measured: Row) -> Iterator[str]:
    """Yield what of a row may be scored."""
    note, vllm = row.get("note") or "", row["engine"] == "vllm"
    if row["id"] in OTHER_CHECKPOINT:
        return
    doubt = (row.get("check") and row["id"] not in SETTLED) or any(
        row.get(name) for name in ("verify", "estimate_only", "mtp", "speculative")
    )
    listed = (
        row.get("model_exact", True)
        and not row.get("ambiguous_model")
        and _HUB_ID.fullmatch(row["model"])
    )
    if not listed or "model" in row.get("inferred", []):
        return
    if measured.get("weights_gib") is not None and not doubt:
        yield "weights"
    pool, tokens = measured.get("kv_gib") or 0, measured.get("kv_tokens")
    if vllm and pool > 0 and tokens and not row.get("check", "").startswith("approx"):
        yield "planner"
    if "gpu" not in question or "split is not in the quoted part" in note:
        return
    shared = bool(_OTHER_PROCESSES.search(note) or _UNSTATED.search(note))
    if row.get("outcome") == "served" and tokens and not doubt and not shared:
        yield "kv_tokens"
    staged = (row.get("pipeline_parallel") or 1) > 1
    dated = not vllm or "engine_version" in question
    if measured.get("activation_gib") is not None and not doubt and dated and not staged:
        yield "activations"
    sized = row.get("gpu_memory_utilization") and row.get("total_gpu_gib")
    if (
        vllm
        and measured.get("kv_gib") is not None
        and sized
        and not doubt
        and not shared
        and dated
        and not staged
    ):
        yield "need"
    judged = row.get("outcome") in ("served", "oom", "kv_too_small")
    odd = _ODD_GPU.search(question["gpu"]) or _UNSTATED.search(note)
    if judged and not row.get("estimate_only") and not odd:
        yield "outcome"


if __name__ == "__main__":
    for path in sys.argv[1:]:
        with open(path, encoding="utf-8") as file:
            for run in normalised(map(json.loads, file)):
                print(json.dumps(run, ensure_ascii=False))
