"""A layer of Llama 4 as transformers' modelling code computes it: every expert gets every token,
times the router's score. Source: transformers 5.23, models/llama4/modeling_llama4.py
(Llama4TextMoe, Llama4TextExperts, apply_rotary_emb, Llama4TextL2Norm)."""

from fitgauge.engine.model.mixers import Attention
from fitgauge.engine.training.autograd.layers.layer import Layer
from fitgauge.engine.training.autograd.operations import FLOAT, Value
from fitgauge.engine.training.states.parameters import Parameter


class Llama4Layer(Layer):
    """Writes one layer on a tape."""

    def rotated(self, q: Value, k: Value, mixer: Attention) -> tuple[Value, Value]:
        """Return queries and keys. Layers of chunked attention rotate them as complex numbers and
        norm them (`use_qk_norm`, assumed on); the others scale queries by position."""
        tape, width = self.tape, q.width
        if mixer.chunk is None:
            return (
                tape.to(
                    tape.operation("query.by_position", (q,), q.elements, FLOAT),
                    width,
                    "query.narrow",
                ),
                k,
            )
        wide = (tape.to(q, FLOAT, "query.float"), tape.to(k, FLOAT, "key.float"))
        turned = [
            tape.to(tape.copy(f"{part.name}.rotated", part), width, f"{part.name}.narrow")
            for part in wide
        ]
        return self.unit_length("query.norm", turned[0], mixer.head_dim), self.unit_length(
            "key.norm", turned[1], mixer.head_dim
        )

    def explicit(self, mixer: Attention) -> bool:
        """Return whether SDPA takes a mask: of chunks, where the sequence is longer than one."""
        return mixer.chunk is not None and mixer.chunk < self.context.keys

    def feed_forward(self, x: Value) -> Value:
        """Return an MLP; or products of all experts at once and a shared expert.

        Every expert reads all tokens times its score, which is 0 where it was not chosen. Inputs
        and outputs of the experts live while the shared expert runs (Llama4TextMoe.forward)."""
        experts = self.experts()
        if not experts:
            return super().feed_forward(x)
        tape, context = self.tape, self.context
        router = next(p for p in self.unit.parameters if p.name.endswith("router.weight"))
        count = experts[-1].count // context.experts
        scores = tape.operation(
            "router.chosen", (self.linear(router, x),), context.tokens * count, x.width
        )
        scores = tape.pointwise(
            "router.sigmoid", tape.to(scores, FLOAT, "router.float"), of_output=True
        )
        scores = tape.copy(
            "router.by_expert", tape.to(scores, tape.compute or x.width, "router.scores")
        )
        scaled = tape.multiply(
            "experts.weighed", tape.copy("experts.tokens", x, count * x.elements), scores
        )
        rows, inner = count * context.tokens, experts[-1].shape[1] // context.expert_heads
        first = self._every("experts.gate_up", scaled, experts[:-1], rows * 2 * inner)
        gate, up = tape.split("experts.chunk", first, rows * inner, rows * inner)
        product = tape.multiply("experts.product", up, self.activation(gate))
        routed = self._every("experts.down", product, experts[-1:], scaled.elements)
        shared = self.mlp(self.linears(attention=False), x)
        return tape.operation(
            "mlp.with_experts",
            (shared, routed, scaled._replace(grad=False)),
            shared.elements,
            shared.width,
            passes=True,
        )

    def _every(self, name: str, x: Value, parameters: list[Parameter], elements: int) -> Value:
        """Return the batched product of every expert with its tokens; under autocast each side is
        cast."""
        weights = [self.tape.cast(self.weight(parameter), name) for parameter in parameters]
        x = self.tape.cast(x, name)
        saves = [x] if any(weight.grad for weight in weights) else []
        casts = [weight for weight in weights if x.grad and self.tape.compute]
        y = self.tape.operation(
            name, (x, *weights), elements, x.width, saves=[*saves, *casts], product=True
        )
        return self.adapted(parameters[0], x, y, x.elements // parameters[0].shape[1], elements)
