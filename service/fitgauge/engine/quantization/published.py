"""What a repository says about its quantization (config.json's quantization_config or
hf_quant_config.json), as a Scheme.

Sources: transformers utils/quantization_config.py, NVIDIA ModelOpt's unified export,
vllm-project/compressed-tensors config/base.py, AutoGPTQ, AutoAWQ and bitsandbytes configs, as
read by vLLM 0.33 (model_executor/layers/quantization)."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from msgspec.structs import replace

from fitgauge.engine.memo import WeakMemo
from fitgauge.engine.model.spec import Kind, ModelSpec, Part
from fitgauge.engine.note import Note
from fitgauge.engine.quantization import formats
from fitgauge.engine.quantization.formats import Format
from fitgauge.engine.quantization.limits import (
    FEWEST_MATRICES,
    MAX_FORMATS,
    MAX_MATCHING,
    MAX_NAMES,
    MAX_PATTERN_CHARACTERS,
    check_limit,
    pattern_characters,
)
from fitgauge.engine.quantization.scheme import LINEARS, MATRICES, Rule, Scheme, named

Values = Mapping[str, Any]
COMPRESSORS = ("compressor", "indexer.weights_proj")
"""What DeepSeek V4 leaves in 16 bit without saying so. Source: vLLM
models/deepseek_v4/compressor.py, attention.py."""


def published(spec: ModelSpec) -> Scheme | None:
    """Return the scheme a model was published in, None for one that is not quantized.

    A config that cannot be read gives a scheme with basis `assumed` and a warning: its bits come
    from whatever key looks like bits. Raises MalformedModelError for one that costs more to
    match with the model's tensors than any real one."""
    if not spec.quantization:
        return None
    return _PUBLISHED.get_or_compute(spec, None, lambda: _published(spec))


_PUBLISHED: WeakMemo[ModelSpec, None, Scheme | None] = WeakMemo()


def _published(spec: ModelSpec) -> Scheme | None:
    values = spec.quantization or {}
    check_limit("characters of patterns", pattern_characters(values), MAX_PATTERN_CHARACTERS)
    scheme = _read(spec, values)
    if scheme is not None:
        matrices = sum(
            len(block.layers) * sum(len(tensor.shape) > 1 for tensor in block.tensors)
            for block in spec.blocks
        )
        check_limit(
            "states of patterns x matrices",
            scheme.pattern_states * max(matrices, FEWEST_MATRICES),
            MAX_MATCHING,
        )
        check_limit("number formats", len(scheme.formats), MAX_FORMATS)
    return scheme


def _read(spec: ModelSpec, values: Values) -> Scheme | None:
    if spec.model_type == "deepseek_v4":
        values = {"expert_dtype": "fp4", **values}
    inner = values.get("quantization")
    if isinstance(inner, dict):
        values = {"quant_method": "modelopt", **inner}
    method = str(
        values.get("quant_method") or ("mlx" if "bits" in values and "group_size" in values else "")
    ).lower()
    if not method:
        note = Note(
            "quantization-method-missing",
            "quantization",
            "The config holds quantization settings without a quant_method: engines load such"
            " weights unquantized.",
        )
        return Scheme(name="unquantized", basis="assumed", warnings=(note,))
    reader = READERS.get(method)
    try:
        scheme = reader(values) if reader else None
    except (ValueError, TypeError, AttributeError, OverflowError) as error:
        return _unknown(values, method, f"its settings could not be read ({error})")
    return scheme or _unknown(values, method, "it is not known here")


def _unknown(values: Values, method: str, why: str) -> Scheme:
    """Bits from any key that looks like bits, groups of 128, on every linear layer."""
    widths = [
        values[key]
        for key in ("bits", "num_bits", "w_bit", "wbits", "weight_bits", "nbits")
        if key in values
    ]
    bits = next(
        (float(value) for value in widths if isinstance(value, int | float) and 1 <= value <= 16),
        8.0 if "8" in method else 4.0,
    )
    group = _integer(values, "group_size", "q_group_size", default=128)
    form = Format(name=f"{method[:20]}_{bits:g}bit", bits=bits, group=max(group, 0), scale_bits=16)
    note = Note(
        "quantization-unknown",
        "quantization",
        f"Quantization {method[:40]!r}: {why[:160]}. Taken as {bits:g} bits a weight with a scale"
        f" for every {group}.",
    )
    return Scheme(name=method[:20], rules=(Rule(form=form),), basis="assumed", warnings=(note,))


def _integer(values: Values, *keys: str, default: int) -> int:
    for key in keys:
        value = values.get(key)
        if isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < 2**31:
            return int(value)
    return default


def _strings(values: Values, *keys: str) -> list[str]:
    for key in keys:
        value = values.get(key)
        if value:
            if not isinstance(value, list) or len(value) > MAX_NAMES:
                raise ValueError(f"{key} is no list of names")
            return [item for item in value if isinstance(item, str)]
    return []


def _unquantized(names: Sequence[str]) -> tuple[Rule, ...]:
    return (Rule(form=None, names=named(names)),) if names else ()


def _skipped(values: Values, *keys: str) -> tuple[Rule, ...]:
    """Return the rule of the modules that the first of these lists leaves unquantized."""
    return _unquantized(_strings(values, *keys))


def _all_but(skipped: tuple[Rule, ...], name: str, form: Format) -> Scheme:
    """Return a scheme of one format, but for what is skipped."""
    return Scheme(name=name, rules=(*skipped, Rule(form=form)))


def _fp8(values: Values) -> Scheme:
    """FP8 in blocks of weight_block_size (DeepSeek, Qwen) or with one scale a tensor; a mixture may
    also name NVFP4 or fp4 experts.

    With `expert_dtype` fp4 (DeepSeek V4) the experts are MXFP4 and the other scales e8m0; its
    compressors are not quantized."""
    block, narrow = values.get("weight_block_size"), values.get("expert_dtype") == "fp4"
    form = formats.FP8_TENSOR
    if isinstance(block, list) and len(block) == 2:
        form = formats.block_fp8(int(block[0]), int(block[1]), 8 if narrow else 32)
    left = _unquantized(
        [
            *_strings(values, "ignored_layers", "modules_to_not_convert"),
            *(COMPRESSORS if "expert_dtype" in values else ()),
        ]
    )
    experts = _algorithm(str(values.get("moe_quant_algo") or ""), values) or (
        formats.MXFP4 if narrow else None
    )
    mixed = (Rule(form=experts, kinds=(Kind.EXPERT,)),) if experts else ()
    return Scheme(name="fp8", rules=(*mixed, *left, Rule(form=form)))


def _awq(values: Values) -> Scheme:
    form = formats.awq(
        _integer(values, "bits", "w_bit", default=4),
        _integer(values, "group_size", "q_group_size", default=128),
    )
    return _all_but(_skipped(values, "modules_to_not_convert"), "awq", form)


def _gptq(values: Values) -> Scheme:
    """GPTQ; `lm_head` says whether the head is quantized too, `dynamic` holds modules left alone
    ("-:") or stored otherwise."""
    bits, group = _integer(values, "bits", default=4), _integer(values, "group_size", default=128)
    kinds = (*LINEARS, Kind.HEAD) if values.get("lm_head") is True else LINEARS
    rules = [*_skipped(values, "modules_to_not_convert", "modules_in_block_to_not_quantize")]
    for entry, change in (values.get("dynamic") or {}).items():
        names = named(["re:" + entry.removeprefix("-:").removeprefix("+:")])
        own = change if isinstance(change, dict) else {}
        form = formats.gptq(
            _integer(own, "bits", default=bits), _integer(own, "group_size", default=group)
        )
        rules.append(Rule(form=None if entry.startswith("-:") else form, kinds=kinds, names=names))
    return Scheme(name="gptq", rules=(*rules, Rule(form=formats.gptq(bits, group), kinds=kinds)))


def _auto_round(values: Values) -> Scheme | None:
    """Intel AutoRound: integers packed as GPTQ's or AWQ's, or MX floats, and modules of another
    width in `extra_config`. Source: vLLM quantization/inc/inc.py, config_parser.py."""
    kind, packing = str(values.get("data_type") or "int"), str(values.get("packing_format"))
    pack = formats.awq if packing.endswith("awq") else formats.gptq

    def form(own: Values) -> Format | None:
        bits = _integer({**values, **own}, "bits", default=4)
        if bits >= 16:
            return None
        if "mx_fp" in kind:
            return formats.MXFP8 if bits == 8 else formats.MXFP4
        return pack(bits, _integer({**values, **own}, "group_size", default=128))

    if kind != "int" and "mx_fp" not in kind:
        return None
    names: dict[Format | None, list[str]] = {}
    for name, own in (values.get("extra_config") or {}).items():
        is_name = all(part.isidentifier() or part.isdigit() for part in name.split("."))
        names.setdefault(form(own), []).append(name if is_name else f"re:.*(?:{name})")
    kinds = (*LINEARS, Kind.HEAD)
    rules = [Rule(form=own, kinds=kinds, names=named(listed)) for own, listed in names.items()]
    return Scheme(name="auto-round", rules=(*rules, Rule(form=form({}))))


def _bitsandbytes(values: Values) -> Scheme:
    """bitsandbytes replaces every linear layer but those of llm_int8_skip_modules (the head by
    default), towers included."""
    if values.get("load_in_8bit") and not values.get("load_in_4bit"):
        form = formats.LLM_INT8
    else:
        kind = str(values.get("bnb_4bit_quant_type") or "fp4")
        form = formats.bitsandbytes_4bit(kind, double=bool(values.get("bnb_4bit_use_double_quant")))
    rules = _skipped(values, "llm_int8_skip_modules")
    everywhere = tuple(part for part in Part if part is not Part.HEAD)
    return Scheme(
        name=form.name,
        rules=(*rules, Rule(form=form, kinds=(*LINEARS, Kind.ROUTER), parts=everywhere)),
    )


def _compressed_tensors(values: Values) -> Scheme:
    """compressed-tensors: config_groups with the modules they target ("Linear", names, "re:"),
    and `ignore`."""
    rules = [*_skipped(values, "ignore")]
    for group in (values.get("config_groups") or {}).values():
        weights = group.get("weights") if isinstance(group, dict) else None
        if not isinstance(weights, dict):
            continue
        form = _compressed_format(weights, str(group.get("format") or values.get("format") or ""))
        targets = _strings(group, "targets")
        if not targets or "Linear" in targets:
            rules.append(Rule(form=form))
        else:
            rules.append(Rule(form=form, kinds=(*LINEARS, Kind.HEAD), names=named(targets)))
    return Scheme(name="compressed-tensors", rules=tuple(rules))


def _compressed_format(weights: Values, layout: str) -> Format:
    bits = _integer(weights, "num_bits", default=8)
    kind = str(weights.get("type"))
    strategy = str(weights.get("strategy"))
    group = _integer(weights, "group_size", default=0)
    block = weights.get("block_structure")
    if bits == 4 and kind == "float":
        return formats.MXFP4 if "mxfp4" in layout or group == 32 else formats.NVFP4
    if bits == 8 and kind == "float":
        if strategy == "block" and isinstance(block, list):
            return formats.block_fp8(int(block[0]), int(block[1]))
        if strategy == "channel":
            return formats.FP8_CHANNEL
        return formats.MXFP8 if group == 32 else formats.FP8_TENSOR
    if bits == 8 and layout != "pack-quantized":
        return formats.INT8_CHANNEL
    return formats.affine(
        bits, group, name=f"packed_int{bits}", symmetric=weights.get("symmetric") is not False
    )


def _algorithm(name: str, values: Values) -> Format | None:
    """Return a ModelOpt algorithm's format, None for one that is unknown."""
    group = _integer(values, "group_size", default=16)
    blocks = group if group > 0 else formats.NVFP4.group  # NVFP4 has no weights without blocks
    by_name: dict[str, Format] = {
        "FP8": formats.FP8_TENSOR,
        "FP8_PER_CHANNEL_PER_TOKEN": formats.FP8_CHANNEL,
        "FP8_PB_WO": formats.block_fp8(128, 128),
        "FP8_BLOCK": formats.block_fp8(128, 128),
        "NVFP4": replace(formats.NVFP4, group=blocks),
        "W4A16_NVFP4": replace(formats.NVFP4, group=blocks, extra_bytes=4),
        "W4A16_AWQ": formats.affine(4, group, name="int4_awq"),
        "W4A8_AWQ": formats.affine(4, group, name="int4_awq"),
        "MXFP4": formats.MXFP4,
        "MXFP8": formats.MXFP8,
        "INT8_SQ": formats.INT8_CHANNEL,
        "W8A16": formats.INT8_CHANNEL,
    }
    return by_name.get(name.upper())


def _modelopt(values: Values) -> Scheme | None:
    """NVIDIA ModelOpt: one algorithm but for excluded modules, or MIXED_PRECISION with an
    algorithm for every module."""
    left = _skipped(values, "exclude_modules", "ignore")
    algorithm = str(values.get("quant_algo") or "").upper()
    if algorithm == "MIXED_PRECISION":
        shortened = bool(values.get("quantized_layers_cut"))
        return Scheme(
            name="modelopt_mixed",
            rules=(*left, *_listed(values.get("quantized_layers") or {})),
            basis="assumed" if shortened else "computed",
            warnings=(_SHORTENED,) if shortened else (),
        )
    form = _algorithm(algorithm, values)
    return _all_but(left, f"modelopt_{algorithm.lower()}", form) if form else None


_SHORTENED = Note(
    "quantization-unknown",
    "quantization",
    "The list of quantized modules is shortened in this config: what it leaves out is counted in"
    " 16 bit, so that the checkpoint takes less.",
)
_SENSES = (Part.VISION, Part.AUDIO, Part.PROJECTOR)


def _listed(layers: Values) -> tuple[Rule, ...]:
    """Return one rule for each format among the modules listed, whatever their kind; a language
    model's modules name none of a tower's, though their layers' names end alike."""
    modules: dict[tuple[Format, bool], list[str]] = {}
    for module, settings in layers.items():
        if isinstance(settings, dict) and (
            form := _algorithm(str(settings.get("quant_algo")), settings)
        ):
            modules.setdefault((form, "language_model." in module), []).append(module)
    return tuple(
        Rule(
            form=form,
            kinds=MATRICES,
            parts=tuple(part for part in Part if not (language and part in _SENSES)),
            names=named(names),
        )
        for (form, language), names in modules.items()
    )


def _mxfp4(values: Values) -> Scheme:
    """gpt-oss: the routed experts alone. Source: vLLM layers/quantization/mxfp4.py; transformers
    integrations/mxfp4.py."""
    return Scheme(name="mxfp4", rules=(Rule(form=formats.MXFP4, kinds=(Kind.EXPERT,)),))


def _experts_int8(values: Values) -> Scheme:
    """Routed experts alone, whose 16-bit weights vLLM narrows to INT8 with a scale a row while it
    loads them. Source: vLLM layers/quantization/experts_int8.py, online/int8.py."""
    experts = Rule(form=formats.INT8_CHANNEL, kinds=(Kind.EXPERT,))
    return Scheme(name="experts_int8", rules=(experts,))


def _torchao(values: Values) -> Scheme | None:
    """torchao: the class of its configuration, written out under quant_type.default._type."""
    kind = values.get("quant_type")
    settings = kind.get("default") if isinstance(kind, dict) else None
    name = (
        str(settings.get("_type") if isinstance(settings, dict) else kind).lower().replace("_", "")
    )
    data = settings.get("_data") if isinstance(settings, dict) else None
    group = _integer(data if isinstance(data, dict) else {}, "group_size", default=128)
    if "int4" in name:
        form = formats.affine(4, group, name="torchao_int4", symmetric=False, scale_bits=16)
    elif "float8" in name:
        form = formats.FP8_CHANNEL
    elif "int8" in name:
        form = formats.INT8_CHANNEL
    else:
        return None
    return _all_but(_skipped(values, "modules_to_not_convert"), "torchao", form)


def _quark(values: Values) -> Scheme | None:
    """AMD Quark: global_quant_config.weight and `exclude`."""
    weight = (values.get("global_quant_config") or {}).get("weight")
    weight = weight[0] if isinstance(weight, list) and weight else weight
    if not isinstance(weight, dict):
        return None
    dtype, group = str(weight.get("dtype")), _integer(weight, "group_size", default=0)
    form = {
        "fp8_e4m3": formats.FP8_TENSOR,
        "fp4": formats.MXFP4,
        "int8": formats.INT8_CHANNEL,
        "int4": formats.affine(4, group),
        "uint4": formats.affine(4, group, symmetric=False),
    }.get(dtype)
    if form is formats.FP8_TENSOR and weight.get("qscheme") == "per_channel":
        form = formats.FP8_CHANNEL
    return _all_but(_skipped(values, "exclude"), "quark", form) if form else None


def _mlx(values: Values) -> Scheme:
    """MLX: affine groups with a 16-bit scale and bias, embeddings and head included. Source: mlx
    nn/layers/quantized.py."""
    form = Format(
        name="mlx",
        bits=_integer(values, "bits", default=4),
        group=_integer(values, "group_size", default=64),
        scale_bits=16,
        zero_bits=16,
    )
    return Scheme(name="mlx", rules=(Rule(form=form, kinds=MATRICES),))


READERS: dict[str, Callable[[Values], Scheme | None]] = {
    "fp8": _fp8,
    "fbgemm_fp8": lambda values: _all_but(
        _skipped(values, "modules_to_not_convert"), "fbgemm_fp8", formats.FP8_CHANNEL
    ),
    "experts_int8": _experts_int8,
    "awq": _awq,
    "gptq": _gptq,
    "auto-round": _auto_round,
    "bitsandbytes": _bitsandbytes,
    "compressed-tensors": _compressed_tensors,
    "modelopt": _modelopt,
    "modelopt_fp4": _modelopt,
    "modelopt_mixed": _modelopt,
    "mxfp4": _mxfp4,
    "mxfp8": lambda values: _all_but(
        _skipped(values, "ignored_layers", "modules_to_not_convert"), "mxfp8", formats.MXFP8
    ),
    "torchao": _torchao,
    "quark": _quark,
    "mlx": _mlx,
}
