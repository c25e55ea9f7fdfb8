"""The command trains as long as its run was estimated, and saves as often."""

import shlex

import pytest
import yaml

from fitgauge.services.training_fit.launchers.config_files import config_files
from notes import codes

ASKED = {"model": "meta-llama/Llama-3.1-8B", "gpu": "8x H200", "method": "full"}
RUN = {"samples": 10_000, "epochs": 3, "save_steps": 200, "save_total_limit": 2}


@pytest.mark.parametrize("trainer", ["trl", "ms-swift"])
def test_trainers_by_flags_have_all_of_it(train, trainer):
    words = shlex.split(train(trainer=trainer, **RUN).launch.command)
    for flag, value in (
        ("num_train_epochs", "3"),
        ("save_steps", "200"),
        ("save_total_limit", "2"),
    ):
        assert words[words.index(f"--{flag}") + 1] == value


@pytest.mark.parametrize(
    ("trainer", "epochs"), [("axolotl", "num_epochs"), ("llama-factory", "num_train_epochs")]
)
def test_trainers_by_files_have_all_of_it_once(train, trainer, epochs):
    command = train(trainer=trainer, **RUN).launch.command
    name, text = next(iter(config_files(command).files.items()))
    settings = yaml.safe_load(text)
    assert name.endswith(".yaml")
    assert text.count(f"{epochs}:") == 1
    assert (settings[epochs], settings["save_steps"], settings["save_total_limit"]) == (3, 200, 2)


def test_a_script_has_all_of_it(train):
    script = train(trainer="unsloth", method="lora", gpu="H200", **RUN).launch.command
    compile(config_files(script).files["train.py"], "train.py", "exec")
    assert "num_train_epochs=3, save_steps=200, save_total_limit=2" in script


@pytest.mark.parametrize(
    ("trainer", "words"),
    [("litgpt", "--train.epochs 3 --train.save_interval 200"), ("torchtune", "epochs=3"),
     ("verl", "trainer.total_epochs=3 trainer.save_freq=200"),
     ("openrlhf", "--train.max_epochs 3 --ckpt.save_steps 200")],
)  # fmt: skip
def test_what_a_tool_has_no_name_for_is_warned_of(train, trainer, words):
    answer = train(trainer=trainer, **RUN)
    assert answer.launch.command.endswith(words)
    assert ("command-lacks-flag", "save_total_limit") in codes(answer.warnings)


def test_megatron_has_names_for_none_of_it(train):
    answer = train(framework="megatron", **RUN)
    lacks = {field for code, field in codes(answer.warnings) if code == "command-lacks-flag"}
    assert {"epochs", "save_steps", "save_total_limit"} <= lacks


def test_steps_that_a_command_has_no_name_for_are_said_in_full(train):
    answer = train(trainer="torchtitan", token_budget=2e10, sequence_length=2048)
    (note,) = [one for one in answer.warnings if one.field == "token_budget"]
    assert f"max_steps {answer.run.steps}:" in note.message


def test_samples_without_epochs_are_one_epoch_of_the_command_too(train):
    assert train(samples=10).launch.command.endswith("--num_train_epochs 1")


def test_a_token_budget_is_as_many_steps(train):
    answer = train(token_budget=1e9)
    assert answer.launch.command.endswith(f"--max_steps {answer.run.steps}")


def test_a_command_without_a_run_is_as_it_was(train):
    assert "epochs" not in train().launch.command
