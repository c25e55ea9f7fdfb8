"""Commands of training say no more and no less than what was estimated: names of modules,
scripts, and what has no flag."""

import json
import re
import shlex

import pytest

from notes import codes

ASKED = {"model": "meta-llama/Llama-3.1-8B", "gpu": "8xB300", "method": "full"}

LACKING = "command-lacks-flag"


@pytest.fixture(scope="module")
def words(train):
    """Provide the words of the command, with one word for all of a flag's."""

    def after(flag, **fields):
        line = shlex.split(train(**fields).launch.command)
        start = line.index(flag) + 1
        ends = [number for number, word in enumerate(line[start:], start) if word.startswith("--")]
        return line[start : ends[0] if ends else None]

    return after


@pytest.mark.parametrize(
    ("targets", "named"),
    [
        ("all_linear", ["all-linear"]),
        ("attention", ["linear_qkv", "linear_proj"]),
        (["q_proj", "down_proj"], ["linear_qkv", "linear_fc2"]),
    ],
    ids=str,
)
def test_megatron_has_names_of_its_own_for_the_modules_of_adapters(words, targets, named):
    assert (
        words("--target_modules", framework="megatron", method="lora", lora_targets=targets)
        == named
    )


@pytest.mark.parametrize(
    ("model", "named"),
    [
        ("meta-llama/Llama-3.1-8B", ["k_proj", "o_proj", "q_proj", "v_proj"]),
        ("openai-community/gpt2", ["attn.c_proj", "c_attn"]),
        ("7b", ["q_proj", "k_proj", "v_proj", "o_proj"]),
    ],
)
def test_linears_of_attention_have_the_names_that_the_model_gives_them(words, model, named):
    """Where another linear ends alike, by all of its name: PEFT compares ends."""
    assert (
        words("--lora_target_modules", model=model, method="lora", lora_targets="attention")
        == named
    )


def test_adapters_stay_out_of_a_tower_that_was_counted_without_them(words):
    (pattern,) = words("--lora_target_modules", model="Qwen/Qwen2.5-VL-7B-Instruct", method="lora")
    assert re.fullmatch(pattern, "model.language_model.layers.0.self_attn.q_proj")
    assert not re.fullmatch(pattern, "model.visual.blocks.0.mlp.gate_proj")
    assert not re.fullmatch(pattern, "lm_head")
    asked = {
        "model": "Qwen/Qwen2.5-VL-7B-Instruct",
        "method": "lora",
        "train_vision_tower": True,
        "images": 1,
    }
    assert words("--lora_target_modules", **asked) == ["all-linear"]


def test_a_frozen_tower_has_no_flag_where_the_rest_is_trained(train):
    asked = {"model": "Qwen/Qwen2.5-VL-7B-Instruct", "train_vision_tower": False}
    assert (LACKING, "train_vision_tower") in codes(train(**asked).warnings)
    trained = train(**{**asked, "train_vision_tower": True})
    assert (LACKING, "train_vision_tower") not in codes(trained.warnings)


@pytest.mark.parametrize(
    ("model", "script"),
    [
        ("google-t5/t5-large", "summarization/run_summarization.py"),
        ("openai/whisper-large-v3", "speech-recognition/run_speech_recognition_seq2seq.py"),
        ("google-bert/bert-base-uncased", "text-classification/run_classification.py"),
        ("google/siglip-base-patch16-224", "contrastive-image-text/run_clip.py"),
    ],
)
def test_a_model_that_generates_no_text_by_itself_is_started_by_the_example_of_its_task(
    train, model, script
):
    assert f"examples/pytorch/{script}" in train(model=model, gpu="H100").launch.command


@pytest.mark.parametrize(
    ("asked", "field"),
    [
        ({"activation_checkpointing": "selective"}, "activation_checkpointing"),
        ({"optimizer_implementation": "for_loop"}, "optimizer_implementation"),
        (
            {
                "framework": "megatron",
                "pipeline_parallel": 2,
                "micro_batches": 4,
                "pipeline_schedule": "zero_bubble",
            },
            "pipeline_schedule",
        ),
        (
            {
                "framework": "megatron",
                "pipeline_parallel": 2,
                "micro_batches": 4,
                "pipeline_schedule": "gpipe",
            },
            "pipeline_schedule",
        ),
        ({"framework": "megatron", "loss": "fused"}, "loss"),
        ({"framework": "megatron", "method": "dora"}, "method"),
        (
            {"model": "Qwen/Qwen3-30B-A3B", "method": "qlora", "quantize_experts": True},
            "quantize_experts",
        ),
    ],
    ids=str,
)
def test_what_was_estimated_and_has_no_flag_is_said(train, asked, field):
    assert (LACKING, field) in codes(train(**asked).warnings)
    assert LACKING not in {code for code, _ in codes(train().warnings)}


def test_one_env_sets_all_variables_of_a_command(train):
    line = train(framework="megatron", method="lora").launch.command
    assert line.startswith(
        "env PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True NPROC_PER_NODE=8 megatron sft "
    )


def test_deepspeed_is_told_to_take_an_optimizer_that_is_not_its_own(train):
    def config(**asked):
        return json.loads(shlex.split(train(framework="deepspeed", **asked).launch.command)[1])

    assert config(optimizer="lion")["zero_allow_untested_optimizer"] is True
    assert (
        config(optimizer="lion", offload="optimizer", zero_stage=2)["zero_force_ds_cpu_optimizer"]
        is False
    )
    assert "zero_allow_untested_optimizer" not in config()


@pytest.mark.parametrize("tool", ["trl", "axolotl", "ms-swift", "llama-factory"])
def test_deepspeed_steps_by_the_trainers_adamw_where_the_tools_configurations_name_none(
    train, tool
):
    asked = train(trainer=tool, framework="deepspeed")
    trainers = tool in ("ms-swift", "llama-factory")
    assert ('"optimizer":' not in asked.launch.command) == trainers
    assert ("optimizer_implementation" not in asked.understood_as) == trainers


def test_adapters_of_a_reward_model_are_told_their_task(words):
    assert words("--lora_task_type", method="lora", algorithm="reward") == ["SEQ_CLS"]
