"""Which block type every tensor of a GGUF file has, as a scheme.

Source: llama.cpp conversion/*.py for what is split, fused or kept in F32; gguf_types.py for the
rule."""

import math
import re
from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import NamedTuple

from msgspec import structs

from fitgauge.engine.memo import WeakMemo
from fitgauge.engine.model.mixers import Attention, LatentAttention
from fitgauge.engine.model.spec import Block, Kind, ModelSpec, Part, Tensor
from fitgauge.engine.quantization.formats import GGUF_FILE_BITS, Format, gguf_block
from fitgauge.engine.quantization.gguf_types import (
    DEFAULT_BLOCKS,
    Place,
    QuantizedModel,
    Role,
    block_type,
    fitting_block,
)
from fitgauge.engine.quantization.scheme import MATRICES, Placed, Rule, Scheme, is_nominal

_SEPARATED = ("W_pack", "wqkv")
"""Queries, keys and values that conversion writes as three tensors (Baichuan, InternLM2)."""

_ROLES = tuple(
    (role, re.compile(rf"(^|\.)({names})$"))
    for role, names in (
        (Role.VALUE, r"qkv_proj|Wqkv|query_key_value|in_proj_qkv|attn\.c_attn"),
        (Role.VALUE, r"v_proj|v_lin|value|value_proj|(\w*Attention|attn)\.v"),
        (Role.KEY, r"k_proj|k_lin|key|key_proj|(\w*Attention|attn)\.k"),
        (Role.QUERY, r"q_proj|q_lin|query|query_proj|(\w*Attention|attn)\.q"),
        (
            Role.ATTENTION_OUTPUT,
            r"o_proj|out_lin|attn\.(c_proj|Wo)|(?<!linear_)attn\.(attention\.)?out_proj"
            r"|attention\.(output\.)?dense|self_attn\.dense|attention\.wo|(\w*Attention|attn)\.o",
        ),
        (
            Role.DOWN,
            r"down_proj|output_linear|w2|fc2|lin2|fc_out|dense_4h_to_h|ffn_output|mlp\.c_proj"
            r"|mlp\.Wo|DenseReluDense\.wo|output\.dense",
        ),
        (
            Role.UP,
            r"up_proj|gate_proj|gate_up_proj|input_linear|w1|w3|fc1|lin1|fc_in|dense_h_to_4h|ffn"
            r"|c_fc(_\d)?|mlp\.Wi|wi(_\d)?|intermediate\.dense",
        ),
    )
)

_QWEN_V1 = {"mlp.w1": Role.UP, "mlp.w2": Role.UP}
"""Qwen 1 names its gate w2, which is the down projection elsewhere."""

_UNTOUCHED = re.compile(
    r"position|wpe$|token_type|altup|laurel|per_layer_model_proj|rel_embeddings|relative_attention"
    r"|index_[kq]_proj|shared_expert_gate"
)
"""Tensors that stay in F32: embeddings of positions and types, small projections."""

_70B = frozenset({"llama", "qwen2", "nemotron-nas"})
"""Model types whose 80 layers llama.cpp takes for a 70B model. Source: src/models/llama.cpp,
qwen2.cpp, deci.cpp, load_arch_hparams."""
_70B_LAYERS = 80


_PARTS = tuple(part for part in Part if part not in (Part.VISION, Part.AUDIO, Part.PROJECTOR))


EXPERTS_AS_TRAINED = Rule(form=gguf_block("MXFP4"), kinds=(Kind.EXPERT,))
"""GGUF files of models trained in MXFP4 keep their experts so, whatever the file is called.

Source: llama.cpp conversion/gpt_oss.py, which repacks the published blocks."""


class Piece(NamedTuple):
    """A part of a tensor that conversion writes as a tensor of its own."""

    role: Role
    """What the rule takes it for."""
    inputs: int
    """Weights of a row."""
    rows: int
    """Its rows, or their share of the tensor's bytes."""


class _Matrix(NamedTuple):
    """A matrix of every layer of a block."""

    block: Block
    """The block."""
    tensor: Tensor
    """The tensor of one layer."""
    pieces: tuple[Piece, ...]
    """What conversion makes of it; empty: it stays in F32."""


_SCHEMES: WeakMemo[ModelSpec, str, Scheme] = WeakMemo()
"""By model and file type: one question may ask for the same file many times."""


def gguf_scheme(file_type: str, spec: ModelSpec) -> Scheme:
    """Return a GGUF file of this type as llama.cpp would make it from `spec`. Vectors, routers
    and positions stay in F32; towers are in a file of their own."""
    return _SCHEMES.get_or_compute(spec, file_type, lambda: _scheme(file_type, spec))


def half_scheme(dtype: str, spec: ModelSpec) -> Scheme:
    """Return a GGUF file of 16-bit weights, F16 or BF16, but for experts trained in MXFP4."""
    rules = (EXPERTS_AS_TRAINED,) if _trained_in_mxfp4(spec) else ()
    return Scheme(name=dtype.lower(), rules=rules, dtype=dtype)


def mxfp4_scheme(spec: ModelSpec) -> Scheme:
    """Return a GGUF file of type MXFP4_MOE: experts in MXFP4, every other matrix in Q8_0.

    Source: llama.cpp src/llama-quant.cpp, LLAMA_FTYPE_MOSTLY_MXFP4_MOE; ggml-org's files of
    gpt-oss have these types."""
    scheme = gguf_scheme("Q8_0", spec)
    return structs.replace(scheme, name="mxfp4", rules=(EXPERTS_AS_TRAINED, *scheme.rules))


def usual_form(file_type: str) -> Format:
    """Return the format that stands for all of a file of this type."""
    return Format(name=file_type, bits=GGUF_FILE_BITS[file_type])


def _scheme(file_type: str, spec: ModelSpec) -> Scheme:
    average = usual_form(file_type)
    kinds = tuple(kind for kind in MATRICES if kind is not Kind.ROUTER)
    if is_nominal(spec):
        rules = (Rule(form=average, kinds=kinds, parts=_PARTS),)
        return Scheme(name=file_type, rules=rules, dtype="F32", basis="assumed", usual_form=average)
    default = gguf_block(DEFAULT_BLOCKS[file_type])
    as_trained = (EXPERTS_AS_TRAINED,) if _trained_in_mxfp4(spec) else ()
    return Scheme(
        name=file_type,
        rules=(*as_trained, Rule(form=default, kinds=kinds, parts=_PARTS)),
        placed=tuple(_placed(file_type, spec, default)),
        dtype="F32",
        usual_form=average,
    )


def _placed(file_type: str, spec: ModelSpec, default: Format) -> Iterator[Placed]:
    """Yield every matrix of which some layers have another format than the default."""
    kinds = [kind for kind in MATRICES if kind is not Kind.EXPERT or not _trained_in_mxfp4(spec)]
    matrices = [
        _Matrix(block, tensor, pieces(tensor, block))
        for block in spec.blocks
        if block.part in _PARTS
        for tensor in block.tensors
        if len(tensor.shape) > 1 and tensor.dtype is None and tensor.kind in kinds
    ]
    values, downs = _order(matrices, Role.VALUE), _order(matrices, Role.DOWN)
    model = _quantized_model(file_type, spec, len(values))
    by_layer = {Role.VALUE, Role.DOWN, *((Role.UP,) if file_type == "IQ3_XS" else ())}
    for number, (block, tensor, parts) in enumerate(matrices):
        alike = by_layer.isdisjoint(piece.role for piece in parts)
        layers_by_types: dict[tuple[str, ...], list[int]] = {}
        for layer in block.layers[:1] if alike else block.layers:
            place = Place(layer, values.get((layer, number), 0), downs.get((layer, number), 0))
            types = tuple([block_type(model, piece.role, place, piece.inputs) for piece in parts])
            layers_by_types.setdefault(types, []).append(layer)
        runs = tuple(
            (_form(types, parts, default.name), block.layers if alike else tuple(layers))
            for types, layers in layers_by_types.items()
        )
        if any(form != default for form, _ in runs):
            yield Placed(block.prefix, block.layers[0], tensor.name, runs)


def _trained_in_mxfp4(spec: ModelSpec) -> bool:
    return (spec.quantization or {}).get("quant_method") == "mxfp4"


def _order(matrices: Sequence[_Matrix], role: Role) -> dict[tuple[int, int], int]:
    """Return how many tensors of this role come before, by layer and number of the matrix."""
    keys = sorted(
        (matrix.block.part, layer, number)
        for number, matrix in enumerate(matrices)
        if any(piece.role is role for piece in matrix.pieces)
        for layer in matrix.block.layers
    )
    return {(layer, number): index for index, (_, layer, number) in enumerate(keys)}


def _form(types: tuple[str, ...], parts: tuple[Piece, ...], name: str) -> Format | None:
    """Return the format of a matrix by the types of its parts; None: it stays in F32."""
    if not types:
        return None
    fitting = [fitting_block(kind, part.inputs) for kind, part in zip(types, parts, strict=True)]
    if len(set(fitting)) == 1:
        return gguf_block(fitting[0])
    bits = sum(gguf_block(kind).bits * part.rows for kind, part in zip(fitting, parts, strict=True))
    return Format(name=name, bits=bits / sum(part.rows for part in parts))


def _quantized_model(file_type: str, spec: ModelSpec, values: int) -> QuantizedModel:
    family = spec.language_type or spec.model_type
    attention = next(
        (
            mixer
            for block in sorted(spec.blocks, key=lambda block: block.layers[:1])
            if block.part is Part.LANGUAGE
            for mixer in block.mixers
            if isinstance(mixer, Attention)
        ),
        None,
    )
    heads_per_kv = attention.query_heads // attention.kv_heads if attention else 0
    return QuantizedModel(
        file_type=file_type,
        layers=spec.layers,
        experts=max((block.mlp.experts for block in spec.blocks if block.mlp), default=0),
        heads_per_kv=heads_per_kv,
        tied=spec.tied_embeddings,
        falcon=family == "falcon",
        is_70b=family in _70B and spec.layers == _70B_LAYERS and heads_per_kv > 1,
        values=values,
    )


def pieces(tensor: Tensor, block: Block) -> tuple[Piece, ...]:
    """Return the tensors that conversion makes of this one; none where it stays in F32."""
    name = tensor.name.removesuffix(".weight")
    inputs = math.prod(tensor.shape[1:])
    rows = tensor.shape[0]
    if tensor.kind is Kind.ROUTER or _UNTOUCHED.search(name):
        return ()
    mixer = block.mixers[0] if block.mixers else None
    if name.endswith(_SEPARATED) and isinstance(mixer, Attention):
        return (
            Piece(Role.QUERY, inputs, mixer.query_heads * mixer.head_dim),
            Piece(Role.KEY, inputs, mixer.kv_heads * mixer.head_dim),
            Piece(Role.VALUE, inputs, mixer.kv_heads * mixer.value_dim),
        )
    if name.endswith("kv_b_proj") and isinstance(mixer, LatentAttention):
        return (
            Piece(Role.OTHER, mixer.nope_dim, mixer.nope_dim),
            Piece(Role.OTHER, mixer.latent_dim, mixer.value_dim),
        )
    return (Piece(role_of(name, tensor.kind), inputs, rows),)


@lru_cache(maxsize=4096)
def role_of(name: str, kind: Kind) -> Role:
    """Return the role of a matrix by its module's name without the block's prefix."""
    if kind is Kind.HEAD:
        return Role.OUTPUT
    if kind is Kind.EMBEDDING:
        return Role.EMBEDDING
    if name in _QWEN_V1:
        return _QWEN_V1[name]
    return next((role for role, pattern in _ROLES if pattern.search(name)), Role.OTHER)
