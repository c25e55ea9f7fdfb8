"""Which divisions of a model SGLang refuses.

Source: sglang 0.5.23, srt/distributed/utils.py (divide), srt/layers/linear.py,
srt/layers/quantization, the module named at each rule; of KV heads srt/models/transformers.py,
_create_attention_instances."""

from fitgauge.engine.model.spec import TOWERS, ModelSpec, Part, Split
from fitgauge.engine.quantization.formats import Format
from fitgauge.engine.serving.sglang.model_classes import by_transformers
from fitgauge.engine.serving.vllm.quantized import halved_group, marlin_reads
from fitgauge.engine.serving.vllm.weights import mamba_groups, most_kv_heads
from fitgauge.engine.unsupported import UnsupportedError, refused_degree
from fitgauge.engine.weights.sharding import ShardedWeights, TensorGroup, divided, round_up

_DEGREES = range(1, 65)
_MARLIN_SINCE = (8, 0)
_MARLIN_OUT, _MARLIN_IN = 64, 128
"""What the sides of an AWQ linear are multiples of where Marlin's kernels read it."""
_BLACKWELL = 10
"""Major number of the compute capability with TensorRT-LLM's kernels."""
_SMALLEST_GROUP = 32
"""Source: moe_wna16.py, MoeWNA16Method.create_weights."""


def check_parallel(
    spec: ModelSpec,
    sharded: ShardedWeights,
    tensor_parallel: int,
    expert_parallel: int,
    capability: tuple[int, int] | None = None,
) -> None:
    """Raise UnsupportedError where SGLang refuses to build the model so, with the tensor parallel
    degrees that work, or where it has no kernels for experts."""
    if any(share.experts and _is_int8(share) for share in sharded.shares):
        raise UnsupportedError(
            "quantization",
            "SGLang has no kernels of experts in int8 on NVIDIA's GPUs.",
            ({"quantization": ("fp8", "bf16")},),
        )
    _check_experts(spec, sharded, tensor_parallel, expert_parallel, capability)
    marlin = capability is None or capability >= _MARLIN_SINCE
    reason, works = sharded.once(
        ("sglang", tensor_parallel, expert_parallel, marlin),
        lambda: _parallel(spec, sharded, tensor_parallel, expert_parallel, marlin=marlin),
    )
    if reason is not None:
        raise refused_degree("SGLang", tensor_parallel, reason, works)


_CUTLASS = frozenset({
    "NemotronHForCausalLM", "NemotronHPuzzleForCausalLM", "NemotronH_Omni_Reasoning_V3",
})  # fmt: skip
"""Architectures that take FlashInfer's CUTLASS kernels of experts where TensorRT-LLM's do not run,
whether or not a config has experts."""
_UNQUANTIZED, _FP8 = "unquantized", "modelopt_fp8"
_FP4 = frozenset({"modelopt_nvfp4", "modelopt_mixed"})


def _check_experts(
    spec: ModelSpec,
    sharded: ShardedWeights,
    tensor_parallel: int,
    expert_parallel: int,
    capability: tuple[int, int] | None,
) -> None:
    """Raise UnsupportedError where the kernels of experts take no or all ranks for expert
    parallelism. Source: srt/arg_groups/moe_hook.py, handle_moe_kernel_config;
    srt/arg_groups/model_overrides/nemotron_h.py."""
    if spec.architecture not in _CUTLASS or expert_parallel in (1, tensor_parallel):
        return
    name = sharded.scheme.name if sharded.scheme.form else _UNQUANTIZED
    major = capability[0] if capability else 0
    by_cutlass = name in (_UNQUANTIZED, _FP8) or (name in _FP4 and major not in (8, 9))
    if not by_cutlass or major == _BLACKWELL:
        return
    raise UnsupportedError(
        "expert_parallel",
        f"SGLang's kernels of experts take expert_parallel 1 or {tensor_parallel} of"
        f" {tensor_parallel} ranks for this model.",
        ({"expert_parallel": (1, tensor_parallel)},),
    )


def _is_int8(share: TensorGroup) -> bool:
    """Source: compressed_tensors_w8a8_int8_moe.py."""
    return share.form is not None and share.form.name == "int8_channel"


def _parallel(
    spec: ModelSpec, sharded: ShardedWeights, tensor: int, expert: int, *, marlin: bool
) -> tuple[str | None, list[int]]:
    """Return (why SGLang would refuse, the tensor parallel degrees that work instead)."""
    reason = refusal(spec, sharded, tensor, expert, marlin=marlin)
    if reason is None:
        return None, []
    whole = expert == tensor
    degrees = (
        ways
        for ways in _DEGREES
        if ways % expert == 0
        and refusal(spec, sharded, ways, ways if whole else expert, marlin=marlin) is None
    )
    return reason, list(degrees)


def refusal(
    spec: ModelSpec,
    sharded: ShardedWeights,
    tensor_parallel: int,
    expert_parallel: int,
    *,
    marlin: bool = True,
) -> str | None:
    """Return why SGLang would refuse at construction, None where it would not. marlin: whether the
    GPU has Marlin's kernels."""
    heads = spec.query_heads
    if heads > 1 and heads % tensor_parallel:
        return f"its {heads} attention heads cannot be divided by {tensor_parallel}"
    kv_heads = most_kv_heads(spec, default=0)
    if kv_heads % tensor_parallel and by_transformers(spec):
        return f"its {kv_heads} KV heads cannot be divided by {tensor_parallel}"
    groups = mamba_groups(spec)
    if groups > 1 and groups % tensor_parallel:
        return f"its {groups} Mamba groups cannot be divided by {tensor_parallel}"
    if sharded.tower_heads % tensor_parallel:
        return f"its tower's {sharded.tower_heads} heads cannot be divided by {tensor_parallel}"
    merged = {share for tensor in sharded.tensors if len(tensor) > 1 for share in tensor}
    for share in sharded.shares:
        if share.part in (*TOWERS, Part.PROJECTOR):
            continue
        if share.split is Split.NONE:
            if reason := _of_groups(share.form, share.inputs):
                return reason
            continue
        ways = max(1, tensor_parallel // expert_parallel) if share.experts else tensor_parallel
        if reason := _of_share(share, ways, merged=share in merged):
            return reason
    if not marlin:
        return None
    reasons = (_of_marlin(tensor, tensor_parallel) for tensor in sharded.tensors)
    return next(filter(None, reasons), None)


def _of_marlin(shares: tuple[TensorGroup, ...], ways: int) -> str | None:
    """Return why an AWQ linear cannot be divided that Marlin's kernels read whole; the plain ones
    take what they do not. shares: what is fused into it. Source: awq/awq.py, AWQMarlinConfig;
    awq/schemes/awq_marlin.py (create_weights); marlin_utils.py, verify_marlin_supports_shape."""
    form, first = shares[0].form, shares[0]
    if form is None or not form.name.startswith("awq_") or first.experts:
        return None
    if first.split is Split.ROW:
        out, inputs = sum(share.out for share in shares), first.inputs // ways
    else:
        out, inputs = sum(_rows(share, ways) for share in shares), first.inputs
    whole = sum(share.out for share in shares)
    group = form.group if 0 < form.group < first.inputs else 1
    if whole % _MARLIN_OUT or first.inputs % _MARLIN_IN or first.inputs % group:
        return None
    if out % _MARLIN_OUT:
        return f"{out} features on a rank are no multiple of {_MARLIN_OUT}, as AWQ's kernels need"
    return _uneven(inputs, max(group, _MARLIN_IN)) if inputs % max(group, _MARLIN_IN) else None


def _rows(share: TensorGroup, ways: int) -> int:
    """Return the rows of a column on a rank."""
    if share.split is Split.NONE:
        return share.out
    pieces = round_up(divided(share.pieces, ways), share.multiple)
    return pieces * (share.out // share.pieces)


def _of_share(share: TensorGroup, ways: int, *, merged: bool) -> str | None:
    """Return why one kind of tensor cannot be divided over `ways` ranks. merged: whether it is one
    of several columns of one linear."""
    pieces, form = share.pieces, share.form
    if share.split is Split.KV:
        if pieces % ways and ways % pieces:
            return f"its {pieces} KV heads are neither a multiple nor a divisor of {ways}"
    elif pieces % ways and share.multiple == 1:
        return f"a width of {pieces} cannot be divided by {ways}"
    if form is None or form.flat:
        return None
    width = round_up(divided(pieces, ways), share.multiple)
    if share.experts:
        hidden = share.out if share.split is Split.ROW else share.inputs
        return _of_experts(form, width // share.fused, hidden)
    size = share.inputs if share.split is Split.ROW else share.out
    whole_blocks = ways > 1 or (merged and share.split is not Split.ROW)
    return _of_linear(share, form, width * (size // pieces or 1), whole_blocks=whole_blocks)


def _of_experts(form: Format, width: int, hidden: int) -> str | None:
    """Source: fp8.py, Fp8MoEMethod.create_weights; moe_wna16.py."""
    if form.rows > 1:
        return _uneven(width, form.rows) if width % form.rows else None
    if not form.name.startswith("awq_") or marlin_reads(form, width, hidden):
        return None
    too_small = form.group and halved_group(form.group, width, hidden) < _SMALLEST_GROUP
    return _uneven(width, form.group) if too_small else None


def _of_linear(share: TensorGroup, form: Format, width: int, *, whole_blocks: bool) -> str | None:
    """whole_blocks: whether they must end where the rank's part or a merged column does. Source:
    fp8.py, Fp8LinearMethod.validate_block_quant_shapes; compressed_tensors_wNa16.py
    (create_weights); awq/schemes/awq_linear.py."""
    if whole_blocks and form.rows > 1:
        block = form.group if share.split is Split.ROW else form.rows
        return _uneven(width, block) if width % block else None
    return _of_groups(form, width if share.split is Split.ROW else share.inputs)


def _of_groups(form: Format | None, inputs: int) -> str | None:
    """Return why columns cannot be divided into the groups of AWQ and compressed-tensors."""
    if form is None or not form.group or not form.name.startswith(("awq_", "packed_int")):
        return None
    return _uneven(inputs, form.group) if inputs % form.group else None


def _uneven(width: int, block: int) -> str:
    return f"{width} features on a rank cannot be divided into quantization blocks of {block}"
