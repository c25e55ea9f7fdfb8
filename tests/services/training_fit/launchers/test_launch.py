"""Launches of training: they carry the settings that were estimated, in flags and files that the
tools can read."""

import asyncio
import json
import re
import shlex

import pytest
import yaml

from command_flags import flags
from fitgauge.services.training_plan.schemas import TrainingPlanRequest
from notes import codes

ASKED = {"model": "Qwen/Qwen3-8B", "gpu": "B300", "method": "full"}


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ({}, {"--dtype": "float32", "--bf16": "true", "--optim": "adamw_torch",
            "--loss_type": "chunked_nll", "--gradient_checkpointing": "true"}),
        ({"framework": "transformers"}, {"--loss_type": "nll"}),
        ({"activation_checkpointing": "none"}, {"--gradient_checkpointing": "false"}),
        ({"method": "lora"}, {"--dtype": "bfloat16", "--bf16": "true"}),
        ({"precision": "bf16"}, {"--dtype": "bfloat16", "--bf16": "false"}),
        ({"precision": "mixed_fp16"}, {"--fp16": "true"}),
        ({"precision": "fp8"},
            {"--mixed_precision": "fp8", "--fp8_backend": "te", "--bf16": "false"}),
        ({"optimizer": "adamw_bf16"},
         {"--optim": "adamw_anyprecision",
             "--optim_args":
                 "momentum_dtype=bfloat16,variance_dtype=bfloat16,use_kahan_summation=False"}),
        ({"optimizer_implementation": "fused"}, {"--optim": "adamw_torch_fused"}),
        ({"loss": "chunked"}, {"--loss_type": "chunked_nll"}),
        ({"loss": "fused"}, {"--use_liger_kernel": "true"}),
        ({"activation_checkpointing": "full", "micro_batch_size": 2, "micro_batches": 3},
         {"--gradient_checkpointing": "true", "--per_device_train_batch_size": "2",
             "--gradient_accumulation_steps": "3"}),
        ({"method": "qlora", "quantization": "nf4_double", "lora_targets": ["q_proj", "v_proj"],
            "lora_rank": 8},
         {"--load_in_4bit": "true", "--bnb_4bit_quant_type": "nf4",
             "--use_bnb_nested_quant": "true", "--lora_r": "8",
          "--lora_target_modules": "q_proj v_proj"}),
        ({"method": "lora", "quantization": "int8"},
            {"--load_in_8bit": "true", "--lora_target_modules": "all-linear"}),
        ({"method": "dora"}, {"--use_dora": "true"}),
        ({"framework": "fsdp", "gpu_count": 8, "zero_stage": 2},
            {"--fsdp_version": "2", "--fsdp_reshard_after_forward": "false"}),
        ({"framework": "fsdp", "gpu_count": 16, "data_parallel_replicate": 2},
         {"--num_machines": "2", "--parallelism_config_dp_replicate_size": "2",
             "--parallelism_config_dp_shard_size": "8"}),
        ({"algorithm": "dpo", "reference": "none"}, {"--precompute_ref_log_probs": "true"}),
        ({"algorithm": "grpo", "rollout_engine": "vllm", "rollout_memory_utilization": 0.4,
            "rollout_sleep": "level_2"},
         {"--vllm_mode": "colocate", "--vllm_gpu_memory_utilization": "0.4",
             "--vllm_enable_sleep_mode": "true", "--beta": "0",
          "--num_generations": "8", "--max_completion_length": "512"}),
        ({"algorithm": "simpo"}, {"--loss_type": "simpo"}),
    ],
    ids=str,
)  # fmt: skip
def test_the_command_carries_what_was_asked(command, asked, said):
    found = flags(command(**asked))
    assert {name: found.get(name) for name in said} == said


def test_segments_expand_under_torchtitan_axolotl_megatron_and_on_request_which_the_command_sets(
    train,
):
    grow = [
        train(framework=name).understood_as["expandable_segments"]
        for name in ("torchtitan", "axolotl", "megatron", "trl")
    ]
    assert grow == [True, True, True, False]
    asked = train(expandable_segments=True)
    assert asked.launch.command.startswith("env PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True ")
    assert "PYTORCH_CUDA_ALLOC_CONF" not in train().launch.command


def test_deepspeed_reads_a_configuration_that_the_command_writes_first(command):
    line = command(
        framework="deepspeed",
        gpu_count=8,
        zero_stage=3,
        offload="cpu",
        micro_batch_size=2,
        micro_batches=4,
    )
    written = re.match(r"echo '(.*)' > ds_config.json && accelerate launch", line)
    assert written is not None
    config = json.loads(written.group(1))
    assert config["zero_optimization"]["stage"] == 3
    assert (
        config["zero_optimization"]["offload_param"]["device"]
        == config["zero_optimization"]["offload_optimizer"]["device"]
        == "cpu"
    )
    assert (
        config["train_batch_size"],
        config["train_micro_batch_size_per_gpu"],
        config["gradient_accumulation_steps"],
    ) == (64, 2, 4)
    assert config["bf16"] == {"enabled": True}
    assert config["optimizer"]["type"] == "AdamW"
    assert flags(line)["--deepspeed_config_file"] == "ds_config.json"


def test_offloading_to_nvme_names_a_place(command):
    line = command(framework="deepspeed", gpu_count=8, zero_stage=3, offload="nvme")
    zero = json.loads(line.split("'")[1])["zero_optimization"]
    assert zero["offload_param"]["device"] == zero["offload_optimizer"]["device"] == "nvme"
    assert zero["offload_param"]["nvme_path"]


def test_a_plan_under_fsdp_has_a_file_that_accelerate_reads_and_checkpoints_once(questions):
    asked = TrainingPlanRequest(
        **ASKED, framework="fsdp", gpu_count=8, activation_checkpointing="full", zero_stage=3
    )
    plan, *_ = asyncio.run(questions.plan_training(asked))[1].plans
    config = yaml.safe_load(plan.launch.files["fsdp.yaml"])
    assert config["distributed_type"] == "FSDP"
    assert config["num_processes"] == 8
    assert config["fsdp_config"]["fsdp_activation_checkpointing"] is True
    assert config["fsdp_config"]["fsdp_reshard_after_forward"] is True
    assert flags(plan.launch.command)["--gradient_checkpointing"] == "false"


def test_the_command_of_a_plan_sets_the_allocator_that_was_counted(questions):
    asked = TrainingPlanRequest(**ASKED, framework="megatron", gpu_count=8)
    for plan in asyncio.run(questions.plan_training(asked))[1].plans:
        assert plan.settings["expandable_segments"] is True
        assert plan.launch.command.startswith(
            "env PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True "
        )


def test_completions_of_a_prompt_are_sampled_at_once_as_trl_wants_them(train):
    """It refuses a sampling that is no multiple of the group (trl/trainer/grpo_config.py)."""
    for count, batches, steps in ((1, 1, 8), (8, 1, None), (2, 2, 4), (2, 4, None)):
        found = flags(
            train(
                algorithm="grpo", gpu_count=count, micro_batches=batches, method="lora"
            ).launch.command
        )
        assert found.get("--steps_per_generation") == (steps and str(steps)), (count, batches)
        sampled = int(found["--per_device_train_batch_size"]) * count * (steps or batches)
        assert sampled % int(found["--num_generations"]) == 0


@pytest.mark.parametrize(
    ("asked", "dtype"),
    [
        ({"method": "qlora"}, "bfloat16"),
        ({"method": "qlora", "framework": "fsdp"}, "bfloat16"),
        ({"method": "lora", "framework": "fsdp", "precision": "mixed_fp16"}, "float16"),
        ({"method": "qlora", "framework": "fsdp", "precision": "int8"}, "bfloat16"),
        ({"framework": "fsdp"}, "float32"),
        ({"framework": "deepspeed"}, "bfloat16"),
    ],
    ids=str,
)
def test_weights_are_loaded_in_the_format_that_was_counted(command, asked, dtype):
    found = flags(command(gpu_count=2, activation_checkpointing="full", **asked))
    assert found["--dtype"] == dtype
    assert ("--bnb_4bit_quant_storage" in found) == (
        asked.get("method") == "qlora" and asked.get("framework") == "fsdp"
    )


@pytest.mark.parametrize("trainer", ["trl", "ms-swift"])
def test_a_4_bit_base_is_stored_in_a_format_that_fsdp2_shards(command, trainer):
    """accelerate leaves one of bytes whole on every rank."""
    asked = {"method": "qlora", "gpu_count": 2, "fsdp_version": 2, "trainer": trainer}
    assert "--bnb_4bit_quant_storage bfloat16" in command(framework="fsdp", **asked)
    assert "quant_storage" not in command(framework="transformers", **asked | {"gpu_count": 1})


def test_tensor_parallelism_under_transformers_stands_in_the_environment(command):
    """accelerate's launcher refuses flags of a mesh without FSDP2."""
    line = command(gpu_count=8, tensor_parallel=4)
    mesh = (
        "env ACCELERATE_USE_PARALLELISM_CONFIG=true PARALLELISM_CONFIG_TP_SIZE=4"
        " PARALLELISM_CONFIG_DP_SHARD_SIZE=2 accelerate launch "
    )
    assert line.startswith(mesh)
    assert "--use_parallelism_config" not in line


def test_tensor_parallelism_of_adapters_under_fsdp_is_fsdp2s(command):
    found = flags(command(gpu_count=8, tensor_parallel=4, framework="fsdp", method="lora"))
    assert (found["--fsdp_version"], found["--parallelism_config_tp_size"]) == ("2", "4")


def test_replicas_under_fsdp1_are_a_strategy_and_no_mesh(command):
    line = command(gpu_count=8, data_parallel_replicate=2, framework="fsdp", fsdp_version=1)
    assert flags(line)["--fsdp_sharding_strategy"] == "HYBRID_SHARD"
    assert "--use_parallelism_config" not in line


def test_the_format_of_gradients_is_carried_where_a_framework_takes_it(command):
    assert "--grad-reduce-in-bf16" in command(
        framework="megatron", gpu_count=8, gradient_dtype="bf16"
    )
    assert '"data_types":{"grad_accum_dtype":"fp32"}' in command(
        framework="deepspeed", gpu_count=8, gradient_dtype="fp32"
    )


def test_sequences_are_divided_by_accelerate_where_deepspeed_runs_them(command):
    found = command(
        framework="deepspeed",
        gpu_count=8,
        context_parallel=4,
        sequence_length=4096,
        attention="flash",
    )
    assert "env ACCELERATE_USE_PARALLELISM_CONFIG=true PARALLELISM_CONFIG_SP_SIZE=4 " in found
    assert (
        flags(command(framework="fsdp", gpu_count=8, context_parallel=4))[
            "--parallelism_config_cp_size"
        ]
        == "4"
    )


def test_verl_and_openrlhf_get_their_own_commands(command):
    asked = {
        "gpu_count": 8,
        "algorithm": "ppo",
        "prompt_length": 1024,
        "completion_length": 2048,
        "rollout_memory_utilization": 0.6,
    }
    verl = command(framework="verl", offload="cpu", **asked)
    for setting in (
        "algorithm.adv_estimator=gae", "data.max_response_length=2048",
        "actor_rollout_ref.rollout.gpu_memory_utilization=0.6",
        "actor_rollout_ref.actor.fsdp_config.param_offload=True", "critic.model.path=Qwen/Qwen3-8B",
    ):  # fmt: skip
        assert f" {setting}" in verl
    openrlhf = flags(command(framework="openrlhf", zero_stage=3, **asked))
    assert openrlhf["--vllm.gpu_memory_utilization"] == "0.6"
    assert openrlhf["--ds.zero_stage"] == "3"
    assert {
        "--train.colocate_all",
        "--vllm.enable_sleep",
        "--ds.enable_sleep",
        "--critic.num_nodes",
    } <= set(openrlhf)


def test_an_encoder_is_trained_by_transformers_own_example(command):
    line = command(
        model="google-bert/bert-base-uncased", gpu="T4", precision="mixed_fp16", sequence_length=128
    )
    assert "run_classification.py" in line
    assert flags(line)["--max_seq_length"] == "128"


def test_a_model_that_is_only_a_size_has_a_place_to_fill_in(train):
    found = train(model="7b", gpu="H200")
    assert "--model_name_or_path path/to/model" in found.launch.command
    assert ("command-placeholders", "model") in codes(found.warnings)


@pytest.mark.parametrize(
    ("asked", "field"),
    [
        ({"optimizer": "muon"}, "optimizer"),
        ({"ema": "host"}, "ema"),
        ({"optimizer_in_backward": True}, "optimizer_in_backward"),
        ({"algorithm": "dpo", "reference": "offloaded"}, "reference"),
    ],
    ids=str,
)
def test_what_has_no_flag_is_said(train, asked, field):
    assert ("command-lacks-flag", field) in codes(train(**asked).warnings)


def test_what_a_caller_names_is_one_word_for_the_shell(command):
    line = command(method="lora", lora_targets=["q_proj", "v_proj; rm -rf $HOME", "$PATH"])
    assert shlex.split(line)[-3:] == ["q_proj", "v_proj; rm -rf $HOME", "$PATH"]
    assert "'$PATH'" in line
