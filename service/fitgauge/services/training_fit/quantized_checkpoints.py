"""Training that starts from a checkpoint which is quantized itself."""

from collections.abc import Iterator, Mapping

from msgspec import structs

from fitgauge.engine.accelerator import Accelerator
from fitgauge.engine.model.model import Model
from fitgauge.engine.model.spec import ModelSpec
from fitgauge.engine.note import Note
from fitgauge.engine.quantization.published import published
from fitgauge.engine.quantization.requested import BITSANDBYTES, canonical_name
from fitgauge.engine.training.workload import TrainingWorkload
from fitgauge.services.training_fit.launchers.registry import tool_of
from fitgauge.services.training_fit.rl_setup import asked_framework
from fitgauge.services.training_fit.schemas import TrainingRequest

_PACKED: Mapping[tuple[str, int], str] = {
    ("awq", 4): "awq",
    ("gptq", 4): "gptq",
    ("gptq", 8): "gptq_int8",
}
"""Formats that PEFT trains adapters on, by their bits, as a request names them (PEFT's developer
guide on quantization)."""

_QLORA_BASES = ("nf4", "nf4_double", "fp4")
_FP8 = "fp8"
_LEAST_FP8 = (8, 9)


def as_published(
    request: TrainingRequest,
    method: str,
    spec: ModelSpec,
    accelerator: Accelerator | None = None,
    count: int = 2,
) -> TrainingRequest:
    """Return the request with the format of a quantized checkpoint, where adapters are trained and
    none is sent, or the checkpoint's own: they are trained on the weights as they are loaded.

    accelerator, count: the GPUs, None and several where they are open."""
    if _says_bits_alone(request.quantization) and method != "full":
        # of weights in 16 bit, which the command's library quantizes; QLoRA's own by default
        request = structs.replace(request, quantization=None if method == "qlora" else "nf4")
    sent, stored = request.quantization, published(spec)
    in_fp8 = stored is not None and stored.name == _FP8
    if method == "full" or (sent and not (in_fp8 and canonical_name(sent) == _FP8)):
        return request
    base = base_of(spec)
    if in_fp8 and method != "qlora" and count == 1 and _trains_on_fp8(request, spec, accelerator):
        base = _FP8
    return request if base == sent else structs.replace(request, quantization=base)


def asks_qlora(request: TrainingRequest) -> bool:
    """Return whether a request without a method names the 4 bits of QLoRA's base."""
    sent = request.quantization
    return sent is not None and (_says_bits_alone(sent) or canonical_name(sent) in _QLORA_BASES)


def _says_bits_alone(quantization: str | None) -> bool:
    return quantization is not None and canonical_name(quantization) == "int4"


def _trains_on_fp8(
    request: TrainingRequest, spec: ModelSpec, accelerator: Accelerator | None
) -> bool:
    """Return whether transformers trains adapters on an FP8 checkpoint as it is stored: on GPUs
    that multiply FP8, on others it makes 16 bit of it (quantizers/quantizer_finegrained_fp8.py,
    validate_environment; integrations/finegrained_fp8.py, FP8LinearFunction). What shards it is
    not known to keep it."""
    method = (spec.quantization or {}).get("quant_method")
    if accelerator is None or method != _FP8 or asked_framework(request) != "transformers":
        return False
    tool, capability = tool_of(request), accelerator.compute_capability
    by_transformers = tool is None or tool.loads_by_transformers
    return by_transformers and capability is not None and capability >= _LEAST_FP8


def base_of(spec: ModelSpec) -> str | None:
    """Return the format that a model is published in, as a base of adapters; None for one that is
    not quantized, or in which no library trains them."""
    scheme = published(spec)
    if scheme is None or scheme.name in BITSANDBYTES:
        return None if scheme is None else scheme.name
    bits = (spec.quantization or {}).get("bits")
    return _PACKED.get((scheme.name, bits)) if isinstance(bits, int) else None


def notes(model: Model, workload: TrainingWorkload) -> Iterator[Note]:
    """Yield that the estimate is of 16-bit weights which the checkpoint does not have.

    transformers refuses to train all weights of a quantized model, and GGUF files are for serving
    (trainer_utils.py, validate_quantization_for_training). mxfp4 is loaded as 16 bit
    (Mxfp4Config, dequantize); Megatron's tools convert a checkpoint before it is trained."""
    scheme, stored = published(model.spec), model.stored
    if stored is not None and stored.file_name:
        name = "GGUF"
    elif scheme is None or _is_trained(scheme.name, workload):
        return
    else:
        name = scheme.name
    yield Note(
        "checkpoint-quantized",
        "model",
        f"{model.id} is published in {name}, which this does not train: counted from 16-bit"
        " weights. Name the model that it was made from, which the command needs.",
    )


def _is_trained(name: str, workload: TrainingWorkload) -> bool:
    """Return whether a checkpoint in this format is trained: adapters on it as a base, or all of
    what its loader makes 16 bit."""
    if name == "mxfp4" or (name == "fp8" and workload.framework == "megatron"):
        return True
    return workload.uses_adapters and workload.base_quantization is not None
