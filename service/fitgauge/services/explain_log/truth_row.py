"""A recognised run as a line of a truth file: numbers and flags alone."""

import re
from hashlib import sha256

import msgspec

from fitgauge.engine.quantity import GIB
from fitgauge.engine.serving.registry import ENGINES
from fitgauge.engine.serving.start_log.measurements import StartLog
from fitgauge.engine.serving.start_log.names import hub_id
from fitgauge.engine.serving.workload import EngineName
from fitgauge.services.common.schemas import FitRequest
from fitgauge.services.explain_log.comparison import Measured
from fitgauge.services.explain_log.schemas import LogCase, Measurement

_SIZES = {
    "weights_gib": ("weights", "weights_rounded"),
    "activation_gib": ("activations", "activations_and_graphs"),
    "non_torch_gib": ("runtime",),
    "consumed_gib": ("consumed",), "graphs_gib": ("cuda_graphs",),
    "graphs_est_gib": ("cuda_graphs_estimated",), "state_gib": ("state",),
    "kv_needed_gib": ("kv_needed",), "free_at_start_gib": ("free_at_start",),
    "avail_after_load_gib": ("free_after_weights",),
    "avail_after_pool_gib": ("free_after_pool",), "process_gib": ("process",),
    "cpu_weights_gib": ("host_weights",),
    "torch_allocated_gib": ("allocated",),
}  # fmt: skip
_RELEASE = re.compile(r"\d+(?:\.\d+){1,2}")
_NUMBERS = ("kv_tokens", "kv_blocks", "max_concurrency")


def case(
    log: StartLog, request: FitRequest | None, engine: EngineName, *, doubtful: bool = False
) -> LogCase:
    """Return the line for this run. A model that is no public-looking Hub ID is left out, as is
    all text of the log. A run whose model is `doubtful` is kept and scored for nothing."""
    measured = _measured(log, engine)
    if request is not None:
        fields = msgspec.structs.asdict(request)
    else:
        fields = {
            **log.flags,
            "model": log.model,
            "gpu": log.gpu,
            "gpu_count": log.gpu_count,
            "engine": engine,
            "engine_version": log.version,
        }
    question = {
        name: fields[name]
        for name in FitRequest.__struct_fields__
        if fields.get(name) is not None and name not in ("detail", "settings")
    }
    exact = hub_id(question.get("model")) is not None
    if not exact:
        question.pop("model", None)
    build = _release(question)
    settings = {
        name: value.removeprefix("torch.") if isinstance(value, str) else value
        for name, value in log.flags.items()
        if name not in question
        and (
            request is None
            or name not in FitRequest.__struct_fields__
            or getattr(request, name) is None
        )
    }
    if Measured(log.readings).value("activations_and_graphs") is not None:
        settings["graphs_in_activation"] = True
    settings |= dict.fromkeys(log.remarks, True)
    total = Measured(log.readings).value("total")
    content = msgspec.json.encode(
        [question, measured, log.outcome, settings], order="deterministic"
    )
    digest = sha256(content).hexdigest()[:12]
    return LogCase(
        id=f"local-{digest}",
        question=question,
        outcome=log.outcome,
        measured=measured,
        scores=[] if doubtful else _scores(measured, log, question, exact=exact, total=total),
        source=f"local:{digest}",
        build=build,
        total_gpu_gib=round(total / GIB, 4) if total else None,
        settings=settings,
    )


def _release(question: dict[str, str | int | float | bool]) -> str | None:
    """Leave the release in the question's engine_version; gives back the version as printed
    where it is no release."""
    printed = str(question.pop("engine_version", ""))
    release = _RELEASE.match(printed)
    if release:
        question["engine_version"] = release[0]
    return printed if printed and (release is None or release[0] != printed) else None


def _measured(log: StartLog, engine: EngineName) -> dict[str, Measurement]:
    readings, pooled = Measured(log.readings), ENGINES[engine].preallocates_kv_cache
    measured: dict[str, Measurement] = {}
    for name, sources in _SIZES.items():
        value = readings.value(*sources)
        if value is not None:
            measured["compute_gib" if name == "activation_gib" and not pooled else name] = round(
                value / GIB, 4
            )
    pool = readings.pick("kv_pool", by=min if pooled else max)
    if pool:
        measured["kv_gib"] = round(pool.value / GIB, 4)
    for name in _NUMBERS:
        number = readings.pick(name, by=min)
        if number:
            measured[name] = number.value if name == "max_concurrency" else int(number.value)
    return measured


def _scores(
    measured: dict[str, Measurement],
    log: StartLog,
    question: dict[str, str | int | float | bool],
    *,
    exact: bool,
    total: float | None,
) -> list[str]:
    """Return what this line can be held against: nothing but the outcome where the model is not
    known for certain. total: of the GPU [bytes]."""
    scored = {
        "weights": exact and "weights_gib" in measured and "draft_model" not in log.remarks,
        "planner": exact and measured.keys() >= {"kv_gib", "kv_tokens"},
        "kv_tokens": exact and "kv_tokens" in measured and log.outcome == "served",
        "activations": exact and Measured(log.readings).value("activations") is not None,
        "need": (
            exact
            and total is not None
            and "kv_gib" in measured
            and "gpu_memory_utilization" in question
        ),
        "outcome": log.outcome is not None,
    }
    return [name for name, true in scored.items() if true]
