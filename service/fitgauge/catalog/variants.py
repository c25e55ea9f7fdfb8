"""Repositories with the architecture of another model: quantized, tuned, or released again.

A name says it: "-AWQ", "-GPTQ-Int4", "-GGUF", "-Instruct". What is left of the name must be a
known model's; nothing else is guessed.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Literal, NamedTuple

from fitgauge.engine.model.families import read_config
from fitgauge.engine.model.spec import TOWERS, Kind, ModelSpec, Part
from fitgauge.engine.quantization.formats import GGUF_FILE_BITS

Rule = Literal["quantized", "mirror", "sibling", "fine-tune", "release"]

RULES: Mapping[Rule, str] = {
    "quantized": "a repository in another number format has the shapes of its base",
    "mirror": "a copy of the same weights",
    "sibling": "base, tuned and dated releases of a model have one architecture",
    "fine-tune": "a fine-tune or distillation has the shapes of its base",
    "release": "another release of the same architecture and size",
}
"""Why a repository has the shapes of another one."""

USUAL_FILE = "Q4_K_M"
"""The GGUF file that llama.cpp takes where none is named."""

_TOWERS = [
    "lm_head",
    "visual",
    "vision_tower",
    "vision_model",
    "multi_modal_projector",
    "embed_vision",
    "audio_tower",
]
_IGNORED = ["lm_head", *(f"re:.*{name}.*" for name in _TOWERS[1:])]


def _compressed(layout: str, weights: dict[str, Any], ignore: list[str]) -> dict[str, Any]:
    """Return a config of compressed-tensors with one group of linear layers."""
    return {
        "quant_method": "compressed-tensors",
        "format": layout,
        "config_groups": {"group_0": {"targets": ["Linear"], "weights": weights}},
        "ignore": ignore,
    }


def _integers(bits: int, group: int) -> dict[str, Any]:
    """Return how compressed-tensors describes integer weights in groups."""
    return {
        "num_bits": bits,
        "type": "int",
        "strategy": "group",
        "group_size": group,
        "symmetric": True,
    }


def _gptq(bits: int) -> dict[str, Any]:
    return {
        "quant_method": "gptq",
        "bits": bits,
        "group_size": 128,
        "desc_act": False,
        "sym": True,
        "modules_in_block_to_quantize": None,
    }


def _bitsandbytes(bits: int) -> dict[str, Any]:
    return {
        "quant_method": "bitsandbytes",
        "load_in_4bit": bits == 4,
        "load_in_8bit": bits == 8,
        "bnb_4bit_quant_type": "nf4",
        "bnb_4bit_use_double_quant": True,
        "llm_int8_skip_modules": _TOWERS,
    }


FORMATS: Mapping[str, tuple[str, dict[str, Any]]] = {
    "awq": (
        "AWQ, 4 bits in groups of 128",
        {
            "quant_method": "awq",
            "bits": 4,
            "group_size": 128,
            "zero_point": True,
            "version": "gemm",
            "modules_to_not_convert": _TOWERS,
        },
    ),
    "gptq_int4": ("GPTQ, 4 bits in groups of 128", _gptq(4)),
    "gptq_int4_experts": (
        "GPTQ, 4 bits in groups of 128, attention and shared experts in 16 bits",
        {
            **_gptq(4),
            "dynamic": {f"-:.*{name}.*": {} for name in ("attn", "shared_expert", "mtp", "visual")},
        },
    ),
    "gptq_int8": ("GPTQ, 8 bits in groups of 128", _gptq(8)),
    "bnb_4bit": ("bitsandbytes NF4", _bitsandbytes(4)),
    "bnb_8bit": ("bitsandbytes, 8 bits", _bitsandbytes(8)),
    "fp8_block": (
        "FP8 in blocks of 128 x 128",
        {"quant_method": "fp8", "activation_scheme": "dynamic", "weight_block_size": [128, 128]},
    ),
    "fp8": (
        "FP8 with one scale a channel",
        _compressed(
            "float-quantized",
            {"num_bits": 8, "type": "float", "strategy": "channel", "symmetric": True},
            _IGNORED,
        ),
    ),
    "int8": (
        "8 bits with one scale a channel",
        _compressed(
            "int-quantized",
            {"num_bits": 8, "type": "int", "strategy": "channel", "symmetric": True},
            _IGNORED,
        ),
    ),
    "w4a16": (
        "4 bits in groups of 128",
        _compressed("pack-quantized", _integers(4, 128), _IGNORED),
    ),
    "int4_experts": (
        "4 bits in groups of 32, experts only",
        _compressed(
            "pack-quantized",
            _integers(4, 32),
            [
                *_IGNORED,
                "re:.*self_attn.*",
                "re:.*shared_experts.*",
                r"re:.*mlp\.(gate|up|gate_up|down)_proj.*",
            ],
        ),
    ),
    "nvfp4": (
        "NVFP4",
        {
            "quant_method": "modelopt",
            "quant_algo": "NVFP4",
            "group_size": 16,
            "exclude_modules": [f"*{name}*" for name in _TOWERS],
        },
    ),
    "mlx_3bit": ("MLX, 3 bits in groups of 64", {"bits": 3, "group_size": 64}),
    "mlx_4bit": ("MLX, 4 bits in groups of 64", {"bits": 4, "group_size": 64}),
    "mlx_5bit": ("MLX, 5 bits in groups of 64", {"bits": 5, "group_size": 64}),
    "mlx_6bit": ("MLX, 6 bits in groups of 64", {"bits": 6, "group_size": 64}),
    "mlx_8bit": ("MLX, 8 bits in groups of 64", {"bits": 8, "group_size": 64}),
}
"""What the config of such a repository usually holds, with a few words for it. Source: defaults of
AutoAWQ, GPTQModel, bitsandbytes in transformers, llm-compressor, ModelOpt and mlx-lm; the FP8
blocks are those of DeepSeek-V3 and Qwen3; the experts' groups of 32 those of Kimi K2 Thinking, what
GPTQ leaves alone that of Qwen3.5."""

UNQUANTIZED = "none"
"""A format: the 16-bit weights of a base that was published quantized."""

GGUF = "gguf"

FILE_TYPES = (*sorted(GGUF_FILE_BITS, key=len, reverse=True), "BF16", "F16")
"""The types of GGUF files, the longer names first."""

_MIXTURE = re.compile(r"(Q[2-8])_K_X?L$")
_SEPARATOR = r"[-_.]"
_FILE_TYPE = "|".join(FILE_TYPES)
_SUFFIXES: tuple[tuple[re.Pattern[str], str], ...] = tuple(
    (re.compile(rf"{_SEPARATOR}(?:{pattern})$", re.IGNORECASE), form)
    for pattern, form in (
        (rf"(?:(?:ud-)?(?P<file>{_FILE_TYPE}){_SEPARATOR})?(?:i1-|imatrix-)?gguf", GGUF),
        (r"(?:unsloth-|dynamic-)?bnb-4bits?", "bnb_4bit"),
        (r"bnb-8bits?", "bnb_8bit"),
        (r"gptq[-_.]?(?:int|w)?8(?:[-_.]?bits?|a16)?(?:[-_.](?:g?128g?))?", "gptq_int8"),
        (
            r"gptq(?:[-_.]?(?:int|w)?4(?:[-_.]?bits?|a16)?)?(?:[-_.](?:g?128g?|marlin))?",
            "gptq_int4",
        ),
        (r"awq(?:[-_.]?(?:int|w)?4(?:[-_.]?bits?|a16)?)?(?:[-_.](?:g?128g?|marlin))?", "awq"),
        (r"fp8-block", "fp8_block"),
        (r"fp8(?:-dynamic|-static|-kv|-w8a8)?", "fp8"),
        (r"nvfp4(?:a16)?|fp4", "nvfp4"),
        (r"(?:quantized\.)?w4a16(?:-g128)?|int4[-_.]w4a16|int4", "w4a16"),
        (r"(?:quantized\.)?w8a(?:8|16)|int8[-_.]w8a8|int8", "int8"),
        (r"mlx-(?P<bits>[34568])bit", "mlx"),
        (r"(?P<bits>[34568])bit(?:-mlx|-dwq)", "mlx"),
        (r"(?:bf16|fp16)(?:-mlx)?", UNQUANTIZED),
    )
)
_MLX_OWNERS = frozenset({"mlx-community"})
_MLX = re.compile(r"-(?P<bits>[34568])bit$", re.IGNORECASE)
_BLOCK_OWNERS = frozenset({"qwen", "zai-org", "deepseek-ai", "minimaxai", "stepfun-ai", "tencent"})
"""Publishers whose own FP8 repositories have scales in blocks."""

_TUNED = re.compile(rf"{_SEPARATOR}(?:instruct|chat|it|base|pt)(?:-hf)?$", re.IGNORECASE)


class Variant(NamedTuple):
    """What the suffix of a name says."""

    stem: str
    """The name without it."""
    form: str
    """The format it names."""
    file: str | None = None
    """The type of a GGUF file that the name holds."""


def read_suffix(model_id: str) -> Variant | None:
    """Return what the suffix of an id says of its format; None for one that names no format."""
    owner, _, name = model_id.rpartition("/")
    if owner.lower() in _MLX_OWNERS and (match := _MLX.search(name)):
        return Variant(name[: match.start()], f"mlx_{match['bits']}bit")
    for pattern, form in _SUFFIXES:
        if match := pattern.search(name):
            groups, stem = match.groupdict(), name[: match.start()]
            if form == "mlx":
                form = f"mlx_{groups['bits']}bit"
            if form == "fp8" and owner.lower() in _BLOCK_OWNERS:
                form = "fp8_block"
            return Variant(stem, form, groups.get("file"))
    return None


def file_type(file: str) -> str | None:
    """Return the type of a GGUF file by its name or label; the nearest one of a mixture that only
    some repositories publish (UD-Q4_K_XL). None for an unknown one."""
    name = file.rpartition("/")[2].removesuffix(".gguf").upper()
    if mixture := _MIXTURE.search(name):
        name = next(
            kind
            for kind in (f"{mixture[1]}_K_L", f"{mixture[1]}_K_M", f"{mixture[1]}_K", "Q8_0")
            if kind in GGUF_FILE_BITS
        )
    return next((kind for kind in FILE_TYPES if name.endswith(kind)), None)


def key_of(name: str) -> str:
    """Return the letters and digits of a name, in small letters."""
    return re.sub(r"[^a-z0-9]+", "", name.lower())


class NameIndex:
    """Ids by the letters and digits of their names, whoever owns them."""

    def __init__(self, ids: Iterable[str]) -> None:
        """Index these ids; of two names alike the first is taken."""
        self._ids: dict[str, str] = {}
        for model_id in ids:
            self._ids.setdefault(key_of(model_id.rpartition("/")[2]), model_id)

    def base_of(self, model_id: str) -> tuple[str, Rule, Variant] | None:
        """Return the known id that an unknown one is a variant of, by which rule, and what its
        name says; None where its name is no known one with such a suffix."""
        owner, _, name = model_id.rpartition("/")
        variant = read_suffix(model_id)
        if variant is None:
            return self._sibling_of(owner.lower(), name)
        names = (variant.stem, *_without_tuning(variant.stem), *_with_tuning(variant.stem))
        base = next(filter(None, map(self._named, names)), None)
        return (base, "quantized", variant) if base else None

    def _sibling_of(self, owner: str, name: str) -> tuple[str, Rule, Variant] | None:
        """Return the base of a tuned model, whoever tuned it, or a publisher's tuned model for
        its base."""
        own = (
            base
            for base in map(self._named, _with_tuning(_TUNED.sub("", name)))
            if base and base.partition("/")[0].lower() == owner
        )
        tuned = filter(None, map(self._named, _without_tuning(name)))
        base = next(tuned, None) or next(own, None)
        return (base, "sibling", Variant(name, "")) if base else None

    def _named(self, name: str) -> str | None:
        """Return the id of this name, with or without what owners write in front of it and
        "-hf" behind it."""
        names = [name]
        if "_" in name:
            names.append(name.partition("_")[2])
        for key in map(key_of, names):
            for form in (key, f"{key}hf", f"meta{key}", key.removeprefix("meta")):
                if form in self._ids:
                    return self._ids[form]
        return None


def _without_tuning(name: str) -> tuple[str, ...]:
    """Return the name without its word for tuning, where it has one."""
    base = _TUNED.sub("", name)
    return (base,) if base != name else ()


def _with_tuning(name: str) -> Iterator[str]:
    """Yield the names that publishers give to a model that was tuned, and to its base."""
    return (f"{name}-{word}" for word in ("Instruct", "Chat", "it", "Base"))


def with_format(config: dict[str, Any], form: str) -> dict[str, Any]:
    """Return a config whose weights are stored in a format of FORMATS, in 16 bit under
    UNQUANTIZED."""
    plain = {key: value for key, value in config.items() if key != "quantization_config"}
    text = plain.get("text_config")
    if isinstance(text, dict) and "quantization_config" in text:
        plain["text_config"] = {k: v for k, v in text.items() if k != "quantization_config"}
    if form == UNQUANTIZED:
        return plain
    settings = FORMATS[form][1]
    if form == "fp8_block":
        settings = {**settings, "modules_to_not_convert": _in_16_bit(read_config(plain))}
    return {**plain, "quantization_config": settings}


def _in_16_bit(spec: ModelSpec) -> list[str]:
    """Return the modules that publishers keep in 16 bit next to FP8 in blocks: those of towers and
    those that are no whole blocks. By their whole names, since engines quantize a tower that is
    named by its root alone.

    Source: config.json of Qwen3-30B-A3B-FP8 has whole names; vLLM 0.19 logs 28.51 GiB of
    Qwen3.8-27B-FP8 (public file 60434605882), 0.4 GiB more than with its tower in FP8."""
    whole = (*TOWERS, Part.PROJECTOR)
    return ["lm_head"] + [
        block.prefix.format(layer) + tensor.name.removesuffix(".weight")
        for block in spec.blocks
        for layer in block.layers
        for tensor in block.tensors
        if tensor.kind is Kind.LINEAR
        and (block.part in whole or any(size % _BLOCK for size in tensor.shape))
    ]


_BLOCK = 128
"""Rows and columns of a block."""
