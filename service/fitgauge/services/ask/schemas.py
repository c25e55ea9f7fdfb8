"""The contract of ask: a question in plain words, what was understood of it, and the answer."""

from typing import Annotated, Any, Literal

from msgspec import UNSET, Struct, UnsetType

from fitgauge.field_docs import doc
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
        doc(
            "The question, such as: will a 70b awq fit on 2x 4090 with 32k context?",
            min_length=1,
            max_length=LONGEST_QUESTION,
            examples=["Will Qwen3 32B in AWQ fit on 2x RTX 4090 with 32k context for 8 users?"],
        ),
    ]


_Several = Annotated[list[str] | None, doc("Where the question sets several side by side.")]


class Understood(Struct, kw_only=True, omit_defaults=True):
    """What the question says, under the names of the requests' fields; nothing else."""

    model: Annotated[str | None, doc("The model.")] = None
    models: _Several = None
    gpu: Annotated[str | None, doc("The GPU.")] = None
    gpus: _Several = None
    gpu_count: Annotated[int | None, doc("Number of GPUs.")] = None
    quantization: Annotated[str | None, doc("Format of the weights.")] = None
    quantizations: _Several = None
    kv_cache_dtype: Annotated[str | None, doc("Number format of the KV cache.")] = None
    kv_cache_dtypes: _Several = None
    language_model_only: Annotated[bool | None, doc("A model that also sees, for text.")] = None
    context_length: Annotated[int | None, doc("Tokens of a request.")] = None
    context_lengths: Annotated[list[int] | None, doc("Several side by side.")] = None
    prompt_tokens: Annotated[int | None, doc("Of a request.")] = None
    output_tokens: Annotated[int | None, doc("Of its answer.")] = None
    concurrency: Annotated[int | None, doc("Requests at once.")] = None
    concurrencies: Annotated[list[int] | None, doc("Several side by side.")] = None
    clouds: Annotated[list[str] | None, doc("Clouds that the GPUs are rented from.")] = None
    vendors: Annotated[list[str] | None, doc("Vendors whose GPUs are meant.")] = None
    kinds: Annotated[list[str] | None, doc("Kinds of GPUs that are meant.")] = None
    max_watts: Annotated[int | None, doc("The most power they draw.")] = None
    prefill_gpu: Annotated[str | None, doc("Disaggregated serving: what computes prompts.")] = None
    decode_gpu: Annotated[str | None, doc("Disaggregated serving: what writes the answers.")] = None
    engine: Annotated[str | None, doc("Serving engine.")] = None
    engine_version: Annotated[str | None, doc("Its release.")] = None
    engines: _Several = None
    lora_slots: Annotated[int | None, doc("LoRA adapters that are served.")] = None
    method: Annotated[str | None, doc("full, lora or qlora; else the algorithm, such as grpo.")] = (
        None
    )
    methods: _Several = None
    trainer: Annotated[str | None, doc("Training tool.")] = None
    framework: Annotated[str | None, doc("What shards a training.")] = None
    algorithm: Annotated[str | None, doc("Training algorithm.")] = None
    sequence_length: Annotated[int | None, doc("Tokens of a training sequence.")] = None
    micro_batch_size: Annotated[int | None, doc("Sequences per GPU and forward pass.")] = None
    global_batch_size: Annotated[int | None, doc("Sequences of one optimizer step.")] = None
    micro_batches: Annotated[int | None, doc("Forward passes of a step.")] = None
    samples: Annotated[int | None, doc("Samples of the data set.")] = None
    epochs: Annotated[int | None, doc("Passes over them.")] = None
    token_budget: Annotated[int | None, doc("Training tokens; 1,000,000 of a time alone.")] = None
    save_steps: Annotated[int | None, doc("Steps between checkpoints, where disk is meant.")] = None
    merge: Annotated[bool | None, doc("Whether adapters are merged into their base.")] = None
    tensor_parallel: Annotated[int | None, doc("Tensor-parallel ranks.")] = None
    pipeline_parallel: Annotated[int | None, doc("Pipeline stages.")] = None
    data_parallel: Annotated[int | None, doc("Data-parallel ranks.")] = None
    expert_parallel: Annotated[int | None, doc("Expert-parallel ranks.")] = None
    context_parallel: Annotated[int | None, doc("Ranks that share a sequence.")] = None
    fsdp_version: Annotated[int | None, doc("Of FSDP: 1 or 2.")] = None
    precision: Annotated[str | None, doc("Of a training's products: fp8.")] = None
    compile: Annotated[bool | None, doc("torch.compile.")] = None
    optimizer_in_backward: Annotated[bool | None, doc("Steps in the backward pass.")] = None
    group_size: Annotated[int | None, doc("Completions of one prompt.")] = None
    optimizer: Annotated[str | None, doc("Optimizer.")] = None
    offload: Annotated[str | None, doc("What lives in host memory.")] = None
    activation_checkpointing: Annotated[str | None, doc("none where activations are kept.")] = None
    images: Annotated[int | None, doc("Images of a training sample.")] = None
    image_size: Annotated[str | None, doc("Pixels of an image of a training sample.")] = None
    zero_stage: Annotated[int | None, doc("ZeRO stage.")] = None
    lora_rank: Annotated[int | None, doc("Rank of adapters.")] = None
    gpu_memory_utilization: Annotated[float | None, doc("Share that the engine may use.")] = None
    host_memory_gib: Annotated[
        float | None, doc("Memory of the machine [GiB]; 64 where offered, 4096 where asked for.")
    ] = None
    other_memory_gib: Annotated[float | None, doc("Memory of each GPU that others hold [GiB].")] = (
        None
    )
    min_tokens_per_second_per_request: Annotated[float | None, doc("Speed to reach.")] = None
    max_seconds_to_first_token: Annotated[float | None, doc("Time to a first token [s].")] = None
    prefix_cache_hit_rate: Annotated[float | None, doc("Share of prompts that it holds.")] = None
    max_usd_per_hour: Annotated[float | None, doc("Budget [USD/h].")] = None
    flags: Annotated[dict[str, Any] | None, doc("What a command in the question sets besides.")] = (
        None
    )


class AskAnswer(Struct, kw_only=True):
    """What was understood, and the answer of the operation that the question means."""

    operation: Annotated[Operation | None, doc("null where the question is not about GPU memory.")]
    understood: Annotated[Understood, doc("What the question says, as fields of requests.")]
    missing: Annotated[list[str], doc("What to add or to change, one sentence each.")]
    not_understood: Annotated[list[str], doc("What looks like settings and was not used.")]
    answer: Annotated[
        dict[str, Any] | None,
        doc("The answer of `operation`, the first of several; null where something is missing."),
    ]
    answers: Annotated[
        list[dict[str, Any]] | UnsetType,
        doc("One for each of several models or GPUs, in the order of the text."),
    ] = UNSET
    launch: Annotated[Launch | UnsetType, doc("Of a table: starts the widest that fits.")] = UNSET
    as_of: AnswerAsOf = UNSET
    """How old the facts of the answer are."""
