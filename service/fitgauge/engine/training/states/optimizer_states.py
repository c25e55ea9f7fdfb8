"""Weights, gradients, master weights and optimizer states: bytes of a list of parameters, whole.

What sharding divides is the work of sharding.py; it calls these functions with the parameters
one rank has."""

from collections.abc import Iterable, Sequence

import msgspec

from fitgauge.engine.model.dtypes import BITS, size_of
from fitgauge.engine.model.spec import Kind
from fitgauge.engine.training.states.parameters import Parameter
from fitgauge.engine.training.workload import (
    Optimizer,
    PrecisionPolicy,
    TrainingWorkload,
    precision_policy,
)

_MATRIX_KINDS = (Kind.LINEAR, Kind.EXPERT, Kind.ROUTER, Kind.CONV)
_PRODUCT_KINDS = (Kind.LINEAR, Kind.EXPERT)
"""What Transformer Engine computes in fp8: linears of layers and experts; heads, embeddings and
routers stay in 16 bit."""
_EIGHT_BIT_LEAST = 4096
"""Tensors with fewer elements keep 32-bit states. Source: bitsandbytes optim/optimizer.py,
min_8bit_size."""
_EIGHT_BIT_BLOCK = 256
"""Elements that share one fp32 absmax. Source: bitsandbytes optim/optimizer.py,
Optimizer2State.init_state (blocksize 256)."""
GALORE_RANK = 128
"""Rank of GaLore's projection. Source: transformers trainer_optimizer.py, default of `rank` in
optim_args."""


class States(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """What a list of parameters needs."""

    weights: int
    """Weights [bytes]."""
    gradients: int
    """Gradients [bytes]."""
    master_weights: int
    """fp32 copies that the optimizer steps [bytes]."""
    optimizer_states: int
    """States of the optimizer [bytes]."""
    step_temporaries: int
    """The most that a step adds [bytes]."""


def states(parameters: Sequence[Parameter], workload: TrainingWorkload) -> States:
    """Return the States of these parameters under a workload, unsharded and not offloaded."""
    trained = [parameter for parameter in parameters if parameter.trained]
    policy = precision_policy(workload)
    return States(
        weights=sum(parameter.bytes for parameter in parameters),
        gradients=gradient_bytes(trained, workload),
        master_weights=master_bytes(trained, workload),
        optimizer_states=sum(
            optimizer_bytes(parameter, workload.optimizer, policy)
            for parameter in (_flat(trained) if _factors_nothing(workload) else trained)
        ),
        step_temporaries=step_bytes(trained, workload),
    )


def _factors_nothing(workload: TrainingWorkload) -> bool:
    """Return whether Adafactor steps flat tensors instead of parameters: DeepSpeed's ZeRO
    (deepspeed/runtime/zero/stage_1_and_2.py, single_partition_of_fp32_groups)."""
    divided = workload.framework == "deepspeed" and workload.zero_stage > 0
    return divided and workload.optimizer == "adafactor"


def _flat(parameters: Sequence[Parameter]) -> list[Parameter]:
    """Return the parameters as parts of a flat tensor, of which no matrix is left to factor."""
    return [
        msgspec.structs.replace(parameter, shape=(parameter.elements,), count=1)
        for parameter in parameters
    ]


def average_bytes(trained: Sequence[Parameter], workload: TrainingWorkload) -> int:
    """Return a moving average of every trained weight, in the weight's own format.

    Source: torch/optim/swa_utils.py, AveragedModel (deepcopy); timm utils/model_ema.py;
    diffusers training_utils.py, EMAModel (clones of the parameters); OpenRLHF keeps it in host
    memory (openrlhf/trainer/ray/ppo_actor.py, ema_model)."""
    return 0 if workload.ema == "none" else sum(parameter.bytes for parameter in trained)


def fp8_bytes(parameters: Sequence[Parameter], workload: TrainingWorkload) -> int:
    """Return what fp8 adds to 16-bit weights: a copy of every linear's weight in one byte, and its
    transpose, both kept from one micro-batch to the next; with fp8 parameters these two are all
    there is, in the place of the 16-bit weight.

    Hopper's fp8 products want both layouts, MXFP8 both scalings; per-tensor scales on Blackwell
    would do with one. FSDP's float8 (torchao) casts as it gathers and keeps none. Source:
    TransformerEngine pytorch/module/linear.py (get_weight_workspace, is_first_microbatch), its
    issues 1261 and 1880 (a maintainer on what is kept); modelscope/ms-swift issue 9371 (fp8
    parameters take what 16-bit ones do)."""
    if workload.precision != "fp8" or workload.framework == "fsdp":
        return 0
    numbers = sum(
        p.elements
        for p in parameters
        if p.kind in _PRODUCT_KINDS and not p.adapter and p.form is None
    )
    width = BITS[precision_policy(workload).weights] // 8
    return (2 - width if workload.fp8_parameters else 2) * numbers


def gradient_bytes(trained: Sequence[Parameter], workload: TrainingWorkload) -> int:
    """Return one gradient for every trained number; LOMO holds only the largest tensor's,
    because it steps as they come (arXiv 2306.09782)."""
    policy = precision_policy(workload)
    sizes = [
        size_of(parameter.elements, gradient_format(parameter, policy)) for parameter in trained
    ]
    return max(sizes, default=0) if workload.optimizer == "lomo" else sum(sizes)


def gradient_dtype(parameter: Parameter, workload: TrainingWorkload) -> str:
    """Return the format a gradient is kept in: the framework's, or that of an adapter's own
    weight."""
    return gradient_format(parameter, precision_policy(workload))


def gradient_format(parameter: Parameter, policy: PrecisionPolicy) -> str:
    """Return the same by the formats of a step."""
    return parameter.dtype if parameter.adapter and policy.masters is None else policy.gradients


def master_bytes(trained: Sequence[Parameter], workload: TrainingWorkload) -> int:
    """Return the wider copy of trained weights, where the framework keeps one."""
    masters = precision_policy(workload).masters
    return sum(size_of(parameter.elements, masters) for parameter in trained) if masters else 0


def optimizer_bytes(parameter: Parameter, optimizer: Optimizer, policy: PrecisionPolicy) -> int:
    """Return the bytes of an optimizer's states of one trained parameter, without its step counter
    (4 bytes a tensor, on the host unless fused).

    adamw: two of the states' format (arXiv 1711.05101). adamw_bf16: two of bf16. adamw_8bit,
    lion_8bit: one byte a state and an fp32 absmax for 256; small tensors and embeddings stay in
    fp32 (bitsandbytes; transformers trainer.py). paged: the same in managed memory; paged_adamw
    and lion are bitsandbytes' with states in fp32 whatever the weights are (optim/optimizer.py,
    init_state). adamw_torch_8bit, _fp8 and _4bit: torchao's. adam_mini: one, and a number for
    every row (arXiv 2406.16793). sgd_momentum: one. muon: one for matrices, AdamW's two for the
    rest (torch.optim.Muon takes 2D parameters alone). adafactor: fp32 rows and columns (arXiv
    1804.04235; torch keeps the weight's format). galore_adamw: AdamW of the projection to rank
    128 and the projector (arXiv 2403.03507). sgd, lomo: none."""
    one = size_of(parameter.elements, _state_dtype(parameter, policy))
    matrix = len(parameter.shape) >= 2
    match optimizer:
        case "sgd" | "lomo":
            return 0
        case "adamw":
            return 2 * one
        case "paged_adamw":
            return 2 * size_of(parameter.elements, "F32")
        case "lion":
            return size_of(parameter.elements, "F32")
        case "adamw_bf16":
            return 2 * size_of(parameter.elements, "BF16")
        case "adamw_8bit" | "paged_adamw_8bit":
            return 2 * eight_bit_bytes(parameter)
        case "lion_8bit":
            return eight_bit_bytes(parameter)
        case "adamw_torch_8bit" | "adamw_torch_fp8":
            return 2 * low_bit_bytes(parameter, one, bits=8, block=256)
        case "adamw_torch_4bit":
            return 2 * low_bit_bytes(parameter, one, bits=4, block=128)
        case "adam_mini":
            row = BITS[_state_dtype(parameter, policy)] // 8
            return one + (parameter.count * parameter.shape[0] * row if matrix else one)
        case "muon":
            return one if matrix and parameter.kind in _MATRIX_KINDS else 2 * one
        case "adafactor":
            if matrix:
                return (
                    parameter.count
                    * sum(factor_sizes(parameter.shape))
                    * BITS[_state_dtype(parameter, policy)]
                    // 8
                )
            return one
        case "galore_adamw":
            if matrix and parameter.kind in _MATRIX_KINDS:
                return _galore_bytes(parameter, _state_dtype(parameter, policy))
            return 2 * one
        case _:
            return one


def factor_sizes(shape: tuple[int, ...]) -> tuple[int, int]:
    """Return numbers Adafactor keeps of a matrix instead of its second moment: a row's and a
    column's."""
    return shape[-2], shape[-1]


def eight_bit_bytes(parameter: Parameter) -> int:
    """Return one 8-bit state of a parameter: a byte a number and 4 bytes for every 256; fp32
    where bitsandbytes leaves it so."""
    if parameter.elements < _EIGHT_BIT_LEAST or parameter.kind is Kind.EMBEDDING:
        return 4 * parameter.elements
    return parameter.elements + 4 * -(-parameter.elements // _EIGHT_BIT_BLOCK)


def low_bit_bytes(parameter: Parameter, plain: int, *, bits: int, block: int) -> int:
    """Return one state of torchao's optimizers: `bits` a number and an fp32 scale for every
    block; `plain` bytes, in the weight's own format, of tensors that are small or no whole
    number of blocks, of which embeddings are none (torchao/optim/adam.py, _new_buffer)."""
    if parameter.elements < _EIGHT_BIT_LEAST or parameter.elements % block:
        return plain
    return parameter.elements * bits // 8 + 4 * parameter.elements // block


def step_bytes(trained: Sequence[Parameter], workload: TrainingWorkload) -> int:
    """Return the most that a step of the optimizer holds beyond states and gradients.

    AdamW, one parameter after another: sqrt of the second moment, its quotient, and the previous
    parameter's, which a name still holds (torch/optim/adamw.py, _single_tensor_adamw: `denom`).
    foreach: the square roots of all at once (_multi_tensor_adamw). fused: nothing. Lion,
    Adafactor and Muon make their update; SGD and 8-bit kernels work in place."""
    form, optimizer = precision_policy(workload), workload.optimizer
    wide = form.masters or form.states
    sizes = [
        size_of(parameter.elements, wide if form.masters else _state_dtype(parameter, form))
        for parameter in trained
    ]
    if _factors_nothing(workload):
        return 0  # its temporaries are those of flat tensors: zero.py
    implementation = "fused" if form.masters else workload.optimizer_implementation
    if not sizes or optimizer in (
        "sgd",
        "sgd_momentum",
        "adamw_8bit",
        "paged_adamw_8bit",
        "lion_8bit",
        "lomo",
        "paged_adamw",
    ):
        return 0
    if implementation == "fused" and optimizer in ("adamw", "adamw_bf16"):
        return 0
    if workload.optimizer_in_backward and implementation == "foreach":
        return max(sizes)
    return sum(sizes) if steps_at_once(workload) else largest_pair(_as_stored(trained, sizes))


def steps_at_once(workload: TrainingWorkload) -> bool:
    """Return whether the step makes its temporaries of all parameters before it uses any
    (torch's foreach implementation)."""
    masters = precision_policy(workload).masters is not None
    if workload.optimizer_in_backward:
        return False
    return (
        workload.optimizer_implementation == "foreach"
        and not masters
        and workload.optimizer in ("adamw", "adamw_bf16", "adam_mini")
    )


def largest_pair(sizes: Iterable[int]) -> int:
    """Return the most of twice a size and the one before it."""
    most = before = 0
    for size in sizes:
        most, before = max(most, 2 * size + before), size
    return most


def locked_bytes(size: int) -> int:
    """Return a block of page-locked host memory for so many bytes: the next power of two.

    Source: pytorch ATen/core/CachingHostAllocator.h, allocate (pinned_max_round_threshold has no
    bound by default)."""
    return 1 << (size - 1).bit_length() if size else 0


def _as_stored(parameters: Sequence[Parameter], sizes: Sequence[int]) -> list[int]:
    """Return the sizes of the tensors an optimizer steps: gates and ups of all experts of a
    layer are one (transformers, gate_up_proj)."""
    stored: list[int] = []
    gate: Parameter | None = None
    for parameter, size in zip(parameters, sizes, strict=True):
        expert = parameter.kind is Kind.EXPERT
        if expert and gate is not None and gate.shape == parameter.shape:
            stored[-1], gate = stored[-1] + size, None
        else:
            stored.append(size)
            gate = parameter if expert else None
    return stored


def _state_dtype(parameter: Parameter, policy: PrecisionPolicy) -> str:
    """Return the format of states: the framework's, or that of an adapter's own weight."""
    return parameter.dtype if parameter.adapter and policy.masters is None else policy.states


def _galore_bytes(parameter: Parameter, dtype: str) -> int:
    rows, columns = parameter.shape[-2:]
    rank, long, short = min(GALORE_RANK, rows, columns), max(rows, columns), min(rows, columns)
    return size_of(parameter.count * (2 * rank * long + rank * short), dtype)
