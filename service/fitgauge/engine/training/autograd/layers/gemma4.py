"""A layer of Gemma 4 as transformers' modelling code computes it.

It departs from Llama in five ways: values are normed like queries and keys, keys may serve as
values, keys and values may be an earlier layer's, a mixture runs next to the MLP, and every layer
has an input of its own. Source: transformers 5.23, models/gemma4/modeling_gemma4.py
(Gemma4TextAttention, Gemma4TextRouter, Gemma4TextDecoderLayer)."""

from collections.abc import Sequence

from fitgauge.engine.model.mixers import Attention
from fitgauge.engine.training.autograd.layers.layer import Layer
from fitgauge.engine.training.autograd.layers.modules import LayerContext, Modules
from fitgauge.engine.training.autograd.operations import FLOAT, Value
from fitgauge.engine.training.autograd.segment import Segment, stream_width, tape_of, trace_segment
from fitgauge.engine.training.states.parameters import Parameter, Unit
from fitgauge.engine.training.workload import TrainingWorkload


class Gemma4Layer(Layer):
    """Writes one layer on a tape."""

    def forward(self, x: Value) -> Value:
        """Return attention, the MLP with a mixture next to it, and the layer's own input, each
        where it has one."""
        return self.layer(x)

    def layer(self, x: Value) -> Value:
        """Return attention and MLP, each with a norm before and after it."""
        mixed = self.norm("post_attention_layernorm", self.mix(self.norm("input_layernorm", x)))
        x = self.tape.add("attention.residual", x, mixed)
        fed = self.norm("post_feedforward_layernorm", self._fed(x))
        x = self.tape.add("mlp.residual", x, fed)
        gate = self.named("per_layer_input_gate")
        return (
            x if gate is None else self.tape.add("per_layer.residual", x, self._own_input(gate, x))
        )

    def attention(
        self,
        x: Value,
        mixer: Attention,
        linears: list[Parameter] | None = None,
        source: Value | None = None,
    ) -> Value:
        """Return attention. Keys and values may be one projection's, or those of an earlier layer,
        which counts them."""
        tape, context = self.tape, self.context
        *inward, out = self.linears(attention=True)
        heads = max(1, mixer.query_heads // context.heads)
        kv_heads = max(1, mixer.kv_heads // context.heads)
        cos, sin = (tape.constant(name, 1, context.table_width) for name in ("cos", "sin"))
        q = self.rotate("query", self.norm("self_attn.q_norm", self.linear(inward[0], x)), cos, sin)
        if mixer.shares_cache:
            sizes = (
                context.tokens * kv_heads * width for width in (mixer.head_dim, mixer.value_dim)
            )
            k, v = (
                tape.constant(f"{name}.shared", size, q.width, grad=True)
                for name, size in zip(("key", "value"), sizes, strict=True)
            )
        else:
            keys = self.linear(inward[1], x)
            values = self.linear(inward[2], x) if len(inward) > 2 else keys
            k = self.rotate("key", self.norm("self_attn.k_norm", keys), cos, sin)
            v = self.unit_length("self_attn.v_norm", values, mixer.value_dim)
        if self.traits.eager(context.attention):
            mixed = self.eager(q, k, v, heads, mixer)
        else:
            mixed = self.fused_attention(q, k, v, heads, mixer)
        return self.linear(out, mixed)

    def _fed(self, x: Value) -> Value:
        """Return the sum of the MLP and of a mixture that reads the stream itself."""
        experts = self.experts()
        fed = self.mlp(self.linears(attention=False)[:3], self.norm("pre_feedforward_layernorm", x))
        if not experts:
            return fed
        fed = self.norm("post_feedforward_layernorm_1", fed)
        weights = self.routing(x)
        mixed = self.chosen_experts(experts, self.norm("pre_feedforward_layernorm_2", x), weights)
        return self.tape.add(
            "mlp.with_mixture", fed, self.norm("post_feedforward_layernorm_2", mixed)
        )

    def routing(self, x: Value) -> Value:
        """Return the router's weights: scores of the normed, scaled stream; those chosen in fp32,
        times a learned scale of each expert."""
        tape = self.tape
        router, scale = self.named("router.proj"), self._tensors["router.scale"]
        if router is None:
            return super().routing(x)
        per_layer = tape.multiply(
            "router.scaled",
            self.unit_length("router.norm", x, self.context.hidden),
            self.weight(scale),
        )
        scores = tape.to(
            self.linear(router, tape.copy("router.input", per_layer)), FLOAT, "router.float"
        )
        chosen = tape.copy(
            "router.top_k", tape.pointwise("router.softmax", scores, of_output=True), self.picks
        )
        each = tape.operation(
            "router.scales",
            (self.weight(self._tensors["router.per_expert_scale"]),),
            self.picks,
            x.width,
        )
        return tape.multiply("router.weights", chosen, each)

    def _own_input(self, gate: Parameter, x: Value) -> Value:
        """Return norm(up(act(gate(x)) x input)). The input is a view of one tensor that is made for
        all layers before the first (embedding)."""
        tape = self.tape
        gated = self.activation(self.linear(gate, x))
        per_layer = tape.constant(
            "per_layer.input", gated.elements, self.context.table_width, grad=True
        )
        up = next(p for p in self.unit.parameters if p.name == "per_layer_projection.weight")
        return self.norm(
            "post_per_layer_input_norm",
            self.linear(up, tape.multiply("per_layer.product", gated, per_layer)),
        )


def handed_on(all_units: Sequence[Unit]) -> list[Unit]:
    """Return the units that make the layers' own inputs: a table, a linear and a norm; empty where
    there are none."""
    return [
        unit
        for unit in all_units
        if any("per_layer" in parameter.name for parameter in unit.parameters) and not unit.repeated
    ]


def per_layer_segment(
    all_units: Sequence[Unit], context: LayerContext, workload: TrainingWorkload
) -> Segment | None:
    """Return the segment that makes the inputs of every layer before the first; None where there
    are none.

    Words from a table of their own are added to a normed linear of the words' embeddings, and
    scaled (Gemma4TextModel.get_per_layer_inputs, project_per_layer_inputs). They live until the
    layers' backward passes."""
    units = handed_on(all_units)
    if not units:
        return None
    tape, width = tape_of(workload), stream_width(workload)
    named = {
        p.name.removesuffix(".weight").rpartition(".")[2]: (unit, p)
        for unit in units
        for p in unit.parameters
        if not p.adapter
    }
    (home, table), (other, linear) = (
        named["embed_tokens_per_layer"],
        named["per_layer_model_projection"],
    )
    modules, count = Modules(tape, other, context), context.tokens * linear.shape[0]
    words = tape.copy(
        "embedding.read",
        tape.constant("embedding", context.tokens * context.hidden, width, grad=True),
    )
    own = tape.operation(
        "per_layer.words", (Modules(tape, home, context).weight(table),), count, width
    )
    norm = named["per_layer_projection_norm"][1].name.removesuffix(".weight")
    projected = modules.norm(norm, tape.copy("per_layer.projected", modules.linear(linear, words)))
    embedding = tape.copy(
        "per_layer.inputs", tape.add("per_layer.sum", projected, tape.copy("per_layer.scaled", own))
    )
    return trace_segment(
        "embedding", (), tape, words, embedding, units, workload, checkpointed="none"
    )


def per_layer_bytes(
    all_units: Sequence[Unit], context: LayerContext, workload: TrainingWorkload
) -> int:
    """Return the bytes of the gradient of all layers' own inputs; it has its full size from the
    last layer's backward pass on."""
    widths = [
        p.shape[0]
        for unit in handed_on(all_units)
        for p in unit.parameters
        if p.name.endswith("per_layer_model_projection.weight")
    ]
    return sum(context.tokens * width * stream_width(workload) for width in widths)
