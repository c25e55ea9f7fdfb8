"""How vLLM 0.33 registers quantized weights: what it adds to a checkpoint's tensors, what it leaves
out, and what it does where a rank's part of an expert is no whole number of groups or blocks.

Source: vllm 0.33.0, model_executor/layers/quantization, the module named at each rule. Sizes are
those at construction."""

from collections.abc import Mapping
from math import gcd
from typing import Any

import msgspec

from fitgauge.engine.model.mixers import Recurrent
from fitgauge.engine.model.spec import TOWERS, Kind, ModelSpec, Part, Split
from fitgauge.engine.quantization.formats import FP8_TENSOR, Format
from fitgauge.engine.quantization.published import READERS
from fitgauge.engine.quantization.scheme import Names, Rule, Scheme, named
from fitgauge.engine.serving.vllm import releases
from fitgauge.engine.serving.vllm.quirks import quantizes_routers, quirks
from fitgauge.engine.unsupported import UnsupportedError
from fitgauge.engine.weights.sharding import ShardedWeights, TensorGroup, divided

UNQUANTIZED = named(("indexer.wk", "indexer.weights_proj", "re:_res_proj$", "eh_proj"))
"""Linears that vLLM builds in 16 bit whatever the checkpoint's settings say: the sparse
indexer's wk and weights_proj, fused into one (models/deepseek_v2.py, Indexer), Kimi K3's
projections of residuals (as its class registers them), and what joins hidden states and embeddings
in MTP (models/deepseek_mtp.py and those like it)."""

IN_16_BIT_BESIDE_MXFP4 = named(("routed_expert_down_proj", "routed_expert_up_proj"))
"""Kimi K3's projections around its latent experts, which it quantizes in every format but MXFP4:
there vLLM has methods for experts alone. Source: models/kimi_k3/nvidia/model.py."""

_FIRST_MAMBA = named((r"re:(^|\.)(mamba|mixer)\.(in|x|dt|out)_proj$",))
"""Linears of the first Mamba's mixer, which takes no quantization. Source: layers/mamba/
mamba_mixer.py, MambaMixer."""

CHANNEL_SCALES = frozenset({"fp8_channel", "int8_channel"})
"""Formats whose scales, one a row, are float32 whatever the checkpoint stores. Source:
utils/fp8_utils.py, create_fp8_scale_parameter; compressed_tensors/schemes, weight_scale."""

_OTHERWISE_NAMED = frozenset({"deepseek_v4", "step3p5", "step3p7"})
"""Model types with a list of their own kind: DeepSeek V4's settings are its class's, and Step's
abbreviate; how vLLM loads such a checkpoint is unverified."""

_FUSED = (("q_proj", "k_proj", "v_proj"), ("gate_proj", "up_proj"))
"""Linears that are one in vLLM. Source: modelopt.py, fused_projection_shards."""

_PATCH_MERGER = named(("patch_merger.merging_layer",))
"""A linear without quantization. Source: models/mistral3.py, Mistral3PatchMerger."""

_TOWER_MLP = "mlp.fc1.weight"
_TOWER_MLP_MULTIPLE = 64
"""What the width of SigLIP's MLP must be a multiple of to be quantized. Source: models/siglip.py,
SiglipMLP."""

_MARLIN_GROUPS = frozenset({0, 32, 64, 128})
"""Groups that Marlin's kernels of experts read, 0 for a whole row. Source:
utils/marlin_utils.py, check_moe_marlin_supports_config."""

_MARLIN_HIDDEN = 128
"""What the hidden size must be a multiple of for them. Source: the same."""

_SMALLEST_BLOCK = 32
"""The smallest group or block to which scales of experts are refined. Source: moe_wna16.py,
create_weights; fused_moe/oracle/fp8.py, refine_fp8_moe_block_shape."""


_GPTQ_BITS = (4, 8)
"""Widths that vLLM's GPTQ reads, with symmetric groups alone. Source: auto_gptq.py, TYPE_MAP."""


_READ_TOO = frozenset({
    "auto_awq", "auto_gptq", "awq_marlin", "fp_quant", "gptq_marlin", "humming",
})  # fmt: skip
"""Methods that vLLM reads and published.py does not; moe_wna16 reads checkpoints in AWQ and GPTQ
alone. Source: __init__.py, QUANTIZATION_METHODS; moe_wna16.py, from_config."""


def check_checkpoint(
    spec: ModelSpec,
    sharded: ShardedWeights,
    version: tuple[int, ...],
    compute_capability: tuple[int, int] | None,
) -> None:
    """Raise UnsupportedError where vLLM of this version does not read the model's checkpoint on
    this GPU.

    Source: utils/gptq_utils.py, normalize_and_validate_gptq_desc_act; auto_gptq.py, TYPE_MAP;
    auto_awq.py, TYPE_MAP; of packed experts compressed_tensors_moe_wna16.py,
    fused_moe/oracle/int_wna16.py (no kernel has 8 bits with zero points) and utils/humming/
    priority.py (on Hopper Humming's go before Marlin's, and take no scales of whole rows)."""
    settings, scheme = spec.quantization or {}, sharded.scheme
    if version < releases.ACTIVATION_ORDER_GONE or scheme.name != settings.get("quant_method"):
        return
    packed = [
        share.form
        for share in sharded.shares
        if share.experts and share.form and share.form.name.startswith("packed_int")
    ]
    reason = None
    if scheme.basis == "assumed" and scheme.name not in READERS.keys() | _READ_TOO:
        reason = f"{scheme.name} weights"
    elif any(form.zero_bits and form.bits == 8 for form in packed):
        reason = "packed experts of 8 bits with zero points"
    elif packed and _has_inputs_in_int8(settings):
        reason = "packed experts with inputs of 8 bits"
    elif compute_capability == (9, 0) and any(
        not form.zero_bits and not form.group for form in packed
    ):
        reason = "packed experts with one scale a row on this GPU"
    elif scheme.name == "gptq":
        bits, group = settings.get("bits"), settings.get("group_size")
        if settings.get("desc_act") and group != -1:
            reason = "GPTQ groups in activation order (desc_act)"
        elif bits not in _GPTQ_BITS:
            reason = f"GPTQ of {bits} bits"
        elif settings.get("sym") is False:
            reason = "GPTQ with zero points (sym: false)"
    elif scheme.name == "auto-round" and settings.get("sym") is False and _is_gptq(scheme.form):
        reason = "GPTQ with zero points (sym: false)"
    elif scheme.name == "awq" and settings.get("w_bit", settings.get("bits", 4)) != 4:
        reason = "AWQ of another width than 4 bits"
    if reason:
        raise UnsupportedError(
            "engine", f"vLLM 0.33 reads no {reason}.", ({"engine": ("transformers",)},)
        )


def _has_inputs_in_int8(settings: Mapping[str, Any]) -> bool:
    """Return whether compressed-tensors quantizes what goes into linears to integers. Source:
    compressed_tensors_moe_w4a8_int8.py, which has kernels for CPUs alone."""
    return any(inputs.get("type") == "int" for inputs in inputs_of_groups(settings))


def inputs_of_groups(settings: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Return how compressed-tensors quantizes what goes into linears, by group that does."""
    groups = settings.get("config_groups")
    inputs = [
        group.get("input_activations")
        for group in (groups.values() if isinstance(groups, Mapping) else ())
        if isinstance(group, Mapping)
    ]
    return [one for one in inputs if isinstance(one, Mapping)]


def _is_gptq(form: Format | None) -> bool:
    return form is not None and form.name.startswith("gptq_")


def registered_scheme(spec: ModelSpec, scheme: Scheme) -> Scheme:
    """Return the scheme as vLLM registers the model's tensors in it."""
    if not scheme.rules:
        return scheme
    routers = quantizes_routers(spec)
    rules = [_registered(rule, routers=routers) for rule in scheme.rules]
    if scheme.name == "fp8" and _names_modules(spec):
        towers = any(block.part in TOWERS for block in spec.blocks)
        rules = [*_unquantized_towers(spec), *(_of_modules(rule, towers=towers) for rule in rules)]
    if scheme.name == "modelopt_mixed":
        rules = [of_fused(rule) for rule in rules]
    if scheme.name.startswith("modelopt_fp8"):
        # A scale a tensor, whatever linears have. Source: modelopt.py, ModelOptFp8MoEMethod.
        rules.insert(-1, Rule(form=FP8_TENSOR, kinds=(Kind.EXPERT,)))
    if scheme.name == "compressed-tensors" and quirks(spec).experts_unnamed:
        rules = [Rule(form=None, kinds=(Kind.EXPERT,)), *rules]
    whole = [UNQUANTIZED, _FIRST_MAMBA] if _has_first_mamba(spec) else [UNQUANTIZED]
    if any(rule.form is not None and rule.form.name == "mxfp4" for rule in rules):
        whole.append(IN_16_BIT_BESIDE_MXFP4)
    return msgspec.structs.replace(
        scheme, rules=(*(Rule(form=None, names=names) for names in whole), *rules)
    )


def of_fused(rule: Rule) -> Rule:
    """Return a rule for every part of a linear that vLLM builds as one, where it names any. Source:
    modelopt.py, ModelOptMixedPrecisionConfig._resolve_quant_algo."""
    if rule.form is None or rule.names is None:
        return rule
    split = [root.rpartition(".") for root in rule.names.roots]
    roots = {
        f"{parent}{dot}{name}"
        for parent, dot, last in split
        for name in next((fused for fused in _FUSED if last in fused), (last,))
    }
    names = msgspec.structs.replace(rule.names, roots=frozenset(roots))
    return msgspec.structs.replace(rule, names=names)


def _names_modules(spec: ModelSpec) -> bool:
    """Return whether the checkpoint's list of modules in 16 bit holds their whole names, so that
    one of a tower leaves its linears quantized. Source: fp8.py, Fp8Config (match mode `exact`)."""
    settings = spec.quantization or {}
    return settings.get("quant_method") == "fp8" and spec.model_type not in _OTHERWISE_NAMED


def _of_modules(rule: Rule, *, towers: bool) -> Rule:
    """Return a rule of FP8 for `towers` and their projectors too, and for modules by their whole
    names; experts, which are one module, by the name of any."""
    if rule.names is None:
        everywhere = towers and Kind.LINEAR in rule.kinds
        parts = (*rule.parts, *TOWERS, Part.PROJECTOR) if everywhere else rule.parts
        return msgspec.structs.replace(rule, parts=parts)
    roots = rule.names.roots
    experts = frozenset(root for root in roots if "experts" in root)
    names = Names(roots=experts, modules=roots)
    return msgspec.structs.replace(rule, names=names, parts=tuple(Part))


def _unquantized_towers(spec: ModelSpec) -> list[Rule]:
    """Return rules for what vLLM's class of a tower or projector builds in 16 bit."""
    special = quirks(spec)
    parts: set[Part] = set()
    if special.towers_of_transformers or special.unquantized_tower:
        parts.update((*TOWERS, Part.PROJECTOR))
    if special.unquantized_projector:
        parts.add(Part.PROJECTOR)
    rules = [Rule(form=None, parts=(Part.PROJECTOR,), names=_PATCH_MERGER)]
    if parts:
        rules.append(Rule(form=None, parts=tuple(parts)))
    if any(
        tensor.name.endswith(_TOWER_MLP) and tensor.shape[0] % _TOWER_MLP_MULTIPLE
        for block in spec.blocks
        if block.part is Part.VISION
        for tensor in block.tensors
    ):
        rules.append(Rule(form=None, parts=(Part.VISION,), names=named(("mlp.fc1", "mlp.fc2"))))
    return rules


def _has_first_mamba(spec: ModelSpec) -> bool:
    return any(
        isinstance(mixer, Recurrent) and mixer.kind == "mamba1"
        for block in spec.blocks
        for mixer in block.mixers
    )


def _registered(rule: Rule, *, routers: bool) -> Rule:
    """Return a rule with the format that vLLM registers; with `routers`, for routers too where it
    holds for linears."""
    form, kinds = rule.form, rule.kinds
    if routers and Kind.LINEAR in kinds and Kind.ROUTER not in kinds:
        kinds = (*kinds, Kind.ROUTER)
    if form is not None and form.name in CHANNEL_SCALES:
        form = msgspec.structs.replace(form, scale_bits=32)
    if form is not None and form.input_bits:
        # No activation order is read, so no g_idx is registered. Source: auto_gptq.py.
        form = msgspec.structs.replace(form, input_bits=0)
    return msgspec.structs.replace(rule, form=form, kinds=kinds)


def expert_form(form: Format, width: int, hidden: int, ways: int) -> Format:
    """Return the format of an expert's weight on a rank that holds `width` of its features."""
    if form.rows > 1:
        return _refined_block(form, width, hidden, ways)
    if not form.name.startswith(("gptq_", "awq_")):
        return form
    if marlin_reads(form, width, hidden):
        # Zero points and biases of both projections, whether or not the checkpoint has them.
        # Source: auto_gptq.py, AutoGPTQMoEMethod.create_weights.
        return (
            msgspec.structs.replace(form, output_bits=16) if form.name.startswith("gptq_") else form
        )
    group = halved_group(form.group, width, hidden)
    zero_bits = 0 if form.name.startswith("gptq_") else form.zero_bits
    return msgspec.structs.replace(form, group=group, zero_bits=zero_bits)


def linear_refusal(share: TensorGroup, ways: int) -> str | None:
    """Return why vLLM refuses an AWQ linear divided over `ways` ranks, None where it does not.
    Source: auto_awq.py, AutoAWQLinearMethod.create_weights."""
    form = share.form
    if form is None or share.experts or not form.name.startswith("awq_"):
        return None
    width = divided(share.inputs, ways) if share.split is Split.ROW else share.inputs
    uneven = 0 < form.group < share.inputs and width % form.group
    return _uneven(width, form) if uneven else None


def unrefined_refusal(scheme: Scheme, share: TensorGroup, ways: int) -> str | None:
    """Return why vLLM refuses an expert in square blocks, which those of compressed-tensors may
    not cut, None where it does not. Source: utils/fp8_utils.py, validate_fp8_block_shape_moe."""
    form = share.form
    if scheme.name != "compressed-tensors" or not share.experts or form is None or form.rows < 2:
        return None
    width = divided(share.pieces, ways) // share.fused
    return _uneven(width, form) if width % form.rows else None


def refusal(form: Format, width: int, hidden: int) -> str | None:
    """Return why vLLM refuses an expert's weight of which a rank holds `width` features, None
    where it does not.

    Source: moe_wna16.py, MoeWNA16Method.create_weights; compressed_tensors_moe_wna16.py;
    fused_moe/oracle/fp8.py."""
    if form.rows > 1:
        refined = _refined_block(form, width, hidden, 2).group
        return None if width % refined == 0 and refined >= _SMALLEST_BLOCK else _uneven(width, form)
    if form.name.startswith(("gptq_", "awq_")):
        if marlin_reads(form, width, hidden) or not form.group:
            return None
        if halved_group(form.group, width, hidden) >= _SMALLEST_BLOCK:
            return None
        return _uneven(width, form)
    if form.name.startswith("packed_int") and form.group:
        if width % form.group:
            return _uneven(width, form)
        if hidden % form.group:
            return f"hidden size {hidden} is no multiple of its quantization groups of {form.group}"
    return None


def _uneven(width: int, form: Format) -> str:
    return f"{width} features a rank cannot be divided into quantization blocks of {form.group}"


def marlin_reads(form: Format, width: int, hidden: int) -> bool:
    """Return whether Marlin's kernels of experts read the format at these sizes."""
    return (
        form.group in _MARLIN_GROUPS
        and hidden % _MARLIN_HIDDEN == 0
        and (not form.group or width % form.group == 0)
    )


def halved_group(group: int, width: int, hidden: int) -> int:
    """Return the largest group, halved as often as needed, that divides both sides."""
    while group > 1 and (width % group or hidden % group):
        group //= 2
    return group


def _refined_block(form: Format, width: int, hidden: int, ways: int) -> Format:
    """Return `form` with blocks that divide an expert's `width` on this rank: the greatest common
    divisor, as the engine repeats its scales. Along its inputs an expert that is whole may end in
    a part of a block."""
    if width % form.rows == 0 and (ways == 1 or width % form.group == 0):
        return form
    size = gcd(form.rows, form.group, width, hidden)
    return msgspec.structs.replace(form, rows=size, group=size) if size >= _SMALLEST_BLOCK else form
