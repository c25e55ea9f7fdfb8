"""The configuration files of a command hold what its flags say."""

import asyncio
import shlex

import pytest
import yaml

from fitgauge.services.training_fit.launchers.config_files import config_files
from fitgauge.services.training_fit.launchers.registry import TOOLS
from fitgauge.services.training_fit.schemas import TrainingRequest

ASKED = {"model": "meta-llama/Llama-3.1-8B", "gpu": "8x H200", "method": "lora"}
OWN = {"trl", "unsloth", "axolotl", "llama-factory", "ms-swift", "litgpt", "verl"} | {
    "nemo-automodel"
}
READ = OWN | {"lightning"}
"""Tools whose command comes with files; Lightning's is TRL's."""


@pytest.fixture(scope="module")
def command(questions):
    def of(**fields):
        request = TrainingRequest(**ASKED | fields)
        return asyncio.run(questions.check_training_fit(request))[1].launch.command

    return of


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
