"""Models that vLLM's own classes build from other tensors than the checkpoint holds, and what these
classes register in addition to them.

Source: vLLM 0.33.0, the module of vllm/model_executor/models named at each rule.
"""

import msgspec

from fitgauge.engine.model.dtypes import BITS
from fitgauge.engine.model.spec import Block, Kind, ModelSpec, Part, RotaryTable, Split, Tensor
from fitgauge.engine.serving.vllm import releases
from fitgauge.engine.serving.vllm.architectures import BY_TRANSFORMERS
from fitgauge.engine.serving.vllm.quirks import Quirks, quirks
from fitgauge.engine.unsupported import UnsupportedError


def table_bytes(spec: ModelSpec, table: RotaryTable, version: tuple[int, ...], width: int) -> int:
    """Return the bytes of a rotary table whose numbers have `width` bytes; of its frequencies, in
    float32, where transformers' code runs the model."""
    if spec.architecture in BY_TRANSFORMERS and version >= releases.MIXTURES_BY_TRANSFORMERS:
        return 4 * table.dim
    size = BITS[table.dtype] // 8 if table.dtype else width
    return table_factor(spec, table, version) * table.positions * table.dim * size


def table_factor(spec: ModelSpec, table: RotaryTable, version: tuple[int, ...]) -> int:
    """By how much the language model's table is longer than its positions."""
    short = quirks(spec).rotary_tables_cut and version >= releases.ROTARY_TABLES_CUT
    return 4 if table.axes and not short else 1


def as_started(spec: ModelSpec, context_length: int) -> ModelSpec:
    """Return `spec` with the tables that its class cuts to the context it is started with."""
    if not quirks(spec).tables_as_started:
        return spec
    tables = tuple(
        msgspec.structs.replace(table, positions=min(table.positions, context_length))
        for table in spec.rotary_tables
    )
    return msgspec.structs.replace(spec, rotary_tables=tables)


def position_bytes(spec: ModelSpec) -> int:
    """Position numbers that an encoder registers, int64. Source: bert.py, BertEmbedding."""
    if not quirks(spec).padded_tables:
        return 0
    tables = (
        tensor
        for block in spec.blocks
        for tensor in block.tensors
        if tensor.name == "position_embeddings.weight"
    )
    return sum(8 * tensor.shape[0] for tensor in tables)


def first_chatglm_refusal(spec: ModelSpec, engine: str) -> UnsupportedError | None:
    """Return why an engine whose class is of ChatGLM 2 and 3 loads no ChatGLM-6B: its tensors,
    tied words among them, have other names and sizes. None for other models. Source:
    chatglm.py, load_weights, of vLLM 0.33 and of SGLang 0.5.23."""
    if spec.architecture != "ChatGLMModel" or not spec.tied_embeddings:
        return None
    return UnsupportedError(
        "engine",
        f"{engine} has a class for ChatGLM 2 and 3, which loads no ChatGLM-6B.",
        ({"engine": ("transformers",)},),
    )


_INJECTION, _DOWN = "block_inject_weight.", "input_mix_weight_down."
_INJECTION_ROWS = 16


def with_padding(spec: ModelSpec) -> ModelSpec:
    """Return `spec` with the rows that vLLM alone adds to what a block of Qwen3.8 Flash Next gives
    its residual streams, so that it and the projection down it is one with have a multiple of 16.
    Source: models/qwen4_exp/nvidia/hyperconnection.py, GatedResidual."""
    if not quirks(spec).padded_injection:
        return spec
    blocks = tuple(
        msgspec.structs.replace(
            block, tensors=tuple(_padded_injection(tensor, block) for tensor in block.tensors)
        )
        for block in spec.blocks
    )
    return msgspec.structs.replace(spec, blocks=blocks)


def _padded_injection(tensor: Tensor, block: Block) -> Tensor:
    if _INJECTION not in tensor.name:
        return tensor
    name = tensor.name.replace(_INJECTION, _DOWN)
    down = sum(other.shape[0] for other in block.tensors if other.name == name)
    rows = tensor.shape[0] + -(down + tensor.shape[0]) % _INJECTION_ROWS
    return msgspec.structs.replace(tensor, shape=(rows, *tensor.shape[1:]))


MARLIN = frozenset({"awq", "gptq", "auto-round"})
"""Schemes whose kernels take no narrow outputs. Source: maybe_disable_tp, as below."""
_GATES = ("linear_attn.in_proj_b.weight", "linear_attn.in_proj_a.weight")


def with_whole_gates(spec: ModelSpec) -> ModelSpec:
    """Return `spec` with the two narrow projections of a gated delta net whole on every rank.
    Source: mamba/gdn/qwen_gdn_linear_attn.py, maybe_disable_tp."""
    blocks = tuple(
        msgspec.structs.replace(
            block,
            tensors=tuple(
                msgspec.structs.replace(tensor, split=Split.NONE, units=0)
                if tensor.name in _GATES
                else tensor
                for tensor in block.tensors
            ),
        )
        if any(tensor.name in _GATES for tensor in block.tensors)
        else block
        for block in spec.blocks
    )
    return msgspec.structs.replace(spec, blocks=blocks)


def own_class(spec: ModelSpec) -> ModelSpec:
    """`spec` with the tensors of vLLM's class."""
    blocks = (_block(block, spec) for block in spec.blocks)
    built = tuple(block for block in blocks if block.tensors and block.layers)
    return msgspec.structs.replace(spec, blocks=built)


_ONE_EARLY = -2


def _block(block: Block, spec: ModelSpec) -> Block:
    special = quirks(spec)
    last = spec.vision_section.feature_layer if spec.vision_section else None
    if special.tower_ends_early and block.part is Part.VISION and last != -1:
        return _ended(block, _ONE_EARLY if last is None else last)
    loaded = [_tensor(tensor, block.part, special) for tensor in block.tensors]
    if special.zero_key_bias:
        keys = (tensor for tensor in block.tensors if tensor.name.endswith("k_proj.weight"))
        loaded += [
            msgspec.structs.replace(
                key, name=key.name.replace("weight", "bias"), shape=key.shape[:1], kind=Kind.BIAS
            )
            for key in keys
        ]
    return msgspec.structs.replace(
        block, tensors=tuple(tensor for tensor in loaded if tensor is not None)
    )


def _ended(block: Block, last: int) -> Block:
    """Return the block of a tower without the layers after `last`, and without its last norm."""
    if "{}" in block.prefix:
        layers = block.layers[: last + 1 if last < 0 else last]
        return msgspec.structs.replace(block, layers=layers)
    tensors = tuple(tensor for tensor in block.tensors if "post_layernorm" not in tensor.name)
    return msgspec.structs.replace(block, tensors=tensors)


def _tensor(tensor: Tensor, part: Part, special: Quirks) -> Tensor | None:
    """Return the tensor as vLLM makes it, None for one it does not make."""
    if special.whole_vocabulary and tensor.split is Split.VOCABULARY:
        return msgspec.structs.replace(tensor, split=Split.NONE, units=0)
    if special.router_in_f32 and tensor.kind is Kind.ROUTER:
        return msgspec.structs.replace(tensor, dtype="F32")
    if special.padded_tables:
        if part is Part.HEAD:
            if tensor.name.startswith("pooler"):
                return None
            return msgspec.structs.replace(tensor, dtype="F32")
        if tensor.name in ("position_embeddings.weight", "token_type_embeddings.weight"):
            return msgspec.structs.replace(tensor, split=Split.VOCABULARY)
    return tensor
