"""A model cut into segments: the embedding, every kind of layer, and the head with its loss,
each simulated once on a tape."""

from typing import Any

import msgspec

from fitgauge.engine.memo import WeakMemo
from fitgauge.engine.model.dtypes import BITS, size_of
from fitgauge.engine.model.families.nominal import is_count
from fitgauge.engine.model.spec import Kind, ModelSpec, Part
from fitgauge.engine.training.autograd.ends import beginning, constant_bytes, head_segment
from fitgauge.engine.training.autograd.layers.context import way_of
from fitgauge.engine.training.autograd.layers.gemma4 import handed_on, per_layer_bytes
from fitgauge.engine.training.autograd.layers.megatron import whole_logits
from fitgauge.engine.training.autograd.layers.modules import LayerContext
from fitgauge.engine.training.autograd.layers.sparse_attention import picked_bytes
from fitgauge.engine.training.autograd.layers.stacks import bias_bytes, reads_vocabulary
from fitgauge.engine.training.autograd.layers.traits import traits_of
from fitgauge.engine.training.autograd.nominal import counted_head
from fitgauge.engine.training.autograd.recorded_layers import (
    RecordedLayers,
    layer_segments,
    recorded_layers,
)
from fitgauge.engine.training.autograd.segment import Segment
from fitgauge.engine.training.autograd.tape import Pass
from fitgauge.engine.training.autograd.vision.segments import image_constants, image_outputs
from fitgauge.engine.training.releases import OLDER
from fitgauge.engine.training.states.optimizer_states import gradient_dtype
from fitgauge.engine.training.states.parameters import units
from fitgauge.engine.training.workload import TrainingWorkload, precision_policy, recomputed_modules

_DECODER = (Part.LANGUAGE, Part.EMBEDDING, Part.HEAD)
_SEVERAL = 2
"""See `expert_spread`."""


class ModelSegments(msgspec.Struct, frozen=True, kw_only=True):
    """A model's segments."""

    embedding: Segment
    """The embedding, with towers before it."""
    layers: tuple[Segment, ...]
    """One segment for each kind of layer."""
    head: Segment
    """Final norm, head and loss."""
    constants: int
    """Rotary tables, and masks that live through both passes [bytes]."""
    passing: int = 0
    """Features of images that are freed after the forward pass [bytes]."""
    masks: int = 0
    """Masks that are freed after the last layer's forward pass [bytes]."""
    tied_bytes: int
    """Gradient of a weight that embedding and head share [bytes]."""


_SEGMENTS: WeakMemo[ModelSpec, TrainingWorkload, ModelSegments] = WeakMemo(256)
_ENDS: WeakMemo[ModelSpec, TrainingWorkload, ModelSegments] = WeakMemo(64)
"""Embedding and head by model and workload, without layers and constants."""

_HEADS: WeakMemo[ModelSpec, TrainingWorkload, Segment] = WeakMemo(64)
"""Heads alone, also those of older releases."""

_RECORDED: WeakMemo[ModelSpec, TrainingWorkload, tuple[RecordedLayers, ...]] = WeakMemo(32)


def _memoised(spec: ModelSpec, workload: TrainingWorkload) -> ModelSegments:
    traced = _traced(spec, workload)
    if workload.activation_offload:
        return msgspec.structs.replace(
            traced, layers=tuple(_on_host(layer) for layer in traced.layers)
        )
    return traced


def _on_host(layer: Segment) -> Segment:
    """Return a layer whose saved tensors are copied to the host after its forward pass and back
    before its backward pass.

    Source: torchtune training/_activation_offloading.py, OffloadActivations; transformers
    modeling_utils.py, gradient checkpointing with offload (torch.autograd.graph.save_on_cpu)."""
    away = layer.forward.end - layer.casts
    forward = Pass(peak=layer.forward.peak, end=layer.forward.end - away)
    return msgspec.structs.replace(
        layer,
        forward=forward,
        backward=Pass(peak=layer.backward.peak + away, end=layer.backward.end + away),
    )


def segments(spec: ModelSpec, workload: TrainingWorkload) -> ModelSegments:
    """Return the segments of a model in one micro-batch on one rank. Tensor parallelism divides
    heads, MLPs and vocabulary, context parallelism the tokens. Results of recent models and
    workloads are cached."""
    relevant = _relevant(spec, workload)
    return _SEGMENTS.get_or_compute(spec, relevant, lambda: _memoised(spec, relevant))


def older_heads(spec: ModelSpec, workload: TrainingWorkload) -> tuple[Segment, ...]:
    """Return the heads of `segments` as older releases run them; empty where the release is set or
    does not matter.

    The loss depends on the release of transformers (releases.py), and on whether the loss is
    compiled with the layers, as torchtitan does since April 2025 (torchtitan/train.py,
    build_loss_fn)."""
    if workload.loss != "full" or spec.task != "generate" or workload.framework == "megatron":
        return ()
    others: list[dict[str, Any]] = [{"transformers_version": version} for version in OLDER]
    if workload.framework == "fsdp" and workload.compile:
        others = [{"compile_loss": False}] if workload.compile_loss is None else []
    elif workload.transformers_version is not None:
        others = []
    relevant = _relevant(spec, workload)

    def head_of(settings: dict[str, Any]) -> Segment:
        return _head(spec, _started(spec, msgspec.structs.replace(relevant, **settings)))

    return tuple(head_of(settings) for settings in others)


def _relevant(spec: ModelSpec, workload: TrainingWorkload) -> TrainingWorkload:
    """Return the workload without the fields that segments do not depend on: equal segments, equal
    keys."""
    return msgspec.structs.replace(
        _as_alike(workload),
        expert_parallel=expert_spread(spec, workload),
        expert_tensor_parallel=workload.expert_ways,
        data_parallel=1,
        data_parallel_replicate=1,
        pipeline_parallel=1,
        pipeline_chunks=2,
        last_stage_layers=None,
        micro_batches=1,
        zero_stage=0,
        offload="none",
        optimizer="adamw",
        optimizer_implementation="foreach",
        activation_rule=None,
        runtime_bytes=None,
        mean_sequence_length=None,
        **whole_logits(workload),
    )


def _as_alike(workload: TrainingWorkload) -> TrainingWorkload:
    """Return the workload under the one framework that stands for all whose ranks run the same
    operations: DeepSpeed and FSDP both run transformers' modules with 16-bit parameters, and
    differ in what they recompute selectively, compile, exchange within a layer, and in the format
    of gradients that is asked for."""
    differs = (
        workload.framework != "deepspeed"
        or workload.activation_checkpointing == "selective"
        or workload.compile
        or workload.gradient_dtype is not None
        or workload.context_parallel * workload.tensor_parallel > 1
    )
    if differs:
        return workload
    precision = "bf16" if workload.mixed else workload.precision
    return msgspec.structs.replace(workload, framework="fsdp", precision=precision)


def layer_context(spec: ModelSpec, workload: TrainingWorkload) -> LayerContext:
    """Return the sizes and settings of this workload's layers."""
    policy = precision_policy(workload)
    width = BITS[policy.weights] // 8
    rows = 1 if workload.packed else workload.micro_batch_size
    row = workload.sequence_length * workload.micro_batch_size // rows
    # what sets flash attention apart are the samples' ends, any other a mask of the row
    # (transformers masking_utils.py, find_packed_sequence_indices)
    masked = workload.packed and workload.attention not in ("flash", "flex")
    return LayerContext(
        traits=traits_of(spec),
        # flex saves what flash does: its inputs, its output and a log-sum of every row
        attention="flash" if workload.attention == "flex" else workload.attention,
        block_masks=workload.attention == "flex" and traits_of(spec).sinks,
        sequence=-(-row // workload.context_parallel),
        keys=row,
        batch=rows,
        hidden=spec.hidden_size,
        crossed=workload.images * workload.image_tokens,
        crossed_grad=not workload.uses_adapters or workload.train_vision_tower,
        relative=next(
            (
                t.shape[0]
                for block in spec.blocks
                for t in block.tensors
                if t.name == "rel_embeddings.weight"
            ),
            0,
        ),
        rotary=bool(spec.rotary_tables) or spec.model_type == "nominal",
        table_width=width,
        compute_width=BITS[policy.compute] // 8,
        merged_expert_adapters=workload.merged_expert_adapters,
        fused_experts=workload.fused_experts,
        repeats_keys=workload.repeats_keys,
        lora_dropout=workload.lora_dropout > 0,
        padded=workload.padded or masked,
        heads=workload.tensor_parallel,
        stream=workload.tensor_parallel if workload.sequence_parallel else 1,
        saves_gathered=workload.dtensor,
        experts=workload.expert_parallel,
        expert_heads=workload.expert_ways,
        ranks=workload.context_parallel,
        way=way_of(workload),
    )


def _traced(spec: ModelSpec, workload: TrainingWorkload) -> ModelSegments:
    """Return the model's segments. What checkpointing does not change is recorded once, and what
    experts do not change is simulated once, for all workloads that share it."""
    context, kind = layer_context(spec, workload), workload.activation_checkpointing
    shown = "full" if _needs_input_gradient(workload) else "none"
    started = _as_alike(_started(spec, workload))
    ends = _ENDS.get_or_compute(spec, started, lambda: _ends(spec, started))
    shown = kind if recomputed_modules(workload) else shown
    as_shown = _as_alike(
        msgspec.structs.replace(workload, activation_checkpointing=shown, transformers_version=None)
    )
    recorded = _RECORDED.get_or_compute(
        spec, as_shown, lambda: recorded_layers(spec, layer_context(spec, as_shown), as_shown)
    )
    constants, added = constant_bytes(spec, context)
    held = kind != "none"  # as the inputs of checkpoints
    return msgspec.structs.replace(
        ends,
        layers=layer_segments(recorded, spec, workload),
        constants=constants
        + (added if held else 0)
        + sum(of(spec, context, workload) for of in (picked_bytes, image_constants, bias_bytes)),
        passing=image_outputs(spec, context, workload),
        masks=0 if held else added,
    )


def _needs_input_gradient(workload: TrainingWorkload) -> bool:
    """Return whether the embedding's output asks for a gradient, for checkpoints over a frozen
    base."""
    return workload.uses_adapters and workload.activation_checkpointing != "none"


def _started(spec: ModelSpec, workload: TrainingWorkload) -> TrainingWorkload:
    """Return the workload without the fields that only layers depend on."""
    depends = _needs_input_gradient(workload) or workload.images or spec.task == "encoder_decoder"
    return msgspec.structs.replace(
        workload,
        activation_checkpointing=workload.activation_checkpointing if depends else "none",
        expert_parallel=1,
        expert_tensor_parallel=None,
    )


def expert_spread(spec: ModelSpec, workload: TrainingWorkload) -> int:
    """Return one degree of expert parallelism for all that give the same layers.

    Megatron adds gradients of weights to its own buffers, so its layers hold the same on any number
    of ranks that each have several experts but not all."""
    several = (
        workload.framework == "megatron" and 1 < workload.expert_parallel < spec.routed_experts
    )
    return _SEVERAL if several and spec.routed_experts > _SEVERAL else workload.expert_parallel


def _ends(spec: ModelSpec, workload: TrainingWorkload) -> ModelSegments:
    """Return all but layers and constants."""
    context, all_units = layer_context(spec, workload), units(spec, workload)
    decoder = [unit for unit in all_units if unit.part in _DECODER]
    table = next((p for unit in decoder for p in unit.parameters if p.kind is Kind.EMBEDDING), None)
    tied = (
        spec.tied_embeddings
        and spec.task != "encoder_decoder"
        and reads_vocabulary(spec)
        and table is not None
        and table.trained
    )
    whole = tied and table and workload.framework != "megatron"  # whose head adds to main_grad
    tied_bytes = 0
    if whole and table:
        tied_bytes = size_of(table.elements, gradient_dtype(table, workload)) // context.heads
    return ModelSegments(
        embedding=beginning(all_units, spec, context, workload, tied_bytes),
        layers=(),
        head=_head(spec, workload),
        constants=0,
        tied_bytes=tied_bytes,
    )


def _head(spec: ModelSpec, workload: TrainingWorkload) -> Segment:
    """Return the head, cached: older releases differ in nothing else."""
    return _HEADS.get_or_compute(spec, workload, lambda: _traced_head(spec, workload))


def _traced_head(spec: ModelSpec, workload: TrainingWorkload) -> Segment:
    context, all_units = layer_context(spec, workload), units(spec, workload)
    decoder = [unit for unit in all_units if unit.part in _DECODER]
    apart = handed_on(decoder)
    ends = [
        unit
        for unit in decoder
        if not unit.repeated and unit.part is not Part.EMBEDDING and unit not in apart
    ]
    head = head_segment(ends, decoder, spec, context, workload)
    if is_count(decoder[0].block):
        head = counted_head(head, decoder[0], spec, workload)
    own = per_layer_bytes(decoder, context, workload)
    return msgspec.structs.replace(
        head, backward=Pass(peak=head.backward.peak, end=head.backward.end + own)
    )
