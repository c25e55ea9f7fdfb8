"""What a tower does around its layers: pixels to features with positions before them, a norm
after them."""

from fitgauge.engine.model.spec import Kind
from fitgauge.engine.training.autograd.layers.modules import LayerContext, Modules
from fitgauge.engine.training.autograd.operations import FLOAT, Value
from fitgauge.engine.training.autograd.segment import Segment, stream_width, tape_of
from fitgauge.engine.training.autograd.tape import Tape
from fitgauge.engine.training.autograd.vision.simulated import simulated
from fitgauge.engine.training.autograd.vision.styles import Tower, patch_tensor
from fitgauge.engine.training.states.parameters import Unit
from fitgauge.engine.training.workload import TrainingWorkload

_BAG = 16
"""Rows of a bicubic sample: four by four."""


def patches(
    units: list[Unit], tower: Tower, context: LayerContext, images: int, workload: TrainingWorkload
) -> tuple[Segment, Value]:
    """Return (pixels to features with positions, the features); a convolution under autocast
    gives 16 bit, which the tower goes on in."""
    tape, width = tape_of(workload), stream_width(workload)
    named = {parameter.name: (unit, parameter) for unit in units for parameter in unit.parameters}
    count = images * tower.patches(tower.tile_tokens(workload.image_tokens))
    pixels = tape.to(
        tape.constant("pixels", count * tower.numbers, FLOAT if tower.style.casts else width),
        width,
        "pixels.narrow",
    )
    unit, patch = next(
        named[embedded.name] for unit in units if (embedded := patch_tensor(unit.block.tensors))
    )
    modules = Modules(tape, unit, context)
    if patch.kind is Kind.LINEAR:
        x = modules.linear(patch, tape.copy("pixels.unfolded", pixels), count)
    else:
        read = tuple(tape.cast(value, "patches") for value in (pixels, modules.weight(patch)))
        x = tape.operation("patches", read, count * tower.width, read[0].width, saves=read)
    grad_from = "none"
    if workload.uses_adapters and workload.activation_checkpointing != "none":
        grad_from = tower.style.asks
    if grad_from == "patches":
        x = tape.leaf("patches.leaf", x)
    if tower.style.places == "tiles":
        x = tape.copy("patches.by_tile", x)
    if tower.classed:
        classes = count // tower.fixed if tower.fixed else images
        x = tape.operation("patches.with_class", (x,), (count + classes) * tower.width, width)
    if tower.style.places == "grid":
        x = normed(tape, units, context, x, "post_conv_layernorm")
    place = next(
        (
            embedded
            for name, embedded in named.items()
            if "pos" in name and embedded[1].kind in (Kind.EMBEDDING, Kind.OTHER)
        ),
        None,
    )
    if place is not None:
        x = _placed(tape, x, Modules(tape, place[0], context).weight(place[1]), tower, context)
    tile = next(
        (embedded for name, embedded in named.items() if name.endswith("tile_embedding.weight")),
        None,
    )
    if tile is not None:
        rows = tape.operation(
            "positions.tiles", (Modules(tape, tile[0], context).weight(tile[1]),), x.elements, width
        )
        gate = tape.parameter("positions.gate", 1, width, trained=tile[1].trained)
        x = tape.add("patches.placed_by_tile", x, tape.multiply("positions.gated", rows, gate))
    if tower.style.window is not None:
        x = tape.copy("patches.by_window", x)
    x = normed(tape, units, context, x, "pre_layrnorm", "layernorm_pre", "ln_pre")
    if tower.style.places == "tiles":
        x = tape.copy("patches.padded", x, context.tokens * tower.width)
    if grad_from == "embedded":
        x = tape.leaf("patches.leaf", x)
    return simulated("patches", tape, pixels, x, units, workload, checkpointed="none"), x


def _placed(tape: Tape, x: Value, table: Value, tower: Tower, context: LayerContext) -> Value:
    """Features with learned positions, as `Places` says them."""
    match tower.style.places:
        case "corners":
            corners = tape.operation("positions.corners", (table,), 4 * x.elements, table.width)
            weighed = corners.elements * FLOAT
            scratch = weighed if corners.width < FLOAT else 0
            summed = tape.operation(
                "positions", (corners,), x.elements, FLOAT, scratch=weighed, back_scratch=scratch
            )
            embedded = tape.to(summed, x.width)
        case "grid":
            plane = tape.to(table, FLOAT, "positions.plane")
            spots = [("positions.grid", 2 * context.tokens, FLOAT)]
            embedded = tape.to(
                tape.operation(
                    "positions", (plane,), x.elements, FLOAT, saves=(plane,), extra=spots
                ),
                table.width,
            )
        case "bag":
            bags = [
                ("positions.rows", _BAG * context.tokens, 8),
                ("positions.weights", _BAG * context.tokens, table.width),
            ]
            embedded = tape.to(
                tape.operation("positions", (table,), x.elements, table.width, extra=bags), x.width
            )
        case "axes":
            across, down = (
                tape.operation(f"positions.{axis}", (table,), x.elements, table.width)
                for axis in ("columns", "rows")
            )
            embedded = tape.copy("positions.unpadded", tape.add("positions", across, down))
        case _:
            embedded = tape.operation(
                "positions", (table,), context.sequence * tower.width, table.width
            )
    return tape.add("patches.placed", x, embedded)


def ended(
    units: list[Unit],
    tower: Tower,
    context: LayerContext,
    hidden: Value,
    workload: TrainingWorkload,
) -> tuple[Segment, Value]:
    """Return the norm after the layers; its weight is counted with the patches."""
    tape = tape_of(workload)
    x = start = tape.input("image.hidden", hidden.elements, hidden.width, grad=hidden.grad)
    x = normed(tape, units, context, x, "post_layernorm", "layernorm_post", "final_layernorm")
    x = tape.copy("image.placed_by_tile", x) if tower.style.places == "tiles" else x
    return simulated("image.end", tape, start, x, [], workload, checkpointed="none"), x


def normed(tape: Tape, units: list[Unit], context: LayerContext, x: Value, *names: str) -> Value:
    """Return the norm of one of these names, where the tower has it."""
    for unit in units:
        for parameter in unit.parameters:
            module = parameter.name.removesuffix(".weight")
            if parameter.name.endswith(".weight") and module.rpartition(".")[2] in names:
                x = Modules(tape, unit, context).norm(module, x)
    return x
