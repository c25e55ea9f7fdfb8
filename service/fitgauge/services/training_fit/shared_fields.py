"""Fields that the requests of check_training_fit and plan_training share, by topic. Structs inherit
in one line, since msgspec takes one base with fields; the wire is flat."""

from typing import Annotated

from msgspec import Meta, Struct

from fitgauge.engine.training.workload import ActivationRule, AttentionKernel, Offload, Schedule
from fitgauge.services.common.schemas import Text, Tokens

Switch = Annotated[str, Meta(min_length=1, max_length=60)]
Targets = Annotated[
    list[Annotated[str, Meta(min_length=1, max_length=80)]], Meta(min_length=1, max_length=32)
]
BatchSize = Annotated[int, Meta(ge=1, le=65_536)]
ZeroStage = Annotated[int, Meta(ge=0, le=3)]


class ModelFields(Struct, kw_only=True):
    """What is trained, and on what."""

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


class AdapterFields(ModelFields, kw_only=True):
    """Adapters and the frozen base under them."""

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
    quantize_experts: Annotated[
        bool | None,
        Meta(
            description=(
                "Experts of a bitsandbytes base are quantized too (Unsloth; axolotl's"
                " quantize_moe_experts). Default false."
            )
        ),
    ] = None


class SequenceFields(AdapterFields, kw_only=True):
    """What goes through the model."""

    sequence_length: Annotated[
        Tokens | None, Meta(description="Tokens of one sequence. Default 2048.", examples=[4096])
    ] = None
    attention: Annotated[
        AttentionKernel | None,
        Meta(description="eager keeps its scores; sdpa (default) and flash do not."),
    ] = None
    activation_rule: Annotated[
        ActivationRule | None,
        Meta(
            description=(
                "recipe (default): what autograd keeps, tensor by tensor. Rules of thumb: 34sbh (+"
                " 5as^2b with eager), 40shl (default of a size under megatron), widths: (h + i)sL"
                " (of a size in int8)."
            )
        ),
    ] = None


class SharedFields(SequenceFields, kw_only=True):
    """The optimizer, host memory, and the order of a pipeline."""

    optimizer: Annotated[
        Switch | None,
        Meta(
            description=(
                "adamw (default), adamw_8bit, paged_adamw, adamw_bf16, adafactor, lion, muon, sgd,"
                " sgd_momentum, galore, lomo."
            )
        ),
    ] = None
    offload: Annotated[
        Offload | None,
        Meta(description="What lives in host memory. Default none."),
    ] = None
    pipeline_schedule: Annotated[
        Schedule | None,
        Meta(description="Order of micro-batches. Default 1f1b."),
    ] = None
