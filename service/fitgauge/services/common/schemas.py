"""Request and response schemas. Field order and descriptions are the published schema's.

Requests are flat and forgiving in their strings; numbers are JSON numbers. Bounds are declared here
only: later code relies on them."""

from typing import Annotated, Literal

from msgspec import UNSET, Meta, Struct, UnsetType

from fitgauge.engine.note import Note
from fitgauge.engine.quantity import Basis, Bytes
from fitgauge.engine.serving.options import EngineOptions
from fitgauge.engine.serving.registry import DEFAULT_ENGINES
from fitgauge.services.common.engine_names import choices_of_engine
from fitgauge.services.common.need_schemas import MemoryNeed, SmallestGpus
from fitgauge.services.common.reading_schemas import Reading
from fitgauge.services.common.reading_schemas import Verdict as Verdict

Text = Annotated[str, Meta(min_length=1, max_length=200)]
Names = (
    Annotated[str, Meta(min_length=1, max_length=2000)]
    | Annotated[list[Text], Meta(min_length=1, max_length=100)]
)
"""Several names: a list, or one comma-separated text."""
Degree = Annotated[int, Meta(ge=1, le=1024)]
Tokens = Annotated[int, Meta(ge=1, le=100_000_000)]
Gib = Annotated[float, Meta(gt=0, le=65_536)]


SettingsMode = Literal["auto", "defaults"]

ListSettings = Annotated[
    SettingsMode | None,
    Meta(description="auto (default): batch limits and memory share that fit; or defaults."),
]
"""Of lists and tables: steps A to C of docs/SETTINGS.md in the default layout."""

ChosenSettings = Annotated[
    dict[str, int | float | bool],
    Meta(
        description=(
            "Settings that differ from the engine's defaults. Sent to POST /v1/fit with `settings`"
            " defaults they give the same figures."
        )
    ),
]


class FitRequest(EngineOptions, frozen=True, forbid_unknown_fields=True):
    """Will this model fit on this GPU when it is served? Only `model` is needed: without `gpu`
    the answer says what it needs."""

    # Not kw_only, so that msgspec lists these fields before those of EngineOptions.

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
        Text | None,
        Meta(
            description=(
                "Name or memory size: RTX 4090, 2x4090, A100 80G, 24GB. Without it: what the model"
                " needs, and the smallest GPUs."
            ),
            examples=["RTX 4090"],
        ),
    ] = None
    gpu_count: Annotated[
        Annotated[int, Meta(ge=1, le=4096)] | None,
        Meta(
            description="Number of GPUs. Default 1; the larger of this and the count in gpu.",
            examples=[4],
        ),
    ] = None
    engine: Annotated[
        Text | None,
        Meta(
            description=choices_of_engine(),
            examples=[DEFAULT_ENGINES[0]],
        ),
    ] = None
    engine_version: Annotated[
        Text | None, Meta(description="Default: the newest known version.", examples=["0.33.0"])
    ] = None
    quantization: Annotated[
        Text | None,
        Meta(
            description=(
                "Weights as if quantized to: fp8, int8, int4, awq, gptq, nf4, nvfp4, bf16, q4_k_m."
                " Default: as published."
            )
        ),
    ] = None
    context_length: Annotated[
        Tokens | None,
        Meta(
            description="Tokens per request. Default 8192, or the model's maximum if less.",
            examples=[32768],
        ),
    ] = None
    concurrency: Annotated[
        Annotated[int, Meta(ge=1, le=1_000_000)] | None,
        Meta(description="Concurrent requests of that length. Default 1.", examples=[8]),
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
            description="Ranks that shard every layer. Default: as many GPUs as divide the heads."
        ),
    ] = None
    pipeline_parallel: Annotated[
        Degree | None,
        Meta(description="Pipeline stages. Default: the remaining GPUs."),
    ] = None
    data_parallel: Annotated[
        Degree | None, Meta(description="Replicas of the model. Default 1.")
    ] = None
    expert_parallel: Annotated[
        Degree | None, Meta(description="Ranks that shard the experts; 1 (default) is off.")
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
            description="Maximum running requests (llama.cpp: n_parallel). Default: the engine's."
        ),
    ] = None
    cpu_offload_gib: Annotated[
        Annotated[float, Meta(ge=0, le=65_536)] | None,
        Meta(description="GiB of weights per GPU offloaded to host memory."),
    ] = None
    kv_cache_memory_gib: Annotated[
        Gib | None, Meta(description="GiB of KV cache per GPU, instead of all free memory.")
    ] = None
    other_memory_gib: Annotated[
        Annotated[float, Meta(ge=0, le=65_536)] | None,
        Meta(
            description="GiB per GPU used by others: a desktop, another process.",
            examples=[1.5],
        ),
    ] = None
    draft_model: Annotated[
        Text | None,
        Meta(description="vllm: Hub ID of the draft model: an EAGLE head or a smaller model."),
    ] = None
    settings: Annotated[
        SettingsMode | None,
        Meta(
            description=(
                "What to take for engine settings left out: auto (default) the nearest to the"
                " engine's defaults that fits, defaults the engine's own."
            )
        ),
    ] = None
    detail: Annotated[
        Literal["summary", "full"] | None,
        Meta(description="full adds formulas, sources and pipeline stages. Default summary."),
    ] = None


class ModelAnswer(Struct, kw_only=True):
    """The resolved model."""

    id: str
    parameters: Annotated[
        int,
        Meta(description="As stored in the repository, else computed from the architecture."),
    ]
    source: Literal["hub", "snapshot", "config", "size"]
    revision: str | None = None


class GpuAnswer(Struct, kw_only=True):
    """The resolved accelerator and the number of GPUs."""

    id: str
    name: str
    count: int


LimitedBy = Annotated[
    Literal["budget", "device"],
    Meta(
        description=(
            "What decides the verdict: the engine's share of the GPU (budget_bytes), or the whole"
            " GPU (usable_bytes)."
        )
    ),
]


class PerGpu(Struct, kw_only=True):
    """Memory of the fullest GPU [bytes]."""

    usable_bytes: Annotated[
        int, Meta(description="Memory a process can allocate: less than the marketed size.")
    ]
    budget_bytes: Annotated[
        int,
        Meta(description="Memory the engine may use (vLLM: usable x gpu_memory_utilization)."),
    ]
    required_bytes: Annotated[
        Bytes,
        Meta(
            description=(
                "The sum of `terms`, which decides the verdict, and the figure in `summary`."
            )
        ),
    ]
    headroom_bytes: Annotated[
        int,
        Meta(
            description=("budget_bytes minus expected required_bytes; negative if it does not fit.")
        ),
    ]
    limited_by: LimitedBy
    shown_bytes: Annotated[
        Bytes,
        Meta(
            description=(
                "What nvidia-smi will show: an engine with a preallocated KV cache fills its share"
                " of the GPU, whatever the requests need."
            )
        ),
    ]
    rank: int


class HostMemory(Struct, kw_only=True):
    """Host memory that is needed in addition [bytes]."""

    per_gpu_bytes: Annotated[int, Meta(description="Of the GPU that offloads most.")]
    total_bytes: Annotated[int, Meta(description="Of all GPUs together.")]


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
    """Limits of this deployment; null where there is none."""

    kv_cache_tokens: Annotated[
        int | None,
        Meta(description="KV cache tokens of one replica, as the engine logs them."),
    ] = None
    max_context_length: Annotated[
        int | None,
        Meta(description="Longest context that fits at this concurrency; 0 if none does."),
    ] = None
    max_concurrency: Annotated[
        int | None,
        Meta(description="Most concurrent requests that fit at this context; 0 if none does."),
    ] = None
    max_micro_batch_size: Annotated[
        int | None, Meta(description="Largest micro-batch that fits; 0 if none does.")
    ] = None
    min_gpu_count: Annotated[
        int | None,
        Meta(description="Fewest of these GPUs it fits on, everything else as requested."),
    ] = None


class Launch(Struct, kw_only=True):
    """The launch command of what was estimated."""

    command: str
    placeholder: Annotated[
        str | None,
        Meta(
            description=(
                "What to put in the command before it can run: a checkpoint that is not known"
                " here. null: it runs as it stands."
            )
        ),
    ] = None
    nodes: Annotated[
        int,
        Meta(
            description=(
                "Machines it runs on; `assumed` says how many GPUs each has, and what to start on"
                " the others than the first."
            )
        ),
    ] = 1


class Suggestion(Struct, kw_only=True):
    """A re-estimated change: the request to send and its result."""

    change: str
    verdict: Verdict
    required_bytes: int
    request: Annotated[
        dict[str, str | int | float | bool],
        Meta(description="Fields to send with the request, in place of its own."),
    ]
    launch: Annotated[
        Launch | None, Meta(description="How to start it; null unless it fits or is tight.")
    ] = None
    host_memory: Annotated[
        HostMemory | None, Meta(description="Null where nothing is offloaded.")
    ] = None


class ChosenSetting(Struct, kw_only=True):
    """A setting that was chosen instead of the engine's default; a field to send."""

    setting: str
    value: int | float | bool
    default: int | float | bool
    why: str
    costs: Annotated[str, Meta(description="What is given up.")]


class DefaultsAnswer(Struct, kw_only=True):
    """How the engine's own defaults turn out."""

    verdict: Verdict
    reason: str
    required_bytes: int


class RankAnswer(Struct, kw_only=True):
    """One pipeline stage: its terms add up to `required_bytes`."""

    stage: int
    layers: int
    gpu: Annotated[str | None, Meta(description="Its GPU, where they are of several kinds.")] = None
    verdict: Annotated[
        Literal["fits", "tight", "does_not_fit"],
        Meta(description="Of this stage alone; the fullest decides the answer."),
    ]
    required_bytes: Bytes
    headroom_bytes: Annotated[int, Meta(description="As in per_gpu, of this stage.")]
    terms: list[TermAnswer]


class Assumption(Struct, frozen=True):
    """The value assumed for a field that the request leaves out."""

    field: str
    value: str | int | float | bool
    message: str


class FitAnswer(Struct, kw_only=True):
    """The verdict, its evidence and suggestions."""

    verdict: Annotated[Verdict | None, Meta(description="Null without `gpu`.")]
    summary: Annotated[str, Meta(description="Summary in one or two sentences.")]
    fit_probability: Annotated[
        float | None, Meta(description="Probability that it fits, 0 to 1; null if unsupported.")
    ]
    model: ModelAnswer
    gpu: Annotated[GpuAnswer | None, Meta(description="Null without `gpu`.")]
    per_gpu: Annotated[PerGpu | None, Meta(description="Under `unsupported`: as if it ran.")]
    terms: Annotated[
        list[TermAnswer] | None, Meta(description="Under `unsupported`: as if it ran.")
    ]
    limits: Annotated[Limits | None, Meta(description="Under `unsupported`: the tokens alone.")]
    host_memory: Annotated[HostMemory | None, Meta(description="Null where nothing is offloaded.")]
    suggestions: list[Suggestion]
    warnings: list[Note]
    assumed: Annotated[
        list[Assumption],
        Meta(description="What the request leaves open, and the values taken."),
    ]
    understood_as: Annotated[
        dict[str, str | int | float | bool],
        Meta(description="The request with every default filled in."),
    ]
    launch: Annotated[Launch | None, Meta(description="Null if it does not fit or is unsupported.")]
    chosen: Annotated[
        list[ChosenSetting],
        Meta(description="Settings changed so that it fits; empty: the engine's defaults."),
    ] = []
    defaults: Annotated[
        DefaultsAnswer | None,
        Meta(description="The engine's defaults, where they were not chosen or nothing fits."),
    ] = None
    read_as: Annotated[
        list[Reading], Meta(description="What was guessed of the names in the request.")
    ] = []
    needs: Annotated[
        list[MemoryNeed],
        Meta(description="Without `gpu`: memory by format, the widest first; else empty."),
    ] = []
    smallest: Annotated[
        list[SmallestGpus],
        Meta(description="Without `gpu`: the fewest, cheapest and fastest GPUs; else empty."),
    ] = []
    ranks: list[RankAnswer] | UnsetType = UNSET


class ModelDetail(Struct, kw_only=True):
    """Facts of a model; `parameters` (stored) and `computed_parameters` (from the architecture
    alone) check each other."""

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
        Meta(description="KV cache growth per token of one request, 16-bit, one GPU."),
    ]
    state_cache_bytes: Annotated[int, Meta(description="Recurrent state of one request.")]
    warnings: list[Note]


class Health(Struct, kw_only=True):
    """Liveness of the process."""

    status: Literal["ok"]
    version: str


class Problem(Struct, kw_only=True):
    """An RFC 9457 problem: what is wrong, and in `hint` what to send instead."""

    type: str
    code: Annotated[str, Meta(description="A stable code: docs/CODES.md lists all.")]
    title: str
    status: int
    detail: str
    hint: str
    matches: Annotated[list[str], Meta(description="Up to five close matches.")] = []
    field: str | None = None
    send: Annotated[
        dict[str, str | int | bool | None] | UnsetType,
        Meta(
            description="Fields to send instead, where some are known to work; null leaves one out."
        ),
    ] = UNSET
