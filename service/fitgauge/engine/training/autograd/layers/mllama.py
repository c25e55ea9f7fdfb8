"""A layer of Llama 3.2 Vision: a Llama's, or one whose attention reads the tokens of images, which
stay outside the sequence.

Source: transformers 5.23, models/mllama/modeling_mllama.py (MllamaCrossAttentionDecoderLayer,
MllamaTextModel.forward)."""

from dataclasses import replace

import msgspec

from fitgauge.engine.model.mixers import Attention, CrossAttention, plain_attention
from fitgauge.engine.training.autograd.layers.layer import Layer
from fitgauge.engine.training.autograd.operations import Value


class MllamaLayer(Layer):
    """Writes one layer on a tape."""

    def forward(self, x: Value) -> Value:
        """Return the output of the layer; a layer of cross attention is skipped where there are no
        images."""
        mixer = self.unit.block.mixers[0]
        if not isinstance(mixer, CrossAttention):
            return super().forward(x)
        if not self.context.crossed:
            return self.tape.operation("skipped", (x,), x.elements, x.width, view=True, passes=True)
        tape = self.tape
        mixed = self._read(mixer, self.norm("input_layernorm", x))
        x = tape.add("attention.residual", x, self._gated("cross_attn_attn_gate", mixed))
        fed = self.feed_forward(self.norm("post_attention_layernorm", x))
        return tape.add(
            "mlp.residual",
            x,
            self._gated("cross_attn_mlp_gate", tape.copy("mlp.of_seeing_rows", fed)),
        )

    def _read(self, mixer: CrossAttention, x: Value) -> Value:
        """Return the queries of the sequence, keys and values of the images, norms of queries
        and keys, a mask."""
        tape, context = self.tape, replace(self.context, keys=self.context.crossed)
        rows, heads = context.batch * context.crossed, max(1, mixer.query_heads // context.heads)
        each = plain_attention(
            mixer.query_heads, mixer.head_dim, kv_heads=mixer.kv_heads, causal=False
        )
        query, key, value, out = self.linears(attention=True)
        source = tape.constant(
            "image.states",
            rows * context.hidden,
            tape.compute or context.table_width,
            grad=context.crossed_grad,
        )
        q = self.norm("cross_attn.q_norm", self.linear(query, x))
        k, v = self.linear(key, source, rows), self.linear(value, source, rows)
        k, v = self._repeated(self.norm("cross_attn.k_norm", k), v, heads, each)
        whole = msgspec.structs.replace(each, kv_heads=mixer.query_heads)
        inner = MllamaLayer(tape, self.unit, context)
        eager = self.traits.eager(context.attention)
        if eager:
            mixed = inner.eager(q, k, v, heads, whole)
        else:
            mixed = inner.fused_attention(q, k, v, heads, whole)
        return self.linear(out, mixed)

    def _repeated(self, k: Value, v: Value, heads: int, mixer: Attention) -> tuple[Value, Value]:
        """Return keys and values of images once for every query head."""
        if mixer.causal or mixer.kv_heads == mixer.query_heads:
            return super()._repeated(k, v, heads, mixer)
        rows = self.context.batch * self.context.crossed * heads
        return self.tape.copy("key.repeated", k, rows * mixer.head_dim), self.tape.copy(
            "value.repeated", v, rows * mixer.value_dim
        )

    def explicit(self, mixer: Attention) -> bool:
        """Return whether SDPA makes a mask of its own of the images' one: under autocast."""
        return not mixer.causal and self.tape.compute not in (0, self.context.table_width)

    def _gated(self, name: str, x: Value) -> Value:
        """tanh(gate) x."""
        gate = self.tape.pointwise(f"{name}.tanh", self.weight(self._tensors[name]), of_output=True)
        return self.tape.multiply(f"{name}.product", gate, x)
