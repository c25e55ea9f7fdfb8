"""What a layer computes, written on a tape as transformers' modelling code calls it: the recipe
behind every saved activation.

A recipe is made of a layer's own tensors: which norms, which projections, apart or fused, gated
or not. What tensors cannot tell (activation function, style of norm, dropout) stands in
`traits.py`. Source: transformers 5.23, models/*/modeling_*.py."""

from collections.abc import Callable

from fitgauge.engine.model.spec import Attention, Kind, LatentAttention, Split
from fitgauge.engine.training.autograd.layers.context import (
    repeated_heads,
    ring_backward_bytes,
    ring_forward_bytes,
)
from fitgauge.engine.training.autograd.layers.modules import Modules
from fitgauge.engine.training.autograd.tape import FLOAT, Value
from fitgauge.engine.training.states.parameters import Parameter


class Layer(Modules):
    """Writes one layer on a tape."""

    # --- attention

    def attention(
        self,
        x: Value,
        mixer: Attention,
        linears: list[Parameter] | None = None,
        source: Value | None = None,
    ) -> Value:
        """Return projections, norms and rotation of queries and keys, attention, output projection.

        `linears`: of this attention, where a layer has two. `source`: what keys and values are
        made of, where that is not `x`."""
        tape, scene = self.tape, self.scene
        *inward, out = linears or self.linears(attention=True)
        given = (x, source or x, source or x)
        rows = (
            scene.tokens,
            *((source.elements // inward[1].shape[1],) * 2 if source else (scene.tokens,) * 2),
        )
        heads, kv_heads = (
            max(1, mixer.query_heads // scene.heads),
            max(1, mixer.kv_heads // scene.heads),
        )
        widths = (heads * mixer.head_dim, kv_heads * mixer.head_dim, kv_heads * mixer.value_dim)
        sizes = [tokens * width for tokens, width in zip(rows, widths, strict=True)]
        if len(inward) == 1:
            q, k, v = self._fused(self.linear(inward[0], x), sizes)
        else:
            q, k, v = (
                tape.operation(f"{p.name}.view", (y,), size, y.width, view=True, passes=True)
                for p, y, size in self._apart(inward, given, rows, sizes)
            )
        gate = (
            tape.slice("attention.gate", q, sizes[0])
            if inward[0].shape[0] == 2 * mixer.query_heads * mixer.head_dim
            else None
        )
        if self.traits.scales_queries:
            q = tape.copy("query.scaled", q)
        inside = [name for name in self.norms(inside=True) if "att" in name.lower()]
        if len(inside) >= 2:
            q, k = self.norm(inside[0], q), self.norm(inside[1], k)
        if scene.rotary and source is None:
            q, k = self.rotated(q, k, mixer)
        mixed = (
            self.eager(q, k, v, heads, mixer)
            if self.traits.eager(scene.attention)
            else self.fused_attention(q, k, v, heads, mixer)
        )
        if gate is not None:  # queries come with a gate of the output (Qwen3-Next)
            mixed = tape.multiply(
                "attention.gated", mixed, tape.pointwise("attention.sigmoid", gate, of_output=True)
            )
        return self.dropout("attention.dropout", "attention", self.linear(out, mixed))

    def _apart(
        self,
        inward: list[Parameter],
        given: tuple[Value, ...],
        rows: tuple[int, ...],
        sizes: list[int],
    ) -> list[tuple[Parameter, Value, int]]:
        return [
            (parameter, self.linear(parameter, x, tokens), size)
            for parameter, x, tokens, size in zip(inward, given, rows, sizes, strict=False)
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
        interleaves again (GLM, Helium, ERNIE)."""
        tape, width = self.tape, self.scene.table_width
        if self.traits.float_rotary:
            width = FLOAT
        cos, sin = tape.constant("cos", 1, width), tape.constant("sin", 1, width)
        if self.traits.interleaves:
            size = self.scene.sequence * mixer.head_dim // (2 if self.traits.rotates_part else 1)
            cos, sin = (
                tape.copy("cos.interleaved", cos, size),
                tape.copy("sin.interleaved", sin, size),
            )
        return self.rotate("query", q, cos, sin), self.rotate("key", k, cos, sin)

    def rotate(self, name: str, x: Value, cos: Value, sin: Value) -> Value:
        """x cos + rotate_half(x) sin; tables keep the format of the hidden states, so the sum
        may be wider than x."""
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
        """Return scores written out: softmax(q k / sqrt(d) + mask) v, softmax in fp32
        (eager_attention_forward)."""
        tape, scene = self.tape, self.scene
        k, v = self._repeated(k, v, heads, mixer)
        if scene.batch > 1:  # a batched product copies what it cannot view
            q, k, v = (
                tape.copy("attention.apart", part) if tape.partial(part) else part
                for part in (q, k, v)
            )
        count = scene.tokens * self.keys(k, mixer, heads) * heads
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
                "attention.biased", scores, tape.constant("position_bias", 1, scene.table_width)
            )
        if mixer.causal:
            scores = tape.add(
                "attention.masked", scores, tape.constant("mask", 1, scene.table_width)
            )
        wide = (
            tape.to(scores, FLOAT, "attention.float")
            if self.traits.float_softmax or tape.compute
            else scores
        )
        if (
            self.traits.sinks
        ):  # next to the keys' scores, less the highest, and dropped again after the softmax
            wide = tape.copy(
                "attention.less_highest",
                tape.copy("attention.with_sinks", wide, count + scene.tokens * heads),
            )
        weights = tape.pointwise("attention.softmax", wide, of_output=True)
        if self.traits.sinks:
            weights = tape.slice("attention.without_sinks", weights, count)
        weights = tape.to(weights, width, "attention.weights")
        weights = self.dropout("attention.weights_dropout", "weights", weights)
        mixed = tape.matmul("attention.product", weights, v, scene.tokens * heads * mixer.value_dim)
        return tape.copy("attention.output", mixed)

    def fused_attention(self, q: Value, k: Value, v: Value, heads: int, mixer: Attention) -> Value:
        """FlashAttention's pattern: q, k, v, output and the log of the sum of exponentials are
        saved, scores never are.

        The output has the order of the queries; where these were put together from parts or head by
        head, as a ring puts its output together, it is copied for the output projection.

        A sliding window no longer than the sequence gives PyTorch's SDPA a mask, for which keys
        and values are repeated for every head; FlashAttention itself knows windows
        (integrations/sdpa_attention.py, use_gqa_in_sdpa)."""
        tape, scene = self.tape, self.scene
        masked = scene.attention == "sdpa" and (
            self.explicit(mixer) or (mixer.window is not None and mixer.window <= scene.keys)
        )
        bare = self.traits.bare_sdpa and scene.attention == "sdpa"
        if bare and mixer.kv_heads == 1 < mixer.query_heads:
            return self.math_attention(q, k, v, heads, mixer)
        if masked or bare:
            k, v = self._repeated(k, v, heads, mixer)
        if scene.way == "ulysses":
            return self._exchanged(q, k, v, heads, mixer)
        q, k, v = saves = tuple(tape.cast(value, value.name) for value in (q, k, v))
        extra = [("attention.log_sum", scene.tokens * heads, FLOAT)]
        if masked:  # booleans become numbers to add, again in every layer
            each = (
                heads if self.traits.position_bias else 1
            )  # bias and mask are summed to one tensor
            extra.append(("attention.mask", scene.tokens * scene.keys * each, q.width))
        size = scene.tokens * heads * mixer.value_dim
        shared, merged = (k.elements + v.elements, scene.ranks, q.width), scene.way == "ring"
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
        return (
            tape.copy("attention.output", mixed)
            if merged or self.traits.rotates_part or self.traits.copies_queries
            else mixed
        )

    def _exchanged(self, q: Value, k: Value, v: Value, heads: int, mixer: Attention) -> Value:
        """Attention over whole sequences with a part of the heads, tokens exchanged for heads
        before it and back after it, which makes three copies of the output
        (deepspeed/runtime/sequence_parallel/ulysses_sp.py, UlyssesSPAttentionHF.forward)."""
        tape, scene = self.tape, self.scene
        copies = repeated_heads(mixer.kv_heads, scene.ranks)
        whole = (
            tape.copy("query.exchanged", q),
            *(tape.copy(f"{x.name}.exchanged", x, copies * x.elements) for x in (k, v)),
        )
        size, extra = (
            scene.tokens * heads * mixer.value_dim,
            [("attention.log_sum", scene.tokens * heads, FLOAT)],
        )
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
        held = q.bytes + k.bytes + v.bytes  # by the layer's own names for them
        return tape.operation(
            "attention.output", (mixed,), size, q.width, scratch=2 * mixed.bytes + held
        )

    def math_attention(self, q: Value, k: Value, v: Value, heads: int, mixer: Attention) -> Value:
        """PyTorch's SDPA for keys of fewer heads than queries, which its kernels refuse: every
        step in fp32, keys and values spread out
        (aten/src/ATen/native/transformers/attention.cpp, _scaled_dot_product_attention_math;
        sdp_utils.cpp, which kernel takes what)."""
        tape, rows, width = self.tape, self.scene.tokens * heads, self.tape.compute or q.width
        q, k, v = (
            tape.to(tape.cast(part, part.name), FLOAT, f"{part.name}.float") for part in (q, k, v)
        )
        spread = (
            tape.copy if self.scene.batch > 1 else tape.slice
        )  # of one sequence all heads can see one
        q, k = (
            tape.copy("query.scaled", q),
            spread("key.spread", tape.copy("key.scaled", k), rows * mixer.head_dim),
        )
        scores = tape.operation(
            "attention.scores", (q, k), rows * self.scene.keys, FLOAT, saves=(q, k), product=True
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
        """Return the keys that a query meets: of its own sequence, or of another's."""
        return self.scene.keys

    def explicit(self, mixer: Attention) -> bool:
        """Return whether SDPA is given a causal mask as a tensor, not as a flag."""
        return False

    def _repeated(self, k: Value, v: Value, heads: int, mixer: Attention) -> tuple[Value, Value]:
        """Return keys and values once for every query head (repeat_kv): copies, or views of one
        head that all of them share."""
        if mixer.kv_heads == mixer.query_heads:
            return k, v
        tape, rows = self.tape, self.scene.tokens * heads
        sizes = (rows * mixer.head_dim, rows * mixer.value_dim)
        if mixer.kv_heads == 1:
            return tape.slice("key.expanded", k, sizes[0]), tape.slice(
                "value.expanded", v, sizes[1]
            )
        return tape.copy("key.repeated", k, sizes[0]), tape.copy("value.repeated", v, sizes[1])

    def latent_attention(self, x: Value, mixer: LatentAttention) -> Value:
        """Multi-head latent attention: queries and keys through narrow latents with norms, then
        expanded for every head (models/deepseek_v3/modeling_deepseek_v3.py).

        The kernel for values of another width than queries writes its output token by token
        (PyTorch, _efficient_attention_forward)."""
        tape, tokens = self.tape, self.scene.tokens
        heads = max(1, mixer.query_heads // self.scene.heads)
        narrow, wide = self._ending("q_a_proj"), self._ending("q_b_proj", "q_proj")
        down, up, out = (
            self._ending("kv_a_proj_with_mqa"),
            self._ending("kv_b_proj"),
            self._ending("o_proj"),
        )
        if wide is None or down is None or up is None or out is None:
            return self.unknown(x)
        q = x if narrow is None else self.norm("self_attn.q_a_layernorm", self.linear(narrow, x))
        q = tape.copy(
            "query.joined", self.linear(wide, q), tokens * heads * (mixer.nope_dim + mixer.rope_dim)
        )
        latent, _ = tape.split(
            "latent.split", self.linear(down, x), tokens * mixer.latent_dim, tokens * mixer.rope_dim
        )
        expanded = self.linear(up, self.norm("self_attn.kv_a_layernorm", latent))
        nope, v = tape.split(
            "expanded.split",
            expanded,
            tokens * heads * mixer.nope_dim,
            tokens * heads * mixer.value_dim,
        )
        k = tape.copy("key.joined", nope, q.elements)
        plain = Attention(
            query_heads=mixer.query_heads,
            kv_heads=mixer.query_heads,
            head_dim=mixer.nope_dim + mixer.rope_dim,
            value_dim=mixer.value_dim,
        )
        if self.traits.eager(self.scene.attention):
            return self.linear(out, self.eager(q, k, v, heads, plain))
        mixed = self.fused_attention(q, k, v, heads, plain)
        return self.linear(
            out,
            tape.copy("attention.output", mixed) if plain.head_dim == plain.value_dim else mixed,
        )

    def _ending(self, *modules: str) -> Parameter | None:
        return next(
            (
                p
                for p in self.linears(attention=True)
                if p.name.removesuffix(".weight").endswith(modules)
            ),
            None,
        )

    def _sized(self, x: Value, elements: int) -> Value:
        return x if x.elements == elements else self.tape.copy("reshaped", x, elements)

    # --- MLP

    def feed_forward(self, x: Value) -> Value:
        """Return the MLP, or the mixture and its shared expert."""
        experts = [
            p
            for p in self.unit.parameters
            if p.kind is Kind.EXPERT and len(p.shape) == 2 and not p.adapter
        ]
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
        """down(act(gate(x)) up(x)), gate and up apart or fused, or down(act(up(x)))."""
        *ups, down = linears
        first = self.linear(ups[0], x)
        inner = (
            down.shape[1]
            // (self.scene.heads if down.split is Split.ROW else 1)
            * self.scene.tokens
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
        """Router, experts as one grouped product over the tokens sorted by expert, and their
        weighted sum.

        Sorting and putting back in order each make a tensor of zeros in the backward pass, which
        index_put copies.

        Grouped products know no autocast: they run in the format of the weights
        (integrations/moe.py, grouped_mm_experts_forward). Ranks that share every expert have all
        tokens and a part of its width, others their part of the tokens."""
        return self.chosen_experts(experts, x, self.routing(x))

    def chosen_experts(self, experts: list[Parameter], x: Value, weights: Value) -> Value:
        """Return what the experts give, times the weights of those that were chosen."""
        tape, scene, mlp = self.tape, self.scene, self.unit.block.mlp
        picks, down = self.picks, experts[-1]
        inner = down.shape[1] // scene.expert_heads
        wide, indices = tape.to(x, self.weight(down).width), [("experts.indices", picks, 8)] * 4
        size = picks * scene.hidden
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
            product = (
                self.clamped(gate, up)
                if self.traits.clamps
                else tape.multiply("experts.product", self.activation(gate), up)
            )
        out = self.grouped("experts.down", product, [down], size)
        weighted = tape.multiply("experts.weighted", out, weights)
        ordered = tape.operation(
            "experts.in_order", (weighted,), size, weighted.width, back_scratch=weighted.bytes
        )
        return tape.to(tape.copy("experts.sum", ordered, scene.tokens * scene.hidden), x.width)

    @property
    def picks(self) -> int:
        """Tokens that the experts of this rank get, each as often as it chose one of them."""
        scene, mlp = self.scene, self.unit.block.mlp
        return (
            scene.tokens * (mlp.experts_per_token if mlp else 1) * scene.expert_heads // scene.heads
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
        return (
            chosen
            if self.traits.casts_router or self.traits.float_weights
            else self.tape.to(chosen, x.width, "router.weights")
        )

    def _routed(self, router: Parameter, x: Value) -> Value:
        """Return the router's product, in fp32 where its family says so; DeepSeek's weight
        becomes fp32 for it, others' is kept so."""
        if not self.traits.float_router:
            return self.linear(router, x)
        given, weight = self.tape.to(x, FLOAT, "router.input"), self.weight(router)
        if not self.traits.casts_router:
            return self.linear(router, given)
        return self.tape.matmul(
            "router",
            given,
            self.tape.to(weight, FLOAT, "router.weight"),
            self.scene.tokens * router.shape[0],
        )

    def clamped(self, gate: Value, up: Value) -> Value:
        """Return (up + 1) x gate x sigmoid(1.702 gate), both clamped, of gate and up side by
        side (GptOssExperts._apply_gate)."""
        tape = self.tape
        gate, up = (
            tape.pointwise("experts.gate_clamped", gate),
            tape.pointwise("experts.up_clamped", up),
        )
        sigmoid = tape.pointwise(
            "experts.sigmoid", tape.copy("experts.scaled", gate), of_output=True
        )
        return tape.multiply(
            "experts.product",
            tape.copy("experts.up_plus_one", up),
            tape.multiply("experts.glu", gate, sigmoid),
        )

    def grouped(self, name: str, x: Value, parameters: list[Parameter], elements: int) -> Value:
        """Return one product of every expert with its tokens, and of its adapter."""
        weights = [self.weight(parameter) for parameter in parameters]
        saves = [x] if any(weight.grad for weight in weights) else []
        y = self.tape.operation(
            name, (x, *weights), elements, weights[0].width, saves=saves, grouped=True
        )
        inputs = parameters[0].shape[1] // (
            self.scene.expert_heads if parameters[0].split is Split.ROW else 1
        )
        return self.adapted(parameters[0], x, y, x.elements // inputs, elements)

    # --- the layer

    def play(self, x: Value) -> Value:
        """Return the layer by its recipe, or as `unknown` where its tensors are not those of
        attention and an MLP."""
        mixers = self.unit.block.mixers
        usual = (
            len(mixers) == 1
            and isinstance(mixers[0], Attention)
            and len(self.linears(attention=True)) in (2, 4)
        )
        latent = (
            len(mixers) == 1
            and isinstance(mixers[0], LatentAttention)
            and bool(self.linears(attention=True))
        )
        fed = len(self.linears(attention=False)) in (2, 3) or any(
            p.kind is Kind.EXPERT for p in self.unit.parameters
        )
        return self.layer(x) if (usual or latent) and fed else self.unknown(x)

    def mix(self, x: Value) -> Value:
        """Return the layer's attention, of either kind."""
        x, mixer = self.gathered(x), self.unit.block.mixers[0]
        if isinstance(mixer, LatentAttention):
            return self.latent_attention(x, mixer)
        return self.attention(x, mixer) if isinstance(mixer, Attention) else self.unknown(x)

    def layer(self, x: Value) -> Value:
        """Attention and MLP around the residual stream: norms before, after or on both sides,
        one after the other or side by side."""
        tape, names = self.tape, self.norms(inside=False)
        if self.traits.norm == "bare":
            names = ["attention_norm", "mlp_norm"]
        if self.traits.parallel or len(names) < 2:
            return self._parallel(x, names)
        if len(names) >= 4:
            before, after, before_mlp, after_mlp = names[:4]
        elif names[0].startswith("post"):
            before, after, before_mlp, after_mlp = "", names[0], "", names[1]
        else:
            before, after, before_mlp, after_mlp = names[0], "", names[1], ""
        x = tape.add(
            "attention.residual",
            x,
            self._branch(self._given(self.mix, self._normed(before, x)), after),
        )
        return tape.add(
            "mlp.residual",
            x,
            self._branch(self._given(self.feed_forward, self._normed(before_mlp, x)), after_mlp),
        )

    def _parallel(self, x: Value, names: list[str]) -> Value:
        first = self._normed(names[0] if names else "", x)
        second = self.norm(names[1], x) if len(names) > 1 else first
        mixed, fed = self._given(self.mix, first), self._given(self.feed_forward, second)
        return self.tape.add("residual", self.tape.add("branches", mixed, fed), x)

    def _given(self, module: Callable[[Value], Value], x: Value) -> Value:
        """Return what a module makes of `x`, which the layer names until it has."""
        y = module(x)
        self.tape.hold(x)
        return y

    def _normed(self, name: str, x: Value) -> Value:
        return self.norm(name, x) if name else x

    def _branch(self, x: Value, after: str) -> Value:
        normed = self._normed(after, x)
        return self.tape.copy("branch.scaled", normed) if self.traits.scales_residual else normed

    def unknown(self, x: Value) -> Value:
        """Return a layer of a kind that has no recipe: every linear saves its input, one after
        the other, each followed by one activation."""
        y = x
        for parameter in (*self.linears(attention=True), *self.linears(attention=False)):
            y = self.linear(
                parameter,
                self.tape.pointwise(
                    "activation", self._sized(y, self.scene.tokens * parameter.shape[1])
                ),
            )
        return self.tape.add("residual", x, self._sized(y, x.elements))
