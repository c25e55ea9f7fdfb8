"""The contract of training questions: what callers send and what they get."""

from typing import Annotated, Literal

from msgspec import UNSET, Meta, Struct, UnsetType

from fitgauge.engine.quantity import Bytes
from fitgauge.engine.training.phases import PhaseName
from fitgauge.services.common.schemas import (
    Degree,
    GpuAnswer,
    Launch,
    Limits,
    ModelAnswer,
    RankAnswer,
    Suggestion,
    TermAnswer,
    Text,
    Tokens,
    Verdict,
)

Switch = Annotated[str, Meta(min_length=1, max_length=60)]
Targets = Annotated[
    list[Annotated[str, Meta(min_length=1, max_length=80)]], Meta(min_length=1, max_length=32)
]


class TrainingRequest(Struct, kw_only=True, forbid_unknown_fields=True):
    """Will this model fit on this GPU when it is trained? Only `model` and `gpu` are needed."""

    model: Annotated[
        Text,
        Meta(
            description="Hugging Face Hub ID, a well-known name, or a size such as 7b.",
            examples=["meta-llama/Llama-3.1-8B"],
        ),
    ]
    gpu: Annotated[
        Text,
        Meta(
            description="The accelerator as people write it, or a memory size: 80GB.",
            examples=["A100 80GB"],
        ),
    ]
    gpu_count: Annotated[
        Annotated[int, Meta(ge=1, le=4096)] | None,
        Meta(description="How many of them. Default: what the degrees make.", examples=[8]),
    ] = None
    method: Annotated[
        Switch | None, Meta(description="full (default), lora, dora or qlora.", examples=["lora"])
    ] = None
    lora_rank: Annotated[
        Annotated[int, Meta(ge=1, le=8192)] | None,
        Meta(description="Rank of the adapters. Default 16."),
    ] = None
    lora_targets: Annotated[
        Switch | Targets | None,
        Meta(
            description="attention, all_linear (default), or a list of module names such as q_proj."
        ),
    ] = None
    quantization: Annotated[
        Text | None,
        Meta(description="Of a frozen base: nf4 (qlora's default), nf4_double, fp4, int8, gptq."),
    ] = None
    precision: Annotated[
        Switch | None,
        Meta(
            description=(
                "mixed_bf16 (default; bf16 for lora, mixed_fp16 where the card has no bf16), bf16,"
                " fp32, int8 or fp8."
            ),
            examples=["bf16"],
        ),
    ] = None
    framework: Annotated[
        Switch | None,
        Meta(
            description=(
                "transformers (default), deepspeed, fsdp or megatron; or the tool, whose defaults"
                " then hold: see trainer."
            ),
            examples=["unsloth"],
        ),
    ] = None
    optimizer: Annotated[
        Switch | None,
        Meta(
            description=(
                "adamw (default), adamw_8bit, paged_adamw, adamw_bf16, adafactor, lion, muon, sgd,"
                " sgd_momentum, galore, lomo."
            )
        ),
    ] = None
    optimizer_implementation: Annotated[
        Literal["foreach", "fused", "for_loop"] | None,
        Meta(description="foreach (PyTorch's default on CUDA) holds one more copy of the update."),
    ] = None
    loss: Annotated[
        Literal["full", "chunked", "recomputed", "fused", "in_place"] | None,
        Meta(
            description=(
                "full (default): whole logits; in_place: their gradient too; chunked; recomputed:"
                " chunked, and made again (TRL); fused with the head (Liger)."
            )
        ),
    ] = None
    sequence_length: Annotated[
        Tokens | None, Meta(description="Tokens of one sequence. Default 2048.", examples=[4096])
    ] = None
    micro_batch_size: Annotated[
        Annotated[int, Meta(ge=1, le=65_536)] | None,
        Meta(description="Sequences of one forward pass on one rank. Default 1."),
    ] = None
    micro_batches: Annotated[
        Annotated[int, Meta(ge=1, le=1_000_000)] | None,
        Meta(
            description=(
                "Forward passes of a step on one rank (gradient accumulation). Default 1; of a"
                " pipeline under FSDP its stages."
            )
        ),
    ] = None
    activation_checkpointing: Annotated[
        Literal["none", "selective", "full"] | None,
        Meta(description="none (default); selective keeps products; full keeps layers' inputs."),
    ] = None
    attention: Annotated[
        Literal["eager", "sdpa", "flash"] | None,
        Meta(description="eager keeps its scores; sdpa (default) and flash do not."),
    ] = None
    activation_rule: Annotated[
        Literal["recipe", "34sbh", "40shl", "widths"] | None,
        Meta(
            description=(
                "recipe (default): what autograd keeps, tensor by tensor. Rules of thumb: 34sbh (+"
                " 5as^2b with eager), 40shl (default of a size under megatron), widths: (h + i)sL"
                " (of a size in int8)."
            )
        ),
    ] = None
    zero_stage: Annotated[
        Annotated[int, Meta(ge=0, le=3)] | None,
        Meta(
            description=(
                "ZeRO divides: 1 states, 2 gradients, 3 parameters. FSDP: 3 frees what it gathered,"
                " 2 keeps it."
            )
        ),
    ] = None
    offload: Annotated[
        Literal["none", "optimizer", "parameters", "cpu", "nvme"] | None,
        Meta(description="What lives in host memory. Default none."),
    ] = None
    tensor_parallel: Annotated[
        Degree | None, Meta(description="Ranks that share every layer. Default 1.")
    ] = None
    sequence_parallel: Annotated[
        bool | None, Meta(description="With tensor parallel: norms and residuals divided too.")
    ] = None
    pipeline_parallel: Annotated[
        Degree | None, Meta(description="Stages the layers are spread over. Default 1.")
    ] = None
    pipeline_schedule: Annotated[
        Literal["1f1b", "gpipe", "interleaved", "zero_bubble"] | None,
        Meta(description="Order of micro-batches. Default 1f1b."),
    ] = None
    pipeline_chunks: Annotated[
        Annotated[int, Meta(ge=2, le=64)] | None,
        Meta(description="Interleaved: chunks of a rank. Default 2."),
    ] = None
    last_stage_layers: Annotated[
        Degree | None, Meta(description="Megatron. Default: as others, or nearly.")
    ] = None
    recompute_modules: Annotated[
        Annotated[str, Meta(min_length=1, max_length=120)] | None,
        Meta(
            description="Megatron's, selective. Default core_attn.", examples=["moe_act,layernorm"]
        ),
    ] = None
    context_parallel: Annotated[
        Degree | None, Meta(description="Ranks that share every sequence. Default 1.")
    ] = None
    expert_parallel: Annotated[
        Degree | None, Meta(description="Ranks the experts are spread over. Default 1.")
    ] = None
    expert_tensor_parallel: Annotated[
        Degree | None, Meta(description="Ranks that share an expert. Default: tensor_parallel.")
    ] = None
    data_parallel: Annotated[
        Degree | None,
        Meta(description="Ranks with data of their own. Default: what the GPUs leave."),
    ] = None
    data_parallel_replicate: Annotated[
        Degree | None,
        Meta(description="Groups that each hold a whole set of shards (HSDP). Default 1."),
    ] = None
    zero_hpz_partition_size: Annotated[
        Degree | None,
        Meta(
            description=(
                "ZeRO++: ranks that share a second copy of ZeRO-3's weights. Default 1: none."
            )
        ),
    ] = None
    ema: Annotated[
        Literal["none", "device", "host"] | None,
        Meta(description="Where a moving average of the weights is kept. Default none."),
    ] = None
    fp8_parameters: Annotated[
        bool | None,
        Meta(description="Linears' weights are fp8 alone (--fp8-param-gather)."),
    ] = None
    gradient_dtype: Annotated[
        Literal["fp32", "bf16"] | None,
        Meta(
            description=(
                "In which gradients are summed. Default: fp32 under megatron and fsdp, 16 bit under"
                " deepspeed."
            )
        ),
    ] = None
    images: Annotated[
        Annotated[int, Meta(ge=0, le=4096)] | None,
        Meta(description="Images of a sequence. Default: 1 for vision-language models."),
    ] = None
    image_tokens: Annotated[
        Tokens | None,
        Meta(
            description=(
                "Of each, within sequence_length. Default: the tower's, or of 768 x 768 pixels."
            )
        ),
    ] = None
    train_vision_tower: Annotated[
        bool | None, Meta(description="A frozen tower keeps nothing. Default: true for full.")
    ] = None
    algorithm: Annotated[
        Switch | None,
        Meta(
            description="sft (default), reward, dpo, kto, orpo, simpo, ppo, grpo or rloo.",
            examples=["grpo"],
        ),
    ] = None
    trainer: Annotated[
        Switch | None,
        Meta(
            description=(
                "The tool whose defaults hold for what is left out: trl, unsloth, axolotl,"
                " llama-factory, ms-swift, torchtune, torchtitan, litgpt, lightning, nemo, verl or"
                " openrlhf. Of an algorithm but sft by default trl, for its placement alone."
            )
        ),
    ] = None
    reference: Annotated[
        Switch | None,
        Meta(
            description=(
                "The reference model: resident, offloaded, adapter (its base), none. Default: the"
                " trainer's."
            )
        ),
    ] = None
    reward_model: Annotated[
        Text | None,
        Meta(
            description=(
                "Of ppo, grpo and rloo: a Hub ID, policy (its architecture), or none. Default:"
                " policy for ppo."
            )
        ),
    ] = None
    critic_model: Annotated[
        Text | None, Meta(description="Of ppo: a Hub ID or policy (its architecture, the default).")
    ] = None
    group_size: Annotated[
        Annotated[int, Meta(ge=1, le=4096)] | None,
        Meta(description="Completions of one prompt. Default 8 for grpo."),
    ] = None
    prompt_length: Annotated[
        Tokens | None,
        Meta(description="Tokens of a prompt where completions are sampled. Default 512."),
    ] = None
    completion_length: Annotated[
        Tokens | None, Meta(description="Tokens of a sampled completion. Default 512.")
    ] = None
    rollout_engine: Annotated[
        Switch | None,
        Meta(
            description=(
                "What samples on the same GPUs: vllm, sglang, transformers (trl's default), none:"
                " sampled elsewhere."
            )
        ),
    ] = None
    rollout_memory_utilization: Annotated[
        Annotated[float, Meta(gt=0, le=1)] | None,
        Meta(description="Share of a GPU it may take. Default: 0.3 for trl, else 0.5."),
    ] = None
    rollout_tensor_parallel: Annotated[
        Degree | None, Meta(description="Ranks that share a copy of it. Default: the trainer's.")
    ] = None
    rollout_sleep: Annotated[
        Switch | None,
        Meta(
            description=(
                "While the policy trains: off, level_1 (weights to the host), level_2 (dropped)."
                " Default: the trainer's."
            )
        ),
    ] = None
    fsdp_version: Annotated[
        Annotated[int, Meta(ge=1, le=2)] | None,
        Meta(description="Of FSDP: 2 (default; 1 for adapters) or 1."),
    ] = None
    shard_embeddings: Annotated[
        bool | None,
        Meta(description="FSDP wraps embedding and head by themselves. Default: the trainer's."),
    ] = None
    compile: Annotated[bool | None, Meta(description="torch.compile. Default false.")] = None
    expandable_segments: Annotated[
        bool | None, Meta(description="The allocator's. Default: the trainer's; Megatron's true.")
    ] = None
    activation_offload: Annotated[
        bool | None, Meta(description="What layers keep waits in host memory. Default false.")
    ] = None
    base_precision: Annotated[
        Literal["half", "fp32"] | None,
        Meta(
            description=(
                "Of what is frozen and not quantized, under mixed precision: half, with adapters in"
                " fp32 (PEFT), or fp32 (default)."
            )
        ),
    ] = None
    quantize_experts: Annotated[
        bool | None,
        Meta(
            description=(
                "Experts of a bitsandbytes base are quantized too (Unsloth; axolotl's"
                " quantize_moe_experts). Default false."
            )
        ),
    ] = None
    kernels: Annotated[
        Literal["none", "liger", "lora", "unsloth"] | None,
        Meta(
            description=(
                "Fused kernels in layers: Liger's, those of adapters alone (axolotl), Unsloth's."
                " Default none."
            )
        ),
    ] = None
    runtime_gib: Annotated[
        Annotated[float, Meta(ge=0, le=1024)] | None,
        Meta(
            description=(
                "GiB a process holds before its first tensor (CUDA context, libraries), where you"
                " measured it."
            ),
            examples=[1.2],
        ),
    ] = None
    other_memory_gib: Annotated[
        Annotated[float, Meta(ge=0, le=65_536)] | None,
        Meta(
            description="GiB of each GPU that others hold: a desktop, another process. Default 0.",
            examples=[1.5],
        ),
    ] = None
    optimizer_in_backward: Annotated[
        bool | None, Meta(description="Every parameter steps in the backward pass. Default false.")
    ] = None
    detail: Annotated[
        Literal["summary", "full"] | None,
        Meta(
            description="summary (default): the answer. full: every formula, source and stage too."
        ),
    ] = None


class TrainingPerGpu(Struct, kw_only=True):
    """Memory of the fullest GPU [bytes]."""

    usable_bytes: Annotated[
        int, Meta(description="What a process can really take, not what the box says.")
    ]
    required_bytes: Annotated[
        Bytes,
        Meta(
            description=(
                "The device's own view: PyTorch's, what its allocator holds, and the process."
            )
        ),
    ]
    allocated_bytes: Annotated[
        Bytes, Meta(description="What torch.cuda.max_memory_allocated would say.")
    ]
    reserved_bytes: Annotated[
        Bytes, Meta(description="What torch.cuda.max_memory_reserved would say.")
    ]
    headroom_bytes: Annotated[
        int,
        Meta(
            description=(
                "usable_bytes less what it needs at the least (fragmentation given back); negative"
                " where it does not fit."
            )
        ),
    ]
    rank: int
    host_bytes: Annotated[int, Meta(description="Host memory of one rank for what is offloaded.")]
    nvme_bytes: Annotated[int, Meta(description="NVMe of one rank, with offload nvme.")]


class PhaseAnswer(Struct, kw_only=True):
    """One phase of a step: the most its tensors take."""

    name: PhaseName
    bytes: Annotated[
        int, Meta(description="Tensors of all models, and what a rollout engine holds on the card.")
    ]
    terms: Annotated[
        list[TermAnswer] | UnsetType,
        Meta(description="Of what it is the sum; where an algorithm has several models."),
    ] = UNSET


class SavedTensor(Struct, kw_only=True):
    """A tensor that autograd keeps for the backward pass, each storage once."""

    name: Annotated[str, Meta(description="What makes it.")]
    read_by: Annotated[str, Meta(description="The first operation whose backward reads it.")]
    shape: list[int]
    dtype: Literal["fp32", "bf16", "fp16", "fp8", "int8", "int64", "bool"]
    bytes: int


class SavedSegment(Struct, kw_only=True):
    """What one part of the model saves on one rank, for one micro-batch."""

    name: Annotated[str, Meta(description="embedding, the prefix of layers made alike, or head.")]
    layers: Annotated[
        list[int],
        Meta(description="Numbers of the layers that save the same; empty for embedding and head."),
    ]
    bytes: Annotated[
        int,
        Meta(
            description=(
                "Of one of them. Under checkpointing: what its recomputation makes; with compile:"
                " what the compiler chooses from."
            )
        ),
    ]
    tensors: list[SavedTensor]


class TrainingAnswer(Struct, kw_only=True):
    """The verdict, the evidence, and what to do instead."""

    verdict: Verdict
    summary: Annotated[str, Meta(description="One or two sentences a person can act on.")]
    fit_probability: Annotated[
        float | None, Meta(description="How likely it fits, 0 to 1; null where unsupported.")
    ]
    model: ModelAnswer
    gpu: GpuAnswer
    per_gpu: TrainingPerGpu
    terms: list[TermAnswer]
    phases: list[PhaseAnswer]
    limits: Limits
    suggestions: list[Suggestion]
    warnings: list[str]
    understood_as: Annotated[
        dict[str, str | int | float | bool],
        Meta(description="The question with every default filled in."),
    ]
    launch: Launch
    checkpoint_bytes: Annotated[
        int,
        Meta(
            description=(
                "Disk for one checkpoint to resume from: trained weights, masters, optimizer"
                " states, of all ranks."
            )
        ),
    ]
    ranks: list[RankAnswer] | UnsetType = UNSET
    saved: Annotated[
        list[SavedSegment] | UnsetType,
        Meta(
            description="With detail full: every tensor the backward pass waits for, part by part."
        ),
    ] = UNSET
