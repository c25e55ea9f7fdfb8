"""The contract: what callers send and what they get. Field order and descriptions are the published
schema's.

Requests are flat and forgiving in their strings; numbers are JSON numbers. Bounds stand here and
nowhere else: what has passed them is believed."""

from typing import Annotated, Literal

from msgspec import UNSET, Meta, Struct, UnsetType

from fitgauge.engine.quantity import Basis, Bytes

Text = Annotated[str, Meta(min_length=1, max_length=200)]
Names = (
    Annotated[str, Meta(min_length=1, max_length=2000)]
    | Annotated[list[Text], Meta(min_length=1, max_length=100)]
)
"""Several names: a list, or one text with commas between them."""
Degree = Annotated[int, Meta(ge=1, le=1024)]
Tokens = Annotated[int, Meta(ge=1, le=100_000_000)]
Gib = Annotated[float, Meta(gt=0, le=65_536)]
Verdict = Literal["fits", "tight", "does_not_fit", "unsupported"]


class FitRequest(Struct, kw_only=True, forbid_unknown_fields=True):
    """Will this model fit on this GPU when it is served? Only `model` and `gpu` are needed."""

    model: Annotated[
        Text,
        Meta(
            description=(
                "Hugging Face ID (org/name, org/name@revision, org/name-GGUF:Q4_K_M), a well-known"
                " name, or a size: 7b."
            ),
            examples=["Qwen/Qwen3-32B"],
        ),
    ]
    gpu: Annotated[
        Text,
        Meta(
            description="As people write it: RTX 4090, 2x4090, A100 80G, or a memory size: 24GB.",
            examples=["RTX 4090"],
        ),
    ]
    gpu_count: Annotated[
        Annotated[int, Meta(ge=1, le=4096)] | None,
        Meta(description="How many. Default 1, or the count in gpu.", examples=[4]),
    ] = None
    engine: Annotated[
        Text | None,
        Meta(
            description=(
                "vllm (default; mlx or llama.cpp where it does not run), sglang, tensorrt-llm,"
                " ollama, transformers or tgi."
            ),
            examples=["vllm"],
        ),
    ] = None
    engine_version: Annotated[
        Text | None, Meta(description="Default: the newest known.", examples=["0.33.0"])
    ] = None
    quantization: Annotated[
        Text | None,
        Meta(
            description=(
                "Weights as if stored so: fp8, int8, int4, awq, gptq, nf4, nvfp4, bf16, q4_k_m."
                " Default: as published."
            )
        ),
    ] = None
    context_length: Annotated[
        Tokens | None,
        Meta(
            description="Tokens a request may hold. Default 8192, or the model's maximum if less.",
            examples=[32768],
        ),
    ] = None
    concurrency: Annotated[
        Annotated[int, Meta(ge=1, le=1_000_000)] | None,
        Meta(description="Such requests held at once. Default 1.", examples=[8]),
    ] = None
    kv_cache_dtype: Annotated[
        Text | None,
        Meta(
            description="auto (default), fp8 or bf16; for llama.cpp and ollama f16, q8_0 or q4_0.",
            examples=["fp8"],
        ),
    ] = None
    tensor_parallel: Annotated[
        Degree | None,
        Meta(
            description="Ranks that share every layer. Default: as many GPUs as divide the heads."
        ),
    ] = None
    pipeline_parallel: Annotated[
        Degree | None,
        Meta(description="Stages the layers are spread over. Default: what the GPUs leave."),
    ] = None
    data_parallel: Annotated[
        Degree | None, Meta(description="Replicas of the whole. Default 1.")
    ] = None
    expert_parallel: Annotated[
        Degree | None, Meta(description="Ranks the experts are spread over; 1 (default) is off.")
    ] = None
    gpu_memory_utilization: Annotated[
        Annotated[float, Meta(gt=0, le=1)] | None,
        Meta(
            description=(
                "Share of the GPU the engine may use (mem_fraction_static,"
                " free_gpu_memory_fraction). Default: the engine's."
            ),
            examples=[0.9],
        ),
    ] = None
    max_batched_tokens: Annotated[
        Tokens | None,
        Meta(
            description=(
                "Tokens of a forward pass (max_num_batched_tokens, chunked_prefill_size, n_ubatch)."
                " Default: the engine's."
            )
        ),
    ] = None
    max_num_seqs: Annotated[
        Annotated[int, Meta(ge=1, le=1_000_000)] | None,
        Meta(
            description="Most requests run at once (llama.cpp: n_parallel). Default: the engine's."
        ),
    ] = None
    enforce_eager: Annotated[bool | None, Meta(description="True: no CUDA graphs.")] = None
    cpu_offload_gib: Annotated[
        Annotated[float, Meta(ge=0, le=65_536)] | None,
        Meta(description="GiB of each GPU's weights kept in host memory."),
    ] = None
    kv_cache_memory_gib: Annotated[
        Gib | None, Meta(description="GiB of KV cache per GPU, instead of what is left.")
    ] = None
    other_memory_gib: Annotated[
        Annotated[float, Meta(ge=0, le=65_536)] | None,
        Meta(
            description="GiB of each GPU that others hold: a desktop, another process.",
            examples=[1.5],
        ),
    ] = None
    lora_slots: Annotated[
        Annotated[int, Meta(ge=0, le=4096)] | None,
        Meta(
            description="vllm: LoRA adapters on the GPU at once (max_loras). Default 0.",
            examples=[4],
        ),
    ] = None
    lora_rank: Annotated[
        Annotated[int, Meta(ge=1, le=512)] | None,
        Meta(
            description=(
                "vllm: their largest rank: 1, 8, 16, 32, 64, 128, 256, 320 or 512. Default 16."
            )
        ),
    ] = None
    speculative_tokens: Annotated[
        Annotated[int, Meta(ge=0, le=64)] | None,
        Meta(
            description=(
                "vllm: tokens drafted a step, by the model's MTP head or draft_model. Default 0:"
                " off."
            ),
            examples=[1],
        ),
    ] = None
    draft_model: Annotated[
        Text | None,
        Meta(description="vllm: Hub ID of what drafts them: an EAGLE head or a smaller model."),
    ] = None
    detail: Annotated[
        Literal["summary", "full"] | None,
        Meta(description="full: every formula, source and pipeline stage too. Default summary."),
    ] = None


class ModelAnswer(Struct, kw_only=True):
    """The model that was meant."""

    id: str
    parameters: Annotated[
        int,
        Meta(description="As the repository stores them, else as computed from its architecture."),
    ]
    source: Literal["hub", "snapshot", "config", "size"]
    revision: str | None = None


class GpuAnswer(Struct, kw_only=True):
    """The accelerator that was meant, and how many of them."""

    id: str
    name: str
    count: int


class PerGpu(Struct, kw_only=True):
    """Memory of the fullest GPU [bytes]."""

    usable_bytes: Annotated[
        int, Meta(description="What a process can really take, not what the box says.")
    ]
    budget_bytes: Annotated[
        int,
        Meta(description="What the engine may use of it (vLLM: usable x gpu_memory_utilization)."),
    ]
    required_bytes: Bytes
    headroom_bytes: Annotated[
        int,
        Meta(
            description=(
                "budget_bytes less the expected required_bytes; negative where it does not fit."
            )
        ),
    ]
    rank: int


class TermAnswer(Struct, kw_only=True, omit_defaults=True):
    """One named part of required_bytes; formula and source with detail full."""

    name: str
    bytes: int
    low: int
    high: int
    basis: Basis
    formula: str | UnsetType = UNSET
    source: str | UnsetType = UNSET


class Limits(Struct, kw_only=True):
    """How far it goes on this hardware; null where the question has no such limit."""

    kv_cache_tokens: Annotated[
        int | None,
        Meta(description="Tokens of KV cache of one replica, as the engine would log them."),
    ] = None
    max_context_length: Annotated[
        int | None, Meta(description="Longest context at this concurrency.")
    ] = None
    max_concurrency: Annotated[int | None, Meta(description="Most requests at this context.")] = (
        None
    )
    max_micro_batch_size: int | None = None
    min_gpu_count: Annotated[int | None, Meta(description="Fewest of these GPUs that hold it.")] = (
        None
    )


class Suggestion(Struct, kw_only=True):
    """A change that was estimated anew: what it asks for and what it gives."""

    change: str
    verdict: Verdict
    required_bytes: int
    request: Annotated[
        dict[str, str | int | float | bool], Meta(description="The fields to send for it.")
    ]


class Launch(Struct, kw_only=True):
    """How to start what was estimated."""

    command: str


class RankAnswer(Struct, kw_only=True):
    """One pipeline stage: its terms add up to `required_bytes`."""

    stage: int
    layers: int
    verdict: Annotated[
        Literal["fits", "tight", "does_not_fit"],
        Meta(description="Of this stage alone; the fullest decides for all."),
    ]
    required_bytes: Bytes
    headroom_bytes: Annotated[
        int, Meta(description="As in per_gpu, of this stage: negative where it does not fit.")
    ]
    terms: list[TermAnswer]


class FitAnswer(Struct, kw_only=True):
    """The verdict, the evidence, and what to do instead."""

    verdict: Verdict
    summary: Annotated[str, Meta(description="One or two sentences a person can act on.")]
    fit_probability: Annotated[
        float | None, Meta(description="How likely it fits, 0 to 1; null where unsupported.")
    ]
    model: ModelAnswer
    gpu: GpuAnswer
    per_gpu: PerGpu
    terms: list[TermAnswer]
    limits: Limits
    suggestions: list[Suggestion]
    warnings: list[str]
    understood_as: Annotated[
        dict[str, str | int | float | bool],
        Meta(description="The question with every default filled in."),
    ]
    launch: Launch
    ranks: list[RankAnswer] | UnsetType = UNSET


class ModelDetail(Struct, kw_only=True):
    """What is known of a model; `parameters` (stored) and `computed_parameters` (from the
    architecture alone) check each other."""

    id: str
    source: Literal["hub", "snapshot", "config", "size"]
    revision: str | None
    architecture: str
    model_type: str
    task: Literal["generate", "encode", "encoder_decoder"]
    basis: Basis
    parameters: int
    computed_parameters: int
    parameters_by_dtype: dict[str, int]
    weights_bytes: Annotated[int, Meta(description="Bytes of the stored weights.")]
    dtype: str
    quantization: str | None
    layers: int
    hidden_size: int
    vocabulary_size: int
    max_context_length: int
    kv_cache_bytes_per_token: Annotated[
        float,
        Meta(
            description="Growth of the KV cache with every token of one request, 16-bit, one GPU."
        ),
    ]
    state_cache_bytes: Annotated[
        int, Meta(description="State of recurrent layers for one request.")
    ]
    warnings: list[str]


class Health(Struct, kw_only=True):
    """Whether the process lives, and whether it can answer."""

    status: Literal["ok"]
    version: str


class Problem(Struct, kw_only=True):
    """An RFC 9457 problem: what is wrong, and in `hint` what to send instead."""

    type: str
    title: str
    status: int
    detail: str
    hint: str
    matches: Annotated[
        list[str], Meta(description="Up to five things that exist and may be meant.")
    ] = []
    field: str | None = None
