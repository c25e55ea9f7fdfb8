"""The seven tools: what each is for, its parameters, and the request that it fills.

A face holds at most eight parameters; every other field of the request goes into `options`."""

from collections.abc import Mapping
from typing import Literal, NamedTuple

from msgspec import Struct

from fitgauge.engine.serving.registry import ENGINES
from fitgauge.services.common.schemas import FitRequest
from fitgauge.services.compare.schemas import CompareRequest
from fitgauge.services.explain_log.schemas import ExplainLogRequest
from fitgauge.services.models_for_gpu.schemas import ModelsForGpuRequest
from fitgauge.services.recommend.schemas import RecommendRequest
from fitgauge.services.training_fit.schemas import TrainingRequest
from fitgauge.services.training_plan.schemas import TrainingPlanRequest

OPTIONS = "options"
"""The parameter that takes every field beyond the face, as `key=value, key=value`."""

Kind = Literal["string", "integer", "number"]


class Parameter(NamedTuple):
    """One parameter of a face."""

    name: str
    """The name."""
    description: str
    """What it is, with examples."""
    type: Kind = "string"
    """Its JSON type."""


class Tool(NamedTuple):
    """One tool."""

    name: str
    """The operation."""
    description: str
    """The question that it answers."""
    request: type[Struct]
    """What the service takes."""
    parameters: tuple[Parameter, ...]
    """The face, without `options`."""
    required: tuple[str, ...]
    """Parameters that must be sent."""
    example: Mapping[str, str]
    """The least to send."""
    options: str = ""
    """Examples of options; empty for a tool that takes none."""
    asks_hub: bool = True
    """Whether a model's facts may come from the Hub."""
    training: str = ""
    """The tool that answers where the arguments are those of a training."""


_MODEL = Parameter("model", "Hugging Face ID, a usual name (llama 3.3 70b), or a size (7b).")
_GPU = Parameter("gpu", "Name or memory: RTX 4090, 2x A100 80GB, 24GB.")
_GPU_OR_NONE = Parameter(_GPU.name, f"{_GPU.description} Leave out to learn what is needed.")
_COUNT = Parameter("gpu_count", "Number of GPUs.", "integer")
_QUANTIZATION = Parameter(
    "quantization", "Weight format: awq, fp8, int4, q4_k_m, bf16. Default: as published."
)
_CONTEXT = Parameter("context_length", "Tokens per request. Default 8192.", "integer")
_CONCURRENCY = Parameter("concurrency", "Requests at once. Default 1.", "integer")
_ENGINE = Parameter("engine", f"{', '.join(sorted(ENGINES))}. Default: the GPU's usual one.")
_METHOD = Parameter("method", "lora, qlora or full.")
_SEQUENCE = Parameter("sequence_length", "Tokens of a sequence. Default 2048.", "integer")

TOOLS: dict[str, Tool] = {
    tool.name: tool
    for tool in (
        Tool(
            "check_fit",
            "Will this model fit on this GPU (VRAM) when it is served, and if not, what will?"
            " Without gpu: how much GPU memory the model needs.",
            FitRequest,
            (_MODEL, _GPU_OR_NONE, _COUNT, _QUANTIZATION, _CONTEXT, _CONCURRENCY, _ENGINE),
            ("model",),
            {"model": "Qwen/Qwen3-32B", "gpu": "RTX 4090"},
            "kv_cache_dtype=fp8, max_num_seqs=64",
            training="check_training_fit",
        ),
        Tool(
            "check_training_fit",
            "Will this model fit on this GPU (VRAM) when it is trained or fine-tuned, and if not,"
            " what will? Without gpu: how much GPU memory it needs.",
            TrainingRequest,
            (
                _MODEL,
                _GPU_OR_NONE,
                _COUNT,
                Parameter("method", "lora, qlora or full. Default: the first that fits."),
                _SEQUENCE,
                Parameter(
                    "micro_batch_size", "Sequences per GPU and forward pass. Default 1.", "integer"
                ),
                Parameter("trainer", "trl (default), unsloth, axolotl, llama-factory, verl, ..."),
            ),
            ("model",),
            {"model": "Qwen/Qwen3-8B", "gpu": "RTX 4090"},
            "optimizer=adamw_8bit, zero_stage=3",
        ),
        Tool(
            "recommend_gpus",
            "Which GPUs, and how many, should this model be served or trained on? Gives the"
            " smallest, the cheapest and the fastest that fit, with prices.",
            RecommendRequest,
            (
                _MODEL,
                Parameter("task", "serving (default) or training."),
                Parameter("gpus", "Only these, comma-separated: 2x L40S, RTX 4090."),
                Parameter("max_usd_per_hour", "Budget in US dollars an hour.", "number"),
                _QUANTIZATION,
                _CONTEXT,
                _CONCURRENCY,
                _METHOD,
            ),
            ("model",),
            {"model": "Qwen/Qwen3-32B"},
            "objective=cheapest, clouds=aws",
        ),
        Tool(
            "list_models_that_fit",
            "Which models can this GPU serve, or fine-tune? The most capable first, only those"
            " that fit.",
            ModelsForGpuRequest,
            (
                _GPU,
                _COUNT,
                Parameter("task", "serving (default) or training."),
                Parameter("search", "Words of the models' names: qwen3."),
                _CONTEXT,
            ),
            ("gpu",),
            {"gpu": "RTX 3090"},
            "quantizations=awq, engine=ollama",
            asks_hub=False,
        ),
        Tool(
            "compare_fit",
            "Which of these models fit on which of these GPUs? A table with one verdict a cell;"
            " also formats and contexts.",
            CompareRequest,
            (
                Parameter("models", "Comma-separated: Qwen/Qwen3-32B, 70b."),
                Parameter("gpus", "Comma-separated: RTX 4090, 2x L40S."),
                Parameter("quantizations", "Comma-separated: fp8, awq. Default: as published."),
                Parameter("context_lengths", "Comma-separated: 8192, 32768. Default 8192."),
            ),
            ("models", "gpus"),
            {"models": "Qwen/Qwen3-32B, Qwen/Qwen3-8B", "gpus": "RTX 4090, H100"},
            "engines=vllm, concurrencies=8",
        ),
        Tool(
            "plan_training",
            "How to lay out the training of this model on this many GPUs: framework, ZeRO,"
            " parallelism, batch and the launch command.",
            TrainingPlanRequest,
            (
                _MODEL,
                _GPU,
                _COUNT,
                _METHOD,
                _SEQUENCE,
                Parameter(
                    "global_batch_size", "Sequences per optimizer step. Default 128.", "integer"
                ),
            ),
            ("model", "gpu"),
            {"model": "meta-llama/Llama-3.3-70B-Instruct", "gpu": "H100"},
            "framework=fsdp, max_gpu_count=32",
        ),
        Tool(
            "explain_log",
            "Why did it run out of GPU memory (CUDA OOM), or how is memory used? Reads a start-up"
            " log or an out-of-memory message and says what to change.",
            ExplainLogRequest,
            (
                Parameter("log", "The log or the message, as printed."),
                _MODEL,
                _GPU,
                Parameter("command", "The launch command."),
            ),
            ("log",),
            {"log": "CUDA out of memory. Tried to allocate 2.00 GiB.", "gpu": "RTX 4090"},
        ),
    )
}


def option_keys(tool: Tool) -> list[str]:
    """Return the fields that `options` takes: those of the request that the face lacks."""
    face = {parameter.name for parameter in tool.parameters}
    hidden = {"detail", "limit"}
    return [name for name in tool.request.__struct_fields__ if name not in face | hidden]
