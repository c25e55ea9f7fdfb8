"""Request and response schemas. Field order and descriptions are the published schema's.

Requests are flat and forgiving in their strings; numbers are JSON numbers. Bounds are declared here
only: later code relies on them."""

from typing import Annotated, Literal

from msgspec import UNSET, Meta, Struct, UnsetType

from fitgauge.engine.performance.decode import DecodeSpeed
from fitgauge.engine.quantity import Basis, Bytes
from fitgauge.engine.serving.options import EngineOptions
from fitgauge.engine.serving.registry import DEFAULT_ENGINES
from fitgauge.field_docs import doc
from fitgauge.services.common.engine_names import choices_of_engine
from fitgauge.services.common.host_schemas import HostGib, HostMemory
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
    SettingsMode | None, doc("auto (default): batch limits and memory share that fit; or defaults.")
]
"""Of lists and tables: steps A to C of docs/SETTINGS.md in the default layout."""

ChosenSettings = Annotated[
    dict[str, int | float | bool],
    doc(
        "Settings that differ from the engine's defaults. Sent to POST /v1/fit with `settings`"
        " defaults they give the same figures."
    ),
]


class FitRequest(EngineOptions, frozen=True, forbid_unknown_fields=True):
    """Will this model fit on this GPU when it is served? Only `model` is needed: without `gpu`
    the answer says what it needs."""

    # Not kw_only, so that msgspec lists these fields before those of EngineOptions.

    model: Annotated[
        Text,
        doc(
            "Hugging Face ID (org/name, org/name@revision, org/name-GGUF:Q4_K_M), a well-known"
            " name, or a size: 7b.",
            examples=["Qwen/Qwen3-32B"],
        ),
    ]
    gpu: Annotated[
        Text | None,
        doc(
            "Name or memory size: RTX 4090, 2x4090, A100 80G, 24GB. Without it: what the model"
            " needs, and the smallest GPUs.",
            examples=["RTX 4090"],
        ),
    ] = None
    gpu_count: Annotated[
        Annotated[int, Meta(ge=1, le=4096)] | None,
        doc("Number of GPUs. Default 1; the larger of this and the count in gpu.", examples=[4]),
    ] = None
    engine: Annotated[Text | None, doc(choices_of_engine(), examples=[DEFAULT_ENGINES[0]])] = None
    engine_version: Annotated[
        Text | None, doc("Default: the newest known version.", examples=["0.33.0"])
    ] = None
    quantization: Annotated[
        Text | None,
        doc(
            "Weights as if quantized to: fp8, int8, int4, awq, gptq, nf4, nvfp4, bf16, q4_k_m."
            " Default: as published."
        ),
    ] = None
    context_length: Annotated[
        Tokens | None,
        doc("Tokens per request. Default 8192, or the model's maximum if less.", examples=[32768]),
    ] = None
    concurrency: Annotated[
        Annotated[int, Meta(ge=1, le=1_000_000)] | None,
        doc("Concurrent requests of that length. Default 1.", examples=[8]),
    ] = None
    kv_cache_dtype: Annotated[
        Text | None,
        doc(
            "auto (default), fp8 or bf16; for llama.cpp and ollama f16, q8_0 or q4_0.",
            examples=["fp8"],
        ),
    ] = None
    tensor_parallel: Annotated[
        Degree | None,
        doc("Ranks that shard every layer. Default: as many GPUs as divide the heads."),
    ] = None
    pipeline_parallel: Annotated[
        Degree | None, doc("Pipeline stages. Default: the remaining GPUs.")
    ] = None
    data_parallel: Annotated[Degree | None, doc("Replicas of the model. Default 1.")] = None
    expert_parallel: Annotated[
        Degree | None, doc("Ranks that shard the experts; 1 (default) is off.")
    ] = None
    gpu_memory_utilization: Annotated[
        Annotated[float, Meta(gt=0, le=1)] | None,
        doc(
            "Share of the GPU the engine may use (mem_fraction_static,"
            " free_gpu_memory_fraction). Default: the engine's.",
            examples=[0.9],
        ),
    ] = None
    max_batched_tokens: Annotated[
        Tokens | None,
        doc(
            "Tokens of a forward pass (max_num_batched_tokens, chunked_prefill_size, n_ubatch)."
            " Default: the engine's."
        ),
    ] = None
    max_num_seqs: Annotated[
        Annotated[int, Meta(ge=1, le=1_000_000)] | None,
        doc("Maximum running requests (llama.cpp: n_parallel). Default: the engine's."),
    ] = None
    cpu_offload_gib: Annotated[
        Annotated[float, Meta(ge=0, le=65_536)] | None,
        doc("GiB of weights per GPU offloaded to host memory."),
    ] = None
    host_memory_gib: HostGib = None
    kv_cache_memory_gib: Annotated[
        Gib | None, doc("GiB of KV cache per GPU, instead of all free memory.")
    ] = None
    other_memory_gib: Annotated[
        Annotated[float, Meta(ge=0, le=65_536)] | None,
        doc("GiB per GPU used by others: a desktop, another process.", examples=[1.5]),
    ] = None
    prompt_tokens: Annotated[
        Tokens | None,
        doc("Of a request, for its speed. Default: what output_tokens leaves.", examples=[2048]),
    ] = None
    output_tokens: Annotated[
        Tokens | None,
        doc(
            "Of an answer, for its speed. Default: a quarter of the context, at most 512.",
            examples=[512],
        ),
    ] = None
    prefix_cache_hit_rate: Annotated[
        Annotated[float, Meta(ge=0, le=1)] | None,
        doc(
            "Share of prompt tokens that the prefix cache holds, 0 to 1: they are not computed"
            " again. Default 0.",
            examples=[0.8],
        ),
    ] = None
    min_tokens_per_second_per_request: Annotated[
        Annotated[float, Meta(gt=0, le=1e9)] | None,
        doc("A speed to reach: `speed.targets` says whether it is.", examples=[20]),
    ] = None
    max_seconds_to_first_token: Annotated[
        Annotated[float, Meta(gt=0, le=1e6)] | None,
        doc("A time to keep, likewise.", examples=[0.5]),
    ] = None
    draft_model: Annotated[
        Text | None,
        doc(
            "vllm, sglang: Hub ID of the draft model: an EAGLE or DFlash head, or a smaller model."
        ),
    ] = None
    settings: Annotated[
        SettingsMode | None,
        doc(
            "What to take for engine settings left out: auto (default) the nearest to the"
            " engine's defaults that fits, defaults the engine's own."
        ),
    ] = None
    detail: Annotated[
        Literal["summary", "full"] | None,
        doc("full adds formulas, sources and pipeline stages. Default summary."),
    ] = None


class ModelAnswer(Struct, kw_only=True):
    """The resolved model."""

    id: Annotated[str, doc("Hugging Face Hub ID, or the name of a size.")]
    parameters: Annotated[
        int, doc("As stored in the repository, else computed from the architecture.")
    ]
    source: Annotated[
        Literal["hub", "snapshot", "config", "size"], doc("Where its config comes from.")
    ]
    revision: Annotated[str | None, doc("Commit of the repository; null without one.")] = None
    max_context_length: Annotated[
        int, doc("Longest context that the config allows; 0 where it names none.")
    ]


class GpuAnswer(Struct, kw_only=True):
    """The resolved accelerator and the number of GPUs."""

    id: Annotated[str, doc("The id in the catalog.")]
    name: Annotated[str, doc("The name in the catalog.")]
    count: Annotated[int, doc("Number of GPUs.")]


class TermAnswer(Struct, kw_only=True, omit_defaults=True):
    """One named part of required_bytes; formula and source with detail full."""

    name: Annotated[str, doc("The term.")]
    bytes: Annotated[int, doc("The expected size.")]
    low: Annotated[int, doc("Lower end of its interval.")]
    high: Annotated[int, doc("Upper end of its interval.")]
    basis: Annotated[Basis, doc("How it is known.")]
    formula: Annotated[
        str | UnsetType, doc("The formula with its numbers, as arithmetic that gives the bytes.")
    ] = UNSET
    source: Annotated[str | UnsetType, doc("Where the formula comes from.")] = UNSET


class LaunchFile(Struct, kw_only=True):
    """A configuration file."""

    name: Annotated[str, doc("Its name, as the command reads it.")]
    text: Annotated[str, doc("What it holds.")]


class Launch(Struct, kw_only=True):
    """The launch command of what was estimated."""

    command: Annotated[str, doc("The command.")]
    placeholder: Annotated[
        str | None,
        doc(
            "What to replace in the command before it can run: a checkpoint that is not known"
            " here, the address of the first of several machines (HEAD_NODE_IP), the dataset"
            " of a training run; several are joined by `and`. null: it runs as it stands."
        ),
    ] = None
    nodes: Annotated[
        int,
        doc(
            "Machines it runs on; `assumed` says how many GPUs each has, and what to start on"
            " the others than the first."
        ),
    ] = 1
    kubernetes: Annotated[
        str | UnsetType | None,
        doc(
            "With `detail` full, of a serving engine: a Deployment and a Service that run the"
            " command, as YAML; null where the engine's project has no image for the GPU, and"
            " for several machines."
        ),
    ] = UNSET
    helm_values: Annotated[
        str | UnsetType | None,
        doc(
            "With `detail` full, of a serving engine: values of the Helm chart that its first"
            " line names, as YAML; null where the engine's project has none, or none that runs"
            " the command."
        ),
    ] = UNSET
    files: Annotated[
        list[LaunchFile] | UnsetType,
        doc(
            "With `detail` full, of a training tool that reads them: the settings of the"
            " command as configuration files, for `file_command`."
        ),
    ] = UNSET
    file_command: Annotated[str | UnsetType, doc("The command that reads `files`.")] = UNSET


class Suggestion(Struct, kw_only=True):
    """A re-estimated change: the request to send and its result."""

    change: Annotated[str, doc("What to change, in words.")]
    verdict: Annotated[Verdict, doc("The verdict with the change.")]
    required_bytes: Annotated[int, doc("What the fullest GPU needs with the change.")]
    request: Annotated[
        dict[str, str | int | float | bool],
        doc("Fields to send with the request, in place of its own."),
    ]
    launch: Annotated[Launch | None, doc("How to start it; null unless it fits or is tight.")] = (
        None
    )
    host_memory: Annotated[HostMemory | None, doc("Null where nothing is offloaded.")] = None
    tokens_per_second_per_request: Annotated[
        DecodeSpeed | None,
        doc(
            "Speed of one answer, modelled, where part of the weights lies in host memory; else"
            " null."
        ),
    ] = None


class RankAnswer(Struct, kw_only=True):
    """One pipeline stage: its terms add up to `required_bytes`."""

    stage: Annotated[int, doc("Index of the stage, from 0.")]
    layers: Annotated[int, doc("Layers of the stage.")]
    gpu: Annotated[str | None, doc("Its GPU, where they are of several kinds.")] = None
    verdict: Annotated[
        Literal["fits", "tight", "does_not_fit"],
        doc("Of this stage alone; the fullest decides the answer."),
    ]
    required_bytes: Annotated[Bytes, doc("What a GPU of the stage needs.")]
    headroom_bytes: Annotated[int, doc("As in per_gpu, of this stage.")]
    terms: Annotated[
        list[TermAnswer],
        doc("The terms, the largest first; with `terms_of` those that differ from that stage's."),
    ]
    terms_of: Annotated[
        int | UnsetType, doc("Of many stages: the one that has the other terms, equal to the byte.")
    ] = UNSET


class Assumption(Struct, frozen=True):
    """The value assumed for a field that the request leaves out."""

    field: Annotated[str, doc("The field that is left out.")]
    value: Annotated[str | int | float | bool, doc("The value taken.")]
    message: Annotated[str, doc("The same in words.")]
