"""understood_as lists every setting, so that a question that is sent back is the same one."""

import pytest

from fitgauge.services.training_fit.schemas import TrainingRequest

MIXTURE = {"model": "Qwen/Qwen3-30B-A3B", "gpu": "H100"}
SMALL = {"model": "Qwen/Qwen3-0.6B", "gpu": "H100", "method": "lora"}
QUESTIONS = (
    MIXTURE | {
        "method": "qlora", "framework": "fsdp", "gpu_count": 2, "compile": True, "fsdp_version": 2,
        "gradient_dtype": "fp32", "precision": "mixed_bf16", "mean_sequence_length": 512,
        "transformers_version": "5.0",
    },
    MIXTURE | {
        "method": "full", "framework": "megatron", "gpu_count": 16, "precision": "fp8",
        "fp8_parameters": True, "pipeline_parallel": 4, "pipeline_schedule": "interleaved",
        "activation_checkpointing": "selective", "recompute_modules": "moe",
    },
    MIXTURE | {"method": "full", "framework": "megatron", "gpu_count": 10, "pipeline_parallel": 5},
    {"model": "Qwen/Qwen2.5-VL-7B-Instruct", "gpu": "H100", "method": "full"},
    SMALL | {"algorithm": "grpo", "rollout_engine": "vllm"},
    SMALL | {
        "algorithm": "ppo", "reward_model": "Qwen/Qwen3-0.6B", "critic_model": "Qwen/Qwen3-0.6B",
    },
    SMALL | {"teacher_model": "Qwen/Qwen3-1.7B"},
    SMALL | {
        "samples": 1000, "epochs": 2, "mfu": 0.3, "price_per_gpu_hour": 2.0, "save_steps": 10,
        "save_total_limit": 2, "eval_batch_size": 2, "eval_generated_tokens": 16, "merge": True,
        "resume_gpu_count": 2, "runtime_gib": 1.0, "other_memory_gib": 1.0,
        "host_memory_gib": 512.0, "trainer": "torchtune", "trainer_version": "0.3",
    },
    SMALL | {"token_budget": 1e6},
)  # fmt: skip
"""Questions in which each setting means something."""
SAID_OTHERWISE = {"image_size", "lengths", "detail"}
"""As image_tokens; as the lengths of sequences and the samples; how much is answered."""


@pytest.fixture(scope="module")
def echoed(train):
    return [train(**question).understood_as for question in QUESTIONS]


def test_every_setting_is_listed_where_it_means_something(echoed):
    listed = {name for understood in echoed for name in understood}
    assert set(TrainingRequest.__struct_fields__) - listed == SAID_OTHERWISE


def test_experts_that_are_dequantized_whole_stay_so(train):
    first = train(**MIXTURE, method="qlora", quantize_experts=True, fused_experts=True)
    assert first.understood_as["fused_experts"] is True
    assert train(**first.understood_as).terms == first.terms
