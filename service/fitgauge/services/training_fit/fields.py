"""Fields of a training request, by topic."""

from typing import Annotated

from msgspec import Meta

from fitgauge.engine.training.workload import (
    Averages,
    BasePrecision,
    GradientFormat,
    Implementation,
    Kernels,
)
from fitgauge.field_docs import doc
from fitgauge.services.common.host_schemas import HostGib
from fitgauge.services.common.schemas import Degree, Text, Tokens
from fitgauge.services.training_fit.shared_fields import SharedFields, Switch


class StepFields(SharedFields, kw_only=True):
    """How a step computes."""

    base_precision: Annotated[
        BasePrecision | None,
        doc(
            "Of what is frozen and not quantized, under mixed precision: half, with adapters in"
            " fp32 (PEFT; default for lora where precision is left out), or fp32 (default)."
            " Of full training: half leaves weights, gradients and states in 16 bit."
        ),
    ] = None
    optimizer_implementation: Annotated[
        Implementation | None,
        doc("foreach (PyTorch's default on CUDA) holds one more copy of the update."),
    ] = None
    optimizer_in_backward: Annotated[
        bool | None, doc("Every parameter steps in the backward pass. Default false.")
    ] = None
    ema: Annotated[
        Averages | None, doc("Where a moving average of the weights is kept. Default none.")
    ] = None
    gradient_dtype: Annotated[
        GradientFormat | None,
        doc(
            "In which gradients are summed. Default: fp32 under megatron and fsdp, 16 bit under"
            " deepspeed."
        ),
    ] = None
    fp8_parameters: Annotated[
        bool | None, doc("Linears' weights are fp8 alone (--fp8-param-gather).")
    ] = None
    kernels: Annotated[
        Kernels | None,
        doc(
            "Fused kernels in layers: Liger's, those of adapters alone (axolotl), Unsloth's."
            " Default none."
        ),
    ] = None
    compile: Annotated[bool | None, doc("torch.compile. Default false.")] = None
    compile_loss: Annotated[
        bool | None,
        doc(
            "With compile: the loss too. Default: as today's tools do, with either within the"
            " interval (torchtitan compiled layers alone until spring 2025)."
        ),
    ] = None
    keeps_output: Annotated[
        bool | None,
        doc(
            "The training loop still names the model's output, its logits, in the backward"
            " pass. Default: the trainer's; true of NeMo Automodel."
        ),
    ] = None
    repeats_keys: Annotated[
        bool | None,
        doc(
            "Attention reads keys and values repeated for every query head. Default: the"
            " trainer's; true of torchtune."
        ),
    ] = None
    lora_dropout: Annotated[
        Annotated[float, Meta(ge=0, le=1)] | None,
        doc(
            "Rate of dropout before adapters: each keeps a mask of what it reads. Default: the"
            " tool's own: 0.05 of TRL (where none is named, and under FSDP and DeepSpeed),"
            " ms-swift and LitGPT, else 0."
        ),
    ] = None
    mean_sequence_length: Annotated[
        Tokens | None,
        doc(
            "Of samples that are not packed and vary, of which sequence_length is the longest:"
            " the allocator reserves more. Default: all are as long."
        ),
    ] = None
    padded: Annotated[
        bool | None,
        doc(
            "Sequences of a micro-batch are padded: attention reads a mask. Default: where"
            " mean_sequence_length is below sequence_length and micro_batch_size above 1."
        ),
    ] = None
    packed: Annotated[
        bool | None,
        doc(
            "Samples are packed, and those of a micro-batch are one row (TRL's packing, bfd):"
            " sdpa and eager read a mask of all of it. Default false."
        ),
    ] = None
    micro_batches: Annotated[
        Annotated[int, Meta(ge=1, le=1_000_000)] | None,
        doc(
            "Forward passes of a step on one rank (gradient accumulation). Default 1; of a"
            " pipeline under FSDP its stages."
        ),
    ] = None


class MemoryFields(StepFields, kw_only=True):
    """What saves memory, and what else takes some."""

    recompute_modules: Annotated[
        Annotated[str, Meta(min_length=1, max_length=120)] | None,
        doc("Megatron's, selective. Default core_attn.", examples=["moe_act,layernorm"]),
    ] = None
    host_memory_gib: HostGib = None
    activation_offload: Annotated[
        bool | None, doc("What layers keep waits in host memory. Default false.")
    ] = None
    expandable_segments: Annotated[
        bool | None, doc("The allocator's. Default: the trainer's; Megatron's true.")
    ] = None
    runtime_gib: Annotated[
        Annotated[float, Meta(ge=0, le=1024)] | None,
        doc(
            "GiB a process holds before its first tensor (CUDA context, libraries), where you"
            " measured it.",
            examples=[1.2],
        ),
    ] = None
    other_memory_gib: Annotated[
        Annotated[float, Meta(ge=0, le=65_536)] | None,
        doc(
            "GiB of each GPU that others hold: a desktop, another process. Default 0.",
            examples=[1.5],
        ),
    ] = None


class ParallelismFields(MemoryFields, kw_only=True):
    """How ranks share the work."""

    zero_hpz_partition_size: Annotated[
        Degree | None,
        doc("ZeRO++: ranks that share a second copy of ZeRO-3's weights. Default 1: none."),
    ] = None
    fsdp_version: Annotated[
        Annotated[int, Meta(ge=1, le=2)] | None, doc("Of FSDP: 2 (default; 1 for adapters) or 1.")
    ] = None
    shard_embeddings: Annotated[
        bool | None, doc("FSDP wraps embedding and head by themselves. Default: the trainer's.")
    ] = None
    sequence_parallel: Annotated[
        bool | None, doc("With tensor parallel: norms and residuals divided too.")
    ] = None
    pipeline_chunks: Annotated[
        Annotated[int, Meta(ge=2, le=64)] | None, doc("Interleaved: chunks of a rank. Default 2.")
    ] = None
    last_stage_layers: Annotated[Degree | None, doc("Megatron. Default: as others, or nearly.")] = (
        None
    )
    expert_tensor_parallel: Annotated[
        Degree | None, doc("Ranks that share an expert. Default: tensor_parallel.")
    ] = None
    data_parallel: Annotated[
        Degree | None, doc("Ranks with data of their own. Default: what the GPUs leave.")
    ] = None
    data_parallel_replicate: Annotated[
        Degree | None, doc("Groups that each hold a whole set of shards (HSDP). Default 1.")
    ] = None


class ImageFields(ParallelismFields, kw_only=True):
    """Images of vision-language models."""

    images: Annotated[
        Annotated[int, Meta(ge=0, le=4096)] | None,
        doc("Images of a sequence. Default: 1 for vision-language models."),
    ] = None
    image_tokens: Annotated[
        Tokens | None,
        doc("Of each, within sequence_length. Default: the tower's, or of 768 x 768 pixels."),
    ] = None
    image_size: Annotated[
        Annotated[str, Meta(pattern=r"^[1-9]\d{0,4}x[1-9]\d{0,4}$", max_length=11)] | None,
        doc("Pixels of each, WIDTHxHEIGHT, in place of image_tokens.", examples=["1024x1024"]),
    ] = None
    train_vision_tower: Annotated[
        bool | None, doc("A frozen tower keeps nothing. Default: true for full.")
    ] = None


class AlgorithmFields(ImageFields, kw_only=True):
    """Preference and RL training."""

    algorithm: Annotated[
        Switch | None,
        doc(
            "sft (default), reward, dpo, kto, orpo, simpo, ppo, grpo, rloo or gkd (distillation).",
            examples=["grpo"],
        ),
    ] = None
    teacher_model: Annotated[
        Text | None,
        doc("Of gkd: the Hub ID of the model that `model` is distilled from, on the same GPUs."),
    ] = None
    reference: Annotated[
        Switch | None,
        doc(
            "The reference model: resident, offloaded, adapter (its base), none. Default: the"
            " trainer's."
        ),
    ] = None
    reward_model: Annotated[
        Text | None,
        doc(
            "Of ppo, grpo and rloo: a Hub ID, policy (its architecture), or none. Default:"
            " policy for ppo."
        ),
    ] = None
    critic_model: Annotated[
        Text | None, doc("Of ppo: a Hub ID or policy (its architecture, the default).")
    ] = None
    group_size: Annotated[
        Annotated[int, Meta(ge=1, le=4096)] | None,
        doc("Completions of one prompt. Default 8 for grpo."),
    ] = None
    prompt_length: Annotated[
        Tokens | None, doc("Tokens of a prompt where completions are sampled. Default 512.")
    ] = None
    completion_length: Annotated[
        Tokens | None, doc("Tokens of a sampled completion. Default 512.")
    ] = None
    rollout_engine: Annotated[
        Switch | None,
        doc(
            "What samples on the same GPUs: vllm, sglang, transformers (trl's default), none:"
            " sampled elsewhere."
        ),
    ] = None
    rollout_memory_utilization: Annotated[
        Annotated[float, Meta(gt=0, le=1)] | None,
        doc("Share of a GPU it may take. Default: 0.3 for trl, else 0.5."),
    ] = None
    rollout_tensor_parallel: Annotated[
        Degree | None, doc("Ranks that share a copy of it. Default: the trainer's.")
    ] = None
    rollout_sleep: Annotated[
        Switch | None,
        doc(
            "While the policy trains: off, level_1 (weights to the host), level_2 (dropped)."
            " Default: the trainer's."
        ),
    ] = None

    def __post_init__(self) -> None:
        """Take a question that names a teacher for one of distillation."""
        if self.teacher_model is not None and self.algorithm is None:
            self.algorithm = "gkd"
