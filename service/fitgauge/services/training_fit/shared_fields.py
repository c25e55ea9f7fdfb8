"""Fields that the requests of check_training_fit and plan_training share, by topic. Structs inherit
in one line, since msgspec takes one base with fields; the wire is flat.

A plan holds what is sent and searches the rest of SEARCHED."""

from typing import Annotated, Literal

from msgspec import Meta, Struct

from fitgauge.engine.training.workload import (
    ActivationRule,
    AttentionKernel,
    Checkpointing,
    Offload,
    Schedule,
)
from fitgauge.field_docs import doc
from fitgauge.services.common.schemas import Degree, Text, Tokens

Switch = Annotated[str, Meta(min_length=1, max_length=60)]
Targets = Annotated[
    list[Annotated[str, Meta(min_length=1, max_length=80)]], Meta(min_length=1, max_length=32)
]
BatchSize = Annotated[int, Meta(ge=1, le=65_536)]
ZeroStage = Annotated[int, Meta(ge=0, le=3)]


class ModelFields(Struct, kw_only=True):
    """What is trained, and on how many GPUs."""

    model: Annotated[
        Text,
        doc(
            "Hugging Face Hub ID, a well-known name, or a size such as 7b.",
            examples=["meta-llama/Llama-3.1-8B"],
        ),
    ]
    gpu_count: Annotated[
        Annotated[int, Meta(ge=1, le=4096)] | None,
        doc(
            "How many GPUs; the larger of this and the count in gpu. Default: what the degrees"
            " make.",
            examples=[8],
        ),
    ] = None


class MethodFields(ModelFields, kw_only=True):
    """What is updated, in which formats, and by which software."""

    method: Annotated[
        Switch | None,
        doc(
            "full, lora, dora or qlora. Default: the first of lora, qlora, full that fits, full"
            " first where the tool trains all weights by itself; of a plan full; any: all.",
            examples=["lora"],
        ),
    ] = None
    precision: Annotated[
        Switch | None,
        doc(
            "mixed_bf16 (default; mixed_fp16 where the GPU has no bf16), bf16, fp32, int8 or fp8.",
            examples=["bf16"],
        ),
    ] = None
    framework: Annotated[
        Switch | None,
        doc(
            "transformers (default), deepspeed, fsdp or megatron; or a tool, whose defaults"
            " then hold (see trainer). A plan searches the last three; for adapters all but"
            " megatron.",
            examples=["unsloth"],
        ),
    ] = None
    trainer: Annotated[
        Switch | None,
        doc(
            "The tool whose defaults hold for what is left out: trl, unsloth, axolotl,"
            " llama-factory, ms-swift, torchtune, torchtitan, litgpt, lightning, nemo,"
            " nemo-automodel, verl or openrlhf. Of an algorithm but sft by default trl, for"
            " its placement alone."
        ),
    ] = None
    trainer_version: Annotated[
        Annotated[str, Meta(pattern=r"^v?\d+([.-]\d+){1,3}", max_length=40)] | None,
        doc(
            "Release or date of the trainer, whose defaults changed: torchtune's in 0.3 and"
            " 0.4, torchtitan's in February and April 2025 and April 2026. Default: today's.",
            examples=["2024-09"],
        ),
    ] = None
    transformers_version: Annotated[
        Annotated[str, Meta(pattern=r"^v?\d+(\.\d+){1,3}", max_length=40)] | None,
        doc(
            "Release of transformers, whose loss held more before 4.49, and which from 5.0 on"
            " puts a bitsandbytes base whole on every GPU before it is sharded. Default:"
            " today's, with older losses within the interval.",
            examples=["4.48.1"],
        ),
    ] = None


class AdapterFields(MethodFields, kw_only=True):
    """Adapters and the frozen base under them."""

    lora_rank: Annotated[
        Annotated[int, Meta(ge=1, le=8192)] | None, doc("Rank of the adapters. Default 16.")
    ] = None
    lora_targets: Annotated[
        Switch | Targets | None,
        doc("attention, all_linear (default), or a list of module names such as q_proj."),
    ] = None
    quantization: Annotated[
        Text | None,
        doc(
            "Of a frozen base: nf4 (qlora's default), nf4_double, fp4, int8, gptq, awq; a"
            " quantized checkpoint's own."
        ),
    ] = None
    quantize_experts: Annotated[
        bool | None,
        doc(
            "Experts of a bitsandbytes base are quantized too (Unsloth; axolotl's"
            " quantize_moe_experts). Default false."
        ),
    ] = None
    lora_experts: Annotated[
        bool | None,
        doc(
            "Adapters on routed experts too, of the linears in lora_targets; PEFT has none with"
            " dropout or DoRA. Default: the trainer's; true of Unsloth."
        ),
    ] = None
    fused_experts: Annotated[
        bool | None,
        doc(
            "Quantized experts of a layer are one parameter, dequantized whole in each pass."
            " Default: the trainer's; true of axolotl."
        ),
    ] = None


class SequenceFields(AdapterFields, kw_only=True):
    """What goes through the model."""

    sequence_length: Annotated[
        Tokens | None, doc("Tokens of one sequence. Default 2048.", examples=[4096])
    ] = None
    micro_batch_size: Annotated[
        BatchSize | None,
        doc(
            "Sequences of one forward pass on one rank. Default 1; of a plan the largest that"
            " fits, 1 in a pipeline."
        ),
    ] = None
    loss: Annotated[
        Literal["full", "chunked", "chunked_backward", "recomputed", "fused", "in_place", "none"]
        | None,
        doc(
            "recomputed: in chunks, twice (default); chunked; chunked_backward (torchtitan"
            " since April 2026, else within its interval); full: whole logits (default of a"
            " named framework); in_place: and their gradient; fused (Liger); none: classes in"
            " place of words (default of encoders)."
        ),
    ] = None
    activation_checkpointing: Annotated[
        Checkpointing | None,
        doc(
            "full (default; megatron none; of a plan the least that fits) keeps layers' inputs;"
            " selective products."
        ),
    ] = None
    attention: Annotated[
        AttentionKernel | None,
        doc(
            "eager keeps its scores; sdpa (default), flash and flex (PyTorch's flex_attention,"
            " on GPUs without FlashAttention-2 too) do not."
        ),
    ] = None
    activation_rule: Annotated[
        ActivationRule | None,
        doc(
            "recipe (default): what autograd keeps, tensor by tensor. Rules of thumb: 34sbh (+"
            " 5as^2b with eager), 40shl (default of a size under megatron), widths: (h + i)sL"
            " (of a size in int8)."
        ),
    ] = None


class DegreeFields(SequenceFields, kw_only=True):
    """How ranks share the work; a plan searches what is left out."""

    zero_stage: Annotated[
        ZeroStage | None,
        doc(
            "ZeRO divides: 1 states, 2 gradients, 3 parameters. FSDP: 3 frees what it gathered,"
            " 2 keeps it."
        ),
    ] = None
    tensor_parallel: Annotated[
        Degree | None, doc("Ranks that share every layer. Default 1; of a plan searched, up to 8.")
    ] = None
    pipeline_parallel: Annotated[
        Degree | None, doc("Stages the layers are spread over. Default 1; of a plan searched.")
    ] = None
    context_parallel: Annotated[
        Degree | None,
        doc("Ranks that share every sequence. Default 1; of a plan searched beyond 16384 tokens."),
    ] = None
    expert_parallel: Annotated[
        Degree | None,
        doc("Ranks the experts are spread over. Default 1; of a plan of a mixture searched."),
    ] = None


class DataFields(DegreeFields, kw_only=True):
    """How much data the run has, and how fast it is read."""

    samples: Annotated[
        Annotated[int, Meta(ge=1, le=1_000_000_000_000)] | None,
        doc(
            "Samples of the data set: adds `run`, the time and cost of the training. Default:"
            " those of lengths.",
            examples=[50_000],
        ),
    ] = None
    epochs: Annotated[
        Annotated[float, Meta(ge=1e-6, le=10_000)] | None,
        doc("Passes over the samples. Default 1.", examples=[3]),
    ] = None
    token_budget: Annotated[
        Annotated[float, Meta(ge=1, le=1e18)] | None,
        doc("Training tokens, instead of samples and epochs.", examples=[1e9]),
    ] = None
    mfu: Annotated[
        Annotated[float, Meta(ge=1e-6, le=1)] | None,
        doc(
            "Model FLOPs utilization you measured, for the time. Default: that of published"
            " runs, an interval.",
            examples=[0.4],
        ),
    ] = None


class SharedFields(DataFields, kw_only=True):
    """The optimizer, host memory, the order of a pipeline, and the price."""

    optimizer: Annotated[
        Switch | None,
        doc(
            "adamw (default), adamw_8bit, paged_adamw, adamw_bf16, adafactor, lion, muon, sgd,"
            " sgd_momentum, galore, lomo."
        ),
    ] = None
    offload: Annotated[Offload | None, doc("What lives in host memory. Default none.")] = None
    pipeline_schedule: Annotated[Schedule | None, doc("Order of micro-batches. Default 1f1b.")] = (
        None
    )
    price_per_gpu_hour: Annotated[
        Annotated[float, Meta(ge=0, le=1e6)] | None,
        doc(
            "What one GPU costs an hour [USD]. Default: for `run` the catalog's price, else none.",
            examples=[2.5],
        ),
    ] = None


SEARCHED = frozenset({
    "gpu_count", "framework", "micro_batch_size", "activation_checkpointing", "zero_stage",
    "tensor_parallel", "pipeline_parallel", "pipeline_schedule", "context_parallel",
    "expert_parallel",
})  # fmt: skip
"""Fields that a plan searches where they are left out."""
