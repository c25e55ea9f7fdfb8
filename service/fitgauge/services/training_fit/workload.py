"""Turn a training request into a TrainingWorkload: fill in defaults, refuse impossible settings."""

from math import prod
from typing import Any

from msgspec import structs

from fitgauge.engine.accelerator import Accelerator
from fitgauge.engine.model.spec import ModelSpec
from fitgauge.engine.quantity import GIB
from fitgauge.engine.quantization.formats import GGUF_FILE_BITS
from fitgauge.engine.quantization.requested import UNQUANTIZED, canonical_name
from fitgauge.engine.training.parallel.validate import check
from fitgauge.engine.training.releases import loads_base_whole
from fitgauge.engine.training.states.parameters import linears, merged, units
from fitgauge.engine.training.workload import Framework, Loss, Method, Offload, TrainingWorkload
from fitgauge.errors import InvalidRequestError
from fitgauge.services.common.gpu_count import sent_count
from fitgauge.services.common.unsupported import impossible_degrees
from fitgauge.services.training_fit import megatron, parsing
from fitgauge.services.training_fit.images import image_tokens, images
from fitgauge.services.training_fit.launchers.registry import tool_of, tool_running
from fitgauge.services.training_fit.rl_parsing import algorithm as parse_algorithm
from fitgauge.services.training_fit.rl_setup import (
    asked_framework,
    asked_length,
    default_micro_batch,
)
from fitgauge.services.training_fit.schemas import TrainingRequest

DEFAULT_SEQUENCE = 2048
_BASES = ("nf4", "nf4_double", "fp4", "int8", "gptq", "awq")
"""PEFT's developer guide on quantization."""
_ZERO: dict[Framework, int] = {"fsdp": 3, "deepspeed": 2, "megatron": 1, "transformers": 0}
"""Default stages. NeMo and ms-swift turn on Megatron's distributed optimizer. Only ZeRO-3 offloads
parameters."""

_SETTINGS = tuple(
    name for name in TrainingRequest.__struct_fields__ if name in TrainingWorkload.__struct_fields__
)


def _loss(request: TrainingRequest, spec: ModelSpec) -> Loss:
    """Return how the loss is computed: over whole logits where the tool fuses it with the head for
    other algorithms alone (LLaMA-Factory's loader.py: require_logits of all stages but sft). An
    encoder learns classes, which have no logits to speak of, unless a loss is sent."""
    if spec.task == "encode" and request.loss is None:
        return "none"
    algorithm, sent = parse_algorithm(request.algorithm), request.loss or "full"
    if algorithm == "sft" or sent in ("full", "in_place"):
        return sent
    tool = tool_running(request, algorithm)
    takes = {"fused": tool.fuses_loss, "chunked": tool.chunks_loss}.get(sent, ())
    return sent if algorithm in takes else "full"


def puts_base_whole(request: TrainingRequest) -> bool:
    """Return whether what loads a bitsandbytes base puts it whole on every GPU first."""
    tool = tool_of(request)
    by_transformers = tool is not None and tool.loads_by_transformers
    return by_transformers and loads_base_whole(request.transformers_version)


def _expert_adapters(request: TrainingRequest, spec: ModelSpec, method: str) -> dict[str, bool]:
    """Return whether routed experts get adapters, and how: PEFT adds their product to a copy of the
    weights, and takes neither dropout nor DoRA (tuners/lora/layer.py, ParamWrapper)."""
    tool, targets = tool_of(request), parsing.targets(request.lora_targets)
    apart = tool is not None and tool.applies_expert_adapters
    if not request.lora_experts or not spec.routed_experts or targets == "attention":
        return {}
    if method not in ("lora", "qlora") or request.lora_dropout:
        if apart or method == "full":  # where they are the default
            return {}
        raise InvalidRequestError(
            "PEFT has neither dropout nor DoRA for adapters on experts.",
            hint="Send lora_dropout 0 and method lora or qlora, or leave lora_experts out.",
            field="lora_experts",
        )
    return {"lora_experts": True, "merged_expert_adapters": not apart}


def training_workload(request: TrainingRequest, spec: ModelSpec, count: int) -> TrainingWorkload:
    """Return the TrainingWorkload of a request on `count` GPUs. Raises InvalidRequestError where it
    is impossible."""
    method, framework = parsing.method(request.method), asked_framework(request)
    tensor = request.tensor_parallel or 1
    pipeline = request.pipeline_parallel or 1
    context = request.context_parallel or 1
    data = request.data_parallel or max(1, count // (tensor * pipeline * context))
    length = asked_length(request) or _usual_length(request, spec)
    request_images = images(request, spec, length, uses_adapters=method != "full")
    micro_batches = request.micro_batches or (pipeline if framework == "fsdp" else 1)
    micro_batch_size = request.micro_batch_size or default_micro_batch(request, micro_batches, data)
    mean = request.mean_sequence_length
    varied = mean is not None and mean < length
    derived: dict[str, Any] = {
        "method": method,
        "framework": framework,
        "precision": parsing.precision(request.precision, method),
        "optimizer": parsing.optimizer(request.optimizer),
        "sequence_length": length,
        "lora_targets": parsing.targets(request.lora_targets),
        "quantization": request.quantization if method != "full" else None,
        "loss": _loss(request, spec),
        "loads_whole": puts_base_whole(request),
        "lora_experts": False,
        **_expert_adapters(request, spec, method),
        "offload": _offload(request, framework),
        "zero_stage": _zero_stage(request, framework, pipeline, data * context),
        "tensor_parallel": tensor,
        "sequence_parallel": megatron.sequence_parallel(request, spec, framework, tensor),
        "pipeline_parallel": pipeline,
        "pipeline_chunks": megatron.chunks(request),
        "micro_batches": micro_batches,
        "micro_batch_size": micro_batch_size,
        "padded": (
            varied and micro_batch_size > 1 and not request.packed
            if request.padded is None
            else request.padded
        ),
        "context_parallel": context,
        "data_parallel": data,
        "fsdp_version": request.fsdp_version
        or (2 if method == "full" or context > 1 or tensor > 1 else 1),
        "images": request_images.number,
        "image_tokens": request_images.tokens,
        "train_vision_tower": request_images.train_vision_tower,
        "recompute_modules": megatron.modules(request, framework),
        "runtime_bytes": None if request.runtime_gib is None else int(request.runtime_gib * GIB),
        "base_precision": request.base_precision or "fp32",
    }
    if framework == "deepspeed" and not trainer_steps(request):
        derived["optimizer_implementation"] = request.optimizer_implementation or "fused"
    workload = TrainingWorkload(**(_sent(request) | derived))
    _refuse_quantized(request, method)
    _refuse_packed(request, workload, spec)
    _refuse(workload, spec, count)
    return workload


def _usual_length(request: TrainingRequest, spec: ModelSpec) -> int:
    """Return the length where none is sent [tokens]: twice as long and so on where the images that
    are sent are no shorter."""
    length, most = DEFAULT_SEQUENCE, spec.max_context_length or DEFAULT_SEQUENCE
    while length <= image_tokens(request, spec) and length < most:
        length *= 2
    return min(length, most)


def _offload(request: TrainingRequest, framework: Framework) -> Offload:
    """Return what waits in host memory. FSDP has one switch for parameters, gradients and states
    (torch/distributed/fsdp/_fully_shard/_fsdp_api.py, CPUOffloadPolicy); verl moves each by
    itself."""
    tool, sent = tool_of(request), request.offload or "none"
    moves = tool is not None and tool.trainer == "verl"
    whole = framework == "fsdp" and sent in ("optimizer", "parameters") and not moves
    return "cpu" if whole else sent


def _zero_stage(request: TrainingRequest, framework: Framework, pipeline: int, ranks: int) -> int:
    """Return the stage that is sent, else what is usual under the framework. ranks: those that may
    shard states."""
    if request.zero_stage is not None:
        return request.zero_stage
    if framework == "megatron" and ranks == 1:
        return 0
    if framework == "deepspeed" and pipeline > 1:
        return 1
    if framework == "deepspeed" and request.offload in ("parameters", "cpu", "nvme"):
        return 3
    if framework == "fsdp" and pipeline > 1:
        return 2  # torchtitan keeps parameters gathered then (distributed/fsdp.py)
    return _ZERO[framework]


def _refuse_packed(request: TrainingRequest, workload: TrainingWorkload, spec: ModelSpec) -> None:
    """Raise InvalidRequestError where rows of packed samples cannot be what is trained on."""
    is_sft = parse_algorithm(request.algorithm) == "sft" and spec.task == "generate"
    if workload.packed and (not is_sft or workload.images or workload.padded):
        raise InvalidRequestError(
            "Rows of packed samples are text for supervised training, without padding.",
            hint="Leave packed out, or send algorithm sft, images 0 and no padded.",
            field="packed",
        )


def _refuse_quantized(request: TrainingRequest, method: Method) -> None:
    """Raise InvalidRequestError where all weights are trained and quantized ones are sent."""
    sent = request.quantization
    if method != "full" or sent is None or canonical_name(sent) in UNQUANTIZED:
        return
    raise InvalidRequestError(
        f"Full training cannot update {sent.strip()} weights.",
        hint="Send method qlora, or leave quantization out.",
        field="quantization",
    )


def trainer_steps(request: TrainingRequest) -> bool:
    """Return whether transformers' Trainer makes the optimizer under DeepSpeed, since the tool's
    configurations name none; DeepSpeed's own AdamW is fused."""
    tool = tool_of(request)
    return tool is not None and tool.steps_under_deepspeed


def _sent(request: TrainingRequest) -> dict[str, Any]:
    """Return the settings that a request sends and a workload has, by name; those left out have
    the workload's defaults."""
    values = ((name, getattr(request, name)) for name in _SETTINGS)
    return {name: value for name, value in values if value is not None}


def _refuse(workload: TrainingWorkload, spec: ModelSpec, count: int) -> None:
    """Raise InvalidRequestError for impossible degrees, with the values that work."""
    check(spec, workload)
    _refuse_base(workload, spec)
    if workload.loss == "none" and spec.task != "encode":
        raise InvalidRequestError(
            "loss none is that of an encoder, which learns classes.",
            hint="Leave loss out, or send algorithm reward for a head of one number.",
            field="loss",
        )
    if workload.fp8_parameters and (
        workload.precision != "fp8" or workload.framework != "megatron"
    ):
        detail = "fp8_parameters requires fp8 training under Megatron (--fp8-param-gather)."
        hint = "Send precision fp8 and framework megatron, or leave fp8_parameters out."
        raise InvalidRequestError(detail, hint=hint, field="fp8_parameters")
    if workload.gpus > count:
        degrees = (
            f"{workload.tensor_parallel} x {workload.pipeline_parallel} x"
            f" {workload.context_parallel} x {workload.data_parallel}"
        )
        hint = (
            f"Send gpu_count {workload.gpus}, or smaller degrees: tensor x pipeline x context x"
            " data parallel is the number of GPUs."
        )
        raise impossible_degrees(
            f"{degrees} parallel ranks need {workload.gpus} GPUs; there are {count}.",
            hint,
            "gpu_count",
        )


def _refuse_base(workload: TrainingWorkload, spec: ModelSpec) -> None:
    """Raise InvalidRequestError for a base that no library trains adapters on, and for adapters
    without a linear layer."""
    if not workload.uses_adapters:
        return
    if (
        workload.quantization is not None
        and canonical_name(workload.quantization).upper() in GGUF_FILE_BITS
    ):
        detail = f"No library trains adapters on GGUF weights ({workload.quantization.strip()})."
        raise InvalidRequestError(
            detail,
            hint=f"Send quantization {', '.join(_BASES)}.",
            field="quantization",
            code="unsupported",
        )
    if not any(
        parameter.adapter for unit in units(spec, workload) for parameter in unit.parameters
    ):
        blocks = (linear.name for block in spec.blocks for linear in linears(block, merged(block)))
        names = sorted({name.removesuffix(".weight").split(".")[-1] for name in blocks})
        detail = "lora_targets matches no linear layer of the model."
        raise InvalidRequestError(
            detail,
            hint=f"Send all_linear, attention, or some of {', '.join(names[:12])}.",
            field="lora_targets",
            code="unknown-value",
        )


def training_gpus(request: TrainingRequest, named: int) -> int:
    """Return the number of GPUs: the larger of gpu_count and the count in the name ("2x4090"), else
    the product of the degrees."""
    degrees = (
        request.tensor_parallel,
        request.pipeline_parallel,
        request.context_parallel,
        request.data_parallel,
    )
    return sent_count(request.gpu_count, named) or prod(degree or 1 for degree in degrees)


def in_its_formats(request: TrainingRequest, accelerator: Accelerator) -> TrainingRequest:
    """Return the request with mixed_fp16 where precision is unset, or bf16 by a default, and the
    GPU has no bf16."""
    formats, precision = accelerator.formats, request.precision
    if formats is None or "bf16" in formats or not (precision or "bf16").endswith("bf16"):
        return request
    return structs.replace(request, precision="mixed_fp16")
