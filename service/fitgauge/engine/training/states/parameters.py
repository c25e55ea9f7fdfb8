"""The parameters of a model under a training method: what is frozen, what is trained, and the
adapters.

Two tensors of a checkpoint may be slices of one fused projection (see families/dense.py); here
they are one again."""

import math
from collections.abc import Iterable, Sequence

import msgspec

from fitgauge.engine.memo import WeakMemo
from fitgauge.engine.model.dtypes import size_of
from fitgauge.engine.model.families.nominal import is_count, nominal_linears
from fitgauge.engine.model.mixers import CrossAttention
from fitgauge.engine.model.spec import Block, Kind, ModelSpec, Part, Split, Tensor
from fitgauge.engine.quantization.formats import Format, tensor_bytes
from fitgauge.engine.quantization.requested import BITSANDBYTES, requested_scheme
from fitgauge.engine.quantization.scheme import Rule, RuleIndex, Scheme
from fitgauge.engine.training.autograd.vision.styles import tower_of
from fitgauge.engine.training.workload import (
    PrecisionPolicy,
    Targets,
    TrainingWorkload,
    precision_policy,
)

_ATTENTION = ("attn", "attention", "self_attn", "self_attention")


class Parameter(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """One parameter of one layer."""

    name: str
    """Its name after the unit's prefix."""
    shape: tuple[int, ...]
    """(out, in) for a linear."""
    kind: Kind
    """What the tensor does."""
    split: Split
    """How tensor parallelism divides it, see `Split`."""
    units: int
    """Indivisible pieces along the split axis, see `Tensor`."""
    count: int
    """How many of this shape the layer holds."""
    dtype: str
    """Canonical dtype of an unquantized weight."""
    form: Format | None = None
    """The format of a quantized one; None: unquantized."""
    trained: bool = True
    """Whether it gets a gradient and optimizer states."""
    adapter: bool = False
    """Whether it is a low-rank matrix of a frozen linear."""

    @property
    def elements(self) -> int:
        """Numbers, over all `count`."""
        return math.prod(self.shape, start=self.count)

    @property
    def bytes(self) -> int:
        """Bytes of the weight itself."""
        if self.form is not None and len(self.shape) == 2:
            return self.count * tensor_bytes(self.shape[0], self.shape[1], self.form)
        return size_of(self.elements, self.dtype)


class Unit(msgspec.Struct, frozen=True, kw_only=True):
    """Equal layers, or one block that is there once: what a wrapper shards and a checkpoint
    recomputes."""

    part: Part
    """The part of the model it belongs to."""
    prefix: str
    """What its parameters' names begin with, `{}` for the layer's number."""
    layers: tuple[int, ...]
    """Numbers of the layers."""
    block: Block
    """Its block of the model."""
    parameters: tuple[Parameter, ...]
    """Parameters of one layer."""

    @property
    def repeated(self) -> bool:
        """Whether these are numbered layers of a stack."""
        return "{}" in self.prefix

    def elements(self, *, trained: bool | None = None) -> int:
        """Return the weights of one layer in numbers; with `trained`, those that are, or are
        not."""
        return sum(p.elements for p in self.parameters if trained is None or p.trained == trained)


def units(spec: ModelSpec, workload: TrainingWorkload) -> tuple[Unit, ...]:
    """Return every unit of a model, in the order of its blocks, with frozen and trained parameters
    and adapters marked.

    Multi-token prediction heads are left out: transformers does not load them. Raises
    UnsupportedError for a quantization that is unknown. Kept for the models asked about
    lately: how ranks divide them, how long sequences are and what steps them changes no unit."""
    relevant = on_one_rank(workload)
    return _UNITS.get_or_compute(spec, relevant, lambda: _units(spec, relevant))


def on_one_rank(workload: TrainingWorkload) -> TrainingWorkload:
    """Return the workload with one rank, one token and the usual settings of whatever units do
    not depend on."""
    return msgspec.structs.replace(
        workload,
        optimizer="adamw",
        activation_checkpointing="none",
        attention="sdpa",
        loss="full",
        sequence_length=1,
        micro_batch_size=1,
        micro_batches=1,
        zero_stage=0,
        offload="none",
        tensor_parallel=1,
        sequence_parallel=False,
        pipeline_parallel=1,
        context_parallel=1,
        expert_parallel=1,
        expert_tensor_parallel=None,
        data_parallel=1,
    )


_UNITS: WeakMemo[ModelSpec, TrainingWorkload, tuple[Unit, ...]] = WeakMemo(64)


def _units(spec: ModelSpec, workload: TrainingWorkload) -> tuple[Unit, ...]:
    policy = precision_policy(workload)
    scheme, result = base_scheme(spec, workload), []
    rules = RuleIndex(scheme.rules if scheme else ())
    for block in spec.blocks:
        if block.part is Part.MTP:
            continue
        whole = merged(block)
        trained = not workload.uses_adapters and _is_reached(block, spec, workload)
        base = tuple(_parameter(block, tensor, policy, rules, trained=trained) for tensor in whole)
        adapters = _adapters(block, whole, workload, policy) if workload.uses_adapters else ()
        result.append(
            Unit(
                part=block.part,
                prefix=block.prefix,
                layers=block.layers,
                block=block,
                parameters=(*base, *adapters),
            )
        )
    return tuple(result)


def runs(block: Block, spec: ModelSpec, workload: TrainingWorkload) -> bool:
    """Return whether a step runs a block: on text alone no tower, and nothing that reads one.
    Models whose tower is not known run whole."""
    if workload.images or tower_of(spec) is None:
        return True
    crosses = any(isinstance(mixer, CrossAttention) for mixer in block.mixers)
    return block.part not in (Part.VISION, Part.PROJECTOR) and not crosses


def _is_reached(block: Block, spec: ModelSpec, workload: TrainingWorkload) -> bool:
    """Return whether parameters of a block get gradients where they may be trained: not of a frozen
    tower, nor of what does not run.

    Optimizers pass by what has no gradient (torch/optim/adamw.py, _init_group), and FSDP2 reduces
    none (_fsdp_param_group.py, post_backward). FSDP1's flat parameters, DeepSpeed's and Megatron's
    buffers hold gradients of all that may be trained."""
    if block.part is Part.VISION and not workload.train_vision_tower:
        return False
    in_buffers = workload.framework in ("deepspeed", "megatron") or (
        workload.framework == "fsdp" and workload.fsdp_version == 1
    )
    return in_buffers or runs(block, spec, workload)


def base_scheme(spec: ModelSpec, workload: TrainingWorkload) -> Scheme | None:
    """Return how a frozen base is stored: QLoRA's quantization (nf4 unless another is asked for),
    else None.

    bitsandbytes replaces modules of class Linear alone; experts, which transformers 5 keeps in
    one parameter a layer, stay as they are (bitsandbytes issue 1849), but where a trainer
    quantizes them itself."""
    if workload.base_quantization is None:
        return None
    scheme = requested_scheme(workload.base_quantization, spec)
    if scheme.name not in BITSANDBYTES or workload.quantize_experts:
        return scheme
    return msgspec.structs.replace(
        scheme, rules=(Rule(form=None, kinds=(Kind.EXPERT,)), *scheme.rules)
    )


def merged(block: Block) -> tuple[Tensor, ...]:
    """Return the block's tensors with slices of one name put together along their rows; buffers
    left out."""
    whole: dict[str, Tensor] = {}
    for tensor in block.tensors:
        if tensor.buffer:
            continue
        before = whole.get(tensor.name)
        if before is None:
            whole[tensor.name] = tensor
        else:
            rows = before.shape[0] + tensor.shape[0]
            whole[tensor.name] = msgspec.structs.replace(before, shape=(rows, *before.shape[1:]))
    return tuple(whole.values())


def _parameter(
    block: Block, tensor: Tensor, policy: PrecisionPolicy, rules: RuleIndex, *, trained: bool
) -> Parameter:
    stored = rules.format_of(block.prefix + tensor.name, tensor, block.part)
    if stored is not None and tensor.shape[1:] == (1,) and not stored.flat:
        # a bare count of parameters, whose scales cannot be known
        stored = Format(name=stored.name, bits=stored.bits)
    return Parameter(
        name=tensor.name,
        shape=tensor.shape,
        kind=tensor.kind,
        split=tensor.split,
        units=tensor.units,
        count=tensor.count,
        dtype=policy.weights,
        form=stored,
        trained=trained,
    )


def _adapters(
    block: Block, whole: Sequence[Tensor], workload: TrainingWorkload, policy: PrecisionPolicy
) -> tuple[Parameter, ...]:
    """Return a (rank, in) and B (out, rank) for every targeted linear; DoRA adds a magnitude for
    every output.

    Source: PEFT tuners/lora/layer.py; DoRA arXiv 2402.09353. Under tensor parallelism the half
    that meets the divided side divides. PEFT leaves experts that share a tensor alone unless they
    are named (target_parameters), and then has a pair for each (ParamWrapper); under Megatron every
    expert has a pair of its own (ms-swift swift/megatron/utils.py, find_all_linears, and
    tuners/lora.py, LoraParallelLinear)."""
    rank, result = workload.lora_rank, []
    seeing = (
        block.part in (Part.VISION, Part.PROJECTOR)
        and bool(workload.images)
        and workload.train_vision_tower
    )
    grouped = []
    if (workload.framework == "megatron" or workload.lora_experts) and block.part is Part.LANGUAGE:
        grouped = expert_linears(whole)
    for tensor in (*linears(block, whole, seeing=seeing), *grouped):
        if not targeted(tensor.name, workload.lora_targets):
            continue
        name, (out, inputs) = tensor.name.removesuffix(".weight"), tensor.shape
        row = tensor.split is Split.ROW
        column = Split.NONE if row else tensor.split
        result.append(
            _adapter(
                f"{name}.lora_A.weight",
                (rank, inputs),
                Split.ROW if row else Split.NONE,
                tensor,
                policy,
            )
        )
        result.append(_adapter(f"{name}.lora_B.weight", (out, rank), column, tensor, policy))
        if workload.method == "dora":
            result.append(_adapter(f"{name}.lora_magnitude_vector", (out,), column, tensor, policy))
    return tuple(result)


def _adapter(
    name: str, shape: tuple[int, ...], split: Split, linear: Tensor, policy: PrecisionPolicy
) -> Parameter:
    kind, count = (Kind.EXPERT, linear.count) if linear.kind is Kind.EXPERT else (Kind.LINEAR, 1)
    return Parameter(
        name=name,
        shape=shape,
        kind=kind,
        split=split,
        units=linear.units,
        count=count,
        dtype=policy.adapters,
        adapter=True,
    )


def expert_linears(whole: Iterable[Tensor]) -> list[Tensor]:
    """Return the linears of routed experts as Megatron groups them: gate and up are one
    (linear_fc1), down the other (linear_fc2).

    Source: megatron/core/transformer/moe/experts.py, TEGroupedMLP. Each has the name of its
    first tensor."""
    result: dict[tuple[str, Split], Tensor] = {}
    for tensor in whole:
        if tensor.kind is not Kind.EXPERT or len(tensor.shape) != 2:
            continue
        key = (tensor.name.removesuffix(".weight").rpartition(".")[0], tensor.split)
        rows = result[key].shape[0] if key in result else 0
        result[key] = msgspec.structs.replace(
            result.get(key, tensor), shape=(rows + tensor.shape[0], tensor.shape[1])
        )
    return list(result.values())


def linears(block: Block, whole: Iterable[Tensor], *, seeing: bool = False) -> list[Tensor]:
    """Return the linear modules of a language or encoder layer that an adapter can be attached to:
    no head, router or fused expert; `seeing`: of a vision tower too.

    Of a model that is only a size, the linears its attention and MLP would have.
    """
    if not seeing and block.part not in (Part.LANGUAGE, Part.ENCODER):
        return []
    if is_count(block):
        return nominal_linears(block)
    return [tensor for tensor in whole if tensor.kind is Kind.LINEAR and len(tensor.shape) == 2]


def targeted(name: str, targets: Targets) -> bool:
    """Return whether an adapter is attached to the linear `name`: every one, those of attention, or
    those whose module is named."""
    if targets == "all_linear":
        return True
    modules = name.removesuffix(".weight").split(".")
    if targets == "attention":
        return any(module in _ATTENTION for module in modules)
    return any(module in targets for module in modules)
