"""Modules of Megatron-Core on a tape: norms, linears and rotation, with what is recomputed.

Source: Transformer Engine, pytorch/ops/basic and pytorch/module; Megatron-LM
megatron/core/transformer."""

from contextlib import AbstractContextManager

from fitgauge.engine.training.autograd.layers.layer import Layer
from fitgauge.engine.training.autograd.layers.modules import LayerContext
from fitgauge.engine.training.autograd.megatron_tape import MegatronTape
from fitgauge.engine.training.autograd.operations import FLOAT, Value
from fitgauge.engine.training.states.parameters import Parameter, Unit


class MegatronModules(Layer):
    """Write the modules of a decoder layer on a tape. `recomputes`: modules that run again in the
    backward pass (--recompute-modules)."""

    tape: MegatronTape

    def __init__(
        self,
        tape: MegatronTape,
        unit: Unit,
        context: LayerContext,
        recomputes: tuple[str, ...] = (),
    ) -> None:
        super().__init__(tape, unit, context)
        self.recomputes = recomputes

    def again(self, module: str, *, discards: bool = False) -> AbstractContextManager[None]:
        """Return where a module that may be recomputed is written."""
        return self.tape.recomputed(module in self.recomputes, discards=discards)

    def back(self, module: str, output: Value) -> Value:
        """Return what was made of the output of a recomputed module, before whose backward pass
        that output comes back."""
        if module in self.recomputes:
            self.tape.restore()
        return output

    # --- norms, linears, rotation

    def norm(self, name: str, x: Value) -> Value:
        """Return one kernel that saves its input, as a tensor of its own, and the deviation of
        every row, a layer norm its mean too.

        Source: Transformer Engine, pytorch/ops/basic/rmsnorm.py and layer_norm.py;
        module/layernorm_linear.py."""
        parameter = self._tensors.get(f"{name}.weight")
        if parameter is None:
            return super().norm(name, x)
        x = self.whole(f"{name}.input", x)
        means = f"{name}.bias" in self._tensors or self.traits.norm in ("layer", "centred")
        extra = [(f"{name}.statistics", (1 + means) * x.elements // parameter.shape[-1], FLOAT)]
        return self.tape.operation(
            name, (x, self.weight(parameter)), x.elements, x.width, saves=(x,), extra=extra
        )

    def whole(self, name: str, x: Value) -> Value:
        """Return the tensor, copied where it is a part of another (Tensor.contiguous)."""
        return self.tape.copy(name, x) if self.tape.partial(x) else x

    def _normed(self, name: str, x: Value) -> Value:
        with self.again("layernorm", discards=True):
            return super()._normed(name, x)

    def mix(self, x: Value) -> Value:
        """Return the layer's attention, during which its input has a name, and after which its
        norm's output comes back."""
        return self.back("layernorm", self._read(super().mix(x), x))

    def together(self, name: str, parameters: list[Parameter], x: Value) -> Value:
        """Return the linears of one input as one product (linear_qkv, linear_fc1); where they
        have adapters or quantized weights, as so many."""
        parts = []
        if not self._plain(parameters):
            parts = [self.linear(parameter, x) for parameter in parameters]
        if parts:
            if len(parts) > 1:
                return self.tape.operation(
                    name, parts, sum(part.elements for part in parts), parts[0].width
                )
            return parts[0]
        weights = [self.weight(parameter) for parameter in parameters]
        elements = sum(
            self.context.tokens * weight.elements // parameter.shape[1]
            for parameter, weight in zip(parameters, weights, strict=True)
        )
        gathered = x.bytes * self.context.stream if self.context.stream > 1 else 0
        saves = (x,) if any(weight.grad for weight in weights) else ()
        return self.tape.operation(
            name,
            (x, *weights),
            elements,
            x.width,
            saves=saves,
            scratch=gathered,
            back_scratch=gathered,
            product=True,
        )

    def _plain(self, parameters: list[Parameter]) -> bool:
        named = (parameter.name.removesuffix(".weight") for parameter in parameters)
        return all(p.form is None for p in parameters) and not any(
            f"{name}.lora_A.weight" in self._tensors for name in named
        )

    def rotate(self, name: str, x: Value, cos: Value, sin: Value) -> Value:
        """Return one kernel that saves its angles alone (Transformer Engine,
        pytorch/attention/rope.py, FusedRoPEFunc)."""
        return self.tape.copy(f"{name}.rotated", x)

    def _read(self, value: Value, *others: Value) -> Value:
        """Return the value where it was made, `others` still there: names of the code's own hold
        them."""
        last = self.tape.operations[-1]
        self.tape.operations[-1] = last._replace(
            inputs=(*last.inputs, *(other._replace(grad=False) for other in others))
        )
        return value
