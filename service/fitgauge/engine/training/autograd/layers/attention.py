"""Attention of a layer on a tape: projections, rotation, scores, and the exchange of a ring.

Source: transformers 5.23, models/*/modeling_*.py and integrations/."""

from typing import NamedTuple

from fitgauge.engine.model.mixers import Attention, LatentAttention
from fitgauge.engine.training.autograd.layers.context import (
    repeated_heads,
    ring_backward_bytes,
    ring_forward_bytes,
)
from fitgauge.engine.training.autograd.layers.flex import flex_masks
from fitgauge.engine.training.autograd.layers.modules import LayerContext, Modules
from fitgauge.engine.training.autograd.operations import FLOAT, Value
from fitgauge.engine.training.states.parameters import Parameter


class LatentProjections(NamedTuple):
    """The linear layers of latent attention."""

    narrow: Parameter | None
    """To the latents of queries; None where queries come from the stream."""
    wide: Parameter
    """From them to the queries of every head."""
    down: Parameter
    """To the latents of keys and values."""
    up: Parameter
    """From latents to keys and values of every head."""
    out: Parameter
    """The output projection."""


def expanded(mixer: LatentAttention) -> Attention:
    """Return the attention over expanded latents, with keys and values for every head."""
    return Attention(
        query_heads=mixer.query_heads,
        kv_heads=mixer.query_heads,
        head_dim=mixer.nope_dim + mixer.rope_dim,
        value_dim=mixer.value_dim,
    )


def asks_for_mask(mixer: Attention, context: LayerContext) -> bool:
    """Return whether the layer's sliding window is why SDPA takes a mask (`AttentionModules`): no
    operation depends on it otherwise."""
    shortens = mixer.window is not None and mixer.window <= context.keys
    masked_anyway = context.padded or context.traits.always_masked
    return context.attention == "sdpa" and shortens and not masked_anyway


class AttentionModules(Modules):
    """Write the attention of a layer on a tape."""

    def attention(
        self,
        x: Value,
        mixer: Attention,
        linears: list[Parameter] | None = None,
        source: Value | None = None,
    ) -> Value:
        """Record projections, norms and rotation of queries and keys, attention and output
        projection; return the output.

        `linears`: those of this attention, where a layer has two. `source`: the tensor that keys
        and values are projected from, where it is not `x`."""
        tape, context = self.tape, self.context
        *inward, out = linears or self.linears(attention=True)
        inputs = (x, source or x, source or x)
        rows = (
            context.tokens,
            *((source.elements // inward[1].shape[1],) * 2 if source else (context.tokens,) * 2),
        )
        heads = max(1, mixer.query_heads // context.heads)
        kv_heads = max(1, mixer.kv_heads // context.heads)
        widths = (heads * mixer.head_dim, kv_heads * mixer.head_dim, kv_heads * mixer.value_dim)
        sizes = [tokens * width for tokens, width in zip(rows, widths, strict=True)]
        if len(inward) == 1:
            q, k, v = self._fused(self.linear(inward[0], x), sizes)
        else:
            q, k, v = (
                tape.operation(f"{p.name}.view", (y,), size, y.width, view=True, passes=True)
                for p, y, size in self._apart(inward, inputs, rows, sizes)
            )
        gate = None
        if inward[0].shape[0] == 2 * mixer.query_heads * mixer.head_dim:
            gate = tape.slice("attention.gate", q, sizes[0])
        if self.traits.scales_queries:
            q = tape.copy("query.scaled", q)
        inside = [name for name in self.norms(inside=True) if "att" in name.lower()]
        if len(inside) >= 2:
            q, k = self.norm(inside[0], q), self.norm(inside[1], k)
        if context.rotary and source is None:
            q, k = self.rotated(q, k, mixer)
        if self.traits.eager(context.attention):
            mixed = self.eager(q, k, v, heads, mixer)
        else:
            mixed = self.fused_attention(q, k, v, heads, mixer)
        if gate is not None:  # the query projection also gives a gate of the output (Qwen3-Next)
            mixed = tape.multiply(
                "attention.gated", mixed, tape.pointwise("attention.sigmoid", gate, of_output=True)
            )
        return self.dropout("attention.dropout", "attention", self.linear(out, mixed))

    def _apart(
        self,
        inward: list[Parameter],
        inputs: tuple[Value, ...],
        rows: tuple[int, ...],
        sizes: list[int],
    ) -> list[tuple[Parameter, Value, int]]:
        return [
            (parameter, self.linear(parameter, x, tokens), size)
            for parameter, x, tokens, size in zip(inward, inputs, rows, sizes, strict=False)
        ]

    def _fused(self, y: Value, sizes: list[int]) -> tuple[Value, ...]:
        """Return queries, keys and values as parts of one projection: slices, or one split."""
        if self.traits.slices:
            return tuple(
                self.tape.slice(f"qkv.{name}", y, size)
                for name, size in zip(("query", "key", "value"), sizes, strict=True)
            )
        return self.tape.split("qkv.split", y, *sizes)

    def rotated(self, q: Value, k: Value, mixer: Attention) -> tuple[Value, Value]:
        """Return queries and keys rotated by tables that all layers share, or that every layer
        makes again (interleaved: GLM, Helium, ERNIE)."""
        tape, width = self.tape, self.context.table_width
        if self.traits.float_rotary:
            width = FLOAT
        cos, sin = tape.constant("cos", 1, width), tape.constant("sin", 1, width)
        if self.traits.interleaves:
            size = self.context.sequence * mixer.head_dim // (2 if self.traits.rotates_part else 1)
            cos = tape.copy("cos.interleaved", cos, size)
            sin = tape.copy("sin.interleaved", sin, size)
        return self.rotate("query", q, cos, sin), self.rotate("key", k, cos, sin)

    def rotate(self, name: str, x: Value, cos: Value, sin: Value) -> Value:
        """Return x cos + rotate_half(x) sin. Tables have the format of the hidden states, so the
        sum may be wider than x."""
        tape = self.tape
        half = tape.copy(f"{name}.rotate_half", x)
        rotated = tape.add(
            f"{name}.rotated",
            tape.multiply(f"{name}.cos", x, cos),
            tape.multiply(f"{name}.sin", half, sin),
        )
        if self.traits.float_rotary:
            rotated = tape.to(rotated, x.width, f"{name}.narrow")
        return tape.copy(f"{name}.joined", rotated) if self.traits.rotates_part else rotated

    def eager(self, q: Value, k: Value, v: Value, heads: int, mixer: Attention) -> Value:
        """Return attention with explicit scores: softmax(q k / sqrt(d) + mask) v, softmax in fp32
        (eager_attention_forward)."""
        tape, context = self.tape, self.context
        k, v = self._repeated(k, v, heads, mixer)
        if context.batch > 1:  # a batched product copies an input that is not contiguous
            q, k, v = (
                tape.copy("attention.apart", part) if tape.partial(part) else part
                for part in (q, k, v)
            )
        count = context.tokens * self.keys(k, mixer, heads) * heads
        width = q.width
        if self.traits.float_scores:
            q, k = tape.to(q, FLOAT, "query.float"), tape.to(k, FLOAT, "key.float")
        scores = tape.matmul("attention.scores", q, k, count)
        if not self.traits.scales_queries:
            scores = tape.copy("attention.scaled", scores)
        if self.traits.score_cap:
            capped = tape.pointwise(
                "attention.tanh", tape.copy("attention.capped", scores), of_output=True
            )
            scores = tape.copy("attention.uncapped", capped)
        if self.traits.position_bias:
            scores = tape.add(
                "attention.biased", scores, tape.constant("position_bias", 1, context.table_width)
            )
        if mixer.causal or context.padded:
            scores = tape.add(
                "attention.masked", scores, tape.constant("mask", 1, context.table_width)
            )
        wide = scores
        if self.traits.float_softmax or tape.compute:
            wide = tape.to(scores, FLOAT, "attention.float")
        if self.traits.sinks:
            # next to the keys' scores, less the highest, and dropped again after the softmax
            wide = tape.copy(
                "attention.less_highest",
                tape.copy("attention.with_sinks", wide, count + context.tokens * heads),
            )
        weights = tape.pointwise("attention.softmax", wide, of_output=True)
        if self.traits.sinks:
            weights = tape.slice("attention.without_sinks", weights, count)
        weights = tape.to(weights, width, "attention.weights")
        weights = self.returned = self.dropout("attention.weights_dropout", "weights", weights)
        mixed = tape.matmul(
            "attention.product", weights, v, context.tokens * heads * mixer.value_dim
        )
        return tape.copy("attention.output", mixed)

    def fused_attention(self, q: Value, k: Value, v: Value, heads: int, mixer: Attention) -> Value:
        """Return attention by a fused kernel: it saves q, k, v, output and the log-sum-exp, never
        the scores.

        The output has the memory order of the queries: where these were concatenated from parts or
        made head by head, and in a ring, it is copied for the output projection. For a sliding
        window no longer than the sequence PyTorch's SDPA takes a mask and keys and values repeated
        for every head, and so for padding; FlashAttention has windows of its own
        (integrations/sdpa_attention.py, use_gqa_in_sdpa), and of padded sequences reads copies
        without what pads them (modeling_flash_attention_utils.py, _upad_input, pad_input).
        torchtune always repeats keys and values."""
        tape, context = self.tape, self.context
        masked = asks_for_mask(mixer, context) or (
            context.attention == "sdpa" and (context.padded or self.explicit(mixer))
        )
        bare = self.traits.bare_sdpa and context.attention == "sdpa"
        if bare and mixer.kv_heads == 1 < mixer.query_heads:
            return self.math_attention(q, k, v, heads, mixer)
        if masked or bare or context.repeats_keys:
            k, v = self._repeated(k, v, heads, mixer)
        if context.way == "ulysses":
            return self._exchanged(q, k, v, heads, mixer)
        q, k, v = saves = tuple(tape.cast(value, value.name) for value in (q, k, v))
        unpads = context.padded and context.attention == "flash"
        if unpads:
            q, k, v = saves = tuple(tape.copy(f"{x.name}.unpadded", x) for x in saves)
        extra = [("attention.log_sum", context.tokens * heads, FLOAT)]
        if masked:  # every layer converts booleans to addends again
            each = heads if self.traits.position_bias else 1  # bias and mask are summed
            extra.append(("attention.mask", context.tokens * context.keys * each, q.width))
        if context.block_masks:
            extra += flex_masks(context, heads, q.width)
        size = context.tokens * heads * mixer.value_dim
        shared, merged = (k.elements + v.elements, context.ranks, q.width), context.way == "ring"
        mixed = tape.operation(
            "attention",
            (q, k, v),
            size,
            q.width,
            saves=saves,
            saves_output=True,
            scratch=ring_forward_bytes(size, *shared) if merged else 0,
            back_scratch=ring_backward_bytes(q.elements, *shared) if merged else 0,
            extra=extra,
            product=True,
        )
        copies = self.traits.rotates_part or self.traits.copies_queries or context.block_masks
        return tape.copy("attention.output", mixed) if merged or unpads or copies else mixed

    def _exchanged(self, q: Value, k: Value, v: Value, heads: int, mixer: Attention) -> Value:
        """Return attention over whole sequences with a part of the heads. Ranks exchange tokens for
        heads before it and back after it, which makes three copies of the output
        (deepspeed/runtime/sequence_parallel/ulysses_sp.py, UlyssesSPAttentionHF.forward)."""
        tape, context = self.tape, self.context
        copies = repeated_heads(mixer.kv_heads, context.ranks)
        whole = (
            tape.copy("query.exchanged", q),
            *(tape.copy(f"{x.name}.exchanged", x, copies * x.elements) for x in (k, v)),
        )
        size = context.tokens * heads * mixer.value_dim
        extra = [("attention.log_sum", context.tokens * heads, FLOAT)]
        mixed = tape.operation(
            "attention",
            whole,
            size,
            q.width,
            saves=whole,
            saves_output=True,
            extra=extra,
            product=True,
        )
        held = q.bytes + k.bytes + v.bytes  # the layer's own variables hold them
        return tape.operation(
            "attention.output", (mixed,), size, q.width, scratch=2 * mixed.bytes + held
        )

    def math_attention(self, q: Value, k: Value, v: Value, heads: int, mixer: Attention) -> Value:
        """Return SDPA's math path, for keys of fewer heads than queries, which its kernels refuse:
        every step in fp32, keys and values expanded to every head
        (aten/src/ATen/native/transformers/attention.cpp, _scaled_dot_product_attention_math;
        sdp_utils.cpp: which kernel accepts what)."""
        tape, rows, width = self.tape, self.context.tokens * heads, self.tape.compute or q.width
        q, k, v = (
            tape.to(tape.cast(part, part.name), FLOAT, f"{part.name}.float") for part in (q, k, v)
        )
        spread = (
            tape.copy if self.context.batch > 1 else tape.slice
        )  # with one sequence all heads can share a view
        q = tape.copy("query.scaled", q)
        k = spread("key.spread", tape.copy("key.scaled", k), rows * mixer.head_dim)
        scores = tape.operation(
            "attention.scores", (q, k), rows * self.context.keys, FLOAT, saves=(q, k), product=True
        )
        weights = tape.pointwise("attention.softmax", scores, of_output=True)
        v = spread("value.spread", v, rows * mixer.value_dim)
        mixed = tape.operation(
            "attention.product",
            (weights, v),
            rows * mixer.value_dim,
            FLOAT,
            saves=(weights, v),
            product=True,
        )
        return tape.copy("attention.output", tape.to(mixed, width))

    def keys(self, k: Value, mixer: Attention, heads: int) -> int:
        """Return the number of keys that a query attends to: of its own sequence, or of the
        source."""
        return self.context.keys

    def explicit(self, mixer: Attention) -> bool:
        """Return whether SDPA takes its causal mask as a tensor instead of a flag."""
        return self.traits.always_masked

    def _repeated(self, k: Value, v: Value, heads: int, mixer: Attention) -> tuple[Value, Value]:
        """Return keys and values repeated for every query head (repeat_kv): copies, or views where
        all share one head."""
        if mixer.kv_heads == mixer.query_heads:
            return k, v
        tape, rows = self.tape, self.context.tokens * heads
        sizes = (rows * mixer.head_dim, rows * mixer.value_dim)
        if mixer.kv_heads == 1:
            return tape.slice("key.expanded", k, sizes[0]), tape.slice(
                "value.expanded", v, sizes[1]
            )
        return tape.copy("key.repeated", k, sizes[0]), tape.copy("value.repeated", v, sizes[1])

    def latent_attention(self, x: Value, mixer: LatentAttention) -> Value:
        """Return multi-head latent attention: queries and keys are projected to narrow latents,
        normed, and expanded for every head (models/deepseek_v3/modeling_deepseek_v3.py).

        The kernel for values of another width than queries writes its output token by token
        (PyTorch, _efficient_attention_forward)."""
        tape, tokens = self.tape, self.context.tokens
        heads = max(1, mixer.query_heads // self.context.heads)
        projections = self.latent_projections()
        if projections is None:
            return self.unknown(x)
        narrow, wide, down, up, out = projections
        q = x if narrow is None else self.norm("self_attn.q_a_layernorm", self.linear(narrow, x))
        q = tape.copy(
            "query.joined", self.linear(wide, q), tokens * heads * (mixer.nope_dim + mixer.rope_dim)
        )
        latent, _ = tape.split(
            "latent.split", self.linear(down, x), tokens * mixer.latent_dim, tokens * mixer.rope_dim
        )
        nope, v = tape.split(
            "expanded.split",
            self.linear(up, self.norm("self_attn.kv_a_layernorm", latent)),
            tokens * heads * mixer.nope_dim,
            tokens * heads * mixer.value_dim,
        )
        k = tape.copy("key.joined", nope, q.elements)
        plain = expanded(mixer)
        if self.traits.eager(self.context.attention):
            return self.linear(out, self.eager(q, k, v, heads, plain))
        mixed = self.fused_attention(q, k, v, heads, plain)
        return self.linear(
            out,
            tape.copy("attention.output", mixed) if plain.head_dim == plain.value_dim else mixed,
        )

    def latent_projections(self) -> LatentProjections | None:
        """Return the linear layers of latent attention; None where one has another name."""
        wide = self._ending("q_b_proj", "q_proj")
        down, up = self._ending("kv_a_proj_with_mqa"), self._ending("kv_b_proj")
        out = self._ending("o_proj")
        if wide is None or down is None or up is None or out is None:
            return None
        return LatentProjections(self._ending("q_a_proj"), wide, down, up, out)

    def _ending(self, *modules: str) -> Parameter | None:
        return next(
            (
                p
                for p in self.linears(attention=True)
                if p.name.removesuffix(".weight").endswith(modules)
            ),
            None,
        )
