"""Models that SGLang's classes build from other tensors than the checkpoint holds, or divide
otherwise than vLLM's.

Source: sglang 0.5.23, srt/models; the modules are named in quirks.py."""

import msgspec

from fitgauge.engine.model.mixers import Attention
from fitgauge.engine.model.spec import TOWERS, Block, Kind, ModelSpec, Part, Split, Tensor
from fitgauge.engine.quantization.scheme import Scheme
from fitgauge.engine.serving.language_model import language_model
from fitgauge.engine.serving.sglang.architectures import ARCHITECTURES
from fitgauge.engine.serving.sglang.multimodal import WITHOUT_TOWER
from fitgauge.engine.serving.sglang.quirks import Quirks, quirks
from fitgauge.engine.serving.vllm import weights as vllm
from fitgauge.engine.serving.vllm.quirks import quirks as vllm_quirks

_GROUPED = ("gptq_", "awq_", "packed_int")


def registered(spec: ModelSpec, scheme: Scheme) -> ModelSpec:
    """Return `spec` in a scheme with the tensors that SGLang's class for it makes, divided as it
    does: its own classes divide what vLLM leaves to transformers, and those it leaves to
    transformers hold towers and projectors whole, with pooling heads (transformers.py,
    AutoModel.from_config, whose plan of tensor parallelism is the language model's)."""
    if spec.architecture in WITHOUT_TOWER:
        return language_model(spec)
    special = quirks(spec)
    borrowed = by_transformers(spec)
    own_plan = not borrowed and vllm_quirks(spec).no_tensor_parallel_plan
    as_is = own_plan or special.divided_tower
    built = spec if as_is else vllm.registered(spec, pooled=borrowed)
    if borrowed:
        built = msgspec.structs.replace(built, blocks=tuple(map(_whole_tower, built.blocks)))
    if any(form.name.startswith(_GROUPED) for form in scheme.formats):
        built = _with_two_halves(built)
    if special == Quirks():
        return built
    head = Part.EMBEDDING if built.tied_embeddings else Part.HEAD
    blocks = tuple(_as_built(block, special, head) for block in built.blocks)
    if special.untied_head and spec.tied_embeddings:
        blocks += _own_head(spec)
        built = msgspec.structs.replace(built, tied_embeddings=False)
    return msgspec.structs.replace(built, blocks=blocks)


def by_transformers(spec: ModelSpec) -> bool:
    """Return whether SGLang runs transformers' class of the model, as it has none; one whose
    config names no class counts as its own."""
    return spec.architecture not in ARCHITECTURES and spec.architecture != spec.model_type


def _whole_tower(block: Block) -> Block:
    if block.part not in (*TOWERS, Part.PROJECTOR):
        return block
    tensors = tuple(
        msgspec.structs.replace(tensor, split=Split.NONE, units=0) for tensor in block.tensors
    )
    return msgspec.structs.replace(block, tensors=tensors)


def _with_two_halves(spec: ModelSpec) -> ModelSpec:
    """Return `spec` with experts without a gate as wide as with one. Source: gptq_moe.py,
    awq_moe.py and compressed_tensors_wNa16_moe.py (2 * intermediate_size_per_partition)."""
    blocks = tuple(
        msgspec.structs.replace(block, tensors=tuple(map(_doubled, block.tensors)))
        if block.mlp and block.mlp.experts and not block.mlp.gated
        else block
        for block in spec.blocks
    )
    return msgspec.structs.replace(spec, blocks=blocks)


def _doubled(tensor: Tensor) -> Tensor:
    if tensor.kind is not Kind.EXPERT or tensor.split is not Split.COLUMN:
        return tensor
    return msgspec.structs.replace(tensor, shape=(2 * tensor.shape[0], *tensor.shape[1:]))


def _own_head(spec: ModelSpec) -> tuple[Block, ...]:
    """Return the head that a class builds in addition to the embedding."""
    heads = (
        msgspec.structs.replace(tensor, name="lm_head.weight", kind=Kind.HEAD)
        for block in spec.blocks
        for tensor in block.tensors
        if block.part is Part.EMBEDDING and tensor.split is Split.VOCABULARY
    )
    return tuple(Block(part=Part.HEAD, prefix="", tensors=(head,)) for head in heads)


def _as_built(block: Block, special: Quirks, head: Part) -> Block:
    """Return the block with the tensors of SGLang's class. head: the part that holds the head."""
    tensors = tuple(
        _divided(tensor, block.prefix + tensor.name, special) for tensor in block.tensors
    )
    if special.divided_tower and block.part in TOWERS:
        tensors = tuple(map(_of_tower, tensors))
    if special.padded_heads and block.part in TOWERS:
        tensors = tuple(map(_by_heads, tensors))
    if special.router_in_16_bit:
        tensors = tuple(_router(tensor, "BF16") for tensor in tensors)
    if special.router_in_f32:
        tensors = tuple(_router(tensor, "F32") for tensor in tensors)
    if special.head_in_f32 and block.part is head:
        tensors = tuple(msgspec.structs.replace(tensor, dtype="F32") for tensor in tensors)
    if special.packed_positions:
        tensors += _packed_positions(block, special.packed_positions)
    if special.keys_of_all_layers:
        tensors += _keys_of_shared(block)
    return msgspec.structs.replace(block, tensors=tensors)


def _router(tensor: Tensor, dtype: str) -> Tensor:
    if tensor.kind is not Kind.ROUTER or len(tensor.shape) < 2:
        return tensor
    return msgspec.structs.replace(tensor, dtype=dtype)


def _packed_positions(block: Block, rows: int) -> tuple[Tensor, ...]:
    """Return the second table of a tower's positions next to its first."""
    return tuple(
        msgspec.structs.replace(
            tensor,
            name=tensor.name.replace("position_embedding", "packing_position_embedding"),
            shape=(rows, *tensor.shape[1:]),
        )
        for tensor in block.tensors
        if tensor.name.endswith("embeddings.position_embedding.weight")
    )


def _keys_of_shared(block: Block) -> tuple[Tensor, ...]:
    """Return the keys and values of layers that read another's cache."""
    return tuple(
        Tensor(
            name=f"self_attn.{name}.weight",
            shape=(mixer.kv_heads * mixer.head_dim, query.shape[1]),
            kind=Kind.LINEAR,
            split=Split.KV,
            units=mixer.kv_heads,
        )
        for mixer in block.mixers
        if isinstance(mixer, Attention) and mixer.shares_cache
        for query in block.tensors
        if query.name == "self_attn.q_proj.weight"
        for name in ("k_proj", "v_proj")
    )


def _by_heads(tensor: Tensor) -> Tensor:
    """Return a tower's tensor as whole heads, of which a rank has no more than its part rounded
    up."""
    if not tensor.units or tensor.split is Split.NONE:
        return tensor
    return msgspec.structs.replace(tensor, split=Split.KV)


_TOWER_SPLITS = {
    "q_proj": Split.COLUMN, "k_proj": Split.COLUMN, "v_proj": Split.COLUMN, "o_proj": Split.ROW,
    "gate_proj": Split.COLUMN, "up_proj": Split.COLUMN, "down_proj": Split.ROW,
    "ffw_layer_1": Split.COLUMN, "ffw_layer_2": Split.ROW, "pos_proj": Split.COLUMN,
    "post": Split.ROW, "linear_start": Split.COLUMN, "linear_end": Split.ROW,
    "input_proj_linear": Split.COLUMN,
}  # fmt: skip


def _of_tower(tensor: Tensor) -> Tensor:
    """Return a linear of a tower's layer as tensor parallelism divides it."""
    split = next((s for name, s in _TOWER_SPLITS.items() if f".{name}." in tensor.name), None)
    if split is None or len(tensor.shape) < 2:
        return tensor
    return msgspec.structs.replace(tensor, split=split)


def _divided(tensor: Tensor, name: str, special: Quirks) -> Tensor:
    if special.vocabulary_positions and name.endswith("visual.pos_embed.weight"):
        return msgspec.structs.replace(tensor, split=Split.VOCABULARY)
    if special.shared_expert_in_experts and ".shared_expert." in name:
        return msgspec.structs.replace(tensor, kind=Kind.EXPERT)
    if any(part in name for part in special.whole):
        return msgspec.structs.replace(tensor, split=Split.NONE, units=0)
    return tensor
