"""Settings under the names of tools are read: of texts that people paste, and of the commands that
are printed."""

import pytest

from fitgauge.services.training_fit.launchers.registry import TOOLS
from fitgauge.services.training_fit.tool_settings import tool_settings

ASKED = {"model": "meta-llama/Llama-3.1-8B", "gpu": "8x H200", "method": "lora"}
PASTED = [
    (
        "base_model: meta-llama/Llama-3.1-8B\nload_in_4bit: true\nadapter: qlora\nlora_r: 64\n"
        "lora_target_linear: true\nsequence_len: 8192\nmicro_batch_size: 4\n"
        "gradient_accumulation_steps: 2\noptimizer: paged_adamw_8bit\ngradient_checkpointing: true"
        "\nflash_attention: true\n",
        {
            "method": "qlora", "lora_rank": 64, "lora_targets": "all_linear",
            "sequence_length": 8192, "micro_batch_size": 4, "micro_batches": 2,
            "optimizer": "paged_adamw_8bit", "activation_checkpointing": "full",
            "attention": "flash", "trainer": "axolotl",
        },
    ),
    (
        "finetuning_type: full\ndeepspeed: examples/deepspeed/ds_z3_config.json\nstage: dpo\n"
        "cutoff_len: 4096\nper_device_train_batch_size: 2\ndisable_gradient_checkpointing: true",
        {
            "method": "full", "zero_stage": 3, "framework": "deepspeed", "algorithm": "dpo",
            "sequence_length": 4096, "micro_batch_size": 2, "activation_checkpointing": "none",
            "trainer": "llama-factory",
        },
    ),
    (
        'SFTConfig(max_length=4096, gradient_checkpointing=False, optim="adamw_torch_fused")\n'
        'LoraConfig(r=128, lora_alpha=256, target_modules=["q_proj", "v_proj"])',
        {
            "sequence_length": 4096, "activation_checkpointing": "none", "optimizer": "adamw",
            "optimizer_implementation": "fused", "method": "lora", "lora_rank": 128,
            "lora_targets": ["q_proj", "v_proj"],
        },
    ),
    (
        '{"zero_optimization": {"stage": 2, "offload_optimizer": {"device": "cpu"},'
        ' "offload_param": {"device": "none"}}, "fp16": {"enabled": true},'
        ' "train_micro_batch_size_per_gpu": 2}',
        {
            "zero_stage": 2, "framework": "deepspeed", "offload": "optimizer",
            "precision": "mixed_fp16", "micro_batch_size": 2,
        },
    ),
    (
        "torchrun pretrain_gpt.py --tensor-model-parallel-size 4 --pipeline-model-parallel-size=2"
        " --recompute-activations --sequence-parallel --seq-length 4096",
        {
            "tensor_parallel": 4, "pipeline_parallel": 2, "activation_checkpointing": "selective",
            "sequence_parallel": True, "sequence_length": 4096, "framework": "megatron",
            "method": "full",
        },
    ),
    (
        "actor_rollout_ref.rollout.n=16 data.max_prompt_length=1024"
        " data.max_response_length=8192 algorithm.adv_estimator=grpo"
        " actor_rollout_ref.rollout.gpu_memory_utilization=0.6",
        {
            "group_size": 16, "prompt_length": 1024, "completion_length": 8192,
            "algorithm": "grpo", "rollout_memory_utilization": 0.6, "trainer": "verl",
        },
    ),
    (
        "model = FastLanguageModel.from_pretrained(name, max_seq_length=16384,"
        " load_in_4bit=False)\nFastLanguageModel.get_peft_model(model, r=32)",
        {"sequence_length": 16384, "method": "lora", "lora_rank": 32, "trainer": "unsloth"},
    ),
    ("gradient_checkpointing: false\nfsdp_activation_checkpointing: true",
        {"activation_checkpointing": "full"}),
    (
        "base_model: Qwen/Qwen3-30B-A3B\nplugins:\n"
        "  - axolotl.integrations.cut_cross_entropy.CutCrossEntropyPlugin\nadapter: qlora\n"
        "quantize_moe_experts: true\nlora_target_modules:\n  - q_proj\n  - v_proj\n"
        "# micro_batch_size: 8\nmicro_batch_size: 2  # gradient_accumulation_steps: 4\n",
        {
            "loss": "fused", "method": "qlora", "quantize_experts": True,
            "lora_targets": ["q_proj", "v_proj"], "micro_batch_size": 2, "trainer": "axolotl",
        },
    ),
    (
        "megatron sft --global_batch_size 16 --micro_batch_size 2 --sequence_parallel true"
        " --expert_model_parallel_size 2 --target_modules linear_qkv linear_proj",
        {
            "micro_batch_size": 2, "micro_batches": 2, "expert_parallel": 2,
            "lora_targets": ["q_proj", "k_proj", "v_proj", "o_proj"], "framework": "megatron",
        },
    ),
    (
        "python3 -m openrlhf.cli.train_ppo_ray --train.micro_batch_size 2 --ds.zero_stage 3",
        {
            "micro_batch_size": 2, "zero_stage": 3, "framework": "deepspeed",
            "trainer": "openrlhf", "activation_checkpointing": "none",
        },
    ),
    ("per_device_eval_batch_size 8, lora_r 32", {"eval_batch_size": 8, "lora_rank": 32}),
    ("How much does LoRA of a 7B need? My stage: 2, the optimizer: I do not know.", {}),
]  # fmt: skip


@pytest.mark.parametrize(("text", "fields"), PASTED, ids=lambda one: str(one)[:40])
def test_settings_are_read_under_their_tools_own_names(text, fields):
    assert tool_settings(text, 4) == fields


SAID = {
    "sequence_length": 1536, "micro_batch_size": 3, "micro_batches": 5, "lora_rank": 24,
    "activation_checkpointing": "full",
}  # fmt: skip


@pytest.mark.parametrize("trainer", [tool.name for tool in TOOLS])
def test_what_is_printed_is_read_back(command, trainer):
    read = tool_settings(command(trainer=trainer, **SAID), 8)
    assert {name: read.get(name) for name in SAID} == SAID
