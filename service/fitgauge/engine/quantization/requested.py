"""Quantizations people name ("fp8", "AWQ", "q4_k_m"), as the Scheme a model would have if
somebody quantized it so."""

import re
from difflib import get_close_matches
from functools import lru_cache

import msgspec

from fitgauge.engine.model.families.nominal import table_parameters
from fitgauge.engine.model.spec import Kind, ModelSpec, Part
from fitgauge.engine.quantization import formats
from fitgauge.engine.quantization.formats import Format
from fitgauge.engine.quantization.gguf import gguf_scheme, usual_form
from fitgauge.engine.quantization.scheme import Rule, Scheme, is_nominal, named
from fitgauge.engine.unsupported import UnsupportedError

UNQUANTIZED: dict[str, str] = {
    "fp64": "F64", "fp32": "F32", "float32": "F32", "tf32": "F32", "fp16": "F16", "float16": "F16",
    "half": "F16", "bf16": "BF16",
    "bfloat16": "BF16",
}  # fmt: skip
"""Names of formats that hold every weight as it is."""

FORMATS: dict[str, Format] = {
    "fp8": formats.FP8_TENSOR, "fp8_channel": formats.FP8_CHANNEL,
    "fp8_block": formats.block_fp8(128, 128), "int8": formats.LLM_INT8,
    "w8a8": formats.INT8_CHANNEL, "int6": formats.affine(6, 128), "int5": formats.affine(5, 128),
    "int4": formats.affine(4, 128), "int3": formats.affine(3, 128),
    "int2": formats.affine(2, 128), "awq": formats.awq(4, 128), "gptq": formats.gptq(4, 128),
    "gptq_int8": formats.gptq(8, 128), "gptq_int3": formats.gptq(3, 128),
    "nf4": formats.bitsandbytes_4bit("nf4"), "fp4": formats.bitsandbytes_4bit("fp4"),
    "nf4_double": formats.bitsandbytes_4bit("nf4", double=True), "nvfp4": formats.NVFP4,
    "mxfp4": formats.MXFP4, "mxfp8": formats.MXFP8,
}  # fmt: skip
"""What a quantizer stores by its usual settings: groups of 128 for integers, one scale a tensor
for fp8."""

_NUMBERS = frozenset({"fp8", "int8", "int6", "int5", "int4", "int3", "int2"})
"""Those that say how wide a weight is and not who quantizes it."""

BITSANDBYTES = ("int8", "nf4", "fp4", "nf4_double")
"""Those that bitsandbytes loads a model in."""

FLOAT32 = Format(name="fp32", bits=32)
KEPT_IN_FLOAT32 = dict.fromkeys(("t5", "mt5", "umt5", "longt5", "switch_transformers"), ("*.wo",))
"""By model type, modules that transformers keeps in float32 where bitsandbytes quantizes.

Source: transformers 5.23 models/t5/modeling_t5.py, _keep_in_fp32_modules;
quantizers/base.py, get_modules_to_not_convert."""

ALIASES: dict[str, str] = {
    "w8a8_fp8": "fp8", "fp8_e4m3": "fp8", "e4m3": "fp8", "float8": "fp8", "8bit_float": "fp8",
    "fp8_dynamic": "fp8_channel",
    "ptpc_fp8": "fp8_channel", "llm_int8": "int8", "8bit": "int8", "bnb_int8": "int8",
    "bitsandbytes_8bit": "int8", "bnb_8bit": "int8",
    "load_in_8bit": "int8", "w8a8_int8": "w8a8", "int8_w8a8": "w8a8", "smoothquant": "w8a8",
    "w8a16": "w8a8", "4bit": "int4",
    "w4a16": "int4", "int4_g128": "int4", "awq_int4": "awq", "awq_4bit": "awq", "awq_marlin": "awq",
    "gptq_int4": "gptq",
    "modelopt_fp8": "fp8", "modelopt_fp4": "nvfp4",
    "gptq_4bit": "gptq", "gptq_marlin": "gptq", "gptq_8bit": "gptq_int8", "bnb": "nf4",
    "bitsandbytes": "nf4", "bnb_4bit": "nf4",
    "bitsandbytes_4bit": "nf4", "bnb_nf4": "nf4", "qlora": "nf4", "load_in_4bit": "nf4",
    "nf4_dq": "nf4_double", "bnb_fp4": "fp4",
    "fp4_nvidia": "nvfp4", "w4a4": "nvfp4", "none": "bf16", "unquantized": "bf16",
    "6bit": "int6", "5bit": "int5", "3bit": "int3", "2bit": "int2",
    "int_4": "int4", "int_8": "int8", "fp8_w8a8": "fp8",
    "q2": "q2_k", "q3": "q3_k_m", "q4": "q4_k_m", "q5": "q5_k_m", "q6": "q6_k", "q8": "q8_0",
    "q4_k": "q4_k_m", "q5_k": "q5_k_m", "q3_k": "q3_k_m", "gguf": "q4_k_m",
    "f16": "fp16", "f32": "fp32",
}  # fmt: skip
"""Other names people type."""

_LLM_INT8 = frozenset({
    "llm_int8", "bnb_int8", "bitsandbytes_8bit", "bnb_8bit", "load_in_8bit",
})  # fmt: skip
"""Names of 8 bits that say bitsandbytes, which some engines do not read; others mean any
checkpoint of integers where an engine loads one."""

_USUAL = (
    "fp8", "int8", "int4", "awq", "gptq", "nf4", "nvfp4", "mxfp4", "bf16", "fp16", "fp32", "q4_k_m",
)  # fmt: skip
"""The quantizations to name where one is unknown."""

_EXLLAMA = ("exl2", "exl3")
"""Source: turboderp/exllamav2, README.md."""

_FILE_TYPES = {file_type.lower(): file_type for file_type in formats.GGUF_FILE_BITS}
"""GGUF file types by their names in small letters."""


def scheme_names() -> tuple[str, ...]:
    """Return every name that is understood without an alias, GGUF file types in small letters."""
    return (*UNQUANTIZED, *FORMATS, *_FILE_TYPES)


@lru_cache(maxsize=1024)
def canonical_name(name: str) -> str:
    """Return a quantization's name in small letters, with case, spaces, dots, dashes, brackets and
    aliases out of the way."""
    key = _spelled(name)
    return ALIASES.get(key, key)


def is_gguf_format(name: str | None) -> bool:
    """Return whether a quantization is that of a GGUF file: q4_k_m."""
    return name is not None and canonical_name(name) in _FILE_TYPES


def names_bitsandbytes(name: str) -> bool:
    """Return whether the name of 8 bits says whose they are: LLM.int8() of bitsandbytes."""
    return _spelled(name) in _LLM_INT8


_WITH_BITS = re.compile(
    r"(?:(?:int)?(?P<before>\d)(?:bit)?_)?(?P<stem>.+?)(?:_(?:int)?(?P<after>\d)(?:bit)?)?"
)


def _spelled_whole(name: str) -> str:
    """Return a name as the tables spell it, less the bits that are said again: "4-bit AWQ"."""
    plain = re.sub(r"[\s.\-/()\[\],:]+", "_", name.lower()).strip("_")
    plain = re.sub(r"(\d)_?bits?(?![a-z])", r"\1bit", plain)
    key = plain.removeprefix("gguf_").removesuffix("_gguf")
    parts = _WITH_BITS.fullmatch(key)
    bits = parts and (parts["before"] or parts["after"])
    if _is_known(key) or not parts or not bits:
        return key
    both = f"{parts['stem']}_{bits}bit"
    if _is_known(both):
        return both
    return parts["stem"] if bits in parts["stem"] and _is_known(parts["stem"]) else key


def _spelled(name: str) -> str:
    """Return a name as the tables spell it, else what stands before a remark in brackets."""
    key = _spelled_whole(name)
    before = re.sub(r"[(\[].*", "", name) or name
    return key if _is_known(key) or before == name else _spelled_whole(before)


def _is_known(key: str) -> bool:
    return key in ALIASES or key in UNQUANTIZED or key in FORMATS or key in _FILE_TYPES


def requested_scheme(name: str, spec: ModelSpec) -> Scheme:
    """Return the scheme `spec` would have in the quantization `name`; case, spaces, dots and dashes
    do not matter.

    Raises UnsupportedError for a name that means nothing here, with near matches.
    """
    key = canonical_name(name)
    if key in UNQUANTIZED:
        return Scheme(name=key, dtype=UNQUANTIZED[key])
    if key in FORMATS:
        if names_bitsandbytes(name):
            return msgspec.structs.replace(requested_scheme(key, spec), name="llm_int8")
        usual = Rule(form=_form(key, spec), parts=_parts(key), whole_groups=key == "awq")
        if key in BITSANDBYTES and spec.model_type in KEPT_IN_FLOAT32:
            wide = Rule(form=FLOAT32, names=named(KEPT_IN_FLOAT32[spec.model_type]))
            return Scheme(name=key, rules=(wide, usual), usual_form=usual.form)
        return Scheme(name=key, rules=(usual,))
    if key in _FILE_TYPES:
        return gguf_scheme(_FILE_TYPES[key], spec)
    if key in _EXLLAMA:
        raise UnsupportedError(
            "quantization",
            f"{key.upper()} is a format of ExLlama, which is not covered.",
            ({"quantization": ("awq", "gptq", "q4_k_m")},),
        )
    near = get_close_matches(key, [*scheme_names(), *ALIASES], n=5, cutoff=0.5)
    meant = tuple(dict.fromkeys(ALIASES.get(one, one) for one in near))
    raise UnsupportedError(
        "quantization",
        f"Unknown quantization {name[:40]!r}.",
        ({"quantization": meant or _USUAL},),
        matches=meant,
    )


def served_scheme(name: str, spec: ModelSpec) -> Scheme:
    """Return `requested_scheme`, of a model that is only a size as an average over its parameters:
    what a quantizer leaves in 16 bit, embedding and head, and the scales of the rest. A format that
    is only a width holds all of them in it.

    Raises UnsupportedError as it does."""
    scheme = requested_scheme(name, spec)
    form = scheme.form
    if (
        form is None
        or not is_nominal(spec)
        or canonical_name(name) not in FORMATS.keys() - _NUMBERS
    ):
        return scheme
    scales = (form.scale_bits + form.zero_bits) / (form.group or spec.hidden_size) / form.rows
    in_16_bit = table_parameters(spec) / spec.parameters
    average = Format(name=form.name, bits=16 * in_16_bit + (form.bits + scales) * (1 - in_16_bit))
    rules = tuple(msgspec.structs.replace(rule, form=average) for rule in scheme.rules)
    return msgspec.structs.replace(scheme, rules=rules, usual_form=form)


def requested_form(name: str, spec: ModelSpec) -> Format | None:
    """Return the format that stands for all of `requested_scheme`, which is not laid out for it.

    Raises UnsupportedError as it does."""
    key = canonical_name(name)
    if key in _FILE_TYPES:
        return usual_form(_FILE_TYPES[key])
    return _form(key, spec) if key in FORMATS else requested_scheme(name, spec).form


def _form(key: str, spec: ModelSpec) -> Format:
    """Return the format of what a quantizer touches of a model."""
    return formats.awq(4, _awq_group(spec)) if key == "awq" else FORMATS[key]


def _parts(key: str) -> tuple[Part, ...]:
    """bitsandbytes replaces the linear layers of towers too; others quantize the language model."""
    towers = (Part.VISION, Part.AUDIO, Part.PROJECTOR) if key in BITSANDBYTES else ()
    return (Part.LANGUAGE, Part.ENCODER, Part.MTP, *towers)


def _awq_group(spec: ModelSpec) -> int:
    """Return the widest usual group of which the experts' rows are whole multiples: AWQ takes no
    other matrix, so that a publisher narrows the group for experts and leaves out the rest. Source:
    AutoAWQ awq/quantize/quantizer.py, pseudo_quantize_tensor."""
    rows = {
        tensor.shape[-1]
        for block in spec.blocks
        for tensor in block.tensors
        if tensor.kind is Kind.EXPERT
    }
    groups = (group for group in (128, 64, 32) if not any(row % group for row in rows))
    return next(groups, 128)
