"""The configuration files of a command hold what its flags say."""

import asyncio
import shlex
import subprocess
import sys
from types import ModuleType, SimpleNamespace

import pytest
import yaml

from fitgauge.services.training_fit.launchers.config_files import config_files
from fitgauge.services.training_fit.launchers.registry import TOOLS
from fitgauge.services.training_fit.schemas import TrainingRequest

ASKED = {"model": "meta-llama/Llama-3.1-8B", "gpu": "8x H200", "method": "lora"}
READ = {tool.name for tool in TOOLS} - {"torchtune"}
"""Tools whose command comes with files; torchtune reads its own recipe's for a base model."""


def test_every_tool_that_reads_files_has_them(command):
    commands = {tool.name: command(trainer=tool.name, method="full") for tool in TOOLS}
    assert {name for name, flags in commands.items() if config_files(flags)} == READ


@pytest.mark.parametrize(
    "fields",
    [
        {"trainer": "trl"},
        {"trainer": "trl", "framework": "deepspeed", "method": "full"},
        {"trainer": "trl", "framework": "fsdp", "method": "full"},
        {"trainer": "trl", "kernels": "liger"},
        {"trainer": "ms-swift"},
        {"trainer": "ms-swift", "algorithm": "dpo"},
        {"trainer": "litgpt", "method": "qlora", "gpu": "H200"},
    ],
    ids=str,
)
def test_every_flag_of_the_command_is_a_setting_of_the_file(command, fields):
    flags = command(**fields)
    files = config_files(flags)
    text = next(text for name, text in files.files.items() if name.endswith(".yaml"))
    settings = flat(yaml.safe_load(text))
    left = shlex.split(files.command)
    for name in [word[2:] for word in shlex.split(flags) if word.startswith("--")]:
        assert name in settings or f"--{name}" in left, name
        assert not (name in settings and f"--{name}" in left), name


def flat(settings, prefix=""):
    """Return settings by their dotted names."""
    result = {}
    for name, value in settings.items():
        inner = flat(value, f"{prefix}{name}.") if isinstance(value, dict) else None
        result |= {prefix + name: value} if inner is None else inner
    return result


def test_a_file_has_numbers_and_switches_as_yaml_has_them(command):
    text = config_files(command(trainer="trl")).files["trl.yaml"]
    settings = yaml.safe_load(text)
    assert settings["bf16"] is True
    assert settings["max_length"] == 2048
    assert settings["lora_r"] == 16


def test_reward_functions_are_a_list_with_one_too(command):
    text = config_files(command(trainer="trl", algorithm="grpo")).files["trl.yaml"]
    assert yaml.safe_load(text)["reward_funcs"] == ["accuracy_reward"]


def test_files_that_the_command_writes_are_as_it_writes_them(command):
    files = config_files(command(trainer="trl", framework="deepspeed", method="full"))
    assert set(files.files) == {"ds_config.json", "trl.yaml"}
    assert yaml.safe_load(files.files["ds_config.json"])["zero_optimization"]["stage"] == 2
    assert files.command.endswith("-m trl.scripts.sft --config trl.yaml")


def test_verl_reads_a_file_over_its_own_defaults(command):
    files = config_files(command(trainer="verl"))
    settings = yaml.safe_load(files.files["verl.yaml"])
    assert settings["defaults"] == ["sft_trainer_engine", "_self_"]
    assert settings["model"]["path"] == "meta-llama/Meta-Llama-3.1-8B"
    assert files.command.endswith("--config-dir . --config-name verl")


@pytest.mark.parametrize("detail", ["full", None])
def test_the_answer_holds_files_with_detail_full(questions, detail):
    request = TrainingRequest(**ASKED, trainer="axolotl", detail=detail)
    launch = asyncio.run(questions.check_training_fit(request))[1].launch
    if detail is None:
        assert not isinstance(launch.files, list)
    else:
        assert [file.name for file in launch.files] == ["axolotl.yaml"]
        assert launch.file_command.startswith("axolotl train axolotl.yaml")


@pytest.mark.parametrize(
    "fields",
    [
        {"trainer": "openrlhf"},
        {"trainer": "openrlhf", "algorithm": "ppo"},
        {"framework": "megatron", "method": "full", "tensor_parallel": 2},
        {"framework": "megatron", "gpu": "16x H200", "method": "full"},
        {"framework": "megatron", "algorithm": "dpo"},
    ],
    ids=str,
)
def test_tools_of_flags_alone_have_a_script_with_every_word_of_the_command(command, fields):
    flags = command(**fields)
    files = config_files(flags)
    script = files.files["train.sh"]
    assert files.command == "bash train.sh"
    assert subprocess.run(["bash", "-n"], input=script, text=True, check=False).returncode == 0
    shebang, *lines = script.splitlines()
    assert shebang == "#!/bin/bash"
    assert shlex.split(" ".join(line.removesuffix("\\") for line in lines)) == shlex.split(flags)
    assert sum(line.startswith("    --") for line in lines) == len(lines) - 1


class _Policy:
    """A policy of activation checkpointing."""

    Config = staticmethod(lambda: "policy")


@pytest.mark.parametrize(
    "fields",
    [
        {"tensor_parallel": 2, "activation_checkpointing": "full"},
        {"tensor_parallel": 2, "sequence_parallel": False, "activation_checkpointing": "none"},
        {"pipeline_parallel": 2, "micro_batches": 4, "pipeline_schedule": "1f1b"},
        {"micro_batches": 4, "offload": "cpu", "zero_stage": 2},
    ],
    ids=str,
)
def test_torchtitan_runs_a_function_that_sets_what_the_flags_set(command, fields, monkeypatch):
    """The module run against stand-ins for what it imports: MODULE and CONFIG are the
    model's."""
    flags = command(trainer="torchtitan", method="full", **fields)
    files = config_files(flags)
    sections = ("training", "optimizer", "parallelism", "compile")
    config = SimpleNamespace(**{section: SimpleNamespace() for section in sections})
    for name, content in {
        "torchtitan.distributed.activation_checkpoint": {"FullAC": _Policy, "SelectiveAC": _Policy},
        "torchtitan.models.MODULE.config_registry": {"CONFIG": lambda: config},
        "torchtitan.trainer": {"Trainer": SimpleNamespace(Config=None)},
    }.items():
        module = ModuleType(name)
        module.__dict__.update(content)
        monkeypatch.setitem(sys.modules, name, module)
    scope = {}
    exec(compile(files.files["titan_run.py"], "titan_run.py", "exec"), scope)
    assert scope["train"]() is config
    start, _, settings = flags.partition("./run_train.sh ")
    settings, _, kind = settings.partition(" activation-checkpoint:")
    assert config.activation_checkpoint == (None if kind == "none" else "policy")
    for flag in settings.split("--")[1:]:
        name, *value = flag.split()
        section, field = name.split(".")
        switched = str(not field.startswith("no_"))
        found = getattr(getattr(config, section), field.removeprefix("no_"))
        assert str(found) == (value[0] if value else switched), flag
    assert (
        files.command
        == start.replace("=MODULE", "=titan_run").replace("=CONFIG", "=train") + "./run_train.sh"
    )


@pytest.mark.parametrize(
    ("fields", "settings"),
    [
        (
            {"method": "full", "tensor_parallel": 2, "pipeline_parallel": 2, "micro_batches": 4,
             "activation_checkpointing": "full", "micro_batch_size": 2},
            {"model.tensor_model_parallel_size": 2, "model.pipeline_model_parallel_size": 2,
             "model.recompute_granularity": "full", "model.recompute_num_layers": 1,
             "model.seq_length": 2048, "dataset.seq_length": 2048,
             "dataset.enable_offline_packing": False, "train.micro_batch_size": 2,
             "train.global_batch_size": 16, "mixed_precision": "bf16_mixed"},
        ),
        (
            {"method": "lora", "lora_rank": 24, "lora_targets": "attention"},
            {"peft.dim": 24, "peft.target_modules": ["linear_qkv", "linear_proj"],
             "model.recompute_granularity": None, "dataset.enable_offline_packing": True},
        ),
        (
            {"model": "Qwen/Qwen3-30B-A3B", "method": "full", "expert_parallel": 4,
             "optimizer": "sgd", "attention": "flash", "offload": "optimizer"},
            {"model.expert_model_parallel_size": 4, "model.expert_tensor_parallel_size": 1,
             "model.attention_backend": "flash", "optimizer.optimizer": "sgd",
             "optimizer.optimizer_cpu_offload": True, "ddp.use_distributed_optimizer": True},
        ),
    ],
    ids=["degrees", "adapters", "experts"],
)  # fmt: skip
def test_nemo_runs_a_recipe_with_the_settings_of_its_file(command, fields, settings):
    files = config_files(command(trainer="nemo", **fields))
    assert set(files.files) == {"nemo.yaml", "train_nemo.py"}
    assert flat(yaml.safe_load(files.files["nemo.yaml"])).items() >= settings.items()
    script = files.files["train_nemo.py"]
    compile(script, "train_nemo.py", "exec")
    assert 'config_filepath="nemo.yaml"' in script
    assert ("peft_scheme" in script) == (fields["method"] != "full")
    assert files.command.endswith("torchrun --nproc-per-node 8 train_nemo.py")


def test_what_nemo_has_no_setting_for_is_megatrons_command(command):
    assert "pretrain_gpt.py" in command(trainer="nemo", method="full", precision="bf16")
