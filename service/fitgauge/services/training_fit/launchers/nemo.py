"""NeMo: Megatron-Bridge, whose settings Megatron-LM's command has."""

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
