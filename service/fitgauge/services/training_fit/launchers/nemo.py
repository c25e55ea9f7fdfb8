"""NeMo: Megatron-Bridge, whose settings Megatron-LM's command has, and Automodel, which trains
transformers' models by recipes of its own."""

from fitgauge.services.training_fit.launchers.tool import ADAPTERS, Default, Tool

NEMO = Tool(
    name="nemo",
    title="NeMo",
    version="Megatron-Bridge, main of August 2026",
    writer="megatron",
    framework="megatron",
    aliases=("nemoframework", "megatronbridge"),
    defaults=(
        Default("precision", "mixed_bf16",
            "src/megatron/bridge/recipes/common.py, mixed_precision: bf16_mixed"),
        Default("activation_checkpointing", "none",
            "src/megatron/bridge/recipes/llama/h100/llama3.py, recompute_granularity: None"),
        Default("lora_rank", 32, "src/megatron/bridge/recipes/common.py, LoRA: dim", ADAPTERS),
    ),
)  # fmt: skip
AUTOMODEL = Tool(
    name="nemo-automodel",
    title="NeMo Automodel",
    version="main of August 2026",
    writer="other",
    framework="transformers",
    framework_on_several="fsdp",
    aliases=("automodel",),
    defaults=(
        Default("precision", "bf16",
            "nemo_automodel/_transformers/auto_model.py, torch_dtype: the checkpoint's"),
        Default("kernels", "liger",
            "nemo_automodel/_transformers/auto_model.py, use_liger_kernel"),
        Default("attention", "flash",
            "nemo_automodel/_transformers/kernel_patches.py, DEFAULT_ATTN_IMPLEMENTATION"),
        Default("loss", "full",
            "examples/llm_finetune/llama3_2/llama3_2_1b_squad.yaml, loss_fn: MaskedCrossEntropy",
            supervised=True),
        Default("keeps_output", True,
            "nemo_automodel/recipes/llm/train_ft.py, _forward_backward_step: out"),
        Default("activation_checkpointing", "none",
            "nemo_automodel/components/distributed/config.py, activation_checkpointing"),
        Default("lora_rank", 8, "nemo_automodel/components/_peft/lora.py, PeftConfig: dim",
            ADAPTERS),
        Default("gradient_dtype", "fp32",
            "nemo_automodel/components/distributed/config.py, FSDP2Config: mp_policy",
            gpus="several"),
        Default("fsdp_version", 2,
            "nemo_automodel/components/distributed/parallelizer.py, fully_shard", gpus="several"),
    ),
)  # fmt: skip
