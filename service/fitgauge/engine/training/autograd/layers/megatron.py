"""A layer as Megatron-Core computes it, where its kernels keep less than transformers' modelling
code: norms, rotation, gates, experts.

Its defaults for training: Transformer Engine's layers, --swiglu and --moe-grouped-gemm with
their fusions on, rotation fused. Source: Megatron-LM megatron/training/arguments.py
(bias_swiglu_fusion, apply_rope_fusion). What layers keep was measured on megatron-core's own
modules: tools/accuracy/measure_megatron_activations.py."""

from fitgauge.engine.model.mixers import Attention, LatentAttention
from fitgauge.engine.model.spec import Kind, Split
from fitgauge.engine.training.autograd.layers.attention import expanded
from fitgauge.engine.training.autograd.layers.context import (
    passed_backward_bytes,
    passed_forward_bytes,
)
from fitgauge.engine.training.autograd.layers.megatron_modules import MegatronModules
from fitgauge.engine.training.autograd.operations import FLOAT, Value
from fitgauge.engine.training.autograd.tape import Tape
from fitgauge.engine.training.states.parameters import Parameter
from fitgauge.engine.training.workload import Loss, TrainingWorkload

_INDEX, _MARK = 8, 1


def whole_logits(workload: TrainingWorkload) -> dict[str, Loss | bool]:
    """Return what of a workload Megatron's loss replaces: its last stage makes whole logits
    whatever is asked for. `fused`: a compiled loss of theirs (--cross-entropy-loss-fusion), where
    asked for and under ms-swift, which alone trains adapters and has it on.

    Source: megatron/core/models/common/language_module/language_module.py,
    compute_language_model_loss; swift/megatron/arguments/ megatron_args.py,
    cross_entropy_loss_fusion."""
    if workload.framework != "megatron" or workload.loss not in (
        "full",
        "in_place",
        "fused",
        "chunked",
        "chunked_backward",
        "recomputed",
    ):
        return {}
    return {
        "loss": "fused" if workload.compile or workload.uses_adapters else "full",
        "compile": False,
    }


def loss_of_pieces(tape: Tape, logits: Value, *, compiled: bool) -> Value:
    """Return the loss of a rank's logits: their fp32 copy becomes the softmax and then the
    gradient, all in place.

    `compiled`: by the kernels that torch.compile makes the gradient is another tensor, next to
    the softmax and its own copy in 16 bit. Source:
    megatron/core/tensor_parallel/cross_entropy.py, fusions/fused_cross_entropy.py; both
    measured: tools/accuracy/measure_megatron_loss.py."""
    wide = tape.to(logits, FLOAT, "logits.float")
    return tape.operation(
        "loss", (wide,), 1, FLOAT, back_scratch=wide.bytes + logits.bytes if compiled else 0
    )


class MegatronLayer(MegatronModules):
    """Write one layer of a decoder on a tape."""

    def _apart(
        self,
        inward: list[Parameter],
        inputs: tuple[Value, ...],
        rows: tuple[int, ...],
        sizes: list[int],
    ) -> list[tuple[Parameter, Value, int]]:
        """Return the parts of one projection, group by group: queries of several groups of
        several are copied, keys and values seen in it (transformer/attention.py,
        SelfAttention.get_query_key_value_tensors)."""
        q, k, v = self.tape.split(
            "qkv.split", self.together("linear_qkv", inward, inputs[0]), *sizes
        )
        mixer = self.unit.block.mixers[0]
        if isinstance(mixer, Attention) and mixer.query_heads > mixer.kv_heads > self.context.heads:
            q = self.tape.copy("query", q)
        return [(inward[0], q, sizes[0]), (inward[1], k, sizes[1]), (inward[2], v, sizes[2])]

    def eager(self, q: Value, k: Value, v: Value, heads: int, mixer: Attention) -> Value:
        """Return scores written out (transformer/dot_product_attention.py)."""
        with self.again("core_attn"):
            return super().eager(q, k, v, heads, mixer)

    def fused_attention(self, q: Value, k: Value, v: Value, heads: int, mixer: Attention) -> Value:
        """Return attention by a fused kernel: queries, keys, values, output and the log of the sum
        of exponentials are saved; parts of the projection are copied before.

        FlashAttention wants tokens behind sequences: of several sequences everything is copied
        for it, the output for the projection after it. Source: Transformer Engine,
        pytorch/attention/dot_product_attention/backends.py, FlashAttention.forward. Where ranks
        pass keys and values on, one copy of both is saved in the place of each."""
        tape, context = self.tape, self.context
        turned = context.batch > 1 and context.attention == "flash"
        with self.again("core_attn"):
            make = tape.copy if turned else self.whole
            parts = tuple(
                make(f"{name}.turned", part)
                for name, part in (("query", q), ("key", k), ("value", v))
            )
            size = context.tokens * heads * mixer.value_dim
            sums = context.tokens * heads
            shared = k.elements + v.elements
            extra, passed = [("attention.log_sum", sums, FLOAT)], context.way == "p2p"
            mixed = tape.operation(
                "attention",
                parts,
                size,
                q.width,
                saves=parts[:1] if passed else parts,
                saves_output=True,
                scratch=(
                    passed_forward_bytes(size, shared, sums, context.ranks, q.width)
                    if passed
                    else 0
                ),
                back_scratch=passed_backward_bytes(q.elements, shared, q.width) if passed else 0,
                extra=[*extra, ("attention.passed", shared, q.width)] if passed else extra,
                product=True,
            )
            return tape.copy("attention.output", mixed) if turned else mixed

    def latent_attention(self, x: Value, mixer: LatentAttention) -> Value:
        """Multi-head latent attention: latents are narrow, cut as the stream is, and normed as
        tensors of their own; rotation, which is not fused here, saves its own cosines and sines,
        and every layer keeps its angles; values are copied out of what keys and values were
        expanded to.

        Source: megatron/core/transformer/multi_latent_attention.py,
        MLASelfAttention.get_query_key_value_tensors."""
        tape, tokens, stream = self.tape, self.context.tokens, self.context.stream
        heads = max(1, mixer.query_heads // self.context.heads)
        projections = self.latent_projections()
        if projections is None:
            return self.unknown(x)
        narrow, wide, down, up, out = projections
        own = tokens // stream
        if narrow is None:
            q = x
        else:
            q = self.norm("self_attn.q_a_layernorm", self.linear(narrow, x, own))
        latent, turning = tape.split(
            "latent.split", self.linear(down, x, own), own * mixer.latent_dim, own * mixer.rope_dim
        )
        latent = self.norm("self_attn.kv_a_layernorm", latent)
        if stream > 1:
            turning = tape.copy("key.gathered", turning, tokens * mixer.rope_dim)
        plain = expanded(mixer)
        width = tokens * heads
        tape.lasts(self.context.sequence * mixer.rope_dim, FLOAT)
        with self.again("mla_up_proj", discards=True):
            angles = [
                (f"rotary.{name}", self.context.sequence * mixer.rope_dim, x.width)
                for name in ("cos", "sin")
            ] * 2
            q = tape.operation(
                "query.joined",
                (self.linear(wide, q),),
                width * plain.head_dim,
                x.width,
                extra=angles,
            )
            nope, v = tape.split(
                "expanded.split",
                self.linear(up, latent),
                width * mixer.nope_dim,
                width * mixer.value_dim,
            )
            k = tape.operation("key.joined", (nope, turning), width * plain.head_dim, x.width)
            v = tape.copy("value", v)
        attend = self.eager if self.traits.eager(self.context.attention) else self.fused_attention
        return self.linear(out, self.back("mla_up_proj", attend(q, k, v, heads, plain)))

    # --- MLP and experts

    def feed_forward(self, x: Value) -> Value:
        """Return the MLP, or the shared expert, then the mixture (transformer/moe/moe_layer.py,
        MoELayer.forward)."""
        experts = self.experts()
        dense = self.linears(attention=False)
        with self.again("moe" if experts else "mlp"):
            output = self.mixed(experts, dense, x) if experts else self.mlp(dense, x)
        output = self.back("layernorm", self._read(output, x))
        return output if experts else self.dropout("mlp.dropout", "mlp", output)

    def mixed(self, experts: list[Parameter], dense: list[Parameter], x: Value) -> Value:
        """Return the shared expert, where there is one, before the mixture, and their sum."""
        shared = self._shared(dense, x) if dense else None
        mixture = self.mixture(experts, x)
        return mixture if shared is None else self.tape.add("mlp.with_shared", mixture, shared)

    def _shared(self, linears: list[Parameter], x: Value) -> Value:
        with self.again("shared_experts"):
            shared = self.mlp(linears, x)
            gate = next(
                (
                    p
                    for p in self.unit.parameters
                    if p.kind in (Kind.ROUTER, Kind.LINEAR) and p.shape[0] == 1
                ),
                None,
            )
            if gate is None:
                return shared
            return self.tape.multiply(
                "shared.gated",
                self.tape.pointwise("sigmoid", self.linear(gate, x), of_output=True),
                shared,
            )

    def mlp(self, linears: list[Parameter], x: Value) -> Value:
        """down(act(gate) up): the gate's kernel saves what the first linear gave
        (megatron/core/fusions/fused_bias_swiglu.py)."""
        *ups, down = linears
        inner = (
            down.shape[1]
            // (self.context.heads if down.split is Split.ROW else 1)
            * self.context.tokens
        )
        output = self.together("linear_fc1", ups, x)
        if output.elements < 2 * inner:
            return self.linear(down, self.activation(output))
        return self.linear(
            down,
            self.tape.operation("mlp.product", (output,), inner, output.width, saves=(output,)),
        )

    def routing(self, x: Value) -> Value:
        """Return the weights of the chosen experts: scores in fp32 (--moe-router-dtype), of
        which the chosen ones are saved with their numbers (transformer/moe/moe_utils.py,
        RouterGatingLinearFunction and topk_routing_with_score_function)."""
        router = next(
            (p for p in self.unit.parameters if p.kind is Kind.ROUTER and p.shape[0] > 1), None
        )
        if router is None:
            return self.tape.constant("router.weights", self.picks, x.width)
        tokens, chosen = self.context.tokens // self.context.stream, self.chosen
        scores = self.tape.operation(
            "router", (x, self.weight(router)), tokens * router.shape[0], FLOAT, saves=(x,)
        )
        extra = [("router.indices", chosen, _INDEX), ("router.scores", chosen, FLOAT)]
        return self.tape.operation(
            "router.probabilities", (scores,), tokens * router.shape[0], FLOAT, extra=extra
        )

    @property
    def chosen(self) -> int:
        """Pairs of a token of this rank's stream and an expert it chose."""
        mlp = self.unit.block.mlp
        return self.context.tokens // self.context.stream * (mlp.experts_per_token if mlp else 1)

    def mixture(self, experts: list[Parameter], x: Value) -> Value:
        """Return tokens permuted, exchanged between ranks, sorted by expert, and put back; the
        gate's kernel weighs them, so that what the experts give is not saved. What was permuted and
        exchanged keeps its names until the tokens are back; the dispatcher keeps its maps.

        Source: megatron/core/transformer/moe/token_dispatcher.py, MoEAlltoAllTokenDispatcher;
        moe_layer.py, MoELayer.forward; experts.py, TEGroupedMLP;
        core/fusions/fused_bias_swiglu.py, WeightedSwiGLUFunction."""
        tape, context, mlp = self.tape, self.context, self.unit.block.mlp
        weights, down = self.routing(x), experts[-1]
        rows, inner = self.picks, down.shape[1] // context.expert_heads
        sent, permuted = self._dispatched(x, down.count, rows)
        tokens = sent
        if down.count > context.experts:
            tokens = tape.copy("experts.tokens", sent, rows * context.hidden)
        first = self.grouped(
            "experts.gate_up", tokens, experts[:-1], rows * (1 + (mlp is None or mlp.gated)) * inner
        )
        weighing = tape.operation("experts.weights", (weights,), rows, FLOAT)
        with self.again("moe_act", discards=True):
            product = tape.operation(
                "experts.product",
                (first, weighing),
                rows * inner,
                first.width,
                saves=(first, weighing),
            )
        out = self.back(
            "moe_act",
            self._read(
                self.grouped("experts.down", product, [down], rows * context.hidden), first, product
            ),
        )
        back = out
        if down.count > context.experts:
            back = self._read(tape.copy("experts.in_order", out), out, tokens)
        return tape.copy("experts.sum", self._combined(back, permuted, sent), x.elements)

    def _dispatched(self, x: Value, experts: int, rows: int) -> tuple[Value, Value]:
        """Return (tokens as this rank got them, as it sent them): permuted, exchanged with the
        ranks that have other experts, gathered from those that have other parts of the same."""
        tape, context, pairs = self.tape, self.context, self.chosen
        marks = context.tokens // context.stream * experts
        mapped = [
            ("experts.order", pairs, _INDEX),
            ("experts.marks", marks, _MARK),
            ("experts.probabilities", marks, FLOAT),
        ]
        for number, (_, elements, width) in enumerate(mapped):
            tape.lasts(elements, width, saved=not number)
        permuted = sent = tape.operation(
            "experts.permuted", (x,), pairs * context.hidden, x.width, extra=mapped
        )
        if context.experts > 1:
            sent = tape.copy("experts.exchanged", permuted)
        if context.expert_heads > 1:
            sent = self._read(tape.copy("experts.gathered", sent, rows * context.hidden), sent)
        return sent, permuted

    def _combined(self, back: Value, permuted: Value, sent: Value) -> Value:
        """Return what the experts gave, where the tokens came from: summed in fp32 over ranks
        that share experts, then exchanged."""
        tape, context = self.tape, self.context
        if context.expert_heads > 1:
            wide = self._read(tape.to(back, FLOAT, "experts.float"), back)
            back = tape.to(
                self._read(tape.copy("experts.scattered", wide, permuted.elements), back),
                back.width,
                "experts.narrow",
            )
        if context.experts > 1:
            back = self._read(tape.copy("experts.returned", back), back)
        return self._read(back, permuted, sent)
