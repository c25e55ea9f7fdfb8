"""Which fields belong to serving, which to training."""

from fitgauge.errors import InvalidRequestError
from fitgauge.services.recommend.schemas import RecommendRequest
from fitgauge.services.recommend.search import MOST_GPUS

OF_TRAINING = (
    "method", "framework", "sequence_length", "global_batch_size", "precision", "optimizer",
    "lora_rank",
)  # fmt: skip
OF_SERVING = (
    "context_length", "concurrency", "engine", "quantization", "kv_cache_dtype", "no_quantization",
    "language_model_only",
    "min_weight_bits", "min_tokens_per_second", "min_quality", "prompt_tokens",
    "max_seconds_to_first_token", "min_tokens_per_second_per_request", "settings",
)  # fmt: skip


def refuse_other_fields(request: RecommendRequest) -> None:
    """Raise InvalidRequestError for a field of the other task, and for more GPUs than one
    deployment serves on."""
    task, others = (
        ("serving", OF_TRAINING) if request.task != "training" else ("training", OF_SERVING)
    )
    for name in others:
        if getattr(request, name) is not None:
            other = "training" if task == "serving" else "serving"
            raise InvalidRequestError(
                f"`{name}` is a field of {other}.",
                hint=f"Send `task` {other}, or leave out `{name}`.",
                field=name,
                code="conflicting-fields",
                send=None if request.task else {"task": other},
            )
    if task == "serving" and (request.max_gpu_count or 0) > MOST_GPUS:
        message = (
            f"`max_gpu_count` {request.max_gpu_count} exceeds the limit of {MOST_GPUS} GPUs per"
            " deployment."
        )
        raise InvalidRequestError(
            message, hint=f"Send {MOST_GPUS} or less.", field="max_gpu_count", code="invalid-value"
        )
