"""Mamba, Mamba 2, gated delta nets, and the hybrids that mix them with attention, written on a
tape.

What runs on a GPU are the kernels of mamba_ssm, causal_conv1d and fla, which transformers 5.23
calls where they are installed: they save few tensors and recompute the rest. `eager` asks for
Mamba's reference in PyTorch instead, whose scan keeps every state of every token; those of the
others, which keep more than their kernels too, are not derived. The kernels cannot be run
without a GPU, so nothing here was compared with autograd but Mamba's reference and LFM2's short
convolution, which is one of PyTorch. Source:
state-spaces/mamba, ops/selective_scan_interface.py (MambaInnerFn) and ops/triton/ssd_combined.py
(MambaSplitConv1dScanCombinedFn); fla-org/flash-linear-attention, ops/gated_delta_rule/chunk.py
(ChunkGatedDeltaRuleFunction) and modules/fused_norm_gate.py; Dao-AILab/causal-conv1d,
causal_conv1d_interface.py (it saves its input; SiLU is inside); transformers
models/{mamba,nemotron_h,jamba,qwen3_next}/modeling_*.py."""

from collections.abc import Callable
from math import ceil

import msgspec

from fitgauge.engine.model.mixers import Attention, Recurrent
from fitgauge.engine.model.spec import Kind
from fitgauge.engine.training.autograd.layers.layer import Layer
from fitgauge.engine.training.autograd.operations import FLOAT, Value
from fitgauge.engine.training.states.parameters import Parameter

_SCAN_CHUNK = 2048
"""Tokens between states that Mamba's kernel keeps (csrc/selective_scan/selective_scan.cpp,
n_chunks)."""
_MAMBA2_CHUNK = 256
"""Tokens between states of Mamba 2 (transformers configuration_mamba2.py, chunk_size)."""
_DELTA_CHUNK = 64
_PROJECTIONS = ("q_proj", "k_proj", "v_proj", "o_proj", "out_proj")
_INNER = ("in_proj", "x_proj", "dt_proj", "out_proj")
_SHARED_GATE = "shared_expert_gate"
"""A linear of one row that is no part of the shared expert's MLP. Source: transformers
models/qwen3_next/modeling_qwen3_next.py, Qwen3NextSparseMoeBlock."""
_ATTENTION = "self_attn."
"""What the names of an attention begin with: LFM2 calls its last projection out_proj."""


class RecurrentLayer(Layer):
    """A layer of a model in which some layers are recurrent: a mixer, an MLP or experts, or
    both, each after its norm."""

    def linears(self, *, attention: bool) -> list[Parameter]:
        """Return the weights of the attention's linears in their order, or of the MLP's; a
        recurrent mixer's are found by name."""
        projections = {
            _module(p): p
            for p in self.unit.parameters
            if p.kind is Kind.LINEAR and not p.adapter and len(p.shape) == 2
        }
        if attention:
            return [
                projections[name]
                for name in _PROJECTIONS
                if name in projections
                and (name != "out_proj" or projections[name].name.startswith(_ATTENTION))
            ]
        return [
            p
            for name, p in projections.items()
            if name not in (*_PROJECTIONS, _SHARED_GATE) and not name.startswith(_INNER)
        ]

    def forward(self, x: Value) -> Value:
        """Return every half with a recipe, in their order; as `unknown` where one has none."""
        sublayers: list[Callable[[Value], Value] | None] = [
            self._mixer(mixer) for mixer in self.unit.block.mixers
        ]
        if self.linears(attention=False) or any(
            p.kind is Kind.EXPERT for p in self.unit.parameters
        ):
            sublayers.append(self.feed_forward)
        norms = self.norms(inside=False)
        if None in sublayers or len(norms) != len(sublayers):
            return self.unknown(x)
        for half, norm in zip(sublayers, norms, strict=True):
            if half is not None:
                x = self.tape.add(f"{norm}.residual", x, half(self.norm(norm, x)))
        return x

    def _mixer(self, mixer: object) -> Callable[[Value], Value] | None:
        match mixer:
            case Attention() if len(self.linears(attention=True)) == 4:
                return lambda x: self.attention(x, mixer)
            case Recurrent(kind="mamba1"):
                return self.written_scan if self.context.attention == "eager" else self.scan
            case Recurrent(kind="mamba2"):
                return lambda x: self.state_space(x, mixer)
            case Recurrent(kind="short_conv"):
                return self.short_convolution
            case Recurrent(kind="gated_delta"):
                return lambda x: self.gated_delta(x, mixer)
        return None

    def _own(self, name: str) -> Parameter:
        """Return the weight of a module, whose rows may be stored in several parts (Bamba)."""
        first, *others = (p for p in self.unit.parameters if _module(p) == name and not p.adapter)
        rows = first.shape[0] + sum(other.shape[0] for other in others)
        return msgspec.structs.replace(first, shape=(rows, *first.shape[1:])) if others else first

    def _weights(self, *but: str) -> list[Value]:
        """Leave of the mixer's parameters that a kernel takes itself."""
        own = self._own("out_proj").name.rpartition("out_proj")[0]
        return [
            self.weight(p)
            for p in self.unit.parameters
            if p.name.startswith(own) and _module(p) not in but
        ]

    def scan(self, x: Value) -> Value:
        """Mamba's one kernel from the input projection to the output: it keeps xz, time steps
        with B and C, states of every 2048th token and the scan's output; the convolution and
        time steps are recomputed (checkpoint_lvl 1)."""
        tape, tokens = self.tape, self.context.tokens
        out, narrow = self._own("out_proj"), self._own("x_proj").shape[0]
        inner, state = out.shape[1] // self.context.heads, self._own("A_log").shape[1]
        xz = self.linear(self._own("in_proj"), x)
        states = self.context.batch * inner * ceil(self.context.sequence / _SCAN_CHUNK) * 2 * state
        extra = [
            ("scan.steps", tokens * narrow, xz.width),
            ("scan.b_and_c", 2 * tokens * state, xz.width),
            ("scan.states", states, FLOAT),
            ("scan.output", tokens * inner, xz.width),
        ]
        inputs, recomputed = (xz, *self._weights("in_proj")), 2 * tokens * inner * xz.width
        size = tokens * out.shape[0]
        return tape.operation(
            "scan",
            inputs,
            size,
            xz.width,
            saves=(xz,),
            extra=extra,
            scratch=recomputed,
            back_scratch=recomputed,
            product=True,
        )

    def written_scan(self, x: Value) -> Value:
        """Mamba's reference in PyTorch: A, B and the state of every token, channel and state
        number are kept in fp32, states once more in the format of the stream (mamba_inner_fn's
        fallback)."""
        tape, context = self.tape, self.context
        out, narrow, conv = self._own("out_proj"), self._own("x_proj").shape[0], self._own("conv1d")
        inner, state = out.shape[1] // self.context.heads, self._own("A_log").shape[1]
        wide, whole = context.tokens * inner, context.tokens * inner * state
        xz = self.linear(self._own("in_proj"), x)
        extra = [
            (
                "conv.padded",
                context.batch * inner * (context.sequence + conv.shape[-1] - 1),
                xz.width,
            ),
            *[
                (name, wide, xz.width)
                for name in ("conv", "conv.silu", "steps.input", "steps", "gate")
            ],
            ("steps.narrow", context.tokens * narrow, xz.width),
            *[(name, wide, FLOAT) for name in ("steps.float", "scan.float")],
            *[(name, whole, FLOAT) for name in ("scan.a", "scan.b", "scan.states")],
            ("scan.states_narrow", whole, xz.width),
            ("scan.a_of_channels", 2 * inner * state, FLOAT),
        ]
        scanned = tape.operation(
            "scan",
            (xz, *self._weights("in_proj", "out_proj")),
            wide,
            xz.width,
            saves=(xz,),
            extra=extra,
        )
        return self.linear(out, scanned)

    def state_space(self, x: Value, mixer: Recurrent) -> Value:
        """Mamba 2's one kernel: it keeps the input projection, the scan's output and a deviation
        for every token and group; convolution and states of chunks are recomputed."""
        context, out = self.context, self._own("out_proj")
        ways, state = context.heads, next(s for s in mixer.states if s.name == "ssm")
        conv = self._own("conv1d").shape[0] // ways
        inner, projected = out.shape[1] // ways, self.linear(self._own("in_proj"), x)
        groups = max(
            1, (conv - inner) // 2 * inner // (state.width * state.heads // ways)
        )  # B and C of each group: two states wide
        extra = [
            ("scan.output", context.tokens * inner, projected.width),
            ("scan.rstd", context.tokens * groups, FLOAT),
        ]
        chunks = (
            context.batch
            * ceil(context.sequence / _MAMBA2_CHUNK)
            * state.heads
            // ways
            * state.width
            * FLOAT
        )
        recomputed = context.tokens * conv * projected.width + chunks
        return self.tape.operation(
            "scan", (projected, *self._weights("in_proj")), context.tokens * out.shape[0],
            projected.width,
            saves=(projected,), extra=extra, scratch=recomputed, back_scratch=2 * recomputed,
            product=True,
        )  # fmt: skip

    def short_convolution(self, x: Value) -> Value:
        """Return LFM2's gated convolution: B and C gate what goes in and what comes out, and the
        convolution keeps its input (Lfm2ShortConv.forward)."""
        tape, size = self.tape, self._own("out_proj").shape[1] // self.context.heads
        size *= self.context.tokens
        before, after, inner = tape.split(
            "conv.chunk", self.linear(self._own("in_proj"), x), size, size, size
        )
        gated = tape.multiply("conv.gated", before, inner)
        mixed = tape.operation(
            "conv", (gated, self.weight(self._own("conv"))), size, gated.width, saves=(gated,)
        )
        y = tape.copy("conv.contiguous", tape.multiply("conv.output", after, mixed))
        return self.linear(self._own("out_proj"), y)

    def gated_delta(self, x: Value, mixer: Recurrent) -> Value:
        """Return a gated delta net by fla's kernels: the convolution keeps its input, the
        chunked rule its normed queries and keys, values, decays and one matrix of 64 x 64 for
        every chunk and head, the gated norm its input and gate."""
        tape, tokens = self.tape, self.context.tokens
        out, state = self._own("out_proj"), next(s for s in mixer.states if s.name != "conv")
        ways = self.context.heads
        channels, value, heads = (
            size // ways
            for size in (self._own("conv1d").shape[0], out.shape[1], self._own("A_log").shape[0])
        )
        key = (channels - value) // 2
        projected = {
            _module(p): self.linear(p, x)
            for p in self.unit.parameters
            if _module(p).startswith("in_proj") and not p.adapter
        }
        joined = projected.get("in_proj_qkv") or tape.copy(
            "qkv.joined", projected["in_proj_qkvz"], tokens * channels
        )
        gate = projected.get("in_proj_z") or tape.slice(
            "gate", projected["in_proj_qkvz"], tokens * value
        )
        mixed = tape.operation(
            "conv",
            (joined, *self._weights(*projected, "out_proj")),
            joined.elements,
            x.width,
            saves=(joined,),
        )
        q, k, v = (
            tape.copy(f"delta.{name}", mixed, tokens * size)
            for name, size in (("query", key), ("key", key), ("value", value))
        )
        extra = [
            ("delta.decay", tokens * heads, FLOAT),
            ("delta.beta", tokens * heads, x.width),
            ("delta.chunks", tokens * heads * _DELTA_CHUNK, x.width),
        ]
        states = (
            self.context.batch
            * ceil(self.context.sequence / _DELTA_CHUNK)
            * state.heads
            // ways
            * state.width
            * x.width
        )
        recomputed = states + tokens * (key + 2 * value) * x.width
        ruled = tape.operation(
            "delta",
            (q, k, v),
            tokens * value,
            x.width,
            saves=(q, k, v),
            extra=extra,
            scratch=recomputed,
            back_scratch=2 * recomputed,
            product=True,
        )
        normed = tape.operation(
            "gated_norm", (ruled, gate), ruled.elements, x.width, saves=(ruled, gate)
        )
        return self.linear(out, normed)


def _module(parameter: Parameter) -> str:
    """Return the last part of a parameter's name that is no "weight": q_proj of
    self_attn.q_proj.weight, A_log of mixer.A_log."""
    return parameter.name.removesuffix(".weight").rpartition(".")[2]
