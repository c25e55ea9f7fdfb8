"""What is trained and how: a training request with every default filled in."""

from functools import cache
from typing import Literal

import msgspec

Method = Literal["full", "lora", "dora", "qlora"]
PhaseName = Literal[
    "rollout", "log_probs", "forward", "backward", "optimizer_step", "critic_update", "loading"
]
"""Phases of a step, and what comes before the first."""
Precision = Literal["mixed_bf16", "mixed_fp16", "bf16", "fp32", "int8", "fp8"]
Framework = Literal["transformers", "deepspeed", "fsdp", "megatron"]
Optimizer = Literal[
    "adamw", "adamw_8bit", "paged_adamw", "paged_adamw_8bit", "adamw_bf16", "adam_mini",
    "adafactor", "lion", "lion_8bit", "muon",
    "sgd", "sgd_momentum", "galore_adamw", "lomo", "adamw_torch_8bit", "adamw_torch_4bit",
    "adamw_torch_fp8",
]  # fmt: skip
Implementation = Literal["foreach", "fused", "for_loop"]
Loss = Literal[
    "full", "chunked", "chunked_backward", "recomputed", "fused", "in_place", "log_probs",
    "log_probs_in_place", "divergence", "divergence_in_fp32", "none",
]  # fmt: skip
"""chunked_backward: a piece of the logits at a time, with its backward pass (torchtitan).
log_probs: of the tokens that were sampled, as preference and RL training take them (in place:
verl's kernel); divergence: of a student from its teacher; none: a score head."""
Checkpointing = Literal["none", "selective", "full"]
AttentionKernel = Literal["eager", "sdpa", "flash", "flex"]
"""flex: PyTorch's flex_attention, which runs on GPUs that FlashAttention-2 does not."""
Offload = Literal["none", "optimizer", "parameters", "cpu", "nvme"]
Averages = Literal["none", "device", "host"]
GradientFormat = Literal["fp32", "bf16"]
Schedule = Literal["1f1b", "gpipe", "interleaved", "zero_bubble"]
ActivationRule = Literal["recipe", "34sbh", "40shl", "widths"]
"""recipe: what autograd saves, tensor by tensor; the others are rules of thumb
(rules_of_thumb.py)."""
Kernels = Literal["none", "liger", "lora", "unsloth"]
"""liger: norms, rotation, gates in one kernel each; lora: linears with their adapters (axolotl);
unsloth: all these (autograd/layers/fused.py)."""
BasePrecision = Literal["half", "fp32"]
Targets = Literal["attention", "all_linear"] | tuple[str, ...]


class TrainingWorkload(msgspec.Struct, frozen=True, kw_only=True):
    """A training request in numbers. Fields have the names of the request's."""

    method: Method = "full"
    """What is trained: all weights, adapters, ..."""
    framework: Framework = "transformers"
    """The training framework."""
    precision: Precision = "mixed_bf16"
    """Formats of weights, gradients and computation."""
    base_precision: BasePrecision = "fp32"
    """Of a frozen base that is not quantized, under autocast: half leaves it in 16 bit, with
    adapters in fp32 (PEFT, autocast_adapter_dtype). Of trained weights under mixed precision: half
    leaves them, their gradients and states in 16 bit, as they were loaded."""
    optimizer: Optimizer = "adamw"
    """The optimizer."""
    optimizer_implementation: Implementation = "foreach"
    """How it steps: parameter by parameter, many at once, or fused."""
    optimizer_in_backward: bool = False
    """Every parameter steps as soon as its gradient is there."""
    ema: Averages = "none"
    """Where a moving average of the trained weights is stored."""
    loss: Loss = "full"
    """How the loss is computed."""
    keeps_output: bool = False
    """The loop names the model's output, and so its logits, through the backward pass."""
    logits_tokens: int | None = None
    """Tokens of every sequence whose logits are computed; None for all."""
    activation_checkpointing: Checkpointing = "none"
    """Which activations are recomputed."""
    recompute_modules: tuple[str, ...] = ()
    """Megatron's; see `recomputed_modules`."""
    activation_offload: bool = False
    """What layers save goes to the host between the passes."""
    activation_rule: ActivationRule | None = None
    """None leaves it to the model (rules_of_thumb.py, rule_of)."""
    attention: AttentionKernel = "sdpa"
    """The attention kernel."""
    kernels: Kernels = "none"
    """Whose fused kernels replace transformers' modelling code in the layers."""
    compile: bool = False
    """Layers run under torch.compile, and the loss unless `compile_loss` is false."""
    compile_loss: bool | None = None
    """Whether the loss is compiled with the layers; None as today's tools do, with a loss that is
    not within the interval."""
    repeats_keys: bool = False
    """Attention reads keys and values repeated for every query head."""
    transformers_version: str | None = None
    """Release of transformers; None for today's, with older ones within the interval."""
    sequence_length: int
    """[tokens]"""
    mean_sequence_length: int | None = None
    """Of samples that vary, of which `sequence_length` is the longest [tokens]; None where all are
    as long."""
    padded: bool = False
    """Whether attention reads a mask of padding."""
    packed: bool = False
    """Whether the sequences of a micro-batch are one row, of samples that attention keeps apart."""
    micro_batch_size: int = 1
    """Sequences of one forward pass on one rank."""
    micro_batches: int = 1
    """Forward passes of one optimizer step, per data-parallel rank."""
    lora_rank: int = 16
    """Rank of the adapters."""
    lora_dropout: float = 0.0
    """Rate of dropout before adapters."""
    lora_targets: Targets = "all_linear"
    """Linears that get adapters; a tuple holds names of modules."""
    quantization: str | None = None
    """Of a frozen base, by its name in quantization/requested.py."""
    quantize_experts: bool = False
    """A bitsandbytes base has its experts in that format too."""
    lora_experts: bool = False
    """Routed experts get adapters too."""
    merged_expert_adapters: bool = False
    """Those are multiplied out and added to a copy of the weights in each pass (PEFT's
    ParamWrapper), not applied to the tokens."""
    fused_experts: bool = False
    """Quantized experts of a layer are one parameter, dequantized whole in each pass."""
    loads_whole: bool = False
    """Such a base lies whole on every GPU before it is sharded (transformers 5)."""
    zero_stage: int = 0
    """0 to 3; for FSDP 3 frees parameters after the forward pass, 2 keeps them."""
    offload: Offload = "none"
    """What lives in host memory."""
    tensor_parallel: int = 1
    """Tensor x pipeline x context x data parallel is the number of GPUs."""
    sequence_parallel: bool = False
    """Whether tensor parallelism divides the residual stream too."""
    pipeline_parallel: int = 1
    """Pipeline stages."""
    pipeline_schedule: Schedule = "1f1b"
    """In which order micro-batches run."""
    pipeline_chunks: int = 2
    """Pieces of a rank's layers under the interleaved schedule."""
    last_stage_layers: int | None = None
    """See parallel/pipeline.py, split."""
    context_parallel: int = 1
    """Ranks that divide a sequence."""
    expert_parallel: int = 1
    """Ranks over which experts are spread."""
    expert_tensor_parallel: int | None = None
    """None: see `expert_ways`."""
    data_parallel: int = 1
    """Replicas, or ranks that ZeRO and FSDP shard over."""
    data_parallel_replicate: int = 1
    """Groups that each hold a whole set of shards."""
    zero_hpz_partition_size: int = 1
    """Ranks over which ZeRO++ shards a second copy of the weights; 1 for none."""
    fsdp_version: int = 2
    """1 (FullyShardedDataParallel) or 2 (fully_shard)."""
    shard_embeddings: bool = False
    """Embedding and head are units of their own, not the root's."""
    gradient_dtype: GradientFormat | None = None
    """In which gradients are summed over micro-batches and ranks; None as the framework does."""
    fp8_parameters: bool = False
    """The linears' weights are fp8 and have no 16-bit copy."""
    images: int = 0
    """Of every sequence, each `image_tokens` long."""
    image_tokens: int = 0
    """Tokens of an image."""
    train_vision_tower: bool = True
    """With adapters, the tower and its projector get some too; without it a tower is frozen, its
    projector is not."""
    expandable_segments: bool | None = None
    """None: see `uses_expandable_segments`."""
    runtime_bytes: int | None = None
    """What the process holds before its first tensor, where it was measured."""

    @property
    def gpus(self) -> int:
        """Ranks in all."""
        return (
            self.tensor_parallel
            * self.pipeline_parallel
            * self.context_parallel
            * self.data_parallel
        )

    @property
    def uses_adapters(self) -> bool:
        """Whether the base is frozen and adapters are trained."""
        return self.method != "full"

    @property
    def base_quantization(self) -> str | None:
        """The format of a quantized frozen base: the requested one, nf4 under QLoRA; None where
        the base is trained or not quantized."""
        if self.uses_adapters:
            return self.quantization or ("nf4" if self.method == "qlora" else None)
        return None

    @property
    def expert_ways(self) -> int:
        """Ranks that share every expert: the requested number, else those that share every layer,
        or one where expert-parallel groups span several tensor-parallel groups.

        Megatron groups tensor x context x data parallel ranks separately for experts, by
        --expert-tensor-parallel-size, whose default is --tensor-model-parallel-size
        (megatron/core/parallel_state.py, expert groups); ms-swift's is 1 (megatron/arguments).
        """
        if self.expert_tensor_parallel is not None:
            return self.expert_tensor_parallel
        spans_groups = (
            self.framework == "megatron"
            and self.data_parallel * self.context_parallel % self.expert_parallel
        )
        return 1 if spans_groups else self.tensor_parallel

    @property
    def dtensor(self) -> bool:
        """Whether tensor parallelism is PyTorch's own (torch.distributed.tensor)."""
        return self.framework in ("transformers", "fsdp")

    @property
    def uses_expandable_segments(self) -> bool:
        """Whether the allocator uses expandable segments: as requested, else under Megatron, whose
        scripts set it (ms-swift examples/train/megatron)."""
        if self.expandable_segments is None:
            return self.framework == "megatron"
        return self.expandable_segments

    @property
    def varies(self) -> bool:
        """Whether samples differ in length."""
        mean = self.mean_sequence_length
        return mean is not None and mean < self.sequence_length

    @property
    def steps_in_backward(self) -> bool:
        """Whether no gradient outlives the backward pass of its layer."""
        return self.optimizer == "lomo" or self.optimizer_in_backward

    @property
    def compiles_loss(self) -> bool:
        """Whether the loss runs under torch.compile."""
        return self.compile and self.compile_loss is not False

    @property
    def mixed(self) -> bool:
        """Whether the compute format differs from that of the weights or masters."""
        return self.precision in ("mixed_bf16", "mixed_fp16", "fp8")

    @property
    def tokens(self) -> int:
        """Tokens of one micro-batch."""
        return self.sequence_length * self.micro_batch_size


def recomputed_modules(workload: TrainingWorkload) -> tuple[str, ...]:
    """Return the modules of a layer that Megatron recomputes under selective checkpointing: the
    requested ones, else core attention (megatron/core/transformer/transformer_config.py,
    recompute_modules)."""
    if workload.framework != "megatron" or workload.activation_checkpointing != "selective":
        return ()
    return workload.recompute_modules or ("core_attn",)


class PrecisionPolicy(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """Formats of a training step [canonical dtypes]."""

    weights: str
    """What the forward pass reads."""
    gradients: str
    """Between backward pass and step."""
    masters: str | None
    """A second, wider copy of trained weights; None without one."""
    states: str
    """Each of the optimizer's."""
    compute: str
    """Of matrix products."""
    adapters: str
    """Trained low-rank matrices."""
    autocast: bool = False
    """Weights are cast for every product; the casts live until the autocast region ends."""


def precision_policy(workload: TrainingWorkload) -> PrecisionPolicy:
    """Return the formats of a framework in a precision.

    transformers: fp32 weights under torch.autocast (Trainer's bf16/fp16; a frozen base may stay
    in 16 bit). deepspeed: 16-bit weights and gradients, fp32 masters and states (ZeRO, arXiv
    1910.02054, section 3.1: 2 + 2 + 12). megatron: 16-bit weights, fp32 main_grad, masters and
    states (2 + 4 + 12; megatron/core/distributed/param_and_grad_buffer.py). fsdp: fp32 shards
    gathered in 16 bit (torch.distributed.fsdp MixedPrecisionPolicy), 16-bit ones where
    base_precision is half; a frozen base stays in 16
    bit (accelerate utils/fsdp_utils.py and accelerator.py: only what requires a gradient is made
    fp32). bf16, fp32: everything in that format; DeepSpeed's and Megatron's bf16 keep fp32 masters
    and states (deepspeed/runtime/bf16_optimizer.py, zero/stage3.py; megatron/core/optimizer/
    __init__.py, Float16OptimizerWithFloat16Params). int8: everything in one byte.
    gradient_dtype changes Megatron's main_grad (--grad-reduce-in-bf16),
    DeepSpeed's gradients (grad_accum_dtype); FSDP's stay as wide as its shards."""
    return _policy(
        workload.framework,
        workload.precision,
        workload.gradient_dtype,
        workload.base_precision,
        workload.uses_adapters,
    )


@cache
def _policy(
    framework: Framework,
    precision: Precision,
    gradient_dtype: GradientFormat | None,
    base_precision: BasePrecision,
    adapts: bool,
) -> PrecisionPolicy:
    summed = None if gradient_dtype is None else {"fp32": "F32", "bf16": "BF16"}[gradient_dtype]
    half = "F16" if precision == "mixed_fp16" else "BF16"
    if precision == "int8":
        return PrecisionPolicy(
            weights="I8", gradients="I8", masters=None, states="I8", compute="I8", adapters="I8"
        )
    if precision == "fp32" or (precision == "bf16" and framework not in ("deepspeed", "megatron")):
        form = "BF16" if precision == "bf16" else "F32"
        return PrecisionPolicy(
            weights=form, gradients=form, masters=None, states=form, compute=form, adapters=form
        )
    if framework == "deepspeed":
        return PrecisionPolicy(
            weights=half,
            gradients=summed or half,
            masters="F32",
            states="F32",
            compute=half,
            adapters=half,
        )
    if framework == "megatron":
        return PrecisionPolicy(
            weights=half,
            gradients=summed or "F32",
            masters="F32",
            states="F32",
            compute=half,
            adapters=half,
        )
    autocast = framework == "transformers"
    narrow = base_precision == "half" or (adapts and framework == "fsdp")
    weights = half if narrow else "F32"
    trained = "F32" if adapts else weights
    return PrecisionPolicy(
        weights=weights,
        gradients=trained,
        masters=None,
        states=trained,
        compute=half,
        adapters="F32",
        autocast=autocast,
    )
