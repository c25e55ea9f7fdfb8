"""What a tower does around its layers: pixels to features with positions before them, a norm after them."""

from fitgauge.engine.architecture import Kind
from fitgauge.engine.training.modules import Modules, Scene
from fitgauge.engine.training.parameters import Unit
from fitgauge.engine.training.segment import Segment, stream_width, tape_of
from fitgauge.engine.training.tape import FLOAT, Tape, Value
from fitgauge.engine.training.towers.played import played
from fitgauge.engine.training.towers.styles import Tower
from fitgauge.engine.training.workload import TrainingWorkload


def patches(units: list[Unit], tower: Tower, scene: Scene, images: int, workload: TrainingWorkload) -> tuple[Segment, Value]:
    """(pixels to features with positions, the features); a convolution under autocast gives 16 bit, which the tower goes on in."""
    tape, width = tape_of(workload), stream_width(workload)
    named = {parameter.name: (unit, parameter) for unit in units for parameter in unit.parameters}
    count = scene.tokens - images * tower.classed
    pixels = tape.to(tape.constant("pixels", count * tower.numbers, FLOAT), width, "pixels.narrow")
    unit, patch = next(found for name, found in named.items() if found[1].kind is Kind.CONV and name.endswith("weight"))
    read = tuple(tape.cast(value, "patches") for value in (pixels, Modules(tape, unit, scene).weight(patch)))
    x = tape.operation("patches", read, count * tower.width, read[0].width, saves=read)
    if tower.style.asks and workload.adapted and workload.activation_checkpointing != "none":
        x = tape.leaf("patches.leaf", x)
    if tower.classed:
        x = tape.copy("patches.with_class", x, scene.tokens * tower.width)
    place = next((found for name, found in named.items() if "pos" in name and found[1].kind is not Kind.CONV), None)
    if place is not None:
        x = _placed(tape, x, Modules(tape, place[0], scene).weight(place[1]), tower, scene)
    if tower.style.window is not None:
        x = tape.copy("patches.by_window", x)
    for unit in units:
        for parameter in unit.parameters:
            if "pre_layrnorm.weight" in parameter.name:
                x = Modules(tape, unit, scene).norm(parameter.name.removesuffix(".weight"), x)
    return played("patches", tape, pixels, x, units, workload, checkpointed="none"), x


def _placed(tape: Tape, x: Value, table: Value, tower: Tower, scene: Scene) -> Value:
    """Learned positions: a table's rows, or of a tower for any size a weighted sum of four (Qwen3-VL)."""
    if tower.fixed is not None:
        return tape.add("patches.placed", x, tape.operation("positions", (table,), scene.sequence * tower.width, table.width))
    corners = tape.operation("positions.corners", (table,), 4 * x.elements, table.width)
    weighed = corners.elements * FLOAT
    scratch = weighed if corners.width < FLOAT else 0
    summed = tape.operation("positions", (corners,), x.elements, FLOAT, scratch=weighed, back_scratch=scratch)
    return tape.add("patches.placed", x, tape.to(summed, x.width))


def ended(units: list[Unit], scene: Scene, hidden: Value, workload: TrainingWorkload) -> tuple[Segment, Value]:
    """The norm after the layers; its weight is counted with the patches."""
    tape = tape_of(workload)
    x = start = tape.input("image.hidden", hidden.elements, hidden.width, grad=hidden.grad)
    for unit in units:
        for parameter in unit.parameters:
            if "post_layernorm.weight" in parameter.name:
                x = Modules(tape, unit, scene).norm(parameter.name.removesuffix(".weight"), x)
    return played("image.end", tape, start, x, [], workload, checkpointed="none"), x
