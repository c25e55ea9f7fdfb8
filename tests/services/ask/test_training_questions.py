"""Questions about training, in words and in the names of the tools' own settings."""

import pytest


@pytest.mark.parametrize(
    ("text", "model", "teacher"),
    [
        ("Distill Qwen3-32B into Qwen3-4B on 4x A100 80GB", "Qwen3-4B", "Qwen/Qwen3-32B"),
        ("Distill from 32B to 4B, Qwen3, on 8x H100", "Qwen3 4b", "Qwen/Qwen3-32B"),
    ],
)
def test_a_distillation_trains_the_student_from_the_teacher(ask, text, model, teacher):
    answer = ask(text)
    assert answer.understood.model == model
    assert answer.answer["understood_as"]["teacher_model"] == teacher
    assert f"from {teacher}" in answer.answer["summary"]
    assert not any("student alone" in note for note in answer.missing)


@pytest.mark.parametrize(
    ("text", "model"),
    [
        ("how much memory to distill R1 into Qwen3 8B on 8x H100", "Qwen3 8B"),  # of other words
        ("How many GPUs to distill Llama-3.3-70B into Llama-3.1-8B?", "Llama-3.1-8B"),
    ],
)
def test_a_distillation_that_is_not_estimated_is_of_the_student_alone(ask, text, model):
    answer = ask(text)
    assert answer.understood.model == model
    assert "LoRA" in answer.answer["summary"]
    assert any("teacher" in note for note in answer.missing)


@pytest.mark.parametrize("offload", ["cpu offload, 64 GB RAM", "offload, 64 GB of system RAM"])
def test_what_is_offloaded_is_held_to_the_memory_that_is_said_behind_it(ask, offload):
    answer = ask(f"Full fine-tune Qwen2.5-7B on 2x4090 with DeepSpeed ZeRO-3 {offload}, fits?")
    assert answer.understood.host_memory_gib == 64
    assert answer.answer["verdict"] == "does_not_fit"
    assert answer.answer["summary"].endswith("149.11 GiB in all: the machine has 64 GiB.")


@pytest.mark.parametrize(
    ("text", "fields"),
    [
        (
            "Qwen/Qwen3-8B full_finetune_distributed batch_size=2 on 8xH100",
            {"trainer": "torchtune", "method": "full", "micro_batch_size": 2},
        ),
        (
            "Lightning Fabric Llama 3.2 3B full fine-tune precision=bf16-true A6000",
            {"trainer": "lightning", "method": "full", "precision": "bf16"},
        ),
        (
            "verl actor_rollout_ref.rollout.n=5 actor_rollout_ref.actor.ppo_mini_batch_size=16"
            " actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu=2 Qwen3-8B 8xH100",
            {"trainer": "verl", "algorithm": "grpo", "micro_batch_size": 2, "micro_batches": 5},
        ),
        (
            "Llama-3.1-8B megatron sft --global_batch_size 64 --micro_batch_size 2 on 8xH100",
            {"framework": "megatron", "micro_batch_size": 2, "micro_batches": 4},
        ),
    ],
)
def test_settings_of_a_tool_are_read_with_the_gpus_of_the_question(ask, text, fields):
    understood = ask(text).understood
    assert {name: getattr(understood, name) for name in fields} == fields


def test_gpus_of_a_zero_stage_are_counted_by_a_plan(ask):
    answer = ask("How many RTX 5090 for full fine-tuning of Qwen3-8B with deepspeed zero 3?")
    assert answer.operation == "plan_training"
    assert answer.answer["plans"][0]["settings"]["zero_stage"] == 3
    assert not answer.not_understood


@pytest.mark.parametrize("gpu", ["A10", "A10G", "MI300X", "L40S"])
def test_gpus_are_counted_whatever_ends_their_name(ask, gpu):
    answer = ask(f"How many {gpu} do I need for LoRA of Qwen3-8B?")
    assert answer.operation == "recommend_gpus"
    assert ask(f"How many GB does LoRA of Qwen3-8B need on an {gpu}?").operation == (
        "check_training_fit"
    )
