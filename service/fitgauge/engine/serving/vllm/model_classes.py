"""Models that vLLM's own classes build from other tensors than the checkpoint holds, and what these
classes register beside them.

Source: vLLM 0.33.0, the module of vllm/model_executor/models named at each rule.
"""

import msgspec

from fitgauge.engine.model.spec import Block, Kind, ModelSpec, Part, RotaryTable, Split, Tensor

ENCODERS = frozenset({"bert", "roberta", "xlm-roberta"})
"""Encoders whose position and type tables are padded like vocabularies, and whose poolers are
left out. Source: bert.py, roberta.py."""

F32_ROUTERS = frozenset({"ernie4_5_moe"})
"""Mixtures whose routers have F32 weights on every card. Source: ernie45_moe.py."""

EARLY_TOWERS = frozenset({"llava", "llava_next"})
"""Model types whose tower ends one layer early, without its last norm: vision_feature_layer -2,
their default. Source: clip.py."""

WHOLE_VOCABULARY = frozenset({"whisper"})
"""Model types whose embedding every rank holds whole. Source: whisper.py."""

KEY_BIASES = frozenset({"whisper"})
"""Model types whose keys have no bias, and have one of zeros in vLLM's fused projection. Source:
whisper.py."""

OWN_CLASSES = ENCODERS | F32_ROUTERS | EARLY_TOWERS | WHOLE_VOCABULARY

LONG_TABLES = frozenset(
    {"qwen2_vl", "qwen2_5_vl", "qwen2_5_omni", "qwen2_5_omni_thinker", "glm4v", "glm4v_moe"}
)
"""Model types with multimodal rotary tables of four times the positions. Source:
rotary_embedding/mrope.py, positions_factor."""

ONCE_LONG = frozenset({"qwen3_vl", "qwen3_vl_moe", "qwen3_5", "qwen3_5_moe"})
"""The same, before `TABLES_CUT`. Source: models/qwen3_vl.py, mrope_positions_factor."""

TABLES_CUT = (0, 33)
"""Of the releases read, the first whose Qwen3-VL and Qwen3.5 have tables of one length (0.19.0
has four; so had June 2026, see vLLM pull request 44738: 224 MiB more than 32,768 positions
need)."""


def table_factor(spec: ModelSpec, table: RotaryTable, version: tuple[int, ...]) -> int:
    """By how much the language model's table is longer than its positions."""
    long = spec.model_type in LONG_TABLES or (spec.model_type in ONCE_LONG and version < TABLES_CUT)
    return 4 if long and table.positions == spec.max_context_length else 1


def position_bytes(spec: ModelSpec) -> int:
    """Position numbers that an encoder registers, int64. Source: bert.py, BertEmbedding."""
    if spec.model_type not in ENCODERS:
        return 0
    tables = (
        tensor
        for block in spec.blocks
        for tensor in block.tensors
        if tensor.name == "position_embeddings.weight"
    )
    return sum(8 * tensor.shape[0] for tensor in tables)


def own_class(spec: ModelSpec) -> ModelSpec:
    """`spec` with the tensors of vLLM's class."""
    blocks = (_block(block, spec) for block in spec.blocks)
    return msgspec.structs.replace(spec, blocks=tuple(block for block in blocks if block.tensors))


def _block(block: Block, spec: ModelSpec) -> Block:
    if spec.model_type in EARLY_TOWERS and block.part is Part.VISION:
        layers = block.layers[:-1] if "{}" in block.prefix else block.layers
        kept = tuple(tensor for tensor in block.tensors if "post_layernorm" not in tensor.name)
        return msgspec.structs.replace(block, layers=layers, tensors=kept)
    made = [_tensor(tensor, block.part, spec.model_type) for tensor in block.tensors]
    if spec.model_type in KEY_BIASES:
        keys = (tensor for tensor in block.tensors if tensor.name.endswith("k_proj.weight"))
        made += [
            msgspec.structs.replace(
                key, name=key.name.replace("weight", "bias"), shape=key.shape[:1], kind=Kind.BIAS
            )
            for key in keys
        ]
    return msgspec.structs.replace(
        block, tensors=tuple(tensor for tensor in made if tensor is not None)
    )


def _tensor(tensor: Tensor, part: Part, model_type: str) -> Tensor | None:
    """Return the tensor as vLLM makes it, None for one it does not make."""
    if model_type in WHOLE_VOCABULARY and tensor.split is Split.VOCABULARY:
        return msgspec.structs.replace(tensor, split=Split.NONE, units=0)
    if model_type in F32_ROUTERS and tensor.kind is Kind.ROUTER:
        return msgspec.structs.replace(tensor, dtype="F32")
    if model_type in ENCODERS:
        if part is Part.HEAD:
            return (
                None
                if tensor.name.startswith("pooler")
                else msgspec.structs.replace(tensor, dtype="F32")
            )
        if tensor.name in ("position_embeddings.weight", "token_type_embeddings.weight"):
            return msgspec.structs.replace(tensor, split=Split.VOCABULARY)
    return tensor
