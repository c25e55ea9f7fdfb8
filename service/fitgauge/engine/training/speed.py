"""How long a step of training takes: what it computes, at the share of a GPU's peak that published
runs reach, and what its layers take besides."""

from collections.abc import Mapping
from math import ceil
from typing import NamedTuple

from fitgauge.engine.accelerator import SERVER_GENERATIONS, Accelerator
from fitgauge.engine.model.spec import ModelSpec
from fitgauge.engine.performance.flops import Arithmetic, peak_tflops, token_flops
from fitgauge.engine.quantity import Basis
from fitgauge.engine.training.parallel.pipeline import bubble_share, imbalance
from fitgauge.engine.training.workload import Method, Precision, TrainingWorkload

EFFICIENCY: Mapping[Method, float] = {"full": 0.69, "lora": 0.62, "dora": 0.62, "qlora": 0.71}
"""Share of the dense peak that a step's multiplications get, those that are computed twice
included; what follows is taken besides. DoRA as LoRA, of which no run is published.

Calibrated with the five figures below: no step of any of them, a hundredth, a tenth of a
millisecond or one read, lowers the mean error (of logarithms, 0.11) over 198 published runs on one
GPU or on GPUs of fast links (A100, H100, B200, GB200, GB300, L40S, RTX 4090; 3B to 671B) in
tools/accuracy/training_speeds.jsonl. tests/accuracy/test_training_speeds.py derives them again."""

SERVER_EFFICIENCY = 0.66
"""The same of NVIDIA's server GPUs since Hopper over that of earlier GPUs: their power does not
feed their peak."""

MIXTURE_EFFICIENCY = 0.81
"""The same of mixtures of experts, over the parameters that a token visits."""

LAYER_SECONDS = 2.5e-3
"""What a layer takes in a micro-batch on top of its multiplications [s], in all passes: kernels
that start one after another."""

DEQUANTIZING_READS = 36
"""How often a micro-batch reads and writes a quantized base as if it were in 16 bit: it is
dequantized in every pass."""

FAST_LINK_GBPS = 100.0
"""10^9 bytes a second, one direction, from which on GPUs count as joined by a fast link."""

SPREAD = (0.82, 1.0, 1.4)
"""Time of a step over the expected one where GPUs have fast links: 5th percentile, median, 95th
percentile of the runs."""

MIXTURE_SPREAD = (0.76, 1.0, 2.0)
"""The same of mixtures of experts, of 25 runs."""

SLOW_LINK_SPREAD = (0.79, 1.1, 2.9)
"""The same of several GPUs without a fast link, of 18 runs over PCIe: weights and gradients that
cross it are not counted by themselves."""

UNMEASURED_SPREAD = (0.5, 1.0, 3.0)
"""The same of GPUs on which no run is published, and of offloading, whose transfers are not
counted. Assumed."""

MEASURED_GENERATIONS = ((8, 0), (8, 6), (8, 9), (9, 0), (10, 0), (10, 3))
"""Compute capabilities of the GPUs of the runs."""

_ARITHMETIC: Mapping[Precision, Arithmetic] = {
    "mixed_bf16": "bf16", "bf16": "bf16", "mixed_fp16": "fp16", "fp8": "fp8",
}  # fmt: skip
"""Without fp32 and int8, of which no run is published."""


class Sequences(NamedTuple):
    """The sequences of one micro-batch as they are computed."""

    length: float
    """Mean length, padding included [tokens]."""
    attended: float
    """Mean length that a token attends to: of sequences that vary, sum of squares over sum
    [tokens]."""


class StepTime(NamedTuple):
    """Seconds of one optimizer step as an interval that holds the truth in nine cases of ten."""

    low: float
    """Lower end of the interval [s]."""
    expected: float
    """Its median [s]."""
    high: float
    """Upper end of the interval [s]."""
    basis: Basis
    """calibrated, or assumed where no such run is published."""
    formula: str
    """The expected time with its numbers."""


def step_time(
    spec: ModelSpec, workload: TrainingWorkload, accelerator: Accelerator, sequences: Sequences
) -> StepTime | None:
    """Return the time of one optimizer step; None where the catalog states no peak or bandwidth for
    the arithmetic.

    = micro-batches x (FLOPs of a micro-batch / (peak x efficiency x GPUs of a replica)
      + layers of a stage x LAYER_SECONDS + dequantizing) x (1 + pipeline bubble)
      x layers of the longest stage over their mean.
    FLOPs: `token_flops`, with recomputation. Leaves out the optimizer's own step, offloading,
    evaluation, checkpoints and waiting for data."""
    peak = peak_flops(workload, accelerator)
    if peak is None or accelerator.bandwidth_gbps is None:
        return None
    flops = token_flops(
        spec,
        ceil(sequences.attended),
        checkpointing=workload.activation_checkpointing,
        frozen_base=workload.uses_adapters,
    )
    sharing = workload.tensor_parallel * workload.pipeline_parallel * workload.context_parallel
    tokens = workload.micro_batch_size * sequences.length
    rate = peak * efficiency(spec, workload, accelerator) * sharing
    layers = spec.layers / workload.pipeline_parallel
    micro_batch = tokens * flops.hardware / rate + layers * LAYER_SECONDS
    formula = f"{tokens:.8g} x {flops.hardware:.8g} / {rate:.8g} + {layers:g} x {LAYER_SECONDS:g}"
    if workload.base_quantization is not None:
        base = 2 * spec.parameters / (workload.tensor_parallel * workload.pipeline_parallel)
        bandwidth = accelerator.bandwidth_gbps * 1e9
        micro_batch += DEQUANTIZING_READS * base / bandwidth
        formula += f" + {DEQUANTIZING_READS} x {base:.8g} / {bandwidth:.8g}"
    waiting = bubble_share(
        workload.pipeline_schedule,
        workload.pipeline_parallel,
        workload.micro_batches,
        workload.pipeline_chunks,
    )
    (low, middle, high), basis = _spread(spec, workload, accelerator)
    longest = imbalance(max(1, spec.layers), workload)
    times = workload.micro_batches * (1 + waiting) * longest
    seconds = times * micro_batch
    return StepTime(
        low=seconds * low,
        expected=seconds * middle,
        high=seconds * high,
        basis=basis,
        formula=f"{times * middle:.8g} x ({formula})",
    )


def peak_flops(workload: TrainingWorkload, accelerator: Accelerator) -> float | None:
    """Return the dense peak in the arithmetic of a workload [1/s]; None where the catalog states
    none."""
    arithmetic = _ARITHMETIC.get(workload.precision)
    peak = None if arithmetic is None else peak_tflops(accelerator, arithmetic)
    return None if peak is None else peak * 1e12


def efficiency(spec: ModelSpec, workload: TrainingWorkload, accelerator: Accelerator) -> float:
    """Return the share of the peak that multiplications get."""
    capability = accelerator.compute_capability
    share = EFFICIENCY[workload.method]
    if capability is not None and capability[0] in SERVER_GENERATIONS:
        share *= SERVER_EFFICIENCY
    return share * MIXTURE_EFFICIENCY if spec.routed_experts else share


def _spread(
    spec: ModelSpec, workload: TrainingWorkload, accelerator: Accelerator
) -> tuple[tuple[float, float, float], Basis]:
    """Return the interval of a step's time over the expected one, and how it is known."""
    is_measured = accelerator.compute_capability in MEASURED_GENERATIONS
    if not is_measured or workload.offload != "none":
        return UNMEASURED_SPREAD, "assumed"
    if workload.gpus > 1 and (accelerator.interconnect_gbps or 0) < FAST_LINK_GBPS:
        return SLOW_LINK_SPREAD, "calibrated"
    return (MIXTURE_SPREAD if spec.routed_experts else SPREAD), "calibrated"
