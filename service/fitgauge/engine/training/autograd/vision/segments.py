"""The images of a micro-batch as segments before the language model's own, and what they hold
through the whole step."""

from dataclasses import replace

import msgspec

from fitgauge.engine.model.mixers import Attention
from fitgauge.engine.model.spec import Block, Kind, ModelSpec, Part
from fitgauge.engine.training.autograd.layers.modules import LayerContext
from fitgauge.engine.training.autograd.layers.traits import Traits
from fitgauge.engine.training.autograd.operations import FLOAT, Value
from fitgauge.engine.training.autograd.segment import Segment, stream_width, tape_of
from fitgauge.engine.training.autograd.tape import Pass
from fitgauge.engine.training.autograd.vision.layers import TowerLayer
from fitgauge.engine.training.autograd.vision.patches import ended, patches
from fitgauge.engine.training.autograd.vision.projectors import projector
from fitgauge.engine.training.autograd.vision.simulated import simulated
from fitgauge.engine.training.autograd.vision.styles import STYLES, Style, Tower, tower_of
from fitgauge.engine.training.states.parameters import Unit
from fitgauge.engine.training.workload import TrainingWorkload, precision_policy


def tower_segments(
    all_units: tuple[Unit, ...], spec: ModelSpec, context: LayerContext, workload: TrainingWorkload
) -> list[Segment]:
    """Of the images of one micro-batch: patches, layers, projectors; empty where none are seen."""
    tower = tower_of(spec)
    if tower is None or not workload.images:
        return []
    own = _context(tower, context, workload)
    images = workload.images * context.batch * tower.tiles(workload.image_tokens)
    units = [unit for unit in all_units if unit.part is Part.VISION]
    start, stream = patches(
        [unit for unit in units if not unit.repeated], tower, own, images, workload
    )
    line = [start]
    layers = sorted(
        (number, unit.prefix, unit) for unit in units if unit.repeated for number in unit.layers
    )
    projectors = [
        unit for unit in all_units if unit.part is Part.PROJECTOR and _projects(unit.block)
    ]
    stacked = [unit for unit in projectors if unit.repeated for _ in unit.layers]
    depth = len(layers) // (len(stacked) + 1)
    layers_by_kind: dict[tuple[str, bool, bool], tuple[Segment, Value]] = {}
    for number, _, unit in layers[: len(layers) - tower.style.unread]:
        windowed = (
            tower.style.window is not None and number % tower.style.whole != tower.style.whole - 1
        )
        here = replace(own, keys=min(own.keys, tower.style.window or own.keys)) if windowed else own
        alike = (unit.prefix, windowed, stream.grad)
        if alike not in layers_by_kind:
            layers_by_kind[alike] = _layer(unit, here, tower.style, stream, workload)
        segment, stream = layers_by_kind[alike]
        line.append(segment)
        if stacked and (number + 1) % depth == 0:  # spread evenly, as configurations have them
            line.append(projector(stacked.pop(), tower, own, images, stream, workload))
    if tower.style.ends_normed:
        end, stream = ended(
            [unit for unit in units if not unit.repeated], tower, own, stream, workload
        )
        line.append(end)
    line += [
        projector(unit, tower, own, images, stream, workload)
        for unit in projectors
        if not unit.repeated
    ]
    if stream.grad:
        return line
    return [_without_gradients(segment, tower, spec, own, workload) for segment in line]


def _layer(
    unit: Unit, context: LayerContext, style: Style, hidden: Value, workload: TrainingWorkload
) -> tuple[Segment, Value]:
    """Return a layer and what it gives."""
    tape = tape_of(workload)
    x = tape.input("image.hidden", hidden.elements, hidden.width, grad=hidden.grad)
    y = TowerLayer(tape, unit, context, style).forward(x)
    checkpointed = workload.activation_checkpointing if style.checkpoints else "none"
    return simulated(unit.prefix, tape, x, y, [unit], workload, checkpointed=checkpointed), y


def _without_gradients(
    segment: Segment,
    tower: Tower,
    spec: ModelSpec,
    context: LayerContext,
    workload: TrainingWorkload,
) -> Segment:
    """Return a segment of a tower without gradients. Pixels in 16 bit, rotary tables and a mask
    stay in memory until the tower has run."""
    width = stream_width(workload)
    narrow = context.tokens * tower.numbers * width if width < FLOAT else 0
    mask = 0
    if tower.style.masked and workload.attention != "flash":
        mask = context.tokens * context.keys * width
    held = narrow + _tables(tower, spec, context) + mask
    return msgspec.structs.replace(
        segment, forward=Pass(peak=segment.forward.peak + held, end=segment.forward.end)
    )


def _tables(tower: Tower, spec: ModelSpec, context: LayerContext) -> int:
    """Return the bytes of cosines and sines; complex numbers are a buffer, counted with the
    weights' buffers."""
    mixer = next(
        (
            m
            for b in spec.blocks
            if b.part is Part.VISION
            for m in b.mixers
            if isinstance(m, Attention)
        ),
        None,
    )
    turns = tower.style.rotation in ("float", "stream", "axes")
    return 2 * context.tokens * mixer.head_dim * context.table_width if turns and mixer else 0


def scattered(
    seen: list[Segment],
    text: Segment,
    tied_bytes: int,
    spec: ModelSpec,
    context: LayerContext,
    workload: TrainingWorkload,
) -> list[Segment]:
    """Return words, images, and the words' embeddings with images in their places (masked_scatter,
    which keeps its mask).

    tied_bytes: the gradient of a tied head, which is added to the whole backward pass elsewhere."""
    style = STYLES[spec.model_type]
    early = [
        msgspec.structs.replace(
            each, backward=Pass(peak=each.backward.peak - tied_bytes, end=each.backward.end)
        )
        for each in seen
    ]
    if style.cross_attends:
        return [text, *early]
    tape, width = tape_of(workload), stream_width(workload)
    outputs = sum(
        len(block.layers) or 1
        for block in spec.blocks
        if block.part is Part.PROJECTOR and _projects(block)
    )
    projected = outputs * workload.images * workload.image_tokens * context.batch * spec.hidden_size
    needs_grad = not workload.uses_adapters or workload.activation_checkpointing != "none"
    words = tape.input("words", context.tokens * spec.hidden_size, width, grad=needs_grad)
    features = tape.input(
        "features",
        projected,
        tape.compute or width,
        grad=any(segment.backward.peak > 0 for segment in seen),
    )
    features = tape.to(features, width, "features.wide")
    mask = [("image.mask", context.tokens, 1)]
    mixed = tape.operation(
        "embedding.with_images", (words, features), words.elements, width, extra=mask
    )
    return [
        text,
        *early,
        simulated("images", tape, words, mixed, [], workload, checkpointed="none"),
    ]


def first_has_gradient(workload: TrainingWorkload) -> bool:
    """Return whether the first layer's input gets a gradient: of a frozen base only under
    checkpointing, whose hooks ask for it in every model's first module (modeling_utils.py,
    enable_input_require_grads), or behind a tower with adapters."""
    needs_grad = not workload.uses_adapters or workload.activation_checkpointing != "none"
    return needs_grad or (workload.images > 0 and workload.train_vision_tower)


def _projects(block: Block) -> bool:
    return any(tensor.kind is Kind.LINEAR for tensor in block.tensors)


def image_constants(spec: ModelSpec, context: LayerContext, workload: TrainingWorkload) -> int:
    """Return the bytes that images hold through the whole step: pixels in fp32, as processors
    give them, and rotary tables where a backward pass reads them."""
    tower = tower_of(spec)
    if tower is None or not workload.images:
        return 0
    own = _context(tower, context, workload)
    checkpointed = workload.activation_checkpointing != "none"
    reached = workload.train_vision_tower or (
        tower.style.asks != "none" and workload.uses_adapters and checkpointed
    )
    mask = 0
    if reached and _shares_mask(tower, workload):
        mask = own.tokens * own.keys * stream_width(workload)
    tables = _tables(tower, spec, own) if reached else 0
    images = workload.images * context.batch
    crossing = tower.style.cross_attends and (checkpointed or workload.attention == "sdpa")
    crossed = context.tokens * context.crossed if crossing else 0  # every word meets every image
    pixels = (
        images
        * tower.patches(workload.image_tokens)
        * tower.numbers
        * (FLOAT if tower.style.casts else stream_width(workload))
    )
    return pixels + tables + mask + crossed * stream_width(workload)


def image_outputs(spec: ModelSpec, context: LayerContext, workload: TrainingWorkload) -> int:
    """Return the bytes of image_hidden_states, which go with the model's output, before the
    backward pass (transformers' trainer.py, compute_loss)."""
    tower = tower_of(spec)
    if tower is None or tower.style.hands_on == "nothing":
        return 0
    held = workload.images * context.batch * workload.image_tokens * spec.hidden_size
    if tower.style.hands_on == "tower":
        held += _context(tower, context, workload).tokens * tower.width
    return held * stream_width(workload)


def _shares_mask(tower: Tower, workload: TrainingWorkload) -> bool:
    """Return whether the layers hold one mask that keeps images apart: SDPA saves it, but for
    autocast, which narrows it in every layer; eager scores take it up. Checkpoints keep it in
    any case."""
    if not tower.style.masked or workload.attention == "flash":
        return False
    policy = precision_policy(workload)
    checkpointed = workload.activation_checkpointing != "none" and tower.style.checkpoints
    return checkpointed or (workload.attention == "sdpa" and not policy.autocast)


def _context(tower: Tower, context: LayerContext, workload: TrainingWorkload) -> LayerContext:
    """Return the context of the tower's layers. Each image is one sequence; images in a row are one
    long sequence whose keys are those of one image."""
    style, images = tower.style, workload.images * context.batch
    each = tower.sequence(tower.tile_tokens(workload.image_tokens))
    images = images * tower.tiles(workload.image_tokens)
    traits = Traits(activation=style.activation, norm=style.norm, float_softmax=style.float_softmax)  # type: ignore[arg-type]
    return replace(
        context,
        traits=traits,
        sequence=each if style.images == "batch" else each * images,
        batch=images if style.images == "batch" else 1,
        keys=each * images if style.images == "row" and context.attention != "flash" else each,
        hidden=tower.width,
        rotary=style.rotation != "none",
        table_width=FLOAT if style.rotation == "float" else context.table_width,
        heads=1,
        stream=1,
        experts=1,
        relative=0,
    )
