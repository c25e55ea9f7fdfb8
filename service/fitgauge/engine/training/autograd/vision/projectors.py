"""From a tower's features to tokens of the language model: what gathers patches, norms and
linears in their order."""

from dataclasses import replace

from fitgauge.engine.model.spec import Kind
from fitgauge.engine.training.autograd.layers.modules import LayerContext, Modules
from fitgauge.engine.training.autograd.operations import FLOAT, Value
from fitgauge.engine.training.autograd.segment import Segment, tape_of
from fitgauge.engine.training.autograd.tape import Tape
from fitgauge.engine.training.autograd.vision.simulated import simulated
from fitgauge.engine.training.autograd.vision.styles import Tower
from fitgauge.engine.training.states.parameters import Unit
from fitgauge.engine.training.workload import TrainingWorkload


def projector(
    unit: Unit,
    tower: Tower,
    context: LayerContext,
    images: int,
    hidden: Value,
    workload: TrainingWorkload,
) -> Segment:
    """Norms and linears in their order, GELU between linears. One next to the last
    (deepstack) reads a layer's own output."""
    tape = tape_of(workload)
    take = tape.constant if unit.repeated else tape.input
    x = start = take("image.hidden", hidden.elements, hidden.width, grad=hidden.grad)
    if unit.repeated and not hidden.grad:  # which nothing else keeps
        x = tape.copy("image.hidden", x)
    if tower.classed and tower.style.gathers != "layers":
        x = tape.slice("image.without_class", x, hidden.elements - images * tower.width)
        x = x if tower.style.gathers == "shuffle" else tape.copy("image.patches", x)
    projection = Projector(
        tape,
        unit,
        replace(context, hidden=tower.width, traits=replace(context.traits, activation="gelu")),
        tower,
    )
    x = projection.forward(x)
    if tower.style.window is not None:
        x = tape.copy("image.in_order", x)
    return simulated("projector", tape, start, x, [unit], workload, checkpointed="none")


class Projector(Modules):
    """Writes one projector on a tape."""

    def __init__(self, tape: Tape, unit: Unit, context: LayerContext, tower: Tower) -> None:
        super().__init__(tape, unit, context)
        self.tower = tower

    def forward(self, x: Value) -> Value:
        """Return what gathers patches, then norms and linears in their order, GELU between
        linears but after the one that merges patches."""
        if self.tower.style.gathers != "unfold":  # which a norm comes before
            x = self.gathered_patches(x)
        if self.named("model.visual.merger.gate_proj"):
            return self.merged(x)
        between = False
        for parameter in self.unit.parameters:
            if parameter.kind is Kind.NORM and parameter.name.endswith(".weight"):
                x = self.norm(parameter.name.removesuffix(".weight"), x)
            elif (
                parameter.kind is Kind.LINEAR
                and len(parameter.shape) == 2
                and not parameter.adapter
            ):
                merging = parameter.name.endswith("merging_layer.weight")
                x = self.gathered_patches(x) if merging else self.activation(x) if between else x
                x = self.linear(parameter, x, x.elements // parameter.shape[1])
                between = not merging
        for parameter in (
            self.unit.parameters
        ):  # Gemma 3's matrix is no linear, and stands before the norm it follows
            if parameter.kind is Kind.OTHER and len(parameter.shape) == 2:
                x = self.tape.matmul(
                    parameter.name,
                    x,
                    self.weight(parameter),
                    x.elements // parameter.shape[0] * parameter.shape[1],
                )
        return x

    def gathered_patches(self, x: Value) -> Value:
        """Return the patches of one token side by side, or their mean."""
        tape, style = self.tape, self.tower.style
        match style.gathers:
            case "shuffle":
                return tape.copy("image.shuffled_back", tape.copy("image.shuffled", x))
            case "unfold":
                return tape.copy("image.windows", tape.copy("image.window", x))
            case "mean":
                return tape.copy("image.mean", tape.copy("image.in_order", x))
            case "pool":
                return tape.copy("image.pooled", x, x.elements // style.pool)
            case "layers":
                return self._side_by_side(x)
            case "positions":
                return self._averaged(x)
            case _:
                return x

    def _side_by_side(self, x: Value) -> Value:
        """Llama 3.2's: outputs of several layers and the last, without padding, of which a
        stack is made first (MllamaVisionModel)."""
        inputs = next(p for p in self.unit.parameters if p.kind is Kind.LINEAR).shape[1]
        stacked = self.context.tokens * (inputs - self.tower.width) * x.width
        return self.tape.operation(
            "image.layers",
            (x,),
            self.tower.unpadded(self.context.tokens) * inputs,
            x.width,
            scratch=stacked,
        )

    def _averaged(self, x: Value) -> Value:
        """Gemma 4's: padding emptied, patches averaged by a product with their places, a matrix
        of fp32 for every image, scaled in fp32, padding dropped, a norm without a weight
        (Gemma4VisionPooler, Gemma4MultimodalEmbedder)."""
        tape, patches, pool = self.tape, self.context.tokens, self.tower.style.pool
        filled = tape.operation(
            "image.filled", (x,), x.elements, x.width, extra=[("image.padding", patches, 1)]
        )
        places = [("image.places", patches * self.context.sequence // pool, FLOAT)]
        pooled = tape.operation(
            "image.pooled", (tape.to(filled, FLOAT),), x.elements // pool, FLOAT, extra=places
        )
        scaled = tape.copy("image.scaled", tape.to(tape.to(pooled, x.width), FLOAT))
        unpadded = tape.to(tape.copy("image.kept", scaled), x.width)
        return self.unit_length("image.norm", unpadded, self.tower.width)

    def merged(self, x: Value) -> Value:
        """GLM-4V's: a convolution over the patches of a token, a linear, a norm with GELU, a
        gated MLP (Glm4vVisionPatchMerger)."""
        tape, width = self.tape, self.tower.width * self.tower.merged
        kernel = next(
            p for p in self.unit.parameters if p.kind is Kind.CONV and p.name.endswith("weight")
        )
        read = tuple(tape.cast(value, "downsample") for value in (x, self.weight(kernel)))
        x = tape.operation(
            "downsample", read, x.elements // width * kernel.shape[0], read[0].width, saves=read
        )
        first, *gate_up_down = [
            p
            for p in self.unit.parameters
            if p.kind is Kind.LINEAR and len(p.shape) == 2 and not p.adapter
        ]
        gate, up, down = gate_up_down
        rows = x.elements // first.shape[1]
        x = self.norm("model.visual.merger.post_projection_norm", self.linear(first, x, rows))
        x = self.activation(x)
        gated = tape.pointwise("silu", self.linear(gate, x, rows))
        return self.linear(
            down, tape.multiply("mlp.product", gated, self.linear(up, x, rows)), rows
        )
