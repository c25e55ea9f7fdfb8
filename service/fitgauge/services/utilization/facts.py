"""What a question comes to before it is put into words: rates of one GPU."""

import re
from dataclasses import dataclass

from fitgauge.catalog.gpu_match import GpuMatch
from fitgauge.engine.accelerator import Accelerator
from fitgauge.engine.model.model import Model
from fitgauge.engine.performance import flops as engine
from fitgauge.engine.performance.flops import Arithmetic, TokenFlops
from fitgauge.errors import InvalidRequestError
from fitgauge.services.utilization.schemas import UtilizationRequest

DEFAULT_SEQUENCE = 2048

_ARITHMETIC: dict[str, Arithmetic] = {
    "bf16": "bf16", "bfloat16": "bf16", "mixedbf16": "bf16", "fp16": "fp16", "float16": "fp16",
    "half": "fp16", "mixedfp16": "fp16", "tf32": "tf32", "tensorfloat32": "tf32",
    "fp8": "fp8", "float8": "fp8", "fp4": "fp4", "nvfp4": "fp4", "mxfp4": "fp4", "int8": "int8",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class RunFacts:
    """What a question comes to before it is put into words."""

    precision: Arithmetic
    """The arithmetic of the run."""
    gpus: int
    """GPUs of the run."""
    sequence_length: int
    """Tokens of a sequence."""
    peak: float | None
    """Dense peak of one GPU [TFLOPS]; None where it is unknown and not needed."""
    tokens_per_second: float | None
    """Measured throughput of one GPU; None without one."""
    flops: TokenFlops | None
    """Operations of a token; None without a model."""
    achieved: float | None
    """Operations of the model alone on one GPU [TFLOPS]; None without a throughput."""
    mfu: float | None
    """Model FLOPs utilization, 0 to 1."""
    hfu: float | None
    """Hardware FLOPs utilization, 0 to 1."""


def run_facts(request: UtilizationRequest, model: Model | None, match: GpuMatch) -> RunFacts:
    """Return every rate that the question gives or that follows from it."""
    precision = _arithmetic(request.precision, match.accelerator)
    gpus = request.gpu_count or match.count
    sequence_length = request.sequence_length or DEFAULT_SEQUENCE
    tokens = request.tokens_per_second
    if request.samples_per_second is not None:
        if tokens is not None:
            raise InvalidRequestError(
                "`tokens_per_second` and `samples_per_second` exclude each other.",
                hint="Send one of them.",
                field="samples_per_second",
                code="conflicting-fields",
            )
        tokens = request.samples_per_second * sequence_length
    if (
        tokens is None
        and request.achieved_tflops is None
        and not (request.token_budget and request.mfu)
    ):
        hint = (
            "Send achieved_tflops (of one GPU), or model and tokens_per_second (of all GPUs), or"
            " token_budget with model and mfu."
        )
        raise InvalidRequestError(
            "The request has no measured throughput and no token budget.",
            hint=hint,
            field="achieved_tflops",
            code="missing-field",
        )
    tokens_each = tokens / gpus if tokens is not None else None
    flops = None
    if model is not None:
        frozen = (request.method or "full") != "full"
        checkpointing = request.activation_checkpointing or "none"
        flops = engine.token_flops(
            model.spec, sequence_length, checkpointing=checkpointing, frozen_base=frozen
        )
    achieved = request.achieved_tflops
    if achieved is None and tokens_each is not None and flops is not None:
        achieved = engine.achieved_tflops(tokens_each, flops.model)
    needed = (
        achieved is not None or request.token_budget is not None or request.zero_stage is not None
    )
    peak = request.peak_tflops or engine.peak_tflops(match.accelerator, precision)
    if peak is None and needed:
        raise _no_peak(match.accelerator, precision)
    mfu = engine.utilization(achieved, peak) if achieved is not None and peak is not None else None
    hfu = mfu * flops.hardware / flops.model if mfu is not None and flops is not None else None
    return RunFacts(precision, gpus, sequence_length, peak, tokens_each, flops, achieved, mfu, hfu)


def _arithmetic(text: str | None, accelerator: Accelerator) -> Arithmetic:
    """Return the arithmetic that is meant: bf16, or fp16 on hardware without it, where nothing is
    said.

    Raises InvalidRequestError for one whose peak no catalog row states.
    """
    if text is None:
        return "bf16" if "bf16" in (accelerator.formats or ("bf16",)) else "fp16"
    arithmetic = _ARITHMETIC.get(re.sub(r"[^a-z0-9]", "", text.lower()))
    if arithmetic is None:
        hint = (
            "Use bf16, fp16, tf32, fp8, fp4 or int8; for another one send bf16 and its peak as"
            " `peak_tflops`."
        )
        raise InvalidRequestError(
            f"Unknown precision {text.strip()!r}.",
            hint=hint,
            field="precision",
            code="unknown-value",
        )
    return arithmetic


def _no_peak(accelerator: Accelerator, precision: Arithmetic) -> InvalidRequestError:
    formats = accelerator.formats
    is_stated = precision != "tf32" or accelerator.compute_capability is not None
    if formats is not None and precision not in formats and is_stated:
        why = (
            f"The {accelerator.name} does not support {precision}; it supports"
            f" {', '.join(formats) or 'none of these formats'}."
        )
        return InvalidRequestError(
            why,
            hint="Send another `precision`, or its peak as `peak_tflops`.",
            field="precision",
            code="unsupported",
        )
    detail = f"The {precision} peak of the {accelerator.name} is not in the catalog."
    return InvalidRequestError(
        detail,
        hint="Send `peak_tflops`: the dense figure of the vendor's data sheet, without sparsity.",
        field="peak_tflops",
        code="missing-field",
    )
