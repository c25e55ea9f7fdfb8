"""The question that a launch answers: what the parser of its log or command reads, as fields of a
request."""

from math import prod
from typing import Any

import msgspec

from fitgauge.catalog.engines import Engines
from fitgauge.engine.note import Note
from fitgauge.engine.quantity import GIB
from fitgauge.engine.serving.registry import ENGINES
from fitgauge.engine.serving.start_log.measurements import StartLog
from fitgauge.errors import InvalidRequestError
from fitgauge.services.common import parsing
from fitgauge.services.common.schemas import FitRequest


def launch_fields(log: StartLog) -> dict[str, Any]:
    """Return the flags of a launch as fields of a request."""
    fields: dict[str, Any] = {
        name: value for name, value in log.flags.items() if name in FitRequest.__struct_fields__
    }
    if log.engine is not None and ENGINES[log.engine].reads_gguf:
        named = {
            "max_num_seqs": log.flags.get("n_parallel"),
            "max_batched_tokens": log.flags.get("n_ubatch"),
        }
        fields |= {name: value for name, value in named.items() if value is not None}
    if fields.get("n_gpu_layers") == log.flags.get("layers"):  # "offloaded 29/29 layers to GPU"
        fields.pop("n_gpu_layers", None)
    if log.flags.get("expert_parallel_on"):
        fields["expert_parallel"] = int(fields.get("tensor_parallel", 1)) * int(
            fields.get("data_parallel", 1)
        )
    if log.flags.get("kv_cache_memory_bytes"):
        fields["kv_cache_memory_gib"] = float(log.flags["kv_cache_memory_bytes"]) / GIB
    return fields | _kv_offload(log, fields)


def _kv_offload(log: StartLog, fields: dict[str, Any]) -> dict[str, float]:
    """Return `kv_offload_gib`, of one GPU, where a flag sets the host memory of a rank, or of all
    ranks of a replica [GiB]."""
    degrees = ("tensor_parallel", "pipeline_parallel")
    ranks = prod(int(fields.get(name) or 1) for name in degrees)
    of_rank = log.flags.get("kv_offload_rank_gib")
    of_replica = log.flags.get("kv_offload_replica_gib")
    if of_rank:
        return {"kv_offload_gib": float(of_rank)}
    return {"kv_offload_gib": float(of_replica) / ranks} if of_replica else {}


def valid_request(fields: dict[str, Any], notes: list[Note], hint: str) -> FitRequest:
    """Return the request. Flags out of range are dropped, with a note."""
    while True:
        try:
            return msgspec.convert(fields, FitRequest)
        except msgspec.ValidationError as error:
            message = str(error)
            wrong = next((name for name in fields if f"$.{name}`" in message), None)
            if wrong in (None, "model", "gpu"):
                raise InvalidRequestError(
                    message, hint=hint, field=wrong, code="invalid-value"
                ) from None
            notes.append(
                Note(
                    "flag-ignored",
                    wrong,
                    f"`{wrong}` {fields.pop(wrong)!r} is out of range: the estimate ignores it.",
                )
            )


def known_version(engines: Engines, engine: str, printed: str) -> tuple[str | None, Note | None]:
    """Return the version to estimate with, and a note if it is not the printed one."""
    try:
        engines.profile(engine, parsing.version(printed))
    except InvalidRequestError:
        oldest = engines.oldest(engine)
        if "dev" in printed and printed.startswith("0.1."):
            return None, _unknown_version(
                f"Version {printed} is built from source: using the newest version."
            )
        return oldest, _unknown_version(f"Version {printed} is unknown: using {oldest}.")
    return printed, None


def _unknown_version(message: str) -> Note:
    return Note("engine-version-unknown", "engine_version", message)
