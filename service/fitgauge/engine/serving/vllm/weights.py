"""How vLLM 0.33 lays a model out on its ranks: what it pads, replicates, keeps whole, registers
in addition to the weights, and refuses.

Source: vllm/model_executor/layers (linear.py, vocab_parallel_embedding.py, fused_moe,
quantization) and models, 0.33.0. Sizes are those at construction; what a kernel repacks after
loading is not counted."""

import msgspec

from fitgauge.engine.model.dtypes import BITS
from fitgauge.engine.model.families import parts
from fitgauge.engine.model.mixers import (
    Attention,
    CompressedAttention,
    LatentAttention,
    Mixer,
    Recurrent,
)
from fitgauge.engine.model.model import Stored
from fitgauge.engine.model.spec import (
    TOWERS,
    Block,
    Kind,
    ModelSpec,
    Part,
    RotaryTable,
    Split,
    count_within,
)
from fitgauge.engine.quantization.scheme import Scheme, is_nominal
from fitgauge.engine.serving.vllm import releases
from fitgauge.engine.serving.vllm.model_classes import (
    MARLIN,
    own_class,
    position_bytes,
    table_bytes,
    with_padding,
    with_whole_gates,
)
from fitgauge.engine.serving.vllm.quantized import (
    expert_form,
    linear_refusal,
    registered_scheme,
    unrefined_refusal,
)
from fitgauge.engine.serving.vllm.quantized import refusal as expert_refusal
from fitgauge.engine.serving.vllm.quirks import Quirks, head_tied, parts_on_every_stage, quirks
from fitgauge.engine.unsupported import UnsupportedError, refused_degree
from fitgauge.engine.weights import sharding
from fitgauge.engine.weights.rank_bytes import ranks, widened
from fitgauge.engine.weights.sharding import ShardedWeights, ShardingRules, TensorGroup, divided

VLLM = ShardingRules(
    vocabulary_multiple=64,
    expert_multiples={"mxfp4": 64},
    expert_form=expert_form,
    whole_groups=True,
    experts_over_data=True,
    wide_dtype="BF16",
    on_every_stage=parts_on_every_stage,
    shared_experts_in_blocks=frozenset({"deepseek_v4"}),
    fused=(
        "q_proj|k_proj|v_proj",
        "gate_proj|up_proj|w1|w3",
        "q_a_proj|kv_a_proj_with_mqa",
        "in_proj_b|in_proj_a",
        "in_proj_qkv|in_proj_z",
    ),
)
"""DEFAULT_VOCAB_PADDING_SIZE; mxfp4_round_up_hidden_size_and_intermediate_size for Hopper's
Triton kernels; FusedMoEParallelConfig.make; models/deepseek_v4/nvidia/model.py, DeepseekV4MLP;
ModelConfig's dtype `auto` casts float32 to bfloat16."""


def shard_weights(spec: ModelSpec, scheme: Scheme, stored: Stored | None = None) -> ShardedWeights:
    """Return the model as vLLM registers it."""
    special, rules = quirks(spec), VLLM
    if special.least_expert_width or special.tower_attention_whole_if_uneven:
        rules = msgspec.structs.replace(
            VLLM,
            least_expert_width=special.least_expert_width,
            tower_by_tensor=special.tower_attention_whole_if_uneven,
        )
    built = as_built(spec, scheme)
    return sharding.shard_weights(built, registered_scheme(spec, scheme), rules, stored)


def as_built(spec: ModelSpec, scheme: Scheme) -> ModelSpec:
    """Return `spec` with the tensors that vLLM makes of it in this scheme."""
    built = with_padding(registered(spec))
    return with_whole_gates(built) if scheme.name in MARLIN else built


def registered(spec: ModelSpec, *, pooled: bool = False) -> ModelSpec:
    """`spec` with the tensors that vLLM's class for it makes, divided as it does. pooled: whether
    its tower has the pooling head that transformers' code builds."""
    special = quirks(spec)
    pooled = pooled or special.holds_pooling_head
    if spec.task == "generate" and spec.sees_images and not pooled:
        spec = msgspec.structs.replace(
            spec, blocks=tuple(_without_pooling(block) for block in spec.blocks)
        )
    if special.head_without_bias:
        spec = msgspec.structs.replace(
            spec, blocks=tuple(_without_head_bias(block) for block in spec.blocks)
        )
    tied = head_tied(spec)
    if tied is not None:
        spec = _with_head(spec, tied=tied)
    if special.own_class:
        return own_class(spec)
    if not (
        special.no_tensor_parallel_plan
        or special.towers_of_transformers
        or special.audio_of_transformers
    ):
        return spec
    return msgspec.structs.replace(
        spec, blocks=tuple(_whole(block, special) for block in spec.blocks)
    )


def _without_pooling(block: Block) -> Block:
    """Return a block without the pooling head of SigLIP, which no language model reads. Source:
    models/siglip.py, use_head."""
    if block.part is not Part.VISION or "{}" in block.prefix:
        return block
    tensors = tuple(tensor for tensor in block.tensors if ".head." not in tensor.name)
    return msgspec.structs.replace(block, tensors=tensors)


def _with_head(spec: ModelSpec, *, tied: bool) -> ModelSpec:
    """Return `spec` with the head that vLLM's class has, where the config says another."""
    if tied == spec.tied_embeddings:
        return spec
    blocks = tuple(block for block in spec.blocks if block.part is not Part.HEAD)
    own = () if tied else parts.head(spec.vocabulary_size, spec.hidden_size, tied=False)
    return msgspec.structs.replace(spec, blocks=(*blocks, *own), tied_embeddings=tied)


def _without_head_bias(block: Block) -> Block:
    if block.part is not Part.HEAD:
        return block
    tensors = tuple(tensor for tensor in block.tensors if tensor.kind is not Kind.BIAS)
    return msgspec.structs.replace(block, tensors=tensors)


def _whole(block: Block, special: Quirks) -> Block:
    """Return the block with what vLLM does not divide made whole."""
    tower = (block.part in TOWERS and special.towers_of_transformers) or (
        block.part is Part.AUDIO and special.audio_of_transformers
    )
    tensors = tuple(
        (
            msgspec.structs.replace(tensor, split=Split.NONE, units=0)
            if tower or (special.no_tensor_parallel_plan and "mlp." in tensor.name)
            else tensor
        )
        for tensor in block.tensors
    )
    return msgspec.structs.replace(block, tensors=tensors)


def buffer_bytes(
    spec: ModelSpec,
    *,
    expert_parallel: int = 1,
    layers: range | None = None,
    first: bool = True,
    version: tuple[int, ...] = (0, 33),
) -> int:
    """Return the bytes of registered buffers on one rank: rotary tables, four fp32 scales a layer
    of attention, and with expert parallelism each layer's map of experts (int32).

    Source: rotary_embedding/base.py (cos_sin_cache in the model's dtype), attention/attention.py
    set_default_quant_scales, fused_moe/routed_experts.py update_expert_map_info."""
    width = BITS["BF16" if spec.dtype == "F32" else spec.dtype] // 8
    size = position_bytes(spec) + sum(
        table_bytes(spec, table, version, width)
        for table in spec.rotary_tables
        if (first if table.tower else rotates(spec, table, layers))
    )
    if quirks(spec).registers_causal_mask:
        size += spec.max_context_length**2
    for block in spec.blocks:
        if block.part is not Part.LANGUAGE:
            continue
        count = count_within(block.layers, layers)
        size += (
            16
            * count
            * sum(
                isinstance(mixer, Attention | LatentAttention | CompressedAttention)
                for mixer in block.mixers
            )
        )
        if expert_parallel > 1 and block.mlp is not None:
            size += 4 * count * block.mlp.experts
    return size


def rotates(spec: ModelSpec, table: RotaryTable, layers: range | None) -> bool:
    """Return whether an attention layer of the stage rotates by the table. What transformers' own
    code registers has one row, and lies outside the layers."""
    return table.positions == 1 or any(
        table.windowed is None or table.windowed == _is_local(mixer)
        for block in spec.blocks
        if block.part not in (*TOWERS, Part.MTP) and count_within(block.layers, layers)
        for mixer in block.mixers
        if not isinstance(mixer, Recurrent)
    )


def _is_local(mixer: Mixer) -> bool:
    """Return whether a mixer reads a window or a chunk alone."""
    if isinstance(mixer, CompressedAttention):
        return not mixer.ratio
    return bool(getattr(mixer, "window", None) or getattr(mixer, "chunk", None))


def check_parallel(
    spec: ModelSpec,
    sharded: ShardedWeights,
    *,
    tensor_parallel: int,
    expert_parallel: int = 1,
    data_parallel: int = 1,
    version: tuple[int, ...] = (0, 33),
) -> None:
    """Raise UnsupportedError where vLLM refuses to build the model so, with the tensor
    parallel degrees that work. Source of the experts: config/model.py,
    _verify_with_expert_parallelism."""
    special = quirks(spec)
    if expert_parallel > 1 and (
        special.experts_uncounted
        or not (special.counts_experts_by_default or any(share.experts for share in sharded.shares))
    ):
        raise UnsupportedError(
            "expert_parallel",
            "vLLM refuses expert_parallel: it counts no experts in the model's config.",
            ({"expert_parallel": (1,)},),
        )
    degrees = (tensor_parallel, expert_parallel, data_parallel)
    reason, works = sharded.once(
        (*degrees, version), lambda: _parallel(spec, sharded, *degrees, version=version)
    )
    if reason is not None:
        raise refused_degree("vLLM", tensor_parallel, reason, works)


def _parallel(
    spec: ModelSpec,
    sharded: ShardedWeights,
    tensor_parallel: int,
    expert_parallel: int,
    data_parallel: int,
    *,
    version: tuple[int, ...],
) -> tuple[str | None, list[int]]:
    """Return (why vLLM would refuse, the tensor parallel degrees that work instead)."""
    reason = refusal(
        spec, sharded, tensor_parallel, expert_parallel, data_parallel, version=version
    )
    if reason is None:
        return None, []
    works = [
        ways
        for ways in range(1, 65)
        if refusal(
            spec,
            sharded,
            ways,
            expert_parallel if expert_parallel == 1 else ways,
            data_parallel,
            version=version,
        )
        is None
    ]
    return reason, works


def refusal(
    spec: ModelSpec,
    sharded: ShardedWeights,
    tensor_parallel: int,
    expert_parallel: int,
    data_parallel: int,
    *,
    version: tuple[int, ...] = (0, 33),
) -> str | None:
    """Return why vLLM would refuse at construction, None where it would not.

    Source: config/model.py verify_with_parallel_config (heads), distributed/utils.py divide,
    linear.py, quantization/utils/fp8_utils.py validate_fp8_block_shape, fused_moe/oracle/fp8.py
    refine_fp8_moe_block_shape."""
    heads = spec.query_heads
    if heads > 1 and heads % tensor_parallel:
        kind = "heads" if spec.keeps_states else "attention heads"
        return f"its {heads} {kind} cannot be divided by {tensor_parallel}"
    if is_nominal(spec):
        return None
    if quirks(spec).kv_heads_divide and (kv_heads := most_kv_heads(spec)) % tensor_parallel:
        return f"its {kv_heads} KV heads cannot be divided by {tensor_parallel}"
    groups = mamba_groups(spec)
    if groups > 1 and groups % tensor_parallel:
        return f"its {groups} Mamba groups cannot be divided by {tensor_parallel}"
    expert_ways = max(1, tensor_parallel * data_parallel // expert_parallel)
    special = quirks(spec)
    held_whole = special.tower_whole_if_uneven or special.tower_attention_whole_if_uneven
    if sharded.tower_heads % tensor_parallel and not held_whole:
        return f"its tower's {sharded.tower_heads} heads cannot be divided by {tensor_parallel}"
    tower_ways = ranks(sharded, tensor_parallel, expert_parallel, data_parallel).tower
    for share in sharded.shares:
        ways = expert_ways if share.experts else tensor_parallel
        if share.experts:
            share = widened(share, sharded.layout, tensor_parallel, ways)
        if share.part in TOWERS:
            ways = tower_ways
            if (
                share.form is None
                and share.split in (Split.COLUMN, Split.ROW)
                and share.pieces % ways
            ):
                return f"a width of {share.pieces} in its tower cannot be divided by {ways}"
        if share.part in (*TOWERS, Part.PROJECTOR) and (not share.form or share.form.rows < 2):
            continue
        if reason := linear_refusal(share, ways) or unrefined_refusal(sharded.scheme, share, ways):
            return reason
        if ways == 1 or share.split is Split.NONE:
            continue
        if reason := _indivisible(
            share, ways, version=version, fused=_fused_blocks(sharded, share)
        ):
            return reason
    return None


def _fused_blocks(sharded: ShardedWeights, share: TensorGroup) -> bool:
    """Return whether `share`, quantized in square blocks, is one of several columns in one layer,
    whose blocks a rank may cut.

    Source: vllm 0.33 model_executor/layers/linear.py,
    ColumnParallelLinear._maybe_allow_fp8_block_shape_mismatch."""
    if share.experts or share.split is Split.ROW or share.form is None or share.form.rows < 2:
        return False
    return any(len(tensor) > 1 and share in tensor for tensor in sharded.tensors)


def most_kv_heads(spec: ModelSpec, default: int = 1) -> int:
    """Return the KV heads of the attention layers of the language model, `default` where it has
    none."""
    return max(
        (
            mixer.kv_heads
            for block in spec.blocks
            if block.part is Part.LANGUAGE
            for mixer in block.mixers
            if isinstance(mixer, Attention)
        ),
        default=default,
    )


def mamba_groups(spec: ModelSpec) -> int:
    """Return the groups of B and C of the model's Mamba 2 layers, 1 where it has none. Source:
    layers/mamba/mamba_mixer2.py, MambaMixer2."""
    states = (
        state
        for block in spec.blocks
        for mixer in block.mixers
        if isinstance(mixer, Recurrent)
        for state in mixer.states
    )
    return max((state.heads for state in states if state.name == "conv_groups"), default=1)


def _indivisible(
    share: TensorGroup, ways: int, *, version: tuple[int, ...], fused: bool
) -> str | None:
    """Return why one kind of tensor cannot be divided over `ways` ranks."""
    pieces, form = share.pieces, share.form
    if share.split is Split.KV:
        if pieces % ways and ways % pieces:
            return f"its {pieces} KV heads are neither a multiple nor a divisor of {ways}"
    elif pieces % ways:
        return f"a width of {pieces} cannot be divided by {ways}"
    if form is None or form.flat or fused or share.multiple > 1:
        return None
    if share.experts and version >= releases.BLOCKS_REFINED:
        hidden = share.out if share.split is Split.ROW else share.inputs
        return expert_refusal(form, divided(pieces, ways) // share.fused, hidden)
    size, block = (share.inputs, form.group) if share.split is Split.ROW else (share.out, form.rows)
    rank_width = divided(pieces, ways) * (size // pieces or 1)
    cuts_groups = form.name.startswith("gptq_") and version >= releases.GPTQ_GROUPS_CUT
    if block < 2 or rank_width % block == 0 or cuts_groups:
        return None
    return f"{rank_width} features a rank cannot be divided into quantization blocks of {block}"
