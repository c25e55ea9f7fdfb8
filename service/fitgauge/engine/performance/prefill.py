"""How fast a prompt is read at most: multiplication sets the pace, and what tensor parallelism
exchanges comes on top of it."""

from typing import Annotated

import msgspec

from fitgauge.engine.accelerator import Accelerator
from fitgauge.engine.model.spec import ModelSpec, Part
from fitgauge.engine.performance.flops import (
    Arithmetic,
    attention_flops,
    multiplied_parameters,
    peak_tflops,
)
from fitgauge.engine.quantization.scheme import Scheme
from fitgauge.field_docs import doc

COMPUTE_EFFICIENCY = (0.36, 0.48, 0.56)
"""Share of a GPU's dense peak that multiplication really gets under load: low, expected, high.

Calibrated: 10th percentile, median and 90th percentile of 21 published single-GPU runs of dense
models: throughputs of 2,048 tokens in and 128 out (TensorRT-LLM on A100, L40S, H100, H200, B200,
GB200, RTX PRO 6000) and times to a first token (vLLM on RTX PRO 6000 Max-Q), in
tools/accuracy/speeds.jsonl; a test holds them to the rows. Engines and GPUs that are not among
them may lie outside."""

EXPERT_EFFICIENCY = (0.07, 0.21, 0.43)
"""The same of mixtures of experts, over the parameters that a token visits: 7 runs of Mixtral
8x7B, Qwen3-30B-A3B and Qwen3.6-35B-A3B. The smaller the share of experts a token visits, the
thinner the matrices."""

LINK_EFFICIENCY = 0.7
"""Share of a link's one-way rate that the all-reduces of tensor parallelism get. Calibrated: of
all tenths the one with the least largest error over the 17 rows of several GPUs in the same
file."""

PCIE_GBPS = 32.0
"""10^9 bytes a second, one direction, of GPUs whose link is not known: PCIe 4.0 x16. Source:
PCI-SIG, 16 GT/s x 16 lanes."""

_STEPS = 8


class Seconds(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A time as an interval."""

    low: Annotated[float, doc("Lower end of the interval [s].")]
    expected: Annotated[float, doc("Expected time [s].")]
    high: Annotated[float, doc("Upper end of the interval [s].")]


def activated(scheme: Scheme) -> Arithmetic:
    """Return what an engine multiplies this scheme in, on a GPU that can: the narrow format only
    where activations are narrow too.

    fp8 and int8_channel (W8A8) and nvfp4 (W4A4) have narrow activations; integer weights of 4
    bit, GGUF blocks, nf4 and mxfp4 are widened to 16 bit first. Source: vLLM layers/quantization
    (fp8.py, compressed_tensors, modelopt.py, gptq_marlin.py, awq_marlin.py); Marlin widens fp8
    and fp4 on GPUs without them."""
    name = scheme.form.name if scheme.form else ""
    return next((narrow for prefix, narrow in _NARROW if name.startswith(prefix)), "fp16")


_NARROW: tuple[tuple[str, Arithmetic], ...] = (
    ("fp8", "fp8"),
    ("mxfp8", "fp8"),
    ("int8_channel", "int8"),
    ("nvfp4", "fp4"),
)


def multiplied(narrow: Arithmetic, accelerator: Accelerator) -> Arithmetic:
    """`narrow` where the GPU multiplies it, else 16 bit."""
    return narrow if narrow in (accelerator.formats or ()) else "fp16"


def peak(scheme: Scheme, accelerator: Accelerator) -> float | None:
    """10^12 dense operations a second of this scheme on such a GPU; the 16-bit rate where the
    narrow one is not stated, None where neither is."""
    return peak_of(activated(scheme), accelerator)


def peak_of(narrow: Arithmetic, accelerator: Accelerator) -> float | None:
    """Return the same of all schemes whose activations are of this format."""
    return peak_tflops(accelerator, multiplied(narrow, accelerator)) or peak_tflops(
        accelerator, "fp16"
    )


def prompt_flops(spec: ModelSpec, tokens: int) -> float:
    """Return the operations of reading a prompt of so many tokens: tokens x (2 N + attention), and
    the head once.

    N: parameters a token is multiplied with, without the head, which prices the last token
    alone. A token attends to those before it: the mean over the prompt is taken at eight evenly
    spread places, exact for full attention, close for windows. Source: as
    engine/performance/flops.py; vLLM v1/worker/gpu_model_runner.py takes the logits of the last
    token of a prompt only."""
    head = spec.vocabulary_size * spec.hidden_size if spec.task == "generate" else 0
    places = [max(1, tokens * (2 * step + 1) // (2 * _STEPS)) for step in range(_STEPS)]
    attention = sum(
        len(block.layers) * sum(attention_flops(mixer, place) for place in places) / _STEPS
        for block in spec.blocks
        if block.part in (Part.LANGUAGE, Part.ENCODER)
        for mixer in block.mixers
    )
    return tokens * (2.0 * (multiplied_parameters(spec) - head) + attention) + 2.0 * head


def compute_efficiency(spec: ModelSpec) -> tuple[float, float, float]:
    """Return the share of the peak that reading prompts gets: low, expected, high."""
    return EXPERT_EFFICIENCY if spec.has_experts else COMPUTE_EFFICIENCY


def exchanged_bytes(spec: ModelSpec, tokens: int, tensor_parallel: int) -> float:
    """Return bytes through one GPU's link for so many tokens: two all-reduces a layer of hidden
    16-bit numbers, 2 (t - 1) / t of each in a ring.

    Source: Megatron-LM, arXiv 1909.08053, section 3 (two all-reduces in a forward pass of a layer).
    """
    return (
        2.0
        * tokens
        * spec.layers
        * spec.hidden_size
        * 2
        * 2
        * (tensor_parallel - 1)
        / tensor_parallel
    )


def prefill_seconds(
    flops: float,
    exchanged: float,
    *,
    tensor_parallel: int,
    peak: float,
    link_gbps: float | None,
    read_seconds: float = 0.0,
    efficiency: tuple[float, float, float] = COMPUTE_EFFICIENCY,
) -> Seconds:
    """Return the time of one prompt alone: flops / (tensor ranks x peak x efficiency) + exchanged /
    link, and never less than reading the weights.

    Pipeline stages follow each other, so they are no faster than one. peak: 10^12 operations a
    second of one GPU; link_gbps: 10^9 bytes a second, one direction; read_seconds: of the
    weights, once. Waiting in a queue and the server's own work are left out."""
    multiplied = flops / (tensor_parallel * peak * 1e12)
    moved = exchanged / ((link_gbps or PCIE_GBPS) * 1e9 * LINK_EFFICIENCY)
    slow, expected, fast = (
        round(max(multiplied / share, read_seconds) + moved, 4) for share in efficiency
    )
    return Seconds(low=fast, expected=expected, high=slow)
