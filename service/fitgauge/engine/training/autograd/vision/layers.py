"""One layer of a vision tower, written on a tape."""

from fitgauge.engine.model.mixers import Attention
from fitgauge.engine.model.spec import Kind
from fitgauge.engine.training.autograd.layers.layer import Layer
from fitgauge.engine.training.autograd.layers.modules import LayerContext
from fitgauge.engine.training.autograd.operations import FLOAT, Value
from fitgauge.engine.training.autograd.tape import Tape
from fitgauge.engine.training.autograd.vision.styles import Style
from fitgauge.engine.training.states.parameters import Parameter, Unit


class TowerLayer(Layer):
    """One layer of a tower."""

    def __init__(self, tape: Tape, unit: Unit, context: LayerContext, style: Style) -> None:
        super().__init__(tape, unit, context)
        self.style = style

    def linears(self, *, attention: bool) -> list[Parameter]:
        """Return the weights of the attention's linears, or of the MLP's; MoonViT's names say
        "w" where others say "attn"."""
        parameters = [
            p
            for p in self.unit.parameters
            if p.kind is Kind.LINEAR and not p.adapter and len(p.shape) == 2
        ]
        return [
            p
            for p in parameters
            if (p.name in ("wqkv.weight", "wo.weight") or "att" in p.name) == attention
        ]

    def _fused(self, y: Value, sizes: list[int]) -> tuple[Value, ...]:
        """Return queries, keys and values of one projection; MoonViT's are stored as one and
        computed apart (Kimi_K25VisionAttention)."""
        if not self.named("wqkv"):
            return super()._fused(y, sizes)
        return tuple(
            self.tape.copy(f"qkv.{name}", y, size)
            for name, size in zip(("query", "key", "value"), sizes, strict=True)
        )

    def rotated(self, q: Value, k: Value, mixer: Attention) -> tuple[Value, Value]:
        """In fp32 from end to end (apply_rotary_pos_emb_vision), where there by tables or as
        complex numbers, or in the stream's format."""
        if self.style.rotation not in ("float", "complex"):
            return super().rotated(q, k, mixer)
        tape, width = self.tape, q.width
        wide = tape.to(q, FLOAT, "query.float"), tape.to(k, FLOAT, "key.float")
        q, k = super().rotated(*wide, mixer)
        held = [part._replace(grad=False) for part in wide]  # by the function that rotates both
        k = tape.operation("key.narrow", (k, *held), k.elements, width) if width < FLOAT else k
        return tape.to(q, width, "query.narrow"), k

    def rotate(self, name: str, x: Value, cos: Value, sin: Value) -> Value:
        """x cos + rotate_half(x) sin, or one product of complex numbers
        (vision_apply_rotary_emb), or half by rows and half by columns."""
        match self.style.rotation:
            case "complex":
                return self.tape.copy(f"{name}.rotated", x)
            case "axes":
                halves = self.tape.split(f"{name}.axes", x, x.elements // 2, x.elements // 2)
                columns = super().rotate(f"{name}.columns", halves[0], cos, sin)
                rows = super().rotate(f"{name}.rows", halves[1], cos, sin)
                return self.tape.operation(f"{name}.rotated", (columns, rows), x.elements, x.width)
            case _:
                return super().rotate(name, x, cos, sin)

    def explicit(self, mixer: Attention) -> bool:
        """Return whether SDPA makes of the mask that keeps images apart one of its own: under
        autocast, in every layer. Else all share it."""
        return self.style.masked and self.tape.compute not in (0, self.context.table_width)

    def eager(self, q: Value, k: Value, v: Value, heads: int, mixer: Attention) -> Value:
        """Return scores written out, image by image."""
        return self._together(super().eager(q, k, self._values(v, mixer), heads, mixer))

    def fused_attention(self, q: Value, k: Value, v: Value, heads: int, mixer: Attention) -> Value:
        """SDPA knows no images of several lengths: it runs on each; FlashAttention takes them
        all at once."""
        mixed = super().fused_attention(q, k, self._values(v, mixer), heads, mixer)
        return self._together(mixed) if self.context.attention == "sdpa" else mixed

    def _values(self, v: Value, mixer: Attention) -> Value:
        return self.unit_length("value.norm", v, mixer.value_dim) if self.style.norms_values else v

    def _together(self, mixed: Value) -> Value:
        return (
            self.tape.copy("attention.together", mixed) if self.style.images == "apart" else mixed
        )

    def mix(self, x: Value) -> Value:
        """Attention, times a learned scale where there is one (InternViT), or its tanh (Llama
        3.2)."""
        return self._scaled(super().mix(x), "lambda_1", "ls1", "gate_attn")

    def feed_forward(self, x: Value) -> Value:
        """Return the MLP, times a learned scale where there is one."""
        return self._scaled(super().feed_forward(x), "lambda_2", "ls2", "gate_ffn")

    def _scaled(self, x: Value, *names: str) -> Value:
        scale = next(
            (parameter for parameter in self.unit.parameters if parameter.name in names), None
        )
        if scale is None:
            return x
        factor = self.weight(scale)
        if scale.name.startswith("gate"):
            factor = self.tape.pointwise(f"{scale.name}.tanh", factor, of_output=True)
        else:
            factor = factor
        return self.tape.multiply(scale.name, factor, x)

    def activation(self, x: Value) -> Value:
        """quick_gelu is x sigmoid(1.702 x) in steps (QuickGELUActivation)."""
        if self.style.activation != "quick_gelu":
            return super().activation(x)
        return self.tape.multiply(
            "quick_gelu",
            x,
            self.tape.pointwise("sigmoid", self.tape.copy("scaled", x), of_output=True),
        )
