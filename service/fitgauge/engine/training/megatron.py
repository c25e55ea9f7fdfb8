"""A layer as Megatron-Core computes it, where its kernels keep less than transformers' modelling code: norms, rotation, gates, experts.

Its defaults for training: Transformer Engine's layers, --swiglu and --moe-grouped-gemm with their fusions on, rotation fused. Source:
Megatron-LM megatron/training/arguments.py (bias_swiglu_fusion, apply_rope_fusion).
"""

from fitgauge.engine.architecture import Split
from fitgauge.engine.training.parameters import Parameter
from fitgauge.engine.training.recipes import Layer
from fitgauge.engine.training.tape import FLOAT, Value


class MegatronLayer(Layer):
    """Writes one layer of a decoder on a tape."""

    def norm(self, name: str, x: Value) -> Value:
        """One kernel that saves its input and the deviation of every row, a layer norm its mean too.

        Source: Transformer Engine, pytorch/ops/basic/rmsnorm.py and layer_norm.py; module/layernorm_linear.py.
        """
        parameter = self._tensors.get(f"{name}.weight")
        if parameter is None:
            return super().norm(name, x)
        means = f"{name}.bias" in self._tensors or self.traits.norm in ("layer", "centred")
        beside = [(f"{name}.statistics", (1 + means) * x.elements // parameter.shape[-1], FLOAT)]
        return self.tape.operation(name, (x, self.weight(parameter)), x.elements, x.width, saves=(x,), beside=beside)

    def rotate(self, name: str, x: Value, cos: Value, sin: Value) -> Value:
        """One kernel that saves its angles alone (Transformer Engine, pytorch/attention/rope.py, FusedRoPEFunc)."""
        return self.tape.copy(f"{name}.rotated", x)

    def mlp(self, linears: list[Parameter], x: Value) -> Value:
        """down(act(gate) up): the gate's kernel saves what the first linear gave (megatron/core/fusions/fused_bias_swiglu.py)."""
        *ups, down = linears
        inner = down.shape[1] // (self.scene.heads if down.split is Split.ROW else 1) * self.scene.tokens
        made = [self.linear(up, x) for up in ups]
        if sum(value.elements for value in made) < 2 * inner:
            return self.linear(down, self.activation(made[0]))
        return self.linear(down, self.tape.operation("mlp.product", made, inner, made[0].width, saves=made))

    def mixture(self, experts: list[Parameter], x: Value) -> Value:
        """Tokens permuted, exchanged between ranks, and put back; the gate's kernel weighs them: what the experts give is not saved.

        Source: megatron/core/transformer/moe/token_dispatcher.py, MoEAlltoAllTokenDispatcher; experts.py, TEGroupedMLP;
        core/fusions/fused_bias_swiglu.py, WeightedSwiGLUFunction; Transformer Engine, pytorch/permutation.py (a map of rows is saved).
        """
        tape, scene, mlp = self.tape, self.scene, self.unit.block.mlp
        weights, down = self.routing(x), experts[-1]
        rows, inner = self.picks, down.shape[1] // scene.expert_heads
        mapped = [("experts.row_map", scene.tokens * (2 * down.count + 1) // scene.stream, 4)]
        permuted = tape.operation("experts.permuted", (x,), rows * scene.hidden, x.width, beside=mapped)
        tokens = tape.copy("experts.tokens", permuted)
        first = self.grouped("experts.gate_up", tokens, experts[:-1], rows * (1 + (mlp is None or mlp.gated)) * inner)
        product = tape.operation("experts.product", (first, weights), rows * inner, first.width, saves=(first, weights))
        out = tape.copy("experts.exchanged", self.grouped("experts.down", product, [down], rows * scene.hidden))
        return tape.copy("experts.sum", out, scene.tokens * scene.hidden // scene.stream)
