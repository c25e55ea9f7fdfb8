"""The rule by which llama.cpp picks the block type of a tensor in a GGUF file.

A file type (Q4_K_M) is a block type (Q4_K) with exceptions by a tensor's role, its layer and the
length of its rows. Source: llama.cpp src/llama-quant.cpp, llama_tensor_get_type_impl,
tensor_type_fallback, llama_ftype_get_default_type."""

from enum import StrEnum
from typing import NamedTuple

from fitgauge.engine.quantization.formats import GGUF_BLOCKS


class Role(StrEnum):
    """What llama.cpp's rule takes a tensor for."""

    OUTPUT = "output"
    EMBEDDING = "embedding"
    QUERY = "query"
    KEY = "key"
    VALUE = "value"
    """also queries, keys and values in one tensor"""
    ATTENTION_OUTPUT = "attention_output"
    UP = "up"
    """also the gate"""
    DOWN = "down"
    OTHER = "other"


DEFAULT_BLOCKS = {
    "IQ1_S": "IQ1_S", "IQ1_M": "IQ1_M", "IQ2_XXS": "IQ2_XXS", "IQ2_XS": "IQ2_XS",
    "IQ2_S": "IQ2_XS", "IQ2_M": "IQ2_S",
    "IQ3_XXS": "IQ3_XXS", "IQ3_XS": "IQ3_S", "IQ3_S": "IQ3_S", "IQ3_M": "IQ3_S",
    "IQ4_XS": "IQ4_XS", "IQ4_NL": "IQ4_NL",
    "Q2_K_S": "Q2_K", "Q2_K": "Q2_K", "Q3_K_S": "Q3_K", "Q3_K_M": "Q3_K", "Q3_K_L": "Q3_K",
    "Q4_K_S": "Q4_K", "Q4_K_M": "Q4_K", "Q5_K_S": "Q5_K", "Q5_K_M": "Q5_K", "Q6_K": "Q6_K",
    "Q8_0": "Q8_0", "Q4_0": "Q4_0", "Q4_1": "Q4_1", "Q5_0": "Q5_0", "Q5_1": "Q5_1",
}  # fmt: skip
"""The block type of a file type where no exception holds."""

_LEAST = frozenset({"IQ1_S", "IQ1_M", "IQ2_XXS", "IQ2_XS", "IQ2_S", "IQ2_M"})
"""File types of fewer than three bits. They and IQ3_XXS are not made without an importance matrix;
the others are counted without one."""
_EIGHT_EXPERTS = 8
_FEW_HEADS = 4
"""Query heads a KV head from which attn_v is small enough to get more bits."""

_SHORT_ROWS = {
    **dict.fromkeys(
        ("IQ1_S", "IQ1_M", "IQ2_XXS", "IQ2_XS", "IQ2_S", "IQ3_XXS", "IQ3_S", "IQ4_XS"), "IQ4_NL"
    ),
    "Q2_K": "Q4_0", "Q3_K": "Q4_0", "Q4_K": "Q5_0", "Q5_K": "Q5_1", "Q6_K": "Q8_0",
}  # fmt: skip
"""What a tensor gets whose rows are no multiple of 256."""


class QuantizedModel(NamedTuple):
    """What the rule reads of a model."""

    file_type: str
    """The file type it is quantized to."""
    layers: int
    """Its layers."""
    experts: int
    """Routed experts of a layer; 0: dense."""
    heads_per_kv: int
    """Query heads that share a KV head."""
    tied: bool
    """Whether embedding and output are one tensor."""
    falcon: bool
    """Whether it is a Falcon, whose exceptions are its own."""
    is_70b: bool
    """Whether llama.cpp takes it for a 70B model."""
    values: int
    """Tensors of the role VALUE."""


class Place(NamedTuple):
    """Where a tensor stands."""

    layer: int
    """The number of its layer."""
    value: int
    """Tensors of the role VALUE before it."""
    down: int
    """Tensors of the role DOWN before it."""


def block_type(model: QuantizedModel, role: Role, place: Place, inputs: int) -> str:
    """Return the block type of a tensor by its role, its place and the length of its rows."""
    file_type, default = model.file_type, DEFAULT_BLOCKS[model.file_type]
    match role:
        case Role.OUTPUT:
            return _output(model, inputs)
        case Role.EMBEDDING:
            return _output(model, inputs) if model.tied else _embedding(file_type)
        case Role.VALUE:
            return _value(model, place.value)
        case Role.DOWN:
            # the layer of a mixture is read from the name, but counted for the least types
            by_name = model.experts > 1 and file_type not in _LEAST
            return _down(model, place.layer if by_name else place.down)
        case Role.ATTENTION_OUTPUT:
            return _attention_output(model)
        case Role.KEY | Role.QUERY:
            return _query_or_key(model, is_key=role is Role.KEY)
        case Role.UP:
            inner = model.layers // 8 <= place.layer < 7 * model.layers // 8
            return "IQ3_XXS" if file_type == "IQ3_XS" and inner else default
        case _:
            return default


def fitting_block(kind: str, inputs: int) -> str:
    """Return the block type that a tensor gets whose rows are `inputs` weights long: another
    where they are no whole blocks, F16 where that does not help either."""
    if inputs % GGUF_BLOCKS[kind][0] == 0:
        return kind
    shorter = _SHORT_ROWS.get(kind, "F16")
    return shorter if inputs % GGUF_BLOCKS[shorter][0] == 0 else "F16"


def more_bits(index: int, count: int) -> bool:
    """Return whether a tensor is in the first or last eighth, or every third between."""
    eighth = count // 8
    return index < eighth or index >= 7 * count // 8 or (index - eighth) % 3 == 2


def _output(model: QuantizedModel, inputs: int) -> str:
    default = DEFAULT_BLOCKS[model.file_type]
    if model.falcon or inputs % GGUF_BLOCKS[default][0] or default == "Q8_0":
        return "Q8_0"
    return "Q5_K" if model.file_type in _LEAST or model.file_type == "IQ3_XXS" else "Q6_K"


def _embedding(file_type: str) -> str:
    if file_type in ("IQ2_S", "IQ2_M", "IQ3_XXS"):
        return "IQ3_S"
    return "Q2_K" if file_type in _LEAST else DEFAULT_BLOCKS[file_type]


def _value(model: QuantizedModel, index: int) -> str:
    kind, default = model.file_type, DEFAULT_BLOCKS[model.file_type]
    few_heads = model.heads_per_kv >= _FEW_HEADS
    if kind in _LEAST:
        if few_heads or model.experts >= _FEW_HEADS:
            return "Q4_K"
        return "IQ3_S" if kind in ("IQ2_S", "IQ2_M") else "Q2_K"
    match kind:
        case "Q2_K":
            default = "Q4_K" if few_heads else "Q3_K"
        case "Q2_K_S" | "IQ3_XXS" | "IQ3_XS" | "IQ3_S":
            default = "Q4_K" if few_heads else default
        case "IQ3_M":
            default = "Q4_K"
        case "Q3_K_M":
            default = "Q5_K" if index < 2 else "Q4_K"
        case "Q3_K_L":
            default = "Q5_K"
        case "IQ4_NL" | "IQ4_XS":
            default = "Q5_K" if few_heads else default
        case "Q4_K_M" | "Q5_K_M":
            default = "Q6_K" if more_bits(index, model.values) else default
        case "Q4_K_S":
            default = "Q5_K" if index < 4 else default
        case _:
            pass
    if model.is_70b and default in ("Q3_K", "Q4_K"):
        default = "Q5_K"
    return "Q8_0" if model.experts == _EIGHT_EXPERTS else default


def _query_or_key(model: QuantizedModel, *, is_key: bool) -> str:
    if is_key and model.experts == _EIGHT_EXPERTS:
        return "Q4_K" if model.file_type in _LEAST else "Q8_0"
    return {"IQ3_XS": "IQ3_XXS", "IQ3_XXS": "IQ2_S"}.get(
        model.file_type, DEFAULT_BLOCKS[model.file_type]
    )


def _down(model: QuantizedModel, index: int) -> str:
    kind, default = model.file_type, DEFAULT_BLOCKS[model.file_type]
    first, more = index < model.layers // 8, more_bits(index, model.layers)
    if kind in _LEAST:
        if not first:
            return default
        return "IQ3_S" if kind in ("IQ2_S", "IQ2_M") else "Q2_K"
    match kind:
        case "Q2_K":
            return "Q3_K"
        case "Q2_K_S":
            return "Q4_K" if first else default
        case "Q3_K_M":
            if index < model.layers // 16:
                return "Q5_K"
            return "Q4_K" if not model.falcon or more else "Q3_K"
        case "Q3_K_L":
            return "Q4_K" if model.falcon else "Q5_K"
        case "IQ3_M":
            return "Q4_K" if first or (model.experts == _EIGHT_EXPERTS and more) else default
        case "Q4_K_M":
            if model.falcon and index >= model.layers // 16:
                return "Q5_K" if more else "Q4_K"
            return "Q6_K" if model.falcon or more else default
        case "Q5_K_M":
            return "Q6_K" if more else default
        case "IQ4_NL" | "IQ4_XS":
            return "Q5_K" if first else default
        case "Q4_K_S":
            return "Q5_K" if first and not model.falcon else default
        case _:
            return default


_ATTENTION_OUTPUTS = {
    "IQ1_S": "IQ2_XXS", "IQ1_M": "IQ2_XXS", "IQ2_S": "IQ3_S", "IQ2_M": "IQ3_S",
    "Q2_K": "Q3_K", "IQ3_XXS": "IQ3_S", "Q3_K_M": "Q4_K", "Q3_K_L": "Q5_K", "IQ3_M": "Q4_K",
}  # fmt: skip
_OF_EIGHT_EXPERTS = _LEAST | {
    "Q2_K", "IQ3_XS", "IQ3_XXS", "Q3_K_S", "Q3_K_M", "IQ4_NL", "Q4_K_S", "Q4_K_M", "IQ3_S",
    "IQ3_M", "IQ4_XS",
}  # fmt: skip
"""File types whose attn_output is Q5_K in a model of eight experts."""


def _attention_output(model: QuantizedModel) -> str:
    kind, default = model.file_type, DEFAULT_BLOCKS[model.file_type]
    if kind not in _LEAST and model.falcon:
        return "Q4_K" if kind == "Q3_K_L" else default
    if model.experts == _EIGHT_EXPERTS:
        return "Q5_K" if kind in _OF_EIGHT_EXPERTS else default
    return _ATTENTION_OUTPUTS.get(kind, default)
