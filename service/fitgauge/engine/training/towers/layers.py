"""One layer of a vision tower, written on a tape."""

from fitgauge.engine.architecture import Attention
from fitgauge.engine.training.modules import Scene
from fitgauge.engine.training.parameters import Unit
from fitgauge.engine.training.recipes import Layer
from fitgauge.engine.training.tape import FLOAT, Tape, Value
from fitgauge.engine.training.towers.styles import Style


class TowerLayer(Layer):
    """One layer of a tower."""

    def __init__(self, tape: Tape, unit: Unit, scene: Scene, style: Style) -> None:
        super().__init__(tape, unit, scene)
        self.style = style

    def rotated(self, q: Value, k: Value, mixer: Attention) -> tuple[Value, Value]:
        """Both in fp32 from end to end (apply_rotary_pos_emb_vision)."""
        tape, width = self.tape, q.width
        wide = tape.to(q, FLOAT, "query.float"), tape.to(k, FLOAT, "key.float")
        q, k = super().rotated(*wide, mixer)
        return tape.to(q, width, "query.narrow"), tape.to(k, width, "key.narrow")

    def eager(self, q: Value, k: Value, v: Value, heads: int, mixer: Attention) -> Value:
        """Scores written out, image by image."""
        return self._together(super().eager(q, k, v, heads, mixer))

    def fused_attention(self, q: Value, k: Value, v: Value, heads: int, mixer: Attention) -> Value:
        """SDPA knows no images of several lengths: it runs on each; FlashAttention takes them all at once."""
        mixed = super().fused_attention(q, k, v, heads, mixer)
        return self._together(mixed) if self.scene.attention == "sdpa" else mixed

    def _together(self, mixed: Value) -> Value:
        return self.tape.copy("attention.together", mixed) if self.style.apart else mixed

    def mix(self, x: Value) -> Value:
        """Attention, times a learned scale where there is one (InternViT)."""
        return self._scaled(super().mix(x), "lambda_1", "ls1")

    def feed_forward(self, x: Value) -> Value:
        """The MLP, times a learned scale where there is one."""
        return self._scaled(super().feed_forward(x), "lambda_2", "ls2")

    def _scaled(self, x: Value, *names: str) -> Value:
        scale = next((parameter for parameter in self.unit.parameters if parameter.name in names), None)
        return x if scale is None else self.tape.multiply(scale.name, self.weight(scale), x)

    def activation(self, x: Value) -> Value:
        """quick_gelu is x sigmoid(1.702 x) in steps (QuickGELUActivation)."""
        if self.style.activation != "quick_gelu":
            return super().activation(x)
        return self.tape.multiply("quick_gelu", x, self.tape.pointwise("sigmoid", self.tape.copy("scaled", x), of_output=True))
