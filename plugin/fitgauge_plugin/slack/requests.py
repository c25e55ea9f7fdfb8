"""Fields of a question that a message or a button changes."""

from collections.abc import Mapping
from typing import Any

from fitgauge_plugin.slack.service import Question

_SHORT_LIST = 5
"""Rows of a list."""

_PARALLEL = ("tensor_parallel", "pipeline_parallel", "data_parallel", "expert_parallel")
_SERVING = ("quantization", "kv_cache_dtype", "context_length", "concurrency", "engine")
_TAKEN = {
    "check_fit": (
        "model",
        "gpu",
        "gpu_count",
        *_SERVING,
        *_PARALLEL,
        "gpu_memory_utilization",
        "lora_slots",
    ),
    "check_training_fit": (
        *("model", "gpu", "gpu_count", "method", "quantization", "sequence_length"),
        *("micro_batch_size", "zero_stage", "lora_rank", *_PARALLEL),
        *("optimizer", "offload", "activation_checkpointing"),
    ),
    "recommend_gpus": ("model", "task", *_SERVING, "method", "sequence_length", "max_usd_per_hour"),
    "list_models_that_fit": ("gpu", "gpu_count", "engine", "context_length", "concurrency"),
    "plan_training": ("model", "gpu", "gpu_count", "method", "sequence_length", "quantization"),
}
"""What words change of the question of an operation, and what another operation takes of it."""

_LISTS = ("recommend_gpus", "list_models_that_fit", "plan_training")
_TRAINING = ("check_training_fit", "plan_training")


def merged(question: Question, operation: str, changes: Mapping[str, Any]) -> Question:
    """Return a question with changes, as a question of an operation.

    The count of GPUs, and degrees over them, go with the GPU that is replaced."""
    fields = dict(question.request)
    if question.operation != operation:
        fields = _taken(operation, fields)
        if operation == "recommend_gpus" and question.operation in _TRAINING:
            fields["task"] = "training"
            fields.pop("quantization", None)  # there of the frozen base, here of what is served
        if operation in _LISTS:
            fields["limit"] = _SHORT_LIST
    if "gpu" in changes or "gpu_count" in changes:
        for name in ("gpu_count", *_PARALLEL):
            fields.pop(name, None)
    return Question(operation, fields | dict(changes))


def from_words(operation: str, understood: Mapping[str, Any]) -> dict[str, Any]:
    """Return what the words of a message change of the question of an operation."""
    words = dict(understood)
    if operation in _TRAINING and "context_length" in words:
        words.setdefault("sequence_length", words["context_length"])
    return _taken(operation, words)


def without_gpu(reading: Mapping[str, Any]) -> bool:
    """Return whether a text that was read needs a GPU and names none."""
    understood = reading.get("understood") or {}
    named = not understood.keys().isdisjoint(("gpu", "gpus", "prefill_gpu", "decode_gpu"))
    return bool(understood) and not named and reading.get("operation") != "recommend_gpus"


def _taken(operation: str, fields: Mapping[str, Any]) -> dict[str, Any]:
    return {name: fields[name] for name in _TAKEN.get(operation, ()) if name in fields}
