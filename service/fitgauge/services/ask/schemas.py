"""The contract of ask: a question in plain words, what was understood of it, and the answer."""

from typing import Annotated, Any, Literal

from msgspec import Meta, Struct

Operation = Literal[
    "check_fit",
    "check_training_fit",
    "recommend_gpus",
    "list_models_that_fit",
    "compare_fit",
    "plan_training",
    "explain_log",
]

LONGEST_QUESTION = 2000
"""Characters of a question."""


class AskRequest(Struct, kw_only=True, forbid_unknown_fields=True):
    """A question about GPU memory in plain words, English or Chinese first."""

    question: Annotated[
        str,
        Meta(
            min_length=1,
            max_length=LONGEST_QUESTION,
            description="The question, such as: will a 70b awq fit on 2x 4090 with 32k context?",
            examples=["Will Qwen3 32B in AWQ fit on 2x RTX 4090 with 32k context for 8 users?"],
        ),
    ]


class Understood(Struct, kw_only=True, omit_defaults=True):
    """What the question says, under the names of the requests' fields; nothing else."""

    model: str | None = None
    models: Annotated[
        list[str] | None, Meta(description="Where the question names several on a par.")
    ] = None
    gpu: str | None = None
    gpus: Annotated[
        list[str] | None, Meta(description="Where the question names several on a par.")
    ] = None
    gpu_count: int | None = None
    quantization: str | None = None
    kv_cache_dtype: str | None = None
    context_length: int | None = None
    concurrency: int | None = None
    engine: str | None = None
    method: Annotated[
        str | None, Meta(description="full, lora or qlora; else the algorithm, such as grpo.")
    ] = None
    algorithm: str | None = None
    sequence_length: int | None = None
    micro_batch_size: int | None = None
    global_batch_size: int | None = None
    tensor_parallel: int | None = None
    pipeline_parallel: int | None = None
    data_parallel: int | None = None
    expert_parallel: int | None = None
    zero_stage: int | None = None
    lora_rank: int | None = None
    gpu_memory_utilization: float | None = None
    max_usd_per_hour: float | None = None


class AskAnswer(Struct, kw_only=True):
    """What was understood, and the answer of the operation that the question means."""

    operation: Annotated[
        Operation | None, Meta(description="null where the question is not about GPU memory.")
    ]
    understood: Understood
    missing: Annotated[list[str], Meta(description="What to add or to change, one sentence each.")]
    not_understood: Annotated[
        list[str],
        Meta(description="Numbers of the text that look like settings and were not used."),
    ]
    answer: Annotated[
        dict[str, Any] | None,
        Meta(description="The answer of `operation`; null where something needed is missing."),
    ]
