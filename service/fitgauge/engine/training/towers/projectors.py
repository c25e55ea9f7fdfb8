"""From a tower's features to tokens of the language model: what gathers patches, norms and linears in their order."""

from dataclasses import replace

from fitgauge.engine.architecture import Kind
from fitgauge.engine.training.modules import Modules, Scene
from fitgauge.engine.training.parameters import Parameter, Unit
from fitgauge.engine.training.segment import Segment, tape_of
from fitgauge.engine.training.tape import Value
from fitgauge.engine.training.towers.played import played
from fitgauge.engine.training.towers.styles import Tower
from fitgauge.engine.training.workload import TrainingWorkload


def projector(unit: Unit, tower: Tower, scene: Scene, images: int, hidden: Value, workload: TrainingWorkload) -> Segment:
    """Norms and linears in their order, GELU between linears. One that stands beside the last (deepstack) reads a layer's own output."""
    tape = tape_of(workload)
    modules = Modules(tape, unit, replace(scene, hidden=tower.width, traits=replace(scene.traits, activation="gelu")))
    take = tape.constant if unit.repeated else tape.input
    x = start = take("image.hidden", hidden.elements, hidden.width, grad=hidden.grad)
    if unit.repeated and not hidden.grad:  # which nothing else keeps
        x = tape.copy("image.hidden", x)
    if tower.classed:
        x = tape.slice("image.without_class", x, hidden.elements - images * tower.width)
        x = tape.copy("image.shuffled" if tower.style.shuffles else "image.patches", x)
    if tower.style.shuffles:
        x = tape.copy("image.shuffled_back", x)
    if tower.style.pool > 1:
        x = tape.copy("image.pooled", x, x.elements // tower.style.pool)
    between = False
    for parameter in unit.parameters:
        if parameter.kind is Kind.NORM and parameter.name.endswith(".weight"):
            x = modules.norm(parameter.name.removesuffix(".weight"), x)
        elif parameter.kind is Kind.LINEAR and len(parameter.shape) == 2 and not parameter.adapter:
            x = modules.linear(parameter, modules.activation(x) if between else x, _rows(x, parameter))
            between = True
    if tower.style.window is not None:
        x = tape.copy("image.in_order", x)
    return played("projector", tape, start, x, [unit], workload, checkpointed="none")


def _rows(x: Value, parameter: Parameter) -> int:
    return x.elements // parameter.shape[1]
