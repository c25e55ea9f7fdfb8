"""Every operation of the contract, once: the routes, the OpenAPI document and the tool manifests
are made from this table."""

from dataclasses import dataclass
from typing import Any

from fitgauge.services.common.catalog_status import CatalogState, Readiness
from fitgauge.services.common.gpu_schemas import GpuDetail, GpuList
from fitgauge.services.common.schemas import FitAnswer, FitRequest, Health, ModelDetail
from fitgauge.services.compare.schemas import CompareAnswer, CompareRequest, CompareRow
from fitgauge.services.explain_log.schemas import ExplainLogRequest, LogAnswer
from fitgauge.services.models_for_gpu.schemas import ModelsForGpuAnswer, ModelsForGpuRequest
from fitgauge.services.recommend.schemas import RecommendAnswer, RecommendRequest
from fitgauge.services.training_fit.schemas import TrainingAnswer, TrainingRequest
from fitgauge.services.training_plan.schemas import TrainingPlanAnswer, TrainingPlanRequest
from fitgauge.services.utilization.schemas import UtilizationAnswer, UtilizationRequest


@dataclass(frozen=True)
class Parameter:
    """A path or query parameter: a string, or an integer with bounds."""

    name: str
    where: str
    description: str
    schema: dict[str, Any]
    example: str | int
    required: bool = False


@dataclass(frozen=True)
class Operation:
    """One method on one path. `errors`: the statuses it can answer beside those that every
    operation can. `body_bytes`: the largest body it takes, where that is not the service's.
    `uploads`: media types of files it takes in the place of a question. `row`: what a line of
    NDJSON holds, where a large answer comes so. `weight`: requests that it counts as under the
    rate limit. `queued`: whether it may wait in the queue of long questions, and is refused with
    503 where that is full."""

    id: str
    method: str
    path: str
    summary: str
    description: str
    answer: type
    request: type | None = None
    parameters: tuple[Parameter, ...] = ()
    errors: tuple[int, ...] = ()
    examples: tuple[tuple[str, dict[str, Any]], ...] = ()
    tool: bool = True
    body_bytes: int | None = None
    uploads: tuple[str, ...] = ()
    row: type | None = None
    weight: int = 1
    queued: bool = False


NDJSON = "application/x-ndjson"

UPLOADS = ("application/gzip", "application/octet-stream", "application/x-gzip")

_MODEL_ERRORS = (403, 404, 422, 424)

_TEXT = {"type": "string", "minLength": 1, "maxLength": 200}

_LOG = """\
INFO [core.py:106] Initializing a V1 LLM engine (v0.19.0) with config: model='Qwen/Qwen3-8B', max_seq_len=8192, tensor_parallel_size=1
INFO [arg_utils.py] non-default args: {'gpu_memory_utilization': 0.95, 'max_num_seqs': 1024, 'max_num_batched_tokens': 8192}
INFO [gpu_model_runner.py] Model loading took 15.27 GiB memory and 3.1 seconds
INFO [gpu_worker.py] Available KV cache memory: 57.5 GiB
INFO [kv_cache_utils.py] GPU KV cache size: 418,688 tokens
INFO [gpu_model_runner.py] Graph capturing finished in 5 secs, took 0.96 GiB
"""
"""The figures of a posted log: llm-d-incubation/llm-d-planner#205,
qwen-qwen3-8b--h100-80gb--tp1pp1dp1--8192.log."""

OPERATIONS: tuple[Operation, ...] = (
    Operation(
        id="check_fit",
        method="POST",
        path="/v1/fit",
        summary="Will this model fit on this GPU when it is served?",
        description=(
            "Estimates GPU memory for serving a model by its Hugging Face ID: a verdict, every byte"
            " named, the limits, and the smallest changes that would make it fit."
        ),
        request=FitRequest,
        answer=FitAnswer,
        errors=(400, 413, 415, *_MODEL_ERRORS),
        queued=True,
        examples=(
            ("one card", {"model": "Qwen/Qwen3-32B", "gpu": "RTX 4090"}),
            (
                "four cards, long context",
                {
                    "model": "Qwen/Qwen3-32B",
                    "gpu": "RTX 4090",
                    "gpu_count": 4,
                    "context_length": 32768,
                },
            ),
        ),
    ),
    Operation(
        id="check_training_fit",
        method="POST",
        path="/v1/training-fit",
        summary="Will this model fit on this GPU when it is trained?",
        description=(
            "Estimates GPU memory for training a model: full, LoRA or QLoRA, under transformers,"
            " DeepSpeed, FSDP or Megatron. Gives a verdict, what torch.cuda would count, every byte"
            " named, the largest micro-batch, and what would make it fit."
        ),
        request=TrainingRequest,
        answer=TrainingAnswer,
        errors=(400, 413, 415, *_MODEL_ERRORS),
        weight=5,
        queued=True,
        examples=(
            (
                "full fine-tuning",
                {
                    "model": "meta-llama/Llama-3.1-8B",
                    "gpu": "A100 80GB",
                    "method": "full",
                    "precision": "bf16",
                },
            ),
            (
                "QLoRA on one card",
                {
                    "model": "meta-llama/Llama-3.1-8B",
                    "gpu": "RTX 4090",
                    "method": "qlora",
                    "lora_rank": 16,
                    "sequence_length": 4096,
                },
            ),
        ),
    ),
    Operation(
        id="recommend_gpus",
        method="POST",
        path="/v1/recommend",
        summary="Which GPUs should this model be served or trained on?",
        description=(
            "Searches every card of the catalog in counts of 1 to 16 and the usual formats for what"
            " fits: those that nothing beats in cards, memory, speed, bits a weight and price, each"
            " with its cost, quality and command."
        ),
        request=RecommendRequest,
        answer=RecommendAnswer,
        errors=(400, 413, 415, *_MODEL_ERRORS),
        weight=10,
        queued=True,
        examples=(
            ("any card", {"model": "Qwen/Qwen3-32B", "context_length": 32768, "concurrency": 16}),
            (
                "cards at hand",
                {
                    "model": "70b",
                    "gpus": "4x L40S, 2x RTX 4090",
                    "owned": True,
                    "objective": "most_headroom",
                },
            ),
            (
                "a budget",
                {
                    "model": "70b",
                    "context_length": 32768,
                    "concurrency": 16,
                    "max_usd_per_hour": 12,
                    "objective": "cheapest",
                },
            ),
            (
                "training",
                {
                    "model": "Qwen/Qwen3-8B",
                    "task": "training",
                    "method": "lora",
                    "sequence_length": 4096,
                },
            ),
        ),
    ),
    Operation(
        id="list_models_that_fit",
        method="POST",
        path="/v1/models-for-gpu",
        summary="Which models run on this GPU?",
        description=(
            "Holds every bundled model, as published or in formats of your choice, against a card"
            " and a workload, and lists those that fit or are tight, the largest first, in pages."
        ),
        request=ModelsForGpuRequest,
        answer=ModelsForGpuAnswer,
        errors=(400, 404, 413, 415, 422, 503),
        weight=20,
        queued=True,
        examples=(
            ("one card", {"gpu": "RTX 3090", "task": "generate"}),
            (
                "in 4 bits too",
                {
                    "gpu": "RTX 3090",
                    "quantizations": "as published, awq",
                    "search": "qwen3",
                    "context_length": 16384,
                },
            ),
        ),
    ),
    Operation(
        id="compare_fit",
        method="POST",
        path="/v1/compare",
        summary="Which of these models fit on which of these GPUs?",
        description=(
            "A table of models, GPUs, engines, formats, contexts and concurrencies with a verdict"
            " and the bytes of every cell. Up to 1,000 cells come as JSON, up to 10,000 as NDJSON"
            " (application/x-ndjson), row by row."
        ),
        request=CompareRequest,
        answer=CompareAnswer,
        row=CompareRow,
        errors=(400, 413, 415, *_MODEL_ERRORS),
        weight=20,
        queued=True,
        examples=(
            (
                "models on one machine",
                {
                    "models": "Qwen/Qwen3-32B, Qwen/Qwen3-8B, 70b",
                    "gpus": "2x L40S",
                    "context_lengths": 32768,
                },
            ),
            (
                "formats on two cards",
                {
                    "models": "Qwen/Qwen3-32B",
                    "gpus": "RTX 4090, H100",
                    "quantizations": "as published, fp8, awq",
                },
            ),
        ),
    ),
    Operation(
        id="explain_log",
        method="POST",
        path="/v1/explain-log",
        summary="What does this start-up log say, and how far was the estimate from it?",
        description=(
            "Reads an engine's start-up log, or PyTorch's out-of-memory message, and puts every"
            " term it measured beside its estimate: which differs most, and what caused it. Send"
            " model and gpu where the log does not name them."
        ),
        request=ExplainLogRequest,
        answer=LogAnswer,
        errors=(400, 413, 415, *_MODEL_ERRORS),
        weight=5,
        queued=True,
        examples=(("vLLM on one H100", {"log": _LOG, "gpu": "H100"}),),
        body_bytes=2 * 1024 * 1024,
    ),
    Operation(
        id="plan_training",
        method="POST",
        path="/v1/training-plan",
        summary="Which layouts train this model, on how many GPUs?",
        description=(
            "Searches framework, ZeRO stage, tensor, pipeline, context, expert and data"
            " parallelism, micro-batch and checkpointing for the fewest GPUs, the cheapest or the"
            " fastest; every plan has each stage's bytes and a launch snippet. What is sent is"
            " kept."
        ),
        request=TrainingPlanRequest,
        answer=TrainingPlanAnswer,
        errors=(400, 413, 415, *_MODEL_ERRORS),
        weight=20,
        queued=True,
        examples=(
            (
                "13b under Megatron",
                {"model": "13b", "framework": "megatron", "gpu": "80GB", "sequence_length": 4096},
            ),
            (
                "fastest of 16",
                {"model": "Qwen/Qwen3-8B", "gpu": "H100", "gpu_count": 16, "objective": "fastest"},
            ),
        ),
    ),
    Operation(
        id="explain_utilization",
        method="POST",
        path="/v1/utilization",
        summary="How much of its GPUs does a training run use?",
        description=(
            "MFU and HFU from achieved TFLOPS or a throughput, time and cost of a token budget,"
            " whether ZeRO is bound by communication. Or upload a PyTorch profiler trace (.json.gz"
            " as application/gzip, .json as application/octet-stream) for tensor-core,"
            " communication and idle shares."
        ),
        body_bytes=64 * 1024 * 1024,
        uploads=UPLOADS,
        request=UtilizationRequest,
        answer=UtilizationAnswer,
        errors=(400, 413, 415, *_MODEL_ERRORS),
        examples=(
            ("achieved FLOPs", {"achieved_tflops": 100, "gpu": "A100 80GB", "precision": "fp16"}),
            (
                "throughput",
                {
                    "model": "7b",
                    "gpu": "A100 80GB",
                    "gpu_count": 4,
                    "tokens_per_second": 6144,
                    "published_tokens_per_second": 3300,
                },
            ),
        ),
    ),
    Operation(
        id="get_model",
        method="GET",
        path="/v1/models/{owner}/{name}",
        summary="What is this model made of?",
        description=(
            "Architecture, exact parameter count, stored bytes and cache growth of a Hugging Face"
            " model."
        ),
        answer=ModelDetail,
        parameters=(
            Parameter(
                "owner",
                "path",
                "The user or organisation on the Hub.",
                _TEXT,
                "Qwen",
                required=True,
            ),
            Parameter(
                "name",
                "path",
                "The repository; name@revision and name:file are understood.",
                _TEXT,
                "Qwen3-32B",
                required=True,
            ),
        ),
        errors=_MODEL_ERRORS,
    ),
    Operation(
        id="list_gpus",
        method="GET",
        path="/v1/gpus",
        summary="Which accelerators are known?",
        description=(
            "The accelerators: usable memory as a process sees it, bandwidth, formats, price, with"
            " sources."
        ),
        answer=GpuList,
        parameters=(
            Parameter(
                "limit",
                "query",
                "Rows of a page.",
                {"type": "integer", "minimum": 1, "maximum": 1000, "default": 100},
                10,
            ),
            Parameter(
                "offset",
                "query",
                "Rows to skip.",
                {"type": "integer", "minimum": 0, "maximum": 1_000_000, "default": 0},
                0,
            ),
        ),
        errors=(422,),
    ),
    Operation(
        id="get_gpu",
        method="GET",
        path="/v1/gpus/{id}",
        summary="What is known of this accelerator?",
        description=(
            "One accelerator, by its id or by anything people call it, and where it is rented."
        ),
        answer=GpuDetail,
        parameters=(
            Parameter(
                "id",
                "path",
                "An id of list_gpus, or a name such as RTX 4090.",
                _TEXT,
                "rtx-4090",
                required=True,
            ),
        ),
        errors=(404, 422),
    ),
    Operation(
        id="get_catalog",
        method="GET",
        path="/v1/catalog",
        summary="Which catalog is in force?",
        description=(
            "How many accelerators, names, quotas and instance types are known, and of a catalog"
            " that a company mounts over the bundled one: its files, when they were read, and why"
            " the newest were refused, if they were."
        ),
        answer=CatalogState,
        tool=False,
        errors=(422,),
    ),
    Operation(
        id="health_live",
        method="GET",
        path="/health/live",
        summary="Does the process live?",
        description="Answers as long as the process runs.",
        answer=Health,
        tool=False,
    ),
    Operation(
        id="health_ready",
        method="GET",
        path="/health/ready",
        summary="Can it answer?",
        description=(
            "Answers when the catalog is loaded; the Hub is not asked, because the service answers"
            " without it too. Says whether an own catalog is in force, or refused in its newest"
            " form."
        ),
        answer=Readiness,
        tool=False,
    ),
)
