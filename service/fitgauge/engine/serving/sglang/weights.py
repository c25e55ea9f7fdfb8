"""How SGLang lays a model out on its ranks, and which divisions of it SGLang refuses.

It follows vLLM, from whose layers its own descend, but where this module says otherwise. Source:
sglang 0.5.23, srt/models and srt/layers. Sizes are those at construction."""

from collections.abc import Hashable

import msgspec

from fitgauge.engine.model.dtypes import size_of
from fitgauge.engine.model.model import Stored
from fitgauge.engine.model.spec import Kind, ModelSpec, Split, Tensor
from fitgauge.engine.quantization.formats import Format
from fitgauge.engine.quantization.published import published
from fitgauge.engine.quantization.scheme import Rule, Scheme, named
from fitgauge.engine.serving.sglang.experts import (
    ExpertLayout,
    doubled_scales,
    expert_layout,
    has_gates,
)
from fitgauge.engine.serving.sglang.gpus import Architecture
from fitgauge.engine.serving.sglang.model_classes import registered
from fitgauge.engine.serving.sglang.quantized import expert_form, registered_scheme
from fitgauge.engine.serving.sglang.quirks import quirks
from fitgauge.engine.serving.vllm import weights as vllm
from fitgauge.engine.serving.vllm.model_classes import position_bytes
from fitgauge.engine.weights import sharding
from fitgauge.engine.weights.sharding import ShardedWeights, round_up

SGLANG = msgspec.structs.replace(vllm.VLLM, expert_form=expert_form)
"""What SGLang does to tensors when it divides them."""

_NO_METHOD = "quantization-method-missing"


def shard_weights(spec: ModelSpec, scheme: Scheme, stored: Stored | None = None) -> ShardedWeights:
    """Return the model as SGLang registers it, as published."""
    scheme = registered_scheme(spec, _read_scheme(spec, scheme))
    return sharding.shard_weights(registered(spec, scheme), scheme, SGLANG, stored)


def on_gpu(spec: ModelSpec, sharded: ShardedWeights, architecture: Architecture) -> ShardedWeights:
    """Return the model as SGLang registers it on GPUs of an architecture."""
    layout = expert_layout(spec, sharded.scheme, architecture)
    plain = () if architecture == "blackwell" else quirks(spec).unquantized_off_blackwell
    if layout == ExpertLayout() and not plain:
        return sharded
    key: Hashable = ("sglang", layout, plain)
    return sharded.once(key, lambda: _laid_out(spec, sharded, layout, plain))


def _laid_out(
    spec: ModelSpec, sharded: ShardedWeights, layout: ExpertLayout, plain: tuple[str, ...]
) -> ShardedWeights:
    """Return the model with its experts in a layout and the modules `plain` in 16 bit."""

    gated = has_gates(spec)

    def form(published_form: Format, width: int, hidden: int, ways: int) -> Format:
        own = expert_form(published_form, width, hidden, ways)
        if not layout.indexed:
            own = msgspec.structs.replace(own, input_bits=0)
        return doubled_scales(own, gated=gated) if layout.scales_twice else own

    rules = msgspec.structs.replace(
        SGLANG,
        expert_multiples={"mxfp4": layout.mxfp4_multiple},
        expert_multiple=layout.multiple,
        expert_form=form,
    )
    scheme = sharded.scheme
    padded = _with_hidden(registered(spec, scheme), layout.hidden_multiple)
    if plain and scheme.rules:
        whole = Rule(form=None, names=named(plain))
        scheme = msgspec.structs.replace(scheme, rules=(whole, *scheme.rules))
    return msgspec.structs.replace(
        sharding.shard_weights(padded, scheme, rules), scale=sharded.scale, basis=sharded.basis
    )


def _read_scheme(spec: ModelSpec, scheme: Scheme) -> Scheme:
    """Return the scheme of a checkpoint of ModelOpt's that names an algorithm and no method, which
    vLLM loads unquantized. Source: srt/configs/model_config.py, _parse_modelopt_quant_config."""
    settings = spec.quantization or {}
    if "quant_algo" not in settings or all(note.code != _NO_METHOD for note in scheme.warnings):
        return scheme
    named = {**settings, "quant_method": "modelopt"}
    return published(msgspec.structs.replace(spec, quantization=named)) or scheme


def _with_hidden(spec: ModelSpec, multiple: int) -> ModelSpec:
    """Return `spec` with the hidden side of every expert padded."""
    if multiple == 1:
        return spec
    hidden = spec.hidden_size
    blocks = tuple(
        msgspec.structs.replace(
            block, tensors=tuple(_padded(tensor, hidden, multiple) for tensor in block.tensors)
        )
        for block in spec.blocks
    )
    return msgspec.structs.replace(spec, blocks=blocks)


def _padded(tensor: Tensor, hidden: int, multiple: int) -> Tensor:
    if tensor.kind is not Kind.EXPERT and tensor.count == 1:
        return tensor
    side = len(tensor.shape) - 1 if tensor.split is Split.COLUMN else 0
    if (len(tensor.shape) < 2 and tensor.split is Split.COLUMN) or tensor.shape[side] != hidden:
        return tensor
    shape = (*tensor.shape[:side], round_up(hidden, multiple), *tensor.shape[side + 1 :])
    return msgspec.structs.replace(tensor, shape=shape)


_MARGIN, _ALIGNMENT = 256, 128
"""Rows of a rotary table beyond the context, and what they are a multiple of. Source:
srt/environ.py, SGLANG_ROPE_CACHE_SAFETY_MARGIN and SGLANG_ROPE_CACHE_ALIGN."""


def lengthened_tables(spec: ModelSpec, context_length: int) -> ModelSpec:
    """Return `spec` with every rotary table, those of towers too, as long as --context-length and a
    margin. Source: srt/utils/common.py, reserve_rope_cache_for_long_sequences."""
    rows = round_up(context_length + _MARGIN, _ALIGNMENT)
    if all(rows <= table.positions or table.positions == 1 for table in spec.rotary_tables):
        return spec
    tables = tuple(
        table
        if table.positions == 1
        else msgspec.structs.replace(table, positions=max(rows, table.positions))
        for table in spec.rotary_tables
    )
    return msgspec.structs.replace(spec, rotary_tables=tables)


def buffer_bytes(spec: ModelSpec) -> int:
    """Return the bytes of rotary tables, which are in float32 whatever the model is in. Source:
    srt/layers/rotary_embedding/base.py."""
    of_class = quirks(spec)
    tables = (
        size_of(table.positions * table.dim, table.dtype or "F32")
        for table in spec.rotary_tables
        if (not of_class.tower_frequencies if table.tower else vllm.rotates(spec, table, None))
    )
    copies = 2 if of_class.complex_frequencies else 1
    return position_bytes(spec) + copies * sum(tables)
