"""What the modules of a layer compute, written on a tape: linears with their adapters, norms in
every style, activations, dropout.

Source: transformers 5.23, models/*/modeling_*.py and activations.py; PEFT tuners/lora/layer.py.
"""

from dataclasses import dataclass

from fitgauge.engine.model.dtypes import BITS
from fitgauge.engine.model.spec import Kind, Place, Split
from fitgauge.engine.training.autograd.layers.context import Way
from fitgauge.engine.training.autograd.layers.traits import Traits
from fitgauge.engine.training.autograd.operations import FLOAT, Value
from fitgauge.engine.training.autograd.tape import Tape
from fitgauge.engine.training.states.parameters import Parameter, Unit
from fitgauge.engine.training.workload import AttentionKernel


@dataclass(frozen=True, kw_only=True)
class LayerContext:
    """The sizes and settings that a layer's operations are written with."""

    traits: Traits
    """Where the family departs from Llama."""
    attention: AttentionKernel
    """The attention kernel."""
    sequence: int
    """Tokens of a sequence on this rank."""
    keys: int
    """Tokens that its attention sees."""
    batch: int
    """Sequences of a micro-batch."""
    hidden: int
    """Width of the residual stream."""
    rotary: bool
    """Whether queries and keys are rotated."""
    table_width: int
    """Bytes of a number of the rotary tables."""
    compute_width: int
    """Bytes of a number that matrix products read."""
    merged_expert_adapters: bool = False
    """Whether adapters of experts are added to a copy of the weights."""
    fused_experts: bool = False
    """Whether quantized experts are dequantized a layer at a time."""
    block_masks: bool = False
    """Whether attention with sinks reads a mask of blocks for every head, made in every layer."""
    repeats_keys: bool = False
    """Whether attention reads keys and values repeated for every query head."""
    lora_dropout: bool = False
    """Whether adapters read their input through dropout."""
    padded: bool = False
    """Whether attention reads a mask of padding."""
    heads: int = 1
    """Parts into which tensor parallelism divides heads, MLPs and the vocabulary."""
    stream: int = 1
    """Parts into which it divides the residual stream (sequence parallelism)."""
    saves_gathered: bool = False
    """Whether what linears read of a divided stream is gathered once and saved whole."""
    experts: int = 1
    """Ranks over which experts are spread."""
    expert_heads: int = 1
    """Parts into which each expert is divided."""
    relative: int = 0
    """Rows of DeBERTa's table of relative positions; 0 for other families."""
    ranks: int = 1
    """Ranks of context parallelism."""
    way: Way | None = None
    """How the framework divides attention over them; None without context parallelism."""
    crossed: int = 0
    """Tokens of images outside a sequence, for cross-attention."""
    crossed_grad: bool = False
    """Whether those tokens get a gradient."""

    @property
    def tokens(self) -> int:
        """Tokens of the micro-batch on this rank."""
        return self.sequence * self.batch


class Modules:
    """Writes the modules of one layer, or of one block that is there once, on a tape: linears
    with adapters, norms, activations."""

    def __init__(self, tape: Tape, unit: Unit, context: LayerContext) -> None:
        self.tape = tape
        self.unit = unit
        self.context = context
        self.traits = context.traits
        self.returned: Value | None = None
        """Scores after softmax and dropout, which eager attention returns to its layer."""
        self._tensors = {parameter.name: parameter for parameter in unit.parameters}
        self._divided_input: Value | None = None
        """What adapters read last of a cut stream."""
        self._gathered_input: Value
        """The same, gathered."""

    # --- parameters

    def weight(self, parameter: Parameter) -> Value:
        """Return a parameter as a leaf of the tape, as this rank holds it."""
        routed = parameter.count > 1 or parameter.kind is Kind.EXPERT
        divided = self.context.experts if routed else 1
        if parameter.split is not Split.NONE:
            divided *= self.context.expert_heads if routed else self.context.heads
        if parameter.form is None:
            width = max(1, BITS[parameter.dtype] // 8)
        else:
            width = self.context.compute_width
        return self.tape.parameter(
            self.unit.prefix + parameter.name,
            parameter.elements // divided,
            width,
            trained=parameter.trained,
        )

    def named(self, *modules: str) -> Parameter | None:
        """Return the first weight whose module's name is one of these."""
        return next(
            (
                self._tensors[f"{name}.weight"]
                for name in modules
                if f"{name}.weight" in self._tensors
            ),
            None,
        )

    def norms(self, *, inside: bool) -> list[str]:
        """Return the modules of norms, in their order, `inside` an attention or MLP, or around
        them."""
        names = [
            p.name.removesuffix(".weight")
            for p in self.unit.parameters
            if p.kind is Kind.NORM and p.name.endswith(".weight")
        ]
        return [name for name in names if ("." in name) == inside]

    def linears(self, *, attention: bool) -> list[Parameter]:
        """Return the weights of the attention's linears, or of the others'."""
        return [
            parameter
            for parameter in self.unit.parameters
            if parameter.kind is Kind.LINEAR
            and not parameter.adapter
            and len(parameter.shape) == 2
            and ("att" in parameter.name.lower()) == attention
        ]

    def experts(self) -> list[Parameter]:
        """Return the weights of routed experts, without their adapters."""
        return [
            p
            for p in self.unit.parameters
            if p.kind is Kind.EXPERT and len(p.shape) == 2 and not p.adapter
        ]

    # --- modules

    def linear(self, parameter: Parameter, x: Value, tokens: int | None = None) -> Value:
        """Return a linear layer with its bias and adapter: base(x) + B(A(x)) x scale (PEFT
        tuners/lora/layer.py, Linear.forward).

        Of a cut stream, Megatron gathers what is cut by columns for the product alone, in either
        pass (tensor_parallel/layers.py, LinearWithGradAccumulationAndAsyncCommunication), and
        an adapter keeps it gathered; what is cut by rows leaves each rank a sum to scatter, of
        an adapter too (ms-swift, swift/megatron/tuners/lora.py, forward)."""
        name, by_rows = parameter.name.removesuffix(".weight"), parameter.split is Split.ROW
        rows, stream = tokens or self.context.tokens, self.context.stream
        out = parameter.shape[0] // (
            self.context.heads if not by_rows and parameter.split is not Split.NONE else 1
        )
        scratch = (
            parameter.elements * self.context.compute_width if parameter.form is not None else 0
        )
        if stream > 1 and not by_rows and not self.context.saves_gathered:
            scratch += x.bytes * stream
        y = self.tape.matmul(name, x, self.weight(parameter), rows * out, scratch=scratch)
        if stream > 1 and by_rows:
            y = self.tape.copy(f"{name}.scattered", y, rows * out // stream)
        elif stream > 1 and x.elements < rows * parameter.shape[1] and self._adapter(name):
            x = self.gathered_once(x)
        return self.adapted(parameter, x, y, rows, rows * out)

    def adapted(self, parameter: Parameter, x: Value, y: Value, rows: int, elements: int) -> Value:
        """Return what a linear gives, `y`, with its adapter's part of as many `elements`, of
        `rows` of `x`; `y` alone where it has none."""
        name = parameter.name.removesuffix(".weight")
        if (pair := self._adapter(name)) is None:
            return y
        a, b = pair
        read = self.tape.to(x, self.weight(a).width)
        if self.context.lora_dropout:
            read = self.tape.operation(
                f"{name}.lora_dropout",
                (read,),
                read.elements,
                read.width,
                extra=[(f"{name}.lora_dropout.mask", read.elements, 1)],
            )
        inner = self.tape.matmul(f"{name}.lora_A", read, self.weight(a), rows * a.shape[0])
        outer = self.tape.matmul(f"{name}.lora_B", inner, self.weight(b), elements)
        scaled = self.tape.copy(f"{name}.lora_scaled", outer)
        if scaled.elements > y.elements:
            scaled = self.tape.copy(f"{name}.lora_scattered", scaled, y.elements)
        adapted = self.tape.add(f"{name}.adapted", y, scaled)
        self.tape.hold(x)
        return adapted

    def gathered_once(self, x: Value) -> Value:
        """Return what the adapters of linears read together of a cut stream."""
        if self._divided_input != x:
            self._divided_input = x
            self._gathered_input = self.tape.copy(
                "lora_gathered", x, x.elements * self.context.stream
            )
        return self._gathered_input

    def _adapter(self, name: str) -> tuple[Parameter, Parameter] | None:
        """Return both matrices of a linear's adapter; None where it has none."""
        a = self._tensors.get(f"{name}.lora_A.weight")
        b = self._tensors.get(f"{name}.lora_B.weight")
        return None if a is None or b is None else (a, b)

    def gathered(self, x: Value) -> Value:
        """Return what linears read of a stream that sequence parallelism cut, where that is a
        tensor of its own (DTensor.redistribute)."""
        if self.context.stream == 1 or not self.context.saves_gathered:
            return x
        return self.tape.copy("gathered", x, x.elements * self.context.stream)

    def norm(self, name: str, x: Value) -> Value:
        """Return a norm in the family's style; without a weight a plain LayerNorm in fp32
        (OLMo)."""
        parameter, style = self._tensors.get(f"{name}.weight"), self.traits.norm
        if parameter is None:
            wide = self.tape.to(x, FLOAT, f"{name}.float")
            extra = [(f"{name}.statistics", 2 * self.context.tokens, FLOAT)]
            return self.tape.to(
                self.tape.operation(name, (wide,), x.elements, FLOAT, saves=(wide,), extra=extra),
                x.width,
            )
        if f"{name}.bias" in self._tensors or style == "layer":
            return self.layer_norm(name, x, parameter)
        if style in ("rms", "narrow_rms"):
            return self.rms_norm(name, x, parameter)
        return self.wide_norm(name, x, parameter)

    def layer_norm(self, name: str, x: Value, parameter: Parameter) -> Value:
        """torch.nn.LayerNorm: saves its input, means and deviations."""
        rows = x.elements // parameter.elements
        extra = [(f"{name}.statistics", 2 * rows, x.width)]
        return self.tape.operation(
            name, (x, self.weight(parameter)), x.elements, x.width, saves=(x,), extra=extra
        )

    def rms_norm(self, name: str, x: Value, parameter: Parameter) -> Value:
        """weight x (x in fp32 x rsqrt(mean(x^2))).to(x's format), as LlamaRMSNorm; T5's takes x
        itself for the product."""
        normed = self._normalised(name, x, parameter)
        return self.tape.multiply(
            name, self.weight(parameter), self.tape.to(normed, x.width, f"{name}.narrow")
        )

    def wide_norm(self, name: str, x: Value, parameter: Parameter) -> Value:
        """Return (normed in fp32 x weight).to(x's format), as OLMo 2's; the weight plus 1 in
        Gemma's, the input centred in Cohere's."""
        normed, scale = self._normalised(name, x, parameter), self.weight(parameter)
        if self.traits.norm == "shifted_rms":
            scale = self.tape.copy(f"{name}.shifted", self.tape.to(scale, FLOAT))
        return self.tape.to(self.tape.multiply(f"{name}.scaled", normed, scale), x.width, name)

    def _normalised(self, name: str, x: Value, parameter: Parameter) -> Value:
        tape, rows = self.tape, x.elements // parameter.shape[-1]
        wide = squared = tape.to(x, FLOAT, f"{name}.float")
        if self.traits.norm == "centred":  # (x - mean) is computed twice: CohereLayerNorm
            squared, wide = tape.copy(f"{name}.deviation", wide), tape.copy(f"{name}.centred", wide)
        mean = tape.copy(f"{name}.mean", self.square(f"{name}.square", squared), rows)
        if self.traits.norm == "narrow_rms":
            wide = x
        return tape.multiply(
            f"{name}.normed", wide, tape.pointwise(f"{name}.rsqrt", mean, of_output=True)
        )

    def unit_length(self, name: str, x: Value, width: int) -> Value:
        """x / sqrt(mean(x^2)) over every `width` features, in fp32, without a weight
        (Llama4TextL2Norm; Gemma4RMSNorm without scale)."""
        tape = self.tape
        wide = tape.to(x, FLOAT, f"{name}.float")
        mean = tape.copy(f"{name}.mean", self.square(f"{name}.square", wide), x.elements // width)
        return tape.to(
            tape.multiply(
                f"{name}.normed", wide, tape.pointwise(f"{name}.rsqrt", mean, of_output=True)
            ),
            x.width,
            name,
        )

    def square(self, name: str, x: Value) -> Value:
        """x^2, whose backward pass is gradient x (2 x^1), each factor a tensor
        (torch/csrc/autograd/FunctionsManual.cpp, pow_backward)."""
        return self.tape.operation(
            name, (x,), x.elements, x.width, saves=(x,), back_scratch=2 * x.bytes
        )

    def dropout(self, name: str, place: Place, x: Value) -> Value:
        """Dropout, where the family has it here: CUDA's fused kernel saves which numbers it
        kept, a byte each (native_dropout)."""
        if place not in self.traits.drops:
            return x
        return self.tape.operation(
            name, (x,), x.elements, x.width, extra=[(f"{name}.mask", x.elements, 1)]
        )

    def activation(self, x: Value) -> Value:
        """Return the activation function of the family."""
        tape, mlp = self.tape, self.unit.block.mlp
        gated = self.traits.gated_activation if mlp and mlp.gated else None
        match gated or self.traits.activation:
            case "relu":
                return tape.pointwise("relu", x, of_output=True)
            case "relu_squared":
                return tape.pointwise("square", tape.pointwise("relu", x, of_output=True))
            case (
                "gelu_new"
            ):  # 0.5 x (1 + tanh(c (x + 0.044715 x^3))), step by step: NewGELUActivation
                inner = tape.copy(
                    "gelu.scaled",
                    tape.add(
                        "gelu.sum", x, tape.copy("gelu.cubic", tape.pointwise("gelu.cube", x))
                    ),
                )
                tanh = tape.copy(
                    "gelu.one_plus_tanh", tape.pointwise("gelu.tanh", inner, of_output=True)
                )
                return tape.multiply("gelu", tape.copy("gelu.half", x), tanh)
            case (
                "bloom_gelu"
            ):  # an autograd.Function that saves its input and computes in steps: BloomGelu
                return tape.operation(
                    "gelu",
                    (x,),
                    x.elements,
                    x.width,
                    saves=(x,),
                    scratch=2 * x.bytes,
                    back_scratch=3 * x.bytes,
                )
            case "xielu":
                return self._xielu(x)
            case name:
                return tape.pointwise(name, x)

    def _xielu(self, x: Value) -> Value:
        """alpha_p x^2 + beta x where x is positive, else alpha_n (e^min(x, eps) - 1 - x) + beta x,
        both computed whole, with trained alphas, which autocast leaves in fp32; any other function
        where the config names one, which has no alphas (XIELUActivation._xielu_python; its CUDA
        kernel is a package of its own)."""
        tape = self.tape
        alphas = [
            self.weight(parameter)
            for name, parameter in self._tensors.items()
            if name.rpartition(".")[2] in ("alpha_p", "alpha_n")
        ]
        if not alphas:
            return tape.pointwise("activation", x)
        positive, negative = alphas
        squared = tape.multiply("xielu.squared", tape.multiply("xielu.scaled", positive, x), x)
        above = tape.add("xielu.above", squared, tape.copy("xielu.linear", x))
        least = tape.pointwise("xielu.min", x)
        if tape.compute:
            least = tape.to(least, FLOAT)
        less = tape.add("xielu.less", tape.pointwise("xielu.expm1", least, of_output=True), x)
        weighed = tape.multiply("xielu.weighed", less, negative)
        below = tape.add("xielu.below", weighed, tape.copy("xielu.linear", x))
        return tape.operation(
            "xielu", (above, below), x.elements, above.width, extra=[("xielu.sign", x.elements, 1)]
        )

    def unknown(self, x: Value) -> Value:
        """Return a layer without a model of its own: every linear saves its input, one after
        the other, each followed by one activation."""
        y = x
        for parameter in (*self.linears(attention=True), *self.linears(attention=False)):
            y = self.linear(
                parameter,
                self.tape.pointwise(
                    "activation", self._sized(y, self.context.tokens * parameter.shape[1])
                ),
            )
        return self.tape.add("residual", x, self._sized(y, x.elements))

    def _sized(self, x: Value, elements: int) -> Value:
        return x if x.elements == elements else self.tape.copy("reshaped", x, elements)
