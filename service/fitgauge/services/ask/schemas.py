"""The contract of ask: a question in plain words, what was understood of it, and the answer."""

from typing import Annotated, Any, Literal

from msgspec import UNSET, Meta, Struct, UnsetType

from fitgauge.services.common.answer_facts import AnswerAsOf
from fitgauge.services.common.schemas import Launch

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

    model: Annotated[str | None, Meta(description="The model.")] = None
    models: Annotated[
        list[str] | None, Meta(description="Where the question names several on a par.")
    ] = None
    gpu: Annotated[str | None, Meta(description="The GPU.")] = None
    gpus: Annotated[
        list[str] | None, Meta(description="Where the question names several on a par.")
    ] = None
    gpu_count: Annotated[int | None, Meta(description="Number of GPUs.")] = None
    quantization: Annotated[str | None, Meta(description="Format of the weights.")] = None
    quantizations: Annotated[
        list[str] | None, Meta(description="Where the question sets several side by side.")
    ] = None
    kv_cache_dtype: Annotated[str | None, Meta(description="Number format of the KV cache.")] = None
    kv_cache_dtypes: Annotated[
        list[str] | None, Meta(description="Where the question sets several side by side.")
    ] = None
    context_length: Annotated[int | None, Meta(description="Tokens of a request.")] = None
    context_lengths: Annotated[
        list[int] | None, Meta(description="Where the question sets several side by side.")
    ] = None
    prompt_tokens: Annotated[int | None, Meta(description="Of a request.")] = None
    output_tokens: Annotated[int | None, Meta(description="Of its answer.")] = None
    concurrency: Annotated[int | None, Meta(description="Requests at once.")] = None
    clouds: Annotated[
        list[str] | None, Meta(description="Clouds that the GPUs are rented from.")
    ] = None
    prefill_gpu: Annotated[
        str | None, Meta(description="Disaggregated serving: what computes prompts.")
    ] = None
    decode_gpu: Annotated[
        str | None, Meta(description="Disaggregated serving: what writes the answers.")
    ] = None
    engine: Annotated[str | None, Meta(description="Serving engine.")] = None
    engine_version: Annotated[str | None, Meta(description="Its release.")] = None
    engines: Annotated[
        list[str] | None, Meta(description="Where the question names several on a par.")
    ] = None
    lora_slots: Annotated[int | None, Meta(description="LoRA adapters that are served.")] = None
    method: Annotated[
        str | None, Meta(description="full, lora or qlora; else the algorithm, such as grpo.")
    ] = None
    methods: Annotated[
        list[str] | None, Meta(description="Where the question sets several side by side.")
    ] = None
    trainer: Annotated[str | None, Meta(description="Training tool.")] = None
    framework: Annotated[str | None, Meta(description="What shards a training.")] = None
    algorithm: Annotated[str | None, Meta(description="Training algorithm.")] = None
    sequence_length: Annotated[int | None, Meta(description="Tokens of a training sequence.")] = (
        None
    )
    micro_batch_size: Annotated[
        int | None, Meta(description="Sequences per GPU and forward pass.")
    ] = None
    global_batch_size: Annotated[
        int | None, Meta(description="Sequences of one optimizer step.")
    ] = None
    micro_batches: Annotated[
        int | None, Meta(description="Forward passes of a step: gradient accumulation.")
    ] = None
    samples: Annotated[int | None, Meta(description="Samples of the data set.")] = None
    epochs: Annotated[int | None, Meta(description="Passes over them.")] = None
    token_budget: Annotated[
        int | None,
        Meta(description="Training tokens; 1,000,000 where a time without data is meant."),
    ] = None
    save_steps: Annotated[
        int | None, Meta(description="Steps between checkpoints, where disk is meant.")
    ] = None
    merge: Annotated[
        bool | None, Meta(description="Whether adapters are merged into their base.")
    ] = None
    tensor_parallel: Annotated[int | None, Meta(description="Tensor-parallel ranks.")] = None
    pipeline_parallel: Annotated[int | None, Meta(description="Pipeline stages.")] = None
    data_parallel: Annotated[int | None, Meta(description="Data-parallel ranks.")] = None
    expert_parallel: Annotated[int | None, Meta(description="Expert-parallel ranks.")] = None
    context_parallel: Annotated[int | None, Meta(description="Ranks that share a sequence.")] = None
    fsdp_version: Annotated[int | None, Meta(description="Of FSDP: 1 or 2.")] = None
    precision: Annotated[str | None, Meta(description="Of a training's products: fp8.")] = None
    compile: Annotated[bool | None, Meta(description="torch.compile.")] = None
    optimizer_in_backward: Annotated[
        bool | None, Meta(description="Whether every parameter steps in the backward pass.")
    ] = None
    group_size: Annotated[int | None, Meta(description="Completions of one prompt.")] = None
    optimizer: Annotated[str | None, Meta(description="Optimizer.")] = None
    offload: Annotated[str | None, Meta(description="What lives in host memory.")] = None
    activation_checkpointing: Annotated[
        str | None, Meta(description="none where activations are kept.")
    ] = None
    images: Annotated[int | None, Meta(description="Images of a training sample.")] = None
    image_size: Annotated[
        str | None, Meta(description="Pixels of an image of a training sample.")
    ] = None
    zero_stage: Annotated[int | None, Meta(description="ZeRO stage.")] = None
    lora_rank: Annotated[int | None, Meta(description="Rank of adapters.")] = None
    gpu_memory_utilization: Annotated[
        float | None,
        Meta(
            description="Share of the GPU that the engine may use; of what others leave where they"
            " hold a part."
        ),
    ] = None
    host_memory_gib: Annotated[
        float | None,
        Meta(
            description="Memory of the machine for what is offloaded [GiB]; 64 where no size is"
            " said, 4096 where it is what is asked."
        ),
    ] = None
    other_memory_gib: Annotated[
        float | None, Meta(description="Memory of each GPU that others hold [GiB].")
    ] = None
    min_tokens_per_second_per_request: Annotated[
        float | None, Meta(description="Speed to reach, of one request [tokens/s].")
    ] = None
    max_seconds_to_first_token: Annotated[
        float | None, Meta(description="Time to a first token to keep [s].")
    ] = None
    prefix_cache_hit_rate: Annotated[
        float | None, Meta(description="Share of prompts that the prefix cache holds.")
    ] = None
    max_usd_per_hour: Annotated[float | None, Meta(description="Budget [USD/h].")] = None
    flags: Annotated[
        dict[str, Any] | None,
        Meta(description="What a command in the question sets besides."),
    ] = None


class AskAnswer(Struct, kw_only=True):
    """What was understood, and the answer of the operation that the question means."""

    operation: Annotated[
        Operation | None, Meta(description="null where the question is not about GPU memory.")
    ]
    understood: Annotated[
        Understood,
        Meta(description="What the question says, under the names of the requests' fields."),
    ]
    missing: Annotated[list[str], Meta(description="What to add or to change, one sentence each.")]
    not_understood: Annotated[
        list[str],
        Meta(description="Numbers of the text that look like settings and were not used."),
    ]
    answer: Annotated[
        dict[str, Any] | None,
        Meta(
            description="The answer of `operation`, the first of several; null where something"
            " needed is missing."
        ),
    ]
    answers: Annotated[
        list[dict[str, Any]] | UnsetType,
        Meta(
            description="One answer for each of several models or GPUs, where the operation takes"
            " one; in the order of the text."
        ),
    ] = UNSET
    launch: Annotated[
        Launch | UnsetType,
        Meta(description="Starts the widest format that fits, where `answer` is a table of them."),
    ] = UNSET
    as_of: AnswerAsOf = UNSET
    """How old the facts of the answer are."""
