"""How SGLang registers quantized weights: what it adds to a checkpoint's tensors, which modules it
leaves in 16 bit, and what it does where a rank's part is no whole number of groups.

Source: sglang 0.5.23, srt/layers/quantization, the module named at each rule."""

import msgspec

from fitgauge.engine.model.spec import TOWERS, Kind, ModelSpec, Part
from fitgauge.engine.quantization.formats import Format
from fitgauge.engine.quantization.scheme import LINEARS, Names, Rule, Scheme, named
from fitgauge.engine.serving.sglang.quirks import quirks
from fitgauge.engine.serving.vllm.quantized import (
    CHANNEL_SCALES,
    IN_16_BIT_BESIDE_MXFP4,
    UNQUANTIZED,
    halved_group,
    marlin_reads,
    of_fused,
)

_LATER_OF_FUSED = ("re:(^|[.])(k_proj|v_proj|kv_a_proj_with_mqa)$",)
_LATER_OF_GATED = ("re:(^|[.])(up_proj|w3)$",)
"""Linears that are loaded into one with another, whose index of groups is registered once."""

_SORTED_INDEX = 64
"""Bits of an expert's index of groups with the order that sorts it. Source: gptq/schemes/
gptq_moe.py; compressed_tensors_wNa16_moe.py (g_idx, g_idx_sort_indices, int32)."""


def registered_scheme(spec: ModelSpec, scheme: Scheme) -> Scheme:
    """Return the scheme as SGLang registers the model's tensors in it."""
    if not scheme.rules:
        return scheme
    rules = list(scheme.rules)
    if scheme.name == "modelopt_mixed":
        rules = [of_fused(rule) for rule in rules]
    if scheme.name == "fp8" and any(block.part in TOWERS for block in spec.blocks):
        rules = [_of_towers(rule) for rule in rules]
    ordered = bool((spec.quantization or {}).get("desc_act"))
    gated = all(
        block.mlp.gated for block in spec.blocks if block.mlp and block.part is Part.LANGUAGE
    )
    later = named((*_LATER_OF_FUSED, *(_LATER_OF_GATED if gated else ())))
    rounded = scheme.name == "auto-round"
    rules = [
        each
        for rule in rules
        for each in _registered(rule, later, ordered=ordered, rounded=rounded)
    ]
    if scheme.name in ("mxfp4", "compressed-tensors"):
        rules = [_with_biases(rule, spec) for rule in rules]
    whole = [Rule(form=None, names=names) for names in (UNQUANTIZED, IN_16_BIT_BESIDE_MXFP4)]
    if quirks(spec).unquantized_experts:
        whole.append(Rule(form=None, kinds=(Kind.EXPERT,)))
    if names := quirks(spec).unquantized:
        whole.append(Rule(form=None, names=named(names), parts=tuple(Part)))
    if names := quirks(spec).unnamed:
        formats = [rule.form for rule in rules if rule.form is not None]
        whole += [Rule(form=form, names=named(names), parts=tuple(Part)) for form in formats[-1:]]
    return msgspec.structs.replace(scheme, rules=(*whole, *rules))


def _of_towers(rule: Rule) -> Rule:
    """Return a rule of FP8 for towers and projectors too, which are built with the checkpoint's
    settings. Source: fp8.py, Fp8Config.get_quant_method."""
    return msgspec.structs.replace(rule, parts=tuple(Part))


def _with_biases(rule: Rule, spec: ModelSpec) -> Rule:
    """Return a rule of MXFP4 with the biases of experts, which are registered whether or not the
    checkpoint has them. Source: mxfp4.py, Mxfp4MoEMethod.create_weights."""
    has_own = any(
        tensor.kind is Kind.BIAS and "expert" in tensor.name
        for block in spec.blocks
        for tensor in block.tensors
    )
    if rule.form is None or rule.form.name != "mxfp4" or has_own:
        return rule
    return msgspec.structs.replace(rule, form=msgspec.structs.replace(rule.form, output_bits=16))


def _registered(rule: Rule, later_of_fused: Names, *, ordered: bool, rounded: bool) -> list[Rule]:
    """Return a rule as the rules of what is registered: linears, experts, and what is the second
    of a fused linear. ordered: whether groups lie in the order of activations, for which linears
    keep all scales and experts do not. rounded: whether AutoRound packed it, whose experts have
    scales alone. Source: marlin_utils.py, marlin_repeat_scales_on_all_ranks; gptq/schemes/
    gptq_moe.py; auto_round.py, apply_gptq_quant_layer (moe_wna16)."""
    form = rule.form
    if form is None:
        return [rule]
    if form.name in CHANNEL_SCALES:
        return [msgspec.structs.replace(rule, form=msgspec.structs.replace(form, scale_bits=32))]
    if not form.name.startswith(("gptq_", "packed_int")):
        return [rule]
    if ordered and form.name.startswith("gptq_"):
        form = msgspec.structs.replace(form, repeats_scales=True)
    rules = []
    for kinds, own in (
        ((Kind.EXPERT,), _with_scales(form) if rounded else _of_experts(form, ordered=ordered)),
        (tuple(kind for kind in rule.kinds if kind is not Kind.EXPERT), form),
    ):
        if not any(kind in rule.kinds for kind in kinds):
            continue
        later = msgspec.structs.replace(own, input_bits=0)
        if rule.names is None and own.input_bits:
            fused = tuple(kind for kind in kinds if kind in LINEARS)
            rules.append(
                msgspec.structs.replace(rule, form=later, kinds=fused, names=later_of_fused)
            )
        rules.append(msgspec.structs.replace(rule, form=own, kinds=kinds))
    return rules


def _with_scales(form: Format) -> Format:
    """Return a format with neither zero points nor an index of groups."""
    return msgspec.structs.replace(form, input_bits=0, zero_bits=0)


def _of_experts(form: Format, *, ordered: bool) -> Format:
    """Return the format of experts for Marlin's kernels: an index of groups whether or not it is
    read, zero points in 16 bit of which each holds as many as 32 bits do. Source:
    gptq/schemes/gptq_moe.py, GPTQMarlinMoEScheme.create_weights."""
    if not form.name.startswith("gptq_"):
        return msgspec.structs.replace(form, input_bits=_SORTED_INDEX)
    return msgspec.structs.replace(
        form, input_bits=_SORTED_INDEX, zero_bits=form.zero_bits // 2, repeats_scales=not ordered
    )


def expert_form(form: Format, width: int, hidden: int, ways: int) -> Format:
    """Return the format of an expert's weight on a rank that holds `width` of its features: AWQ
    that Marlin's kernels do not read has smaller groups, and so has what AutoRound packed. Source:
    awq/awq.py, AWQMarlinConfig; moe_wna16.py, MoeWNA16Method.create_weights."""
    rounded = form.name.startswith("gptq_") and not form.zero_bits
    if not rounded and (not form.name.startswith("awq_") or marlin_reads(form, width, hidden)):
        return form
    return msgspec.structs.replace(form, group=halved_group(form.group, width, hidden))
