"""Commands of the tools people train with: they carry the settings that were estimated, in files
and flags that the tools can read."""

import re
import subprocess

import pytest
import yaml

from fitgauge.services.training_fit.launchers.registry import TOOLS
from notes import codes

ASKED = {
    "model": "meta-llama/Llama-3.1-8B",
    "gpu": "B300",
    "method": "full",
    "sequence_length": 3072,
    "micro_batch_size": 3,
    "micro_batches": 5,
}
VALUES = {"TRANSFORMER_BASED_WRAP", "FSDP", "UNSLOTH_RETURN_LOGITS"}
"""Words in capitals that are values and variables of the tools."""
ADAPTED = {"method": "qlora", "lora_rank": 24}


def written(command, name):
    """Return the text of a file that a command writes."""
    return command.split(f"cat > {name} <<'END'\n")[1].split("END\n")[0]


@pytest.mark.parametrize("asked", [ADAPTED, {"method": "full", "gpu_count": 2}], ids=str)
@pytest.mark.parametrize("tool", [tool.name for tool in TOOLS])
def test_every_command_is_one_a_shell_can_read_and_holds_the_sizes(command, tool, asked):
    if tool == "nemo" and asked is ADAPTED:  # Megatron has no quantized base
        asked = {**ADAPTED, "method": "lora"}
    line = command(framework=tool, **asked)
    assert subprocess.run(["sh", "-n"], input=line, text=True, check=False).returncode == 0
    assert "3072" in line or str(3 * 3072) in line


def test_axolotls_yaml_holds_the_settings(command):
    said = yaml.safe_load(
        written(
            command(framework="axolotl", **ADAPTED, loss="fused", activation_checkpointing="none"),
            "axolotl.yaml",
        )
    )
    assert said.items() >= {
        "adapter": "qlora", "load_in_4bit": True, "lora_r": 24, "lora_target_linear": True,
        "sequence_len": 3072, "micro_batch_size": 3,
        "gradient_accumulation_steps": 5, "optimizer": "adamw_torch_fused", "bf16": True,
        "gradient_checkpointing": False,
        "lora_mlp_kernel": True,
        "plugins": ["axolotl.integrations.cut_cross_entropy.CutCrossEntropyPlugin"],
    }.items()  # fmt: skip


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ({"framework": "fsdp", "method": "full", "zero_stage": 2},
         {"fsdp_version": 2, "fsdp_config": {"auto_wrap_policy": "TRANSFORMER_BASED_WRAP",
             "reshard_after_forward": False,
                                             "offload_params": False}}),
        ({"framework": "deepspeed", "method": "full"}, {"deepspeed": "ds_config.json"}),
        ({"framework": "transformers", "method": "lora", "kernels": "liger"},
            {"liger_rms_norm": True, "lora_mlp_kernel": False}),
        ({"framework": "transformers", "algorithm": "dpo", "method": "lora"},
            {"rl": "dpo", "lora_mlp_kernel": False}),
        ({"framework": "transformers", "method": "qlora", "quantization": "fp4"},
         {"bnb_config_kwargs": {"bnb_4bit_use_double_quant": False, "bnb_4bit_quant_type": "fp4"}}),
    ],
    ids=str,
)  # fmt: skip
def test_axolotls_yaml_says_how_cards_share_and_what_departs(command, asked, said):
    line = command(trainer="axolotl", gpu_count=4, **asked)
    assert yaml.safe_load(written(line, "axolotl.yaml")).items() >= said.items()
    assert line.endswith("axolotl train axolotl.yaml --launcher accelerate -- --num_processes=4")


def test_llama_factorys_yaml_holds_the_settings(command):
    line = command(
        framework="llama-factory",
        **ADAPTED,
        optimizer="paged_adamw_8bit",
        lora_targets="attention",
        attention="flash",
    )
    assert yaml.safe_load(written(line, "llama_factory.yaml")).items() >= {
        "stage": "sft", "finetuning_type": "lora", "lora_rank": 24,
        "lora_target": "k_proj,o_proj,q_proj,v_proj", "quantization_bit": 4,
        "quantization_type": "nf4", "double_quantization": True, "cutoff_len": 3072,
        "per_device_train_batch_size": 3,
        "gradient_accumulation_steps": 5, "optim": "paged_adamw_8bit", "bf16": True,
        "pure_bf16": False,
        "disable_gradient_checkpointing": False, "flash_attn": "fa2", "enable_liger_kernel": False,
    }.items()  # fmt: skip


def test_llama_factory_trains_preferences_in_a_stage_and_shards_under_accelerate(command):
    line = command(trainer="llama-factory", framework="fsdp", gpu_count=2, algorithm="simpo")
    said = yaml.safe_load(written(line, "llama_factory.yaml"))
    assert (said["stage"], said["pref_loss"], said["finetuning_type"]) == ("dpo", "simpo", "full")
    assert (
        yaml.safe_load(written(line, "fsdp.yaml"))["fsdp_config"]["fsdp_activation_checkpointing"]
        is True
    )
    assert said["disable_gradient_checkpointing"] is True  # accelerate checkpoints in its place


def test_replicas_under_fsdp1_are_a_strategy_and_no_mesh_in_accelerates_file(command):
    fields = {"data_parallel_replicate": 2, "framework": "fsdp", "fsdp_version": 1}
    line = command(trainer="llama-factory", gpu_count=8, **fields)
    config = yaml.safe_load(written(line, "fsdp.yaml"))
    assert config["fsdp_config"]["fsdp_sharding_strategy"] == "HYBRID_SHARD"
    assert "parallelism_config" not in config


def test_ms_swifts_flags_hold_the_settings(command):
    line = command(framework="swift", **ADAPTED, gpu_count=2)
    for words in ("NPROC_PER_NODE=2 swift sft", "--quant_bits 4",
        "--bnb_4bit_use_double_quant true", "--lora_rank 24", "--max_length 3072",
                  "--per_device_train_batch_size 3", "--gradient_checkpointing true",
                  "--torch_dtype bfloat16"):  # fmt: skip
        assert words in line
    assert "swift rlhf --rlhf_type rm" in command(framework="swift", algorithm="reward")


def test_torchtunes_overrides_hold_the_settings(command):
    one = command(framework="torchtune", method="full", micro_batches=1)
    for words in ("full_finetune_single_device", "optimizer=bitsandbytes.optim.PagedAdamW8bit",
        "optimizer_in_bwd=True", "batch_size=3",
                  "tokenizer.max_seq_len=3072",
                  "enable_activation_checkpointing=True"):  # fmt: skip
        assert words in one
    several = command(framework="torchtune", method="lora", gpu_count=4)
    for words in ("--nproc_per_node 4 lora_finetune_distributed",
        "enable_activation_checkpointing=False", "optimizer.fused=True",
                  "model.lora_attn_modules=[q_proj,v_proj,output_proj]",
                  "model.apply_lora_to_mlp=True"):  # fmt: skip
        assert words in several


def test_unsloths_script_is_python_and_holds_the_settings(command):
    script = written(command(framework="unsloth", **ADAPTED, micro_batches=1), "train.py")
    compile(script, "train.py", "exec")
    for words in (
        "load_in_4bit=True",
        "max_seq_length=3072",
        "r=24",
        "use_gradient_checkpointing='unsloth'",
        "optim='adamw_bnb_8bit'",
    ):
        assert words in script
    assert "UNSLOTH_RETURN_LOGITS" not in script
    compile(
        written(command(framework="unsloth", algorithm="grpo", method="lora"), "train.py"),
        "train.py",
        "exec",
    )


def test_litgpts_flags_name_the_parts_with_adapters(command):
    line = command(framework="litgpt", **ADAPTED)
    for words in (
        "--quantize bnb.nf4 ",
        "--lora_query true",
        "--lora_key false",
        "--lora_mlp false",
        "--train.global_batch_size 15",
    ):
        assert words in line


def test_verls_overrides_hold_the_settings_of_training_without_sampling(command):
    line = command(
        framework="verl", gpu_count=4, method="lora", lora_rank=24, optimizer="adamw_8bit"
    )
    for words in ("torchrun --standalone --nproc-per-node=4 -m verl.trainer.sft_trainer",
        "data.train_batch_size=60",
                  "data.micro_batch_size_per_gpu=3", "data.max_length=3072",
                  "engine.model_dtype=fp32", "model.lora_rank=24",
                  "optim.optimizer=AdamW8bit"):  # fmt: skip
        assert words in line


def test_openrlhfs_flags_hold_the_settings_of_training_without_sampling(command):
    line = command(framework="openrlhf", gpu_count=4, **ADAPTED, offload="optimizer")
    for words in ("deepspeed --num_gpus 4 --module openrlhf.cli.train_sft", "--train.batch_size 60",
        "--train.micro_batch_size 3",
                  "--data.max_len 3072", "--ds.adam_offload", "--ds.lora.rank 24",
                  "--ds.load_in_4bit"):  # fmt: skip
        assert words in line


@pytest.mark.parametrize(
    "asked",
    [
        {"framework": "verl", "method": "qlora"},
        {"framework": "verl", "method": "full", "algorithm": "dpo"},
        {"framework": "openrlhf", "method": "full", "optimizer": "lion"},
        {"framework": "lightning"},
    ],
    ids=str,
)
def test_a_tool_that_cannot_be_told_the_settings_says_whose_command_it_is(train, asked):
    found = train(**asked)
    assert ("command-of-another-tool", "trainer") in codes(found.warnings)
    assert "accelerate launch" in found.launch.command


def test_a_tool_without_a_command_here_says_whose_it_is(train):
    assert ("command-placeholders", "trainer") in codes(train(framework="torchtune").warnings)
    sampled = train(trainer="verl", algorithm="grpo", gpu_count=2)
    assert ("command-of-another-tool", "trainer") not in codes(sampled.warnings)


@pytest.mark.parametrize(
    ("tool", "algorithm"),
    [
        (tool, algorithm)
        for tool in (*(tool.name for tool in TOOLS), "megatron", "fsdp")
        for algorithm in ("sft", "dpo", "ppo", "grpo")
        if algorithm != "ppo" or tool not in ("nemo", "megatron")  # which nothing trains
    ],
)
def test_a_command_names_what_to_replace_in_it(train, tool, algorithm):
    fits = {"gpu_count": 8, "sequence_length": 2048}  # Lightning's fp32 too: a command is printed
    launch = train(algorithm=algorithm, framework=tool, **fits).launch
    words = set(
        re.findall(r"(?<![\w$])[A-Z]{4,}(?:_[A-Z]+)*(?:\.[a-z]+)?(?![\w=])", launch.command)
    )
    replaced = set(launch.placeholder.split(" and ")) if launch.placeholder else set()
    assert words - VALUES <= replaced
    assert all(word in launch.command for word in replaced)


def test_kernels_of_another_tool_are_not_in_trls_command(train):
    unsloth = train(method="lora", kernels="unsloth")
    assert ("kernels-need-trainer", "kernels") in codes(unsloth.warnings)
    assert "--use_liger_kernel true" in train(method="lora", kernels="liger").launch.command


def test_the_allocators_setting_goes_before_tools_that_do_not_set_it(command):
    assert command(framework="ms-swift", expandable_segments=True).startswith(
        "export PYTORCH_CUDA_ALLOC_CONF="
    )
    assert "ALLOC_CONF" not in command(framework="axolotl")


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        ({}, ["schedule 1F1B", "num_pp_microbatches 5", "fsdp_reshard_after_forward never"]),
        ({"micro_batches": None}, ["num_pp_microbatches 4"]),
        (
            {"pipeline_schedule": "gpipe", "zero_stage": 3},
            ["schedule GPipe", "fsdp_reshard_after_forward always"],
        ),
        (
            {"pipeline_schedule": "interleaved", "micro_batches": 8},
            ["schedule Interleaved1F1B", "num_pp_microbatches 8"],
        ),
        (
            {"pipeline_schedule": "interleaved", "pipeline_chunks": 3, "micro_batches": 4},
            ["schedule Interleaved1F1B", "pipeline_parallel_layers_per_stage 3"],
        ),
    ],
    ids=str,
)
def test_torchtitan_is_told_its_pipeline(command, asked, words):
    line = command(framework="torchtitan", pipeline_parallel=4, gpu_count=8, **asked)
    assert "pipeline_parallel_degree 4" in line
    for word in words:
        assert word in line
    assert ("layers_per_stage" in line) == ("pipeline_chunks" in asked)


def test_pipelines_under_fsdp_are_not_in_the_command_of_trl(train):
    said = train(framework="fsdp", pipeline_parallel=4, gpu_count=8)
    assert ("command-lacks-flag", "pipeline_parallel") in codes(said.warnings)


def test_torchtitan_is_told_its_accumulation(command):
    line = command(framework="torchtitan", gpu_count=8, micro_batches=4)
    each = int(line.split("--training.num_tokens_per_microbatch_per_dp_rank ")[1].split()[0])
    assert f"--training.num_tokens_per_train_step {each * 8 * 4}" in line


@pytest.mark.parametrize("tool", ["trl", "ms-swift", "litgpt", "axolotl", "llama-factory"])
def test_dropout_before_adapters_is_in_the_command(command, tool):
    asked = {"framework": tool, "method": "lora", "lora_targets": "all_linear"}
    assert "0.07" in command(**asked, lora_dropout=0.07)
    assert "0.07" not in command(**asked)


@pytest.mark.parametrize(
    ("tool", "default"),
    [
        ("trl", True),
        ("ms-swift", True),
        ("litgpt", True),
        ("axolotl", False),
        ("fsdp", True),
        ("deepspeed", True),
        ("transformers", False),
    ],
)
def test_adapters_drop_what_they_read_as_the_tool_does(train, tool, default):
    """The tools that do hold a mask of a byte for every number, and take 0 by a flag."""
    asked = {
        "framework": tool,
        "method": "lora",
        "lora_targets": "all_linear",
        "activation_checkpointing": "none",
    }
    by_default, without, dropped = (
        train(**asked, **rate) for rate in ({}, {"lora_dropout": 0}, {"lora_dropout": 0.05})
    )
    peaks = [one.per_gpu.allocated_bytes.expected for one in (by_default, without, dropped)]
    assert peaks[0] == peaks[2 if default else 1]
    if default:
        assert peaks[1] < peaks[2]
        assert "--lora_dropout 0.05" in by_default.launch.command
        assert "--lora_dropout 0 " in f"{without.launch.command} "


@pytest.mark.parametrize(
    ("model", "module"),
    [("tiiuae/falcon-7b", "query_key_value"), ("microsoft/Phi-3-mini-4k-instruct", "qkv_proj")],
)
def test_litgpt_adapts_queries_and_values_where_they_are_one_linear_with_keys(train, model, module):
    """litgpt/lora.py, LoRAQKVLinear."""
    answer = train(
        model=model,
        gpu="H200",
        method="lora",
        trainer="litgpt",
        sequence_length=512,
        micro_batch_size=1,
    )
    assert answer.understood_as["lora_targets"] == module
    for part, adapted in (("query", "true"), ("key", "false"), ("value", "true")):
        assert f"--lora_{part} {adapted}" in answer.launch.command


def test_litgpt_has_no_command_for_checkpointing_on_one_gpu(train):
    """litgpt/finetune/full.py: a policy of FSDP alone."""
    asked = {"model": "EleutherAI/pythia-1b", "gpu": "A10G", "method": "full", "trainer": "litgpt"}
    assert train(**asked).launch.command.startswith("litgpt finetune_full")
    other = train(**asked, activation_checkpointing="full")
    assert not other.launch.command.startswith("litgpt")
    assert [one for one in other.warnings if one.code == "command-of-another-tool"]


@pytest.mark.parametrize("algorithm", ["sft", "ppo", "grpo"])
@pytest.mark.parametrize(
    ("model", "names"),
    [
        ("EleutherAI/pythia-1.4b", "[dense,query_key_value]"),
        ("Qwen/Qwen3-0.6B", "[k_proj,o_proj,q_proj,v_proj]"),
    ],
)
def test_verl_names_the_attention_linears_of_the_model(train, model, names, algorithm):
    answer = train(
        model=model,
        gpu="8 x H200",
        method="lora",
        trainer="verl",
        algorithm=algorithm,
        lora_targets="attention",
    )
    assert f"target_modules={names}" in answer.launch.command.replace("'", "")


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"framework": "fsdp"}, True),
        ({"framework": "deepspeed", "zero_stage": 3}, True),
        ({"framework": "deepspeed", "zero_stage": 2}, False),
    ],
    ids=str,
)
def test_a_4_bit_base_that_is_sharded_is_stored_in_a_float(train, settings, said):
    answer = train(model="Qwen/Qwen3-8B", gpu="2 x H200", method="qlora", **settings)
    assert ("--bnb_4bit_quant_storage bfloat16" in answer.launch.command) == said


def test_megatron_trains_a_model_with_a_tower_by_ms_swift(train):
    """pretrain_gpt.py has no tower."""
    asked = {"gpu": "8 x H200", "method": "full", "framework": "megatron", "tensor_parallel": 4}
    assert "pretrain_gpt.py" in train(model="Qwen/Qwen3-8B", **asked).launch.command
    command = train(model="Qwen/Qwen2.5-VL-7B-Instruct", **asked).launch.command
    assert "megatron sft" in command
    assert "--freeze_vit false" in command
