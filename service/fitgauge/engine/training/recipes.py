"""What a layer computes, written on a tape as transformers' modelling code calls it: the recipe behind every saved activation.

A recipe is made of a layer's own tensors: which norms, which projections, apart or fused, gated or not. What tensors cannot tell
(activation function, style of norm, dropout) stands in `traits.py`. Source: transformers 5.23, models/*/modeling_*.py.
"""

from dataclasses import dataclass

from fitgauge.engine.architecture import Attention, Kind, LatentAttention, Split
from fitgauge.engine.dtypes import BITS
from fitgauge.engine.training.parameters import Parameter, Unit
from fitgauge.engine.training.tape import FLOAT, Tape, Value
from fitgauge.engine.training.traits import Traits
from fitgauge.engine.training.workload import AttentionKernel


@dataclass(frozen=True, kw_only=True)
class Scene:
    """Where a recipe plays. `sequence`: tokens of a sequence on this rank, `keys`: those its attention sees; `batch`: sequences.

    `heads`: into how many parts tensor parallelism divides heads, MLPs and the vocabulary; `stream`: into how many the residual
    stream (sequence parallelism). `rotary`: queries and keys are rotated; `table_width`: bytes of a number of its tables.
    """

    traits: Traits
    attention: AttentionKernel
    sequence: int
    keys: int
    batch: int
    hidden: int
    rotary: bool
    table_width: int
    compute_width: int
    heads: int = 1
    stream: int = 1

    @property
    def tokens(self) -> int:
        """Tokens of the micro-batch on this rank."""
        return self.sequence * self.batch


class Layer:
    """Writes one layer, or one block that is there once, on a tape."""

    def __init__(self, tape: Tape, unit: Unit, scene: Scene) -> None:
        self.tape = tape
        self.unit = unit
        self.scene = scene
        self.traits = scene.traits
        self._tensors = {parameter.name: parameter for parameter in unit.parameters}

    # --- parameters

    def weight(self, parameter: Parameter) -> Value:
        """A parameter as a leaf of the tape, as this rank holds it."""
        divided = self.scene.heads if parameter.split is not Split.NONE else 1
        width = max(1, BITS[parameter.dtype] // 8) if parameter.form is None else self.scene.compute_width
        return self.tape.parameter(self.unit.prefix + parameter.name, parameter.elements // divided, width, trained=parameter.trained)

    def named(self, *modules: str) -> Parameter | None:
        """The first weight whose module's name is one of these."""
        return next((self._tensors[f"{name}.weight"] for name in modules if f"{name}.weight" in self._tensors), None)

    def norms(self, *, inside: bool) -> list[str]:
        """Modules of norms, in their order, `inside` an attention or MLP, or around them."""
        names = [p.name.removesuffix(".weight") for p in self.unit.parameters if p.kind is Kind.NORM and p.name.endswith(".weight")]
        return [name for name in names if ("." in name) == inside]

    def linears(self, *, attention: bool) -> list[Parameter]:
        """Weights of the attention's linears, or of the others'."""
        return [
            parameter
            for parameter in self.unit.parameters
            if parameter.kind is Kind.LINEAR
            and not parameter.adapter
            and len(parameter.shape) == 2
            and ("att" in parameter.name.lower()) == attention
        ]

    # --- modules

    def linear(self, parameter: Parameter, x: Value, tokens: int | None = None) -> Value:
        """A linear layer with its bias and adapter: base(x) + B(A(x)) x scale (PEFT tuners/lora/layer.py, Linear.forward)."""
        name = parameter.name.removesuffix(".weight")
        rows = tokens or self.scene.tokens
        out = parameter.shape[0] // (self.scene.heads if parameter.split not in (Split.NONE, Split.ROW) else 1)
        scratch = parameter.elements * self.scene.compute_width if parameter.form is not None else 0
        y = self.tape.matmul(name, x, self.weight(parameter), rows * out, scratch=scratch)
        a, b = self._tensors.get(f"{name}.lora_A.weight"), self._tensors.get(f"{name}.lora_B.weight")
        if a is None or b is None:
            return y
        inner = self.tape.matmul(f"{name}.lora_A", self.tape.to(x, self.weight(a).width), self.weight(a), rows * a.shape[0])
        outer = self.tape.matmul(f"{name}.lora_B", inner, self.weight(b), rows * out)
        return self.tape.add(f"{name}.adapted", y, self.tape.copy(f"{name}.lora_scaled", outer))

    def norm(self, name: str, x: Value) -> Value:
        """A norm in the family's style; without a weight a plain LayerNorm in fp32 (OLMo)."""
        parameter, style = self._tensors.get(f"{name}.weight"), self.traits.norm
        if parameter is None:
            wide = self.tape.to(x, FLOAT, f"{name}.float")
            beside = [(f"{name}.statistics", 2 * self.scene.tokens, FLOAT)]
            return self.tape.to(self.tape.operation(name, (wide,), x.elements, FLOAT, saves=(wide,), beside=beside), x.width)
        if f"{name}.bias" in self._tensors or style == "layer":
            return self.layer_norm(name, x, parameter)
        if style == "rms":
            return self.rms_norm(name, x, parameter)
        return self.wide_norm(name, x, parameter)

    def layer_norm(self, name: str, x: Value, parameter: Parameter) -> Value:
        """torch.nn.LayerNorm: saves its input, means and deviations."""
        rows = x.elements // parameter.elements
        beside = [(f"{name}.statistics", 2 * rows, x.width)]
        return self.tape.operation(name, (x, self.weight(parameter)), x.elements, x.width, saves=(x,), beside=beside)

    def rms_norm(self, name: str, x: Value, parameter: Parameter) -> Value:
        """weight x (x in fp32 x rsqrt(mean(x^2))).to(x's format), as LlamaRMSNorm."""
        normed = self._normalised(name, x, parameter)
        return self.tape.multiply(name, self.weight(parameter), self.tape.to(normed, x.width, f"{name}.narrow"))

    def wide_norm(self, name: str, x: Value, parameter: Parameter) -> Value:
        """(normed in fp32 x weight).to(x's format), as OLMo 2's; the weight plus 1 in Gemma's, the input centred in Cohere's."""
        normed, scale = self._normalised(name, x, parameter), self.weight(parameter)
        if self.traits.norm == "shifted_rms":
            scale = self.tape.copy(f"{name}.shifted", self.tape.to(scale, FLOAT))
        return self.tape.to(self.tape.multiply(f"{name}.scaled", normed, scale), x.width, name)

    def _normalised(self, name: str, x: Value, parameter: Parameter) -> Value:
        tape, rows = self.tape, x.elements // parameter.shape[-1]
        wide = squared = tape.to(x, FLOAT, f"{name}.float")
        if self.traits.norm == "centred":  # (x - mean) is computed twice: CohereLayerNorm
            squared, wide = tape.copy(f"{name}.deviation", wide), tape.copy(f"{name}.centred", wide)
        mean = tape.copy(f"{name}.mean", tape.pointwise(f"{name}.square", squared), rows)
        return tape.multiply(f"{name}.normed", wide, tape.pointwise(f"{name}.rsqrt", mean, of_output=True))

    def dropout(self, name: str, x: Value, *, rate: bool) -> Value:
        """Dropout with a rate above 0: its noise is saved, in the format of its input (CUDA's fused kernel keeps a byte a number)."""
        if not rate:
            return x
        return self.tape.operation(name, (x,), x.elements, x.width, beside=[(f"{name}.noise", x.elements, x.width)])

    def activation(self, x: Value) -> Value:
        """The activation function of the family."""
        tape = self.tape
        match self.traits.activation:
            case "relu":
                return tape.pointwise("relu", x, of_output=True)
            case "relu_squared":
                return tape.pointwise("square", tape.pointwise("relu", x, of_output=True))
            case "gelu_new":  # 0.5 x (1 + tanh(c (x + 0.044715 x^3))), step by step: NewGELUActivation
                inner = tape.copy("gelu.scaled", tape.add("gelu.sum", x, tape.copy("gelu.cubic", tape.pointwise("gelu.cube", x))))
                tanh = tape.copy("gelu.one_plus_tanh", tape.pointwise("gelu.tanh", inner, of_output=True))
                return tape.multiply("gelu", tape.copy("gelu.half", x), tanh)
            case "bloom_gelu":  # an autograd.Function that saves its input and computes in steps: BloomGelu
                return tape.operation("gelu", (x,), x.elements, x.width, saves=(x,), scratch=2 * x.bytes, back_scratch=3 * x.bytes)
            case name:
                return tape.pointwise(name, x)

    # --- attention

    def attention(self, x: Value, mixer: Attention) -> Value:
        """Projections, norms and rotation of queries and keys, attention, output projection."""
        tape, scene = self.tape, self.scene
        *inward, out = self.linears(attention=True)
        heads, kv_heads = max(1, mixer.query_heads // scene.heads), max(1, mixer.kv_heads // scene.heads)
        sizes = [scene.tokens * n for n in (heads * mixer.head_dim, kv_heads * mixer.head_dim, kv_heads * mixer.value_dim)]
        if len(inward) == 1:
            q, k, v = self._fused(self.linear(inward[0], x), sizes)
        else:
            q, k, v = (
                tape.operation(f"{p.name}.view", (y,), size, y.width, view=True, passes=True)
                for p, y, size in self._apart(inward, x, sizes)
            )
        if self.traits.scales_queries:
            q = tape.copy("query.scaled", q)
        inside = [name for name in self.norms(inside=True) if "att" in name.lower()]
        if len(inside) >= 2:
            q, k = self.norm(inside[0], q), self.norm(inside[1], k)
        if scene.rotary:
            q, k = self.rotated(q, k, mixer)
        mixed = (
            self.eager(q, k, v, heads, mixer)
            if scene.attention == "eager" or self.traits.only_eager
            else self.fused_attention(q, k, v, heads, mixer)
        )
        return self.dropout("attention.dropout", self.linear(out, mixed), rate=self.traits.residual_dropout)

    def _apart(self, inward: list[Parameter], x: Value, sizes: list[int]) -> list[tuple[Parameter, Value, int]]:
        return [(parameter, self.linear(parameter, x), size) for parameter, size in zip(inward, sizes, strict=False)]

    def _fused(self, y: Value, sizes: list[int]) -> tuple[Value, ...]:
        """Queries, keys and values as parts of one projection: slices, or one split."""
        if self.traits.slices:
            return tuple(self.tape.slice(f"qkv.{name}", y, size) for name, size in zip(("query", "key", "value"), sizes, strict=True))
        return self.tape.split("qkv.split", y, *sizes)

    def rotated(self, q: Value, k: Value, mixer: Attention) -> tuple[Value, Value]:
        """Queries and keys rotated by tables that all layers share, or that every layer interleaves anew (GLM, Helium, ERNIE)."""
        tape, width = self.tape, self.scene.table_width
        cos, sin = tape.constant("cos", 1, width), tape.constant("sin", 1, width)
        if self.traits.interleaves:
            size = self.scene.sequence * mixer.head_dim // (2 if self.traits.rotates_part else 1)
            cos, sin = tape.copy("cos.interleaved", cos, size), tape.copy("sin.interleaved", sin, size)
        return self.rotate("query", q, cos, sin), self.rotate("key", k, cos, sin)

    def rotate(self, name: str, x: Value, cos: Value, sin: Value) -> Value:
        """x cos + rotate_half(x) sin; tables keep the format of the hidden states, so the sum may be wider than x."""
        tape = self.tape
        half = tape.copy(f"{name}.rotate_half", x)
        rotated = tape.add(f"{name}.rotated", tape.multiply(f"{name}.cos", x, cos), tape.multiply(f"{name}.sin", half, sin))
        return tape.copy(f"{name}.joined", rotated) if self.traits.rotates_part else rotated

    def eager(self, q: Value, k: Value, v: Value, heads: int, mixer: Attention) -> Value:
        """Scores written out: softmax(q k / sqrt(d) + mask) v, softmax in fp32 (eager_attention_forward)."""
        tape, scene = self.tape, self.scene
        k, v = self._repeated(k, v, heads, mixer)
        if scene.batch > 1:  # a batched product copies what it cannot view
            q, k, v = (tape.copy("attention.apart", part) if tape.partial(part) else part for part in (q, k, v))
        count = scene.tokens * scene.keys * heads
        scores = tape.matmul("attention.scores", q, k, count)
        if not self.traits.scales_queries:
            scores = tape.copy("attention.scaled", scores)
        if self.traits.score_cap:
            capped = tape.pointwise("attention.tanh", tape.copy("attention.capped", scores), of_output=True)
            scores = tape.copy("attention.uncapped", capped)
        scores = tape.add("attention.masked", scores, tape.constant("mask", 1, scene.table_width))
        wide = tape.to(scores, FLOAT, "attention.float") if self.traits.float_softmax or tape.compute else scores
        weights = tape.to(tape.pointwise("attention.softmax", wide, of_output=True), q.width, "attention.weights")
        weights = self.dropout("attention.weights_dropout", weights, rate=self.traits.attention_dropout)
        mixed = tape.matmul("attention.product", weights, v, scene.tokens * heads * mixer.value_dim)
        return tape.copy("attention.output", mixed)

    def fused_attention(self, q: Value, k: Value, v: Value, heads: int, mixer: Attention) -> Value:
        """FlashAttention's pattern: q, k, v, output and the log of the sum of exponentials are saved, scores never are.

        The output has the order of the queries; where these were put together from parts, it is copied for the output projection.

        A sliding window no longer than the sequence gives PyTorch's SDPA a mask, for which keys and values are repeated for every head;
        FlashAttention itself knows windows (integrations/sdpa_attention.py, use_gqa_in_sdpa).
        """
        tape, scene = self.tape, self.scene
        masked = scene.attention == "sdpa" and mixer.window is not None and mixer.window <= scene.keys
        if masked:
            k, v = self._repeated(k, v, heads, mixer)
        q, k, v = saves = tuple(tape.cast(value, "attention") for value in (q, k, v))
        beside = [("attention.log_sum", scene.tokens * heads, FLOAT)]
        if masked:  # booleans become numbers to add, anew in every layer
            beside.append(("attention.mask", scene.tokens * scene.keys, q.width))
        size = scene.tokens * heads * mixer.value_dim
        mixed = tape.operation("attention", (q, k, v), size, q.width, saves=saves, saves_output=True, beside=beside, product=True)
        return tape.copy("attention.output", mixed) if self.traits.rotates_part else mixed

    def _repeated(self, k: Value, v: Value, heads: int, mixer: Attention) -> tuple[Value, Value]:
        """Keys and values once for every query head (repeat_kv): copies, or views of one head that all of them share."""
        if mixer.kv_heads == mixer.query_heads:
            return k, v
        tape, rows = self.tape, self.scene.tokens * heads
        sizes = (rows * mixer.head_dim, rows * mixer.value_dim)
        if mixer.kv_heads == 1:
            return tape.slice("key.expanded", k, sizes[0]), tape.slice("value.expanded", v, sizes[1])
        return tape.copy("key.repeated", k, sizes[0]), tape.copy("value.repeated", v, sizes[1])

    def latent_attention(self, x: Value) -> Value:
        """Multi-head latent attention: its linears one after the other, then attention over expanded heads."""
        tape, scene, mixer = self.tape, self.scene, self.unit.block.mixers[0]
        if not isinstance(mixer, LatentAttention):
            return x
        *inward, out = self.linears(attention=True)
        for parameter in inward:
            self.linear(parameter, self._sized(x, scene.tokens * parameter.shape[1]))
        heads = max(1, mixer.query_heads // scene.heads)
        sizes = [scene.tokens * heads * width for width in (*[mixer.nope_dim + mixer.rope_dim] * 2, mixer.value_dim)]
        parts = [tape.cast(tape.copy("expanded", x, size), "attention") for size in sizes]
        mixed = tape.operation("attention", parts, sizes[2], parts[0].width, saves=parts, saves_output=True, product=True)
        return self.linear(out, mixed)

    def _sized(self, x: Value, elements: int) -> Value:
        return x if x.elements == elements else self.tape.copy("reshaped", x, elements)

    # --- MLP

    def feed_forward(self, x: Value) -> Value:
        """The MLP, or the mixture and its shared expert."""
        experts = [parameter for parameter in self.unit.parameters if parameter.kind is Kind.EXPERT and len(parameter.shape) == 2]
        dense = self.linears(attention=False)
        if not experts:
            return self.dropout("mlp.dropout", self.mlp(dense, x), rate=self.traits.residual_dropout)
        mixed = self.mixture(experts, x)
        if not dense:
            return mixed
        shared = self.mlp(dense, x)
        gate = next((p for p in self.unit.parameters if p.kind is Kind.ROUTER and p.shape[0] == 1), None)
        if gate is not None:
            shared = self.tape.multiply("shared.gated", self.tape.pointwise("sigmoid", self.linear(gate, x), of_output=True), shared)
        return self.tape.add("mlp.with_shared", mixed, shared)

    def mlp(self, linears: list[Parameter], x: Value) -> Value:
        """down(act(gate(x)) up(x)), gate and up apart or fused, or down(act(up(x)))."""
        *ups, down = linears
        first = self.linear(ups[0], x)
        inner = down.shape[1] // (self.scene.heads if down.split is Split.ROW else 1) * self.scene.tokens
        if len(ups) > 1:
            gated = self.activation(first)
            product = self.tape.multiply("mlp.product", gated, self.linear(ups[1], x))
        elif first.elements >= 2 * inner:
            gate, up = self.tape.split("mlp.chunk", first, inner, inner)
            product = self.tape.multiply("mlp.product", self.activation(gate), up)
        else:
            product = self.activation(first)
        return self.linear(down, product)

    def mixture(self, experts: list[Parameter], x: Value) -> Value:
        """Router, experts as one grouped product over the tokens sorted by expert, and their weighted sum.

        Grouped products know no autocast: they run in the format of the weights (integrations/moe.py, grouped_mm_experts_forward).
        """
        tape, scene, mlp = self.tape, self.scene, self.unit.block.mlp
        router = next((p for p in self.unit.parameters if p.kind is Kind.ROUTER and p.shape[0] > 1), None)
        picks = scene.tokens * (mlp.experts_per_token if mlp else 1)
        weights = tape.constant("router.weights", picks, x.width)
        if router is not None:
            scores = tape.to(self.linear(router, x), FLOAT, "router.float")
            chosen = tape.copy("router.top_k", tape.pointwise("router.softmax", scores, of_output=True), picks)
            weights = tape.to(chosen, x.width, "router.weights")
        down = experts[-1]
        inner = down.shape[1]
        wide, indices = tape.to(x, self.weight(down).width), [("experts.indices", picks, 8)] * 4
        sorted_tokens = tape.operation("experts.tokens", (wide,), picks * scene.hidden, wide.width, beside=indices)
        gate_up = self._grouped("experts.gate_up", sorted_tokens, experts[:-1], picks * 2 * inner)
        gate, up = tape.split("experts.chunk", gate_up, picks * inner, picks * inner)
        product = tape.multiply("experts.product", self.activation(gate), up)
        out = self._grouped("experts.down", product, [down], picks * scene.hidden)
        weighted = tape.copy("experts.in_order", tape.multiply("experts.weighted", out, weights))
        return tape.copy("experts.sum", weighted, scene.tokens * scene.hidden)

    def _grouped(self, name: str, x: Value, parameters: list[Parameter], elements: int) -> Value:
        weights = [self.weight(parameter) for parameter in parameters]
        saves = [x] if any(weight.grad for weight in weights) else []
        return self.tape.operation(name, (x, *weights), elements, weights[0].width, saves=saves)

    # --- the layer

    def play(self, x: Value) -> Value:
        """The layer by its recipe, or as `unknown` where its tensors are not those of attention and an MLP."""
        mixers = self.unit.block.mixers
        usual = len(mixers) == 1 and isinstance(mixers[0], Attention) and len(self.linears(attention=True)) in (2, 4)
        latent = len(mixers) == 1 and isinstance(mixers[0], LatentAttention) and bool(self.linears(attention=True))
        fed = len(self.linears(attention=False)) in (2, 3) or any(p.kind is Kind.EXPERT for p in self.unit.parameters)
        return self.layer(x) if (usual or latent) and fed else self.unknown(x)

    def mix(self, x: Value) -> Value:
        """The layer's attention, of either kind."""
        mixer = self.unit.block.mixers[0]
        return self.attention(x, mixer) if isinstance(mixer, Attention) else self.latent_attention(x)

    def layer(self, x: Value) -> Value:
        """Attention and MLP around the residual stream: norms before, after or on both sides, one after the other or side by side."""
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
        x = tape.add("attention.residual", x, self._branch(self.mix(self._normed(before, x)), after))
        return tape.add("mlp.residual", x, self._branch(self.feed_forward(self._normed(before_mlp, x)), after_mlp))

    def _parallel(self, x: Value, names: list[str]) -> Value:
        first = self._normed(names[0] if names else "", x)
        second = self.norm(names[1], x) if len(names) > 1 else first
        mixed, fed = self.mix(first), self.feed_forward(second)
        return self.tape.add("residual", self.tape.add("branches", mixed, fed), x)

    def _normed(self, name: str, x: Value) -> Value:
        return self.norm(name, x) if name else x

    def _branch(self, x: Value, after: str) -> Value:
        normed = self._normed(after, x)
        return self.tape.copy("branch.scaled", normed) if self.traits.scales_residual else normed

    def unknown(self, x: Value) -> Value:
        """A layer of a kind that has no recipe: every linear saves its input, one after the other, each followed by one activation."""
        y = x
        for parameter in (*self.linears(attention=True), *self.linears(attention=False)):
            y = self.linear(parameter, self.tape.pointwise("activation", self._sized(y, self.scene.tokens * parameter.shape[1])))
        return self.tape.add("residual", x, self._sized(y, x.elements))
