"""The feed-forward part of a layer on a tape: an MLP, or a mixture of experts with its router.

Source: transformers 5.23, models/*/modeling_*.py and integrations/moe.py."""

from fitgauge.engine.model.spec import Kind, Split
from fitgauge.engine.training.autograd.layers.modules import Modules
from fitgauge.engine.training.autograd.operations import FLOAT, Value
from fitgauge.engine.training.states.parameters import Parameter


class FeedForwardModules(Modules):
    """Write the MLP or the mixture of a layer on a tape."""

    def feed_forward(self, x: Value) -> Value:
        """Return the output of the MLP, or of the mixture and its shared expert."""
        experts = self.experts()
        x, dense = self.gathered(x), self.linears(attention=False)
        if not experts:
            return self.dropout("mlp.dropout", "mlp", self.mlp(dense, x))
        mixed = self.mixture(experts, x)
        if not dense:
            return mixed
        shared = self.mlp(dense, x)
        gate = next(
            (
                p
                for p in self.unit.parameters
                if p.kind in (Kind.ROUTER, Kind.LINEAR) and p.shape[0] == 1
            ),
            None,
        )
        if gate is not None:
            shared = self.tape.multiply(
                "shared.gated",
                self.tape.pointwise("sigmoid", self.linear(gate, x), of_output=True),
                shared,
            )
        return self.tape.add("mlp.with_shared", mixed, shared)

    def mlp(self, linears: list[Parameter], x: Value) -> Value:
        """Return down(act(gate(x)) up(x)), with gate and up separate or fused, or
        down(act(up(x)))."""
        *ups, down = linears
        first = self.linear(ups[0], x)
        inner = (
            down.shape[1]
            // (self.context.heads if down.split is Split.ROW else 1)
            * self.context.tokens
        )
        if len(ups) > 1 and self.traits.clamps:
            product = self.clamped(first, self.linear(ups[1], x))
        elif len(ups) > 1:
            gated = self.activation(first)
            product = self.tape.multiply("mlp.product", gated, self.linear(ups[1], x))
        elif first.elements >= 2 * inner:
            gate, up = self.tape.split("mlp.chunk", first, inner, inner)
            product = self.tape.multiply("mlp.product", self.activation(gate), up)
        else:
            product = self.activation(first)
        return self.linear(down, self.dropout("mlp.inner_dropout", "inside", product))

    def mixture(self, experts: list[Parameter], x: Value) -> Value:
        """Return a mixture: router, experts as one grouped product over the tokens sorted by
        expert, and their weighted sum.

        Sorting and unsorting each make a tensor of zeros in the backward pass, which index_put
        copies. Grouped products ignore autocast: they run in the format of the weights
        (integrations/moe.py, grouped_mm_experts_forward). Ranks that each hold a part of every
        expert's width process all tokens, others their own."""
        return self.chosen_experts(experts, x, self.routing(x))

    def chosen_experts(self, experts: list[Parameter], x: Value, weights: Value) -> Value:
        """Return the outputs of the chosen experts times the router's weights."""
        tape, context, mlp = self.tape, self.context, self.unit.block.mlp
        picks, down = self.picks, experts[-1]
        inner = down.shape[1] // context.expert_heads
        wide, indices = tape.to(x, self.weight(down).width), [("experts.indices", picks, 8)] * 4
        size = picks * context.hidden
        sorted_tokens = tape.operation(
            "experts.tokens", (wide,), size, wide.width, extra=indices, back_scratch=wide.bytes
        )
        gated = mlp is None or mlp.gated
        first = self.grouped(
            "experts.gate_up", sorted_tokens, experts[:-1], picks * (1 + gated) * inner
        )
        if not gated:
            product = self.activation(first)
        else:
            gate, up = tape.split("experts.chunk", first, picks * inner, picks * inner)
            if self.traits.clamps:
                product = self.clamped(gate, up)
            else:
                product = tape.multiply("experts.product", self.activation(gate), up)
        out = self.grouped("experts.down", product, [down], size)
        weighted = tape.multiply("experts.weighted", out, weights)
        ordered = tape.operation(
            "experts.in_order", (weighted,), size, weighted.width, back_scratch=weighted.bytes
        )
        return tape.to(tape.copy("experts.sum", ordered, context.tokens * context.hidden), x.width)

    @property
    def picks(self) -> int:
        """Tokens processed by the experts of this rank, one for each expert that a token chose."""
        context, mlp = self.context, self.unit.block.mlp
        return (
            context.tokens
            * (mlp.experts_per_token if mlp else 1)
            * context.expert_heads
            // context.heads
        )

    def routing(self, x: Value) -> Value:
        """Return the weights of the chosen experts."""
        router = next(
            (p for p in self.unit.parameters if p.kind is Kind.ROUTER and p.shape[0] > 1), None
        )
        if router is None:
            return self.tape.constant("router.weights", self.picks, x.width)
        scores = self.tape.to(self._routed(router, x), FLOAT, "router.float")
        chosen = self.tape.copy(
            "router.top_k",
            self.tape.pointwise("router.softmax", scores, of_output=True),
            self.picks,
        )
        if self.traits.casts_router or self.traits.float_weights:
            return chosen
        return self.tape.to(chosen, x.width, "router.weights")

    def _routed(self, router: Parameter, x: Value) -> Value:
        """Return the router's logits, in fp32 where the family computes them so. DeepSeek casts the
        weight to fp32 each time; other families store it in fp32."""
        if not self.traits.float_router:
            return self.linear(router, x)
        routed, weight = self.tape.to(x, FLOAT, "router.input"), self.weight(router)
        if not self.traits.casts_router:
            return self.linear(router, routed)
        return self.tape.matmul(
            "router",
            routed,
            self.tape.to(weight, FLOAT, "router.weight"),
            self.context.tokens * router.shape[0],
        )

    def clamped(self, gate: Value, up: Value) -> Value:
        """Return (up + 1) x gate x sigmoid(1.702 gate), both clamped, of one tensor that holds gate
        and up (GptOssExperts._apply_gate)."""
        tape = self.tape
        gate = tape.pointwise("experts.gate_clamped", gate)
        up = tape.pointwise("experts.up_clamped", up)
        sigmoid = tape.pointwise(
            "experts.sigmoid", tape.copy("experts.scaled", gate), of_output=True
        )
        return tape.multiply(
            "experts.product",
            tape.copy("experts.up_plus_one", up),
            tape.multiply("experts.glu", gate, sigmoid),
        )

    def grouped(self, name: str, x: Value, parameters: list[Parameter], elements: int) -> Value:
        """Return the grouped product of the experts with their tokens, adapters included.

        Quantized experts that are one parameter are dequantized first, and the product saves the
        result (bitsandbytes nn/parametrize.py, replace_parameter_4bit)."""
        weights = [self.weight(parameter) for parameter in parameters]
        dequantized = self.context.fused_experts and parameters[0].form is not None
        if dequantized:
            weights = [self.tape.copy(f"{name}.dequantized", weight) for weight in weights]
        merged = self._merged(name, weights, parameters)
        weights = merged or weights
        saves = [x] if any(weight.grad for weight in weights) else []
        if dequantized or merged:
            saves += weights if x.grad else []
        y = self.tape.operation(
            name, (x, *weights), elements, weights[0].width, saves=saves, grouped=True
        )
        inputs = parameters[0].shape[1] // (
            self.context.expert_heads if parameters[0].split is Split.ROW else 1
        )
        if merged:
            return y
        return self.adapted(parameters[0], x, y, x.elements // inputs, elements)

    def _merged(self, name: str, weights: list[Value], parameters: list[Parameter]) -> list[Value]:
        """Return the experts' weights with the products of their adapters added; nothing where
        they have none, or where those are applied to the tokens (PEFT tuners/lora/layer.py,
        ParamWrapper.get_delta_weight)."""
        tape, module = self.tape, parameters[0].name.removesuffix(".weight")
        pair = [self._tensors.get(f"{module}.lora_{half}.weight") for half in "AB"]
        if not self.context.merged_expert_adapters or pair[0] is None or pair[1] is None:
            return []
        a, b = self.weight(pair[0]), self.weight(pair[1])
        elements = sum(weight.elements for weight in weights)
        product = tape.matmul(f"{name}.delta", a, b, elements)
        delta = tape.to(tape.copy(f"{name}.delta_scaled", product), weights[0].width)
        added = tape.operation(
            f"{name}.merged", (*weights, delta), elements, weights[0].width, passes=True
        )
        tape.hold(delta)
        return [added]
