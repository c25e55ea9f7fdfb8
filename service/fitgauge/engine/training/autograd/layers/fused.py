"""A layer whose modules run as fused kernels instead of transformers' modelling code: Liger's,
Unsloth's, axolotl's for adapters.

Source: Liger-Kernel ops/rms_norm.py, rope.py, swiglu.py; unsloth 2026.8 kernels/rms_layernorm.py,
rope_embedding.py, fast_lora.py; axolotl 0.18 kernels/lora.py."""

from fitgauge.engine.model.spec import Split
from fitgauge.engine.training.autograd.layers.layer import Layer
from fitgauge.engine.training.autograd.layers.modules import LayerContext
from fitgauge.engine.training.autograd.operations import FLOAT, Value
from fitgauge.engine.training.autograd.tape import Tape
from fitgauge.engine.training.states.parameters import Parameter, Unit
from fitgauge.engine.training.workload import Kernels

_GATES = ("silu", "gelu")
"""Activations that the SwiGLU and GEGLU kernels compute."""


class FusedLayer(Layer):
    """Record one layer of a decoder on a tape. `kernels`: the library that the kernels are of."""

    def __init__(self, tape: Tape, unit: Unit, context: LayerContext, kernels: Kernels) -> None:
        super().__init__(tape, unit, context)
        self._elementwise = kernels in ("liger", "unsloth")
        self._adapters = kernels in ("lora", "unsloth")
        self._bare = kernels == "unsloth"

    def norm(self, name: str, x: Value) -> Value:
        """Return a norm by one kernel: it saves its input and the inverse deviation of every row.
        Its gradient overwrites that of the output, except for Gemma's norm
        (Fast_RMS_Layernorm.backward)."""
        parameter = self._tensors.get(f"{name}.weight")
        rms = (
            self.traits.norm in ("rms", "narrow_rms", "wide_rms", "shifted_rms")
            and f"{name}.bias" not in self._tensors
        )
        if not self._elementwise or parameter is None or not rms:
            return super().norm(name, x)
        extra = [(f"{name}.deviation", x.elements // parameter.shape[-1], FLOAT)]
        inputs, passes = (x, self.weight(parameter)), self.traits.norm != "shifted_rms"
        return self.tape.operation(
            name, inputs, x.elements, x.width, saves=(x,), extra=extra, passes=passes
        )

    def rotate(self, name: str, x: Value, cos: Value, sin: Value) -> Value:
        """Rotate in place, in either pass (Fast_RoPE_Embedding; LigerRopeFunction)."""
        if not self._elementwise:
            return super().rotate(name, x, cos, sin)
        return self.tape.operation(
            f"{name}.rotated", (x,), x.elements, x.width, view=True, passes=True
        )

    def linear(self, parameter: Parameter, x: Value, tokens: int | None = None) -> Value:
        """Return x W + (x A) B. The second product is added in place; of all tensors as long as the
        sequence only x is saved (LoRA_W, LoRA_QKV; utils.py, matmul_lora)."""
        pair = self._pair(parameter)
        if pair is None or (parameter.split is not Split.NONE and self.context.heads > 1):
            return super().linear(parameter, x, tokens)
        rows, name = tokens or self.context.tokens, parameter.name.removesuffix(".weight")
        x, scratch = self.tape.cast(x, name), self._unpacked(parameter)
        inputs = (x, self.weight(parameter), *pair)
        out = rows * parameter.shape[0]
        return self.tape.operation(
            name,
            inputs,
            out,
            x.width,
            saves=(x,),
            scratch=scratch,
            back_scratch=scratch,
            product=True,
        )

    def mlp(self, linears: list[Parameter], x: Value) -> Value:
        """Return down(act(gate(x)) up(x)): the outputs of gate and up are saved, their product is
        recomputed (swiglu.py).

        With adapters on all three it is one function: it saves x too, and overwrites the outputs of
        gate and up, and x, with their gradients (LoRA_MLP.backward)."""
        pairs = [pair for linear in linears if (pair := self._pair(linear)) is not None]
        if (
            len(linears) != 3
            or self.traits.activation not in _GATES
            or self.context.heads > 1
            or self.traits.drops
        ):
            return super().mlp(linears, x)
        gate, up, down = linears
        inner = gate.shape[0] * self.context.tokens
        if len(pairs) == 3:
            x, unpacked = self.tape.cast(x, "mlp"), max(map(self._unpacked, linears))
            inputs = (x, *map(self.weight, linears), *(half for pair in pairs for half in pair))
            product = inner * x.width
            return self.tape.operation(
                "mlp",
                inputs,
                x.elements,
                x.width,
                saves=(x,),
                extra=[("mlp.gate", inner, x.width), ("mlp.up", inner, x.width)],
                scratch=product + unpacked,
                back_scratch=max(0, product + unpacked - x.bytes),
                product=True,
            )
        if not self._elementwise:
            return super().mlp(linears, x)
        branches = (self.linear(gate, x), self.linear(up, x))
        return self.linear(
            down,
            self.tape.operation("mlp.product", branches, inner, branches[0].width, saves=branches),
        )

    def _pair(self, parameter: Parameter) -> tuple[Value, ...] | None:
        """Return the adapter matrices of a linear where the kernel supports them: Unsloth's takes
        neither biases nor magnitudes (DoRA)."""
        name = parameter.name.removesuffix(".weight")
        a = self._tensors.get(f"{name}.lora_A.weight")
        b = self._tensors.get(f"{name}.lora_B.weight")
        magnitude = self._tensors.get(f"{name}.lora_magnitude_vector")
        refused = self._bare and (magnitude is not None or f"{name}.bias" in self._tensors)
        if not self._adapters or refused or a is None or b is None:
            return None
        return tuple(self.weight(part) for part in (a, b, magnitude) if part is not None)

    def _unpacked(self, parameter: Parameter) -> int:
        """Return the bytes of a quantized weight after dequantization."""
        return parameter.elements * self.context.compute_width if parameter.form is not None else 0
