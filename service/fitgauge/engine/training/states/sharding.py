"""Which part of a model one rank has: tensor, expert and pipeline parallelism first, then ZeRO or
FSDP over the data-parallel ranks.

Dividing gives Parameters again, smaller ones, so that states.py counts a shard as it counts a
whole model."""

from bisect import bisect_left
from collections.abc import Iterable, Sequence
from typing import Literal

import msgspec
from msgspec.structs import replace

from fitgauge.engine.model.dtypes import BITS
from fitgauge.engine.model.spec import TOWERS, Kind, Part, Split
from fitgauge.engine.training.states import optimizer_states as states
from fitgauge.engine.training.states.parameters import Parameter, Unit
from fitgauge.engine.training.workload import TrainingWorkload, precision_policy

VOCABULARY_MULTIPLE = 128
"""Megatron pads the vocabulary to 128 x tensor parallel. Source: megatron/training/arguments.py,
make_vocab_size_divisible_by."""

ModelState = Literal["weights", "gradients", "states"]
"""What ZeRO divides, one after another. Source: ZeRO, arXiv 1910.02054, section 3.1."""

_LEAST_STAGE: dict[ModelState, int] = {"states": 1, "gradients": 2, "weights": 3}
"""From which ZeRO stage on each is divided. Source: ZeRO, arXiv 1910.02054, section 5."""


class RankStates(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """Resident bytes of one rank, on the device and on the host."""

    weights: int
    """Weights on the device [bytes]."""
    gradients: int
    """Gradients on the device [bytes]."""
    master_weights: int
    """fp32 copies that the optimizer steps [bytes]."""
    optimizer_states: int
    """States of the optimizer [bytes]."""
    step_temporaries: int
    """The most that a step adds on the device [bytes]."""
    host: int = 0
    """Offloaded to host memory [bytes]."""
    averages: int = 0
    """Moving averages of the weights [bytes]."""
    fp8: int = 0
    """fp8 copies of weights with their scales [bytes]."""
    offloaded_weights: int = 0
    """Weights among those on the host [bytes]."""
    stepped: int = 0
    """Numbers that this rank's optimizer steps."""
    largest: int = 0
    """The largest trained parameter [numbers]."""
    host_temporaries: int = 0
    """The most that a step adds on the host [bytes]."""


def tensor_slice(parameter: Parameter, part: Part, workload: TrainingWorkload) -> Parameter:
    """Return the fullest tensor- and expert-parallel rank's piece of a parameter.

    Norms, routers, positions and biases of row-parallel linears are whole on every rank; heads
    and widths divide; KV heads are repeated where ranks outnumber them; the vocabulary is padded
    first. Whole experts go to expert-parallel ranks, each divided like a linear. Towers stay
    whole. Source: Megatron-LM, arXiv 1909.08053, section 3;
    megatron/core/tensor_parallel/layers.py; megatron/core/transformer/moe/experts.py."""
    ways, count = workload.tensor_parallel, parameter.count
    if parameter.kind is Kind.EXPERT or count > 1:
        ways, count = workload.expert_ways, -(-count // workload.expert_parallel)
    if ways == 1 or part in TOWERS or parameter.split is Split.NONE or not parameter.shape:
        return parameter if count == parameter.count else replace(parameter, count=count)
    axis = 1 if parameter.split is Split.ROW and len(parameter.shape) > 1 else 0
    size = parameter.shape[axis]
    if parameter.split is Split.VOCABULARY:
        multiple = VOCABULARY_MULTIPLE * ways if workload.framework == "megatron" else 1
        part_size = -(-size // multiple) * multiple // ways if multiple > 1 else -(-size // ways)
    elif parameter.split is Split.KV and parameter.units:
        part_size = -(-parameter.units // ways) * (size // parameter.units)
    else:
        part_size = -(-size // ways)
    shape = (*parameter.shape[:axis], part_size, *parameter.shape[axis + 1 :])
    return replace(parameter, shape=shape, count=count)


def shard_ranks(parameter: Parameter, workload: TrainingWorkload) -> int:
    """Over how many ranks ZeRO or FSDP divides a parameter: data x context parallel, of one
    replica; experts over what EP leaves.

    Source: megatron/core/parallel_state.py (data parallel groups with context parallel; expert
    data parallel); torchtitan distributed/parallel_dims.py (fsdp = dp_shard x cp)."""
    ranks = workload.data_parallel // workload.data_parallel_replicate * workload.context_parallel
    if parameter.count > 1 or parameter.kind is Kind.EXPERT:
        ranks = max(
            1, ranks * workload.tensor_parallel // (workload.expert_ways * workload.expert_parallel)
        )
    return ranks


def shard(parameter: Parameter, workload: TrainingWorkload) -> Parameter:
    """Return one data-parallel rank's shard.

    FSDP2 cuts every parameter along its first dimension (experts that share a tensor: between
    experts) into equal chunks and pads the last:
    torch/distributed/fsdp/_fully_shard/_fsdp_param.py, _init_sharded_param. FSDP1, ZeRO and
    Megatron's distributed optimizer cut one flat buffer evenly:
    torch/distributed/fsdp/_flat_param.py, _get_shard; deepspeed/runtime/zero/stage_1_and_2.py;
    megatron/core/optimizer/distrib_optimizer.py."""
    ranks = shard_ranks(parameter, workload)
    if ranks == 1 or not parameter.shape:
        return parameter
    if parameter.form is not None or (workload.framework == "fsdp" and workload.fsdp_version == 2):
        if parameter.count > 1:
            return replace(parameter, count=-(-parameter.count // ranks))
        return replace(parameter, shape=(-(-parameter.shape[0] // ranks), *parameter.shape[1:]))
    return replace(parameter, shape=(-(-parameter.elements // ranks),), count=1)


def is_sharded(of: ModelState, workload: TrainingWorkload) -> bool:
    """Return whether ZeRO divides these over data-parallel ranks. FSDP divides all three;
    `zero_stage` 2 means that it keeps what it gathered."""
    return workload.framework == "fsdp" or workload.zero_stage >= _LEAST_STAGE[of]


def rank_states(parameters: Sequence[Parameter], workload: TrainingWorkload) -> RankStates:
    """Resident bytes of a rank that has these parameters of its stage (see `tensor_slice`), and the
    most a step adds.

    Offload: the optimizer's states and masters, with the gradients they step from, go to the
    host; `parameters` and `cpu` take the weights too (ZeRO-Offload, arXiv 2101.06840;
    ZeRO-Infinity, arXiv 2104.07857; torch CPUOffloadPolicy). An offloaded step runs there. Paged
    states are in managed memory, which PyTorch does not count and the device gives back
    (bitsandbytes functional.py, get_paged)."""
    trained = [parameter for parameter in parameters if parameter.trained]
    pieces = [shard(parameter, workload) for parameter in parameters]
    stepped = trained
    if is_sharded("states", workload):
        stepped = [shard(parameter, workload) for parameter in trained]
    reduced = trained
    if is_sharded("gradients", workload):
        reduced = [shard(parameter, workload) for parameter in trained]
    weights = sum(
        parameter.bytes for parameter in (pieces if is_sharded("weights", workload) else parameters)
    )
    counted = states.states(stepped, workload)
    gradients = states.gradient_bytes(reduced, workload)
    masters = counted.master_weights
    optimizer = counted.optimizer_states
    temporaries = counted.step_temporaries
    host = 0
    offloaded_weights = 0
    if workload.optimizer.startswith("paged"):
        host, optimizer = optimizer, 0
    if workload.offload != "none":
        host += masters + optimizer + offloaded_gradient_bytes(stepped, reduced, workload)
        masters = optimizer = temporaries = 0
        if is_sharded("gradients", workload):
            gradients = 0
    averages = states.average_bytes(
        [p for p in (pieces if is_sharded("weights", workload) else parameters) if p.trained],
        workload,
    )
    if workload.ema == "host":
        host, averages = host + averages, 0
    if workload.offload in ("parameters", "cpu", "nvme") and is_sharded("weights", workload):
        offloaded_weights, weights = _locked([piece.bytes for piece in pieces], workload), 0
    return RankStates(
        weights=weights,
        gradients=gradients,
        master_weights=masters,
        optimizer_states=optimizer,
        step_temporaries=temporaries,
        host=host + offloaded_weights,
        averages=averages,
        fp8=states.fp8_bytes(parameters, workload),
        offloaded_weights=offloaded_weights,
        stepped=sum(parameter.elements for parameter in stepped),
        largest=max((parameter.elements for parameter in trained), default=0),
        host_temporaries=_host_temporaries(stepped, workload),
    )


def _host_temporaries(stepped: Sequence[Parameter], workload: TrainingWorkload) -> int:
    """Return what a step in host memory adds: PyTorch steps there one parameter after another
    (torch/optim/optimizer.py, _default_to_fused_or_foreach); DeepSpeed's CPUAdam adds nothing."""
    if workload.framework != "fsdp" or workload.offload == "none":
        return 0
    return states.step_bytes(stepped, replace(workload, optimizer_implementation="for_loop"))


def offloaded_gradient_bytes(
    stepped: Sequence[Parameter], reduced: Sequence[Parameter], workload: TrainingWorkload
) -> int:
    """Host memory for gradients of an offloaded step.

    DeepSpeed steps from fp32 gradients that stay next to the masters, and keeps its part once
    more in 16 bit: ZeRO-3 the gradients as they come (stage3.py, grad_partitions_flat_buffer),
    ZeRO-1 and 2 the new weights on their way back (stage_1_and_2.py,
    param_buffer_of_bit16_for_cpu_offload_groups). Measured: tools/accuracy/measure_offload.py.
    FSDP keeps the shards it reduced."""
    if workload.framework == "deepspeed":
        policy = precision_policy(workload)
        second = policy.gradients if workload.zero_stage == 3 else policy.weights
        return sum(parameter.elements for parameter in stepped) * (BITS["F32"] + BITS[second]) // 8
    if not is_sharded("gradients", workload):
        return 0
    return _locked([states.gradient_bytes([piece], workload) for piece in reduced], workload)


def _locked(sizes: Sequence[int], workload: TrainingWorkload) -> int:
    """Return the bytes of page-locked host memory for these tensors: FSDP2 locks each by itself,
    FSDP1 a unit's together; DeepSpeed locks flat buffers, which host.py rounds
    (torch/distributed/fsdp/_fully_shard/_fsdp_param.py, CPUOffloadPolicy.pin_memory;
    _flat_param.py)."""
    if workload.framework != "fsdp":
        return sum(sizes)
    return sum(
        states.locked_bytes(size)
        for size in (sizes if workload.fsdp_version == 2 else [sum(sizes)])
    )


class RankUnit(msgspec.Struct, frozen=True, kw_only=True):
    """A unit as one tensor-parallel rank has it."""

    unit: Unit
    """The unit."""
    parameters: tuple[Parameter, ...]
    """This rank's part of its parameters."""
    states: RankStates
    """What they need."""
    elements: int
    """How many numbers they have."""
    trained: int
    """How many of these are trained."""


def to_rank(unit: Unit, workload: TrainingWorkload) -> RankUnit:
    """Return the Slice of one layer of a unit."""
    parameters = tuple(
        tensor_slice(parameter, unit.part, workload) for parameter in unit.parameters
    )
    own_states = rank_states(parameters, workload)
    if workload.framework != "fsdp":  # which cuts a gradient before it keeps it
        own_states = replace(
            own_states,
            gradients=own_states.gradients
            + whole_gradient_elements(unit, workload)
            * BITS[precision_policy(workload).gradients]
            // 8,
        )
    return RankUnit(
        unit=unit,
        parameters=parameters,
        states=own_states,
        elements=sum(parameter.elements for parameter in parameters),
        trained=sum(parameter.elements for parameter in parameters if parameter.trained),
    )


def whole_gradient_elements(unit: Unit, workload: TrainingWorkload) -> int:
    """Return numbers by which the gradients of a unit outnumber this rank's piece of it under
    tensor parallelism.

    DTensor makes the gradient of a table cut by vocabulary whole on every rank
    (torch/distributed/tensor/_ops/_embedding_ops.py, embedding_dense_backward); Megatron's own
    embedding does not."""
    if not workload.dtensor or workload.tensor_parallel == 1 or unit.part is not Part.EMBEDDING:
        return 0
    tables = [
        parameter
        for parameter in unit.parameters
        if parameter.trained and parameter.split is Split.VOCABULARY
    ]
    return sum(
        table.elements - tensor_slice(table, unit.part, workload).elements for table in tables
    )


def stage_states(slices: Sequence[tuple[RankUnit, int]], workload: TrainingWorkload) -> RankStates:
    """Return what a whole stage takes: slices with how many layers of each it has."""

    def summed(name: str) -> int:
        return sum(count * int(getattr(piece.states, name)) for piece, count in slices)

    return RankStates(
        weights=summed("weights"),
        gradients=(
            max((piece.states.gradients for piece, _ in slices), default=0)
            if workload.steps_in_backward
            else summed("gradients")
        ),
        master_weights=summed("master_weights"),
        optimizer_states=summed("optimizer_states"),
        step_temporaries=_temporaries(slices, workload),
        host=summed("host"),
        averages=summed("averages"),
        fp8=summed("fp8"),
        offloaded_weights=summed("offloaded_weights"),
        stepped=summed("stepped"),
        largest=max((piece.states.largest for piece, _ in slices), default=0),
        host_temporaries=max((piece.states.host_temporaries for piece, _ in slices), default=0),
    )


def _temporaries(slices: Sequence[tuple[RankUnit, int]], workload: TrainingWorkload) -> int:
    """Of a step over all layers: the sum where all parameters step at once, else the most of
    neighbours, which two alike layers show."""
    if not any(piece.states.step_temporaries for piece, _ in slices):
        return 0
    if states.steps_at_once(workload):
        return sum(count * piece.states.step_temporaries for piece, count in slices)
    line = [parameter for piece, count in slices for parameter in piece.parameters * min(count, 2)]
    return rank_states(line, workload).step_temporaries


def gathered_bytes(parameters: Iterable[Parameter], workload: TrainingWorkload, width: int) -> int:
    """Return the bytes of a unit whose shards were gathered, in numbers of `width` bytes,
    quantized ones as they are stored: with the padding of the last shard."""

    def whole(parameter: Parameter) -> int:
        piece, ranks = shard(parameter, workload), shard_ranks(parameter, workload)
        return ranks * (piece.elements * width if piece.form is None else piece.bytes)

    return sum(whole(parameter) for parameter in parameters)


def stage_units(
    slices: Sequence[RankUnit], layers: range, *, first: bool, last: bool
) -> list[tuple[RankUnit, int]]:
    """Return the slices of one pipeline stage, each with how many of its layers the stage has.

    Embeddings, encoders and towers go to the first stage, final norm and head to the last; tied
    embeddings to both (megatron/core/models/gpt/gpt_model.py,
    share_embeddings_and_output_weights)."""
    result = []
    for piece in slices:
        unit = piece.unit
        if unit.repeated and unit.part is Part.LANGUAGE:
            count = bisect_left(unit.layers, layers.stop) - bisect_left(unit.layers, layers.start)
        elif unit.part is Part.LANGUAGE:
            embeds = any(parameter.kind is Kind.EMBEDDING for parameter in unit.parameters)
            count = int(first if embeds else last)
        elif unit.part is Part.HEAD:
            count = int(last)
        else:
            count = len(unit.layers) * int(first)
        if count:
            result.append((piece, count))
    return result
