"""What is trained and how: a training question with every default filled in."""

from typing import Literal

import msgspec

Method = Literal["full", "lora", "dora", "qlora"]
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
    "full", "chunked", "recomputed", "fused", "in_place", "log_probs", "log_probs_in_place", "none"
]
"""log_probs: of the tokens that were sampled, as preference and RL training take them (in place:
verl's kernel); none: a score head."""
Checkpointing = Literal["none", "selective", "full"]
AttentionKernel = Literal["eager", "sdpa", "flash"]
Offload = Literal["none", "optimizer", "parameters", "cpu", "nvme"]
Averages = Literal["none", "device", "host"]
GradientFormat = Literal["fp32", "bf16"]
Schedule = Literal["1f1b", "gpipe", "interleaved", "zero_bubble"]
ActivationRule = Literal["recipe", "34sbh", "40shl", "widths"]
"""recipe: what autograd keeps, tensor by tensor; the others are rules of thumb (coarse.py)."""
Kernels = Literal["none", "liger", "lora", "unsloth"]
"""liger: norms, rotation, gates in one kernel each; lora: linears with their adapters (axolotl);
unsloth: all these (recipes/fused.py)."""
Targets = Literal["attention", "all_linear"] | tuple[str, ...]


class TrainingWorkload(msgspec.Struct, frozen=True, kw_only=True):
    """A training question in numbers.

    `sequence_length`: tokens of one sequence; `micro_batch_size`: sequences of one forward pass
    on one rank. `lora_rank`, `lora_targets`: of adapters (a tuple holds names of modules);
    `quantization`: of a frozen base, by its name in `what_if`. `zero_stage`: 0-3; for FSDP 3 =
    parameters freed after the forward pass, 2 = kept. Degrees: tensor x pipeline x context x
    data parallel is the number of GPUs; `expert_tensor_parallel`: see `expert_ways`, which fills
    it in; `data_parallel_replicate`: groups that each hold a whole set of shards;
    `zero_hpz_partition_size`: ranks over which ZeRO++ cuts a second copy of the weights, 1 =
    off. `micro_batches`: of one step of a pipeline, per data-parallel rank. `pipeline_chunks`:
    pieces of a rank's layers under the interleaved schedule; `last_stage_layers`: see
    pipeline.py, split. `logits_tokens`: of every sequence, whose logits are made; None for all.
    `fsdp_version`: 1 (FullyShardedDataParallel) or 2 (fully_shard); `shard_embeddings`:
    embedding and head are units of their own, not the root's. `compiled`: torch.compile'd layers
    and loss; `expandable_segments`: see `segments_grow`; `activation_offload`: what layers keep
    goes to the host between the passes; `optimizer_in_backward`: every parameter steps when its
    gradient is there. `images`: of every sequence, each of which takes `image_tokens` of it;
    `train_vision_tower`: with adapters, the tower and its projector have some too; without it a
    tower is frozen, not its projector. `ema`: where a moving average of the trained weights is
    kept; `fp8_parameters`: linears' weights are fp8 and have no 16-bit copy. `gradient_dtype`:
    in which gradients are summed over micro-batches and ranks, None as the framework does.
    `activation_rule`: None leaves it to the model (coarse.py, rule_of); `runtime_bytes`: what
    the process holds before its first tensor, where somebody measured it. `half_base`: under
    autocast a frozen base stays in 16 bit, with adapters in fp32 beside it (PEFT,
    autocast_adapter_dtype); else all but what is quantized is fp32. `kernels`: whose fused
    kernels layers run in the place of transformers' modelling code. `quantized_experts`: a
    bitsandbytes base has its experts in that format too. `recompute_modules`: Megatron's, see
    `recomputed_modules`."""

    method: Method = "full"
    framework: Framework = "transformers"
    precision: Precision = "mixed_bf16"
    optimizer: Optimizer = "adamw"
    optimizer_implementation: Implementation = "foreach"
    loss: Loss = "full"
    activation_checkpointing: Checkpointing = "none"
    attention: AttentionKernel = "sdpa"
    sequence_length: int
    micro_batch_size: int = 1
    lora_rank: int = 16
    lora_targets: Targets = "all_linear"
    quantization: str | None = None
    zero_stage: int = 0
    offload: Offload = "none"
    tensor_parallel: int = 1
    sequence_parallel: bool = False
    pipeline_parallel: int = 1
    pipeline_schedule: Schedule = "1f1b"
    pipeline_chunks: int = 2
    last_stage_layers: int | None = None
    micro_batches: int = 1
    context_parallel: int = 1
    expert_parallel: int = 1
    expert_tensor_parallel: int | None = None
    data_parallel: int = 1
    data_parallel_replicate: int = 1
    zero_hpz_partition_size: int = 1
    logits_tokens: int | None = None
    fsdp_version: int = 2
    shard_embeddings: bool = False
    compiled: bool = False
    expandable_segments: bool | None = None
    activation_offload: bool = False
    optimizer_in_backward: bool = False
    ema: Averages = "none"
    fp8_parameters: bool = False
    gradient_dtype: GradientFormat | None = None
    images: int = 0
    image_tokens: int = 0
    train_vision_tower: bool = True
    activation_rule: ActivationRule | None = None
    runtime_bytes: int | None = None
    recompute_modules: tuple[str, ...] = ()
    quantized_experts: bool = False
    half_base: bool = False
    kernels: Kernels = "none"

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
    def adapted(self) -> bool:
        """Whether the base is frozen and adapters are trained beside it."""
        return self.method != "full"

    @property
    def base_quantization(self) -> str | None:
        """The format of a quantized frozen base: as asked, nf4 under QLoRA; None where the base
        is trained or not quantized."""
        return (
            (self.quantization or ("nf4" if self.method == "qlora" else None))
            if self.adapted
            else None
        )

    @property
    def expert_ways(self) -> int:
        """Ranks that share every expert: as many as asked, else those that share every layer, or
        one where expert-parallel groups reach over them.

        Megatron divides tensor x context x data parallel ranks among experts again, by
        --expert-tensor-parallel-size, which it takes from --tensor-model-parallel-size
        (megatron/core/parallel_state.py, expert groups); ms-swift's is 1 (megatron/arguments).
        """
        if self.expert_tensor_parallel is not None:
            return self.expert_tensor_parallel
        reaches_over = (
            self.framework == "megatron"
            and self.data_parallel * self.context_parallel % self.expert_parallel
        )
        return 1 if reaches_over else self.tensor_parallel

    @property
    def dtensor(self) -> bool:
        """Whether tensor parallelism is PyTorch's own (torch.distributed.tensor)."""
        return self.framework in ("transformers", "fsdp")

    @property
    def segments_grow(self) -> bool:
        """Whether the allocator's segments grow: as asked, else under Megatron, whose scripts
        set it (ms-swift examples/train/megatron)."""
        return (
            self.framework == "megatron"
            if self.expandable_segments is None
            else self.expandable_segments
        )

    @property
    def steps_early(self) -> bool:
        """Whether no gradient outlives the backward pass of its layer."""
        return self.optimizer == "lomo" or self.optimizer_in_backward

    @property
    def mixed(self) -> bool:
        """Whether it computes in another format than it keeps its weights or masters in."""
        return self.precision in ("mixed_bf16", "mixed_fp16", "fp8")

    @property
    def tokens(self) -> int:
        """Tokens of one micro-batch."""
        return self.sequence_length * self.micro_batch_size


def recomputed_modules(workload: TrainingWorkload) -> tuple[str, ...]:
    """Return the modules of a layer that Megatron runs again under selective checkpointing:
    those asked for, else core attention (megatron/core/transformer/transformer_config.py,
    recompute_modules)."""
    if workload.framework != "megatron" or workload.activation_checkpointing != "selective":
        return ()
    return workload.recompute_modules or ("core_attn",)


class PrecisionPolicy(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """In which format a framework keeps what [canonical dtypes]; None where there is no such copy.

    `weights`: what the forward pass reads; `gradients`: what is kept of them between backward
    pass and step; `masters`: a second, wider copy of trained weights; `states`: each of the
    optimizer's; `compute`: products are made in; `adapters`: trained low-rank matrices;
    `autocast`: weights are cast for every product (and the casts live until the autocast region
    ends)."""

    weights: str
    gradients: str
    masters: str | None
    states: str
    compute: str
    adapters: str
    autocast: bool = False


def precision_policy(workload: TrainingWorkload) -> PrecisionPolicy:
    """Return the formats of a framework in a precision.

    transformers: fp32 weights under torch.autocast (Trainer's bf16/fp16; a frozen base may stay
    in 16 bit). deepspeed: 16-bit weights and gradients, fp32 masters and states (ZeRO, arXiv
    1910.02054, section 3.1: 2 + 2 + 12). megatron: 16-bit weights, fp32 main_grad, masters and
    states (2 + 4 + 12; megatron/core/distributed/param_and_grad_buffer.py). fsdp: fp32 shards
    gathered in 16 bit (torch.distributed.fsdp MixedPrecisionPolicy); a frozen base stays in 16
    bit (accelerate utils/fsdp_utils.py and accelerator.py: only what requires a gradient is made
    fp32). bf16, fp32: everything in that format; DeepSpeed's bf16 keeps fp32 masters and states
    all the same (deepspeed/runtime/bf16_optimizer.py, zero/stage3.py). int8: everything in one
    byte. Where gradient_dtype says otherwise: Megatron's main_grad (--grad-reduce-in-bf16),
    DeepSpeed's gradients (grad_accum_dtype); FSDP's stay as wide as its shards."""
    summed = (
        None
        if workload.gradient_dtype is None
        else {"fp32": "F32", "bf16": "BF16"}[workload.gradient_dtype]
    )
    half = "F16" if workload.precision == "mixed_fp16" else "BF16"
    if workload.precision == "int8":
        return PrecisionPolicy(
            weights="I8", gradients="I8", masters=None, states="I8", compute="I8", adapters="I8"
        )
    if workload.precision == "fp32" or (
        workload.precision == "bf16" and workload.framework != "deepspeed"
    ):
        form = "BF16" if workload.precision == "bf16" else "F32"
        return PrecisionPolicy(
            weights=form, gradients=form, masters=None, states=form, compute=form, adapters=form
        )
    if workload.framework == "deepspeed":
        return PrecisionPolicy(
            weights=half,
            gradients=summed or half,
            masters="F32",
            states="F32",
            compute=half,
            adapters=half,
        )
    if workload.framework == "megatron":
        return PrecisionPolicy(
            weights=half,
            gradients=summed or "F32",
            masters="F32",
            states="F32",
            compute=half,
            adapters=half,
        )
    autocast = workload.framework == "transformers"
    weights = (
        half if workload.adapted and (workload.framework == "fsdp" or workload.half_base) else "F32"
    )
    return PrecisionPolicy(
        weights=weights,
        gradients="F32",
        masters=None,
        states="F32",
        compute=half,
        adapters="F32",
        autocast=autocast,
    )
